/* Texts that clients keep for us and give back, signed so that they cannot be made up. */
#include <openssl/crypto.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/mcp/internal.h"

#define SIGNATURE_BYTES 32

char *mcp_seal(const struct mcp *mcp, const char *text)
{
    unsigned char signature[SIGNATURE_BYTES];
    char hex[2 * SIGNATURE_BYTES + 1];
    unsigned length = sizeof signature;
    HMAC(EVP_sha256(), mcp->secret, (int)mcp->secret_length, (const unsigned char *)text,
         strlen(text), signature, &length);
    for (size_t i = 0; i < sizeof signature; i++)
        snprintf(hex + 2 * i, 3, "%02x", signature[i]);
    return xasprintf("%s.%s", text, hex);
}

char *mcp_unseal(const struct mcp *mcp, const char *sealed)
{
    const char *dot = strrchr(sealed, '.');
    cleanup_free char *text = dot ? xstrndup(sealed, (size_t)(dot - sealed)) : NULL;
    cleanup_free char *expected = text ? mcp_seal(mcp, text) : NULL;
    if (!expected || strlen(expected) != strlen(sealed) ||
        CRYPTO_memcmp(expected, sealed, strlen(sealed)) != 0)
        return NULL;
    return steal_pointer(&text);
}
