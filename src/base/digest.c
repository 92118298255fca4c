#include "base/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/progress.h"

#define CHUNK ((size_t)1 << 20)

static void to_hex(const uint8_t digest[32], char hex[65])
{
    for (size_t i = 0; i < 32; i++)
        snprintf(hex + i * 2, 3, "%02x", digest[i]);
}

void digest_bytes(const void *bytes, size_t length, char hex[65])
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    if (!EVP_Digest(bytes, length, digest, NULL, EVP_sha256(), NULL))
        abort();
    to_hex(digest, hex);
}

static int digest_stream(int fd, EVP_MD_CTX *context, struct error *err)
{
    cleanup_free uint8_t *chunk = xmalloc(CHUNK);
    for (;;) {
        ssize_t got = read(fd, chunk, CHUNK);
        if (got < 0 && errno != EINTR)
            return error_errno(err, errno, "cannot read");
        if (got == 0)
            return 0;
        if (got > 0)
            EVP_DigestUpdate(context, chunk, (size_t)got);
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
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    if (!context || !EVP_DigestInit_ex(context, EVP_sha256(), NULL))
        abort();
    int result = digest_stream(fd, context, err);
    uint8_t digest[EVP_MAX_MD_SIZE];
    EVP_DigestFinal_ex(context, digest, NULL);
    EVP_MD_CTX_free(context);
    if (result < 0)
        return error_wrap(err, "%s", path);
    to_hex(digest, hex);
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
