#include "server/http/handshake.h"

#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define KEY_LENGTH 24

bool list_has(const char *list, const char *wanted)
{
    size_t length = strlen(wanted);
    for (const char *at = list; *at; at += strcspn(at, ",")) {
        at += strspn(at, ", \t");
        if (strncasecmp(at, wanted, length) == 0 && strchr(", \t", at[length]))
            return true;
    }
    return false;
}

bool header_lists(const struct http_request *request, const char *name, const char *wanted)
{
    for (size_t i = 0; i < request->header_count; i++) {
        if (strcasecmp(request->headers[i].name, name) == 0 &&
            list_has(request->headers[i].value, wanted))
            return true;
    }
    return false;
}

/* 16 bytes as base64. */
static bool is_key(const char *key)
{
    unsigned char bytes[KEY_LENGTH];
    return key && strlen(key) == KEY_LENGTH && strcmp(key + KEY_LENGTH - 2, "==") == 0 &&
           key[KEY_LENGTH - 3] != '=' &&
           EVP_DecodeBlock(bytes, (const unsigned char *)key, KEY_LENGTH) == KEY_LENGTH / 4 * 3;
}

static void make_accept(const char *key, char accept[HANDSHAKE_ACCEPT_SIZE])
{
    char text[KEY_LENGTH + 40];
    unsigned char digest[SHA_DIGEST_LENGTH];
    int length = snprintf(text, sizeof text, "%s258EAFA5-E914-47DA-95CA-C5AB0DC85B11", key);
    SHA1((unsigned char *)text, (size_t)length, digest);
    EVP_EncodeBlock((unsigned char *)accept, digest, sizeof digest);
}

int handshake_check(struct http_request *request, char accept[HANDSHAKE_ACCEPT_SIZE],
                    struct error *err)
{
    const char *version = http_header(request, "Sec-WebSocket-Version");
    const char *key = http_header(request, "Sec-WebSocket-Key");
    error_set(err, ERROR_INVALID, "this path takes WebSocket connections only");
    error_hint(err, "open it as ws://… or wss://… with a WebSocket client");
    if (request->is_head || request->is_old || !header_lists(request, "Connection", "upgrade") ||
        !header_lists(request, "Upgrade", "websocket")) {
        http_add_header(request, "Upgrade", "websocket");
        return 426;
    }
    if (!version || strcmp(version, "13") != 0) {
        error_set(err, ERROR_INVALID, "only version 13 of the WebSocket protocol is spoken here");
        http_add_header(request, "Sec-WebSocket-Version", "13");
        return 426;
    }
    if (!is_key(key)) {
        error_set(err, ERROR_INVALID, "Sec-WebSocket-Key must be 16 bytes as base64");
        return 400;
    }
    make_accept(key, accept);
    return 0;
}
