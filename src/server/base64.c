#include "server/base64.h"

#include <openssl/evp.h>
#include <string.h>

#include "base/mem.h"

int base64_take(struct buf *out, const char *text, size_t length)
{
    if (length == 0)
        return 0;
    if (length % 4 != 0 || length >= INT32_MAX || memchr(text, '\n', length))
        return -1;
    int padding = (text[length - 1] == '=') + (text[length - 2] == '=');
    int size = EVP_DecodeBlock(buf_reserve(out, length / 4 * 3 + 1), (const unsigned char *)text,
                               (int)length);
    if (size < 0)
        return -1;
    buf_commit(out, (size_t)(size - padding));
    return 0;
}

char *base64_make(const void *bytes, size_t length)
{
    char *text = xmalloc((length + 2) / 3 * 4 + 1);
    text[0] = '\0';
    EVP_EncodeBlock((unsigned char *)text, bytes, (int)length);
    return text;
}
