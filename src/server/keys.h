/*
 * API keys: "msb_" and a JSON Web Token, signed with HMAC-SHA256 by the server's own key, which
 * lies in $MSB_HOME/server.key. A key is good for one namespace or for all ("*") until it expires
 * or is revoked by its id, for which a file in $MSB_HOME/server/revoked stands.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

#define KEY_ALL_NAMESPACES "*"

struct key_grant {
    char id[33]; /* "" for keys of other makers, which have none */
    char namespace[64];
    int64_t expires; /* seconds since 1970 */
};

int keys_check_secret(const char *secret, struct error *err);
/* A warning about one that can be guessed, for free(); NULL when it cannot. */
char *keys_weakness(const char *secret);
/* The server's key, made when there is none; for free(). */
char *keys_secret(struct error *err);
/* A new API key, for free(). Fills the grant's id; the rest is given. */
char *keys_make(const char *secret, struct key_grant *grant);
/* What a header's value allows; "Bearer " in front of the key may be left out. */
int keys_check(const char *secret, const char *header, struct key_grant *grant, struct error *err);
/* A signature of a text that is not mistaken for that of a key, for free(). */
char *keys_sign(const char *secret, const char *text);
bool keys_is_signature(const char *secret, const char *text, const char *signature);
int keys_revoke(const char *id, struct error *err);
/* "90s", "30m", "24h", "7d", "2w", "6mo", "1y"; a number alone means hours. */
int keys_parse_lifetime(const char *text, int64_t *seconds, struct error *err);
