/* What the sandbox was told to be: the defaults of everything that runs in it. */
#pragma once

#include "agent/account.h"
#include "proto/fields.h"

/* Replaces them; takes all over. cwd and user may be NULL. */
void settings_replace(char **env, char *cwd, char *user);
char *const *settings_env(void);
/* NULL when none was given. */
const char *settings_cwd(void);
/* Who runs commands; root when nobody was named. */
const char *settings_user(void);

/* Appends a field to a list of variables; refuses what is no NAME=value. */
int environment_take(const struct field *field, char ***env, struct error *err);
/* NAME=value, replacing an earlier value of the same name. */
void environment_set(char ***env, const char *assignment);
/* Sets it unless it is set already or the value is empty. */
void environment_default(char ***env, const char *name, const char *value);
/* The sandbox's environment, then extra, then defaults for what is still unset. */
char **environment_build(const struct account *account, char *const *extra);
