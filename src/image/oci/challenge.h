/* What a registry asks for: the header WWW-Authenticate, in its forms Bearer and Basic. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

struct challenge {
    char *realm; /* where the token is; NULL: a name and a password will do */
    char *service;
    char *scope;
};

/* One of the two forms? */
bool challenge_is_known(const char *header);
int challenge_parse(const char *header, struct challenge *challenge, struct error *err);
/* The address to get the token from. */
char *challenge_url(const struct challenge *challenge);
void challenge_release(struct challenge *challenge);
