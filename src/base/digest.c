/* The functions that came before EVP: they read no configuration, which at a millisecond and more
 * would be a good part of what a start takes. */
#define OPENSSL_SUPPRESS_DEPRECATED
#include "base/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/sha.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/progress.h"

#define CHUNK ((size_t)1 << 20)

static void finish(SHA256_CTX *context, char hex[65])
{
    uint8_t digest[32];
    SHA256_Final(digest, context);
    for (size_t i = 0; i < 32; i++)
        snprintf(hex + i * 2, 3, "%02x", digest[i]);
}

void digest_bytes(const void *bytes, size_t length, char hex[65])
{
    SHA256_CTX context;
    SHA256_Init(&context);
    SHA256_Update(&context, bytes, length);
    finish(&context, hex);
}

static int digest_stream(int fd, SHA256_CTX *context, struct error *err)
{
    cleanup_free uint8_t *chunk = xmalloc(CHUNK);
    for (;;) {
        ssize_t got = read(fd, chunk, CHUNK);
        if (got < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot read");
        if (got == 0)
            return 0;
        if (got > 0)
            SHA256_Update(context, chunk, (size_t)got);
        if (cancel_requested())
            return cancel_error(err);
        progress_tick();
    }
}

int digest_file(const char *path, char hex[65], struct error *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return error_errno(err, errno, "cannot open %s", path);
    SHA256_CTX context;
    SHA256_Init(&context);
    int result = digest_stream(fd, &context, err);
    if (result < 0)
        return error_wrap(err, "%s", path);
    finish(&context, hex);
    return 0;
}

bool digest_is_valid(const char *text)
{
    static const char prefix[] = "sha256:";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0)
        return false;
    text += sizeof prefix - 1;
    return strlen(text) == 64 && strspn(text, "0123456789abcdef") == 64;
}
