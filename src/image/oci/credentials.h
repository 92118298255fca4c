/*
 * Names and passwords for registries: those of `msb login` in $MSB_HOME/credentials.json, which
 * only its owner can read, then those that docker keeps in its config.json (or in the credential
 * helper named there).
 */
#pragma once

#include "base/error.h"

struct credentials {
    char *user;
    char *password;
};

/* Leaves both NULL when there are none for the registry. */
int credentials_find(const char *registry, struct credentials *credentials, struct error *err);
int credentials_save(const char *registry, const struct credentials *credentials,
                     struct error *err);
/* ERROR_NOT_FOUND when `msb login` has saved none. */
int credentials_forget(const char *registry, struct error *err);
/* "Basic …" */
char *credentials_header(const struct credentials *credentials);
void credentials_release(struct credentials *credentials);
