/*
 * What is asked of a package manager, and what became of each package: the command lines of pip and
 * npm, and the meaning of what they print. Knows no sandbox, so that it can be tested without one;
 * install.h runs them in one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

#define PACKAGES_MAX 100
#define PACKAGE_NAME_MAX 256

enum package_state {
    PACKAGE_WANTED,    /* nothing is known yet */
    PACKAGE_INSTALLED, /* now */
    PACKAGE_PRESENT,   /* it was there already */
    PACKAGE_NOT_FOUND, /* the index has no such package, or no such version */
    PACKAGE_OFFLINE,   /* the index could not be reached */
    PACKAGE_FAILED,    /* anything else: see message */
};

struct package {
    char *asked;   /* as it was asked for: numpy==1.26 */
    char *name;    /* without version and extras, as the manager spells it */
    char *version; /* NULL: not known */
    char *message; /* why not; NULL when all went well */
    enum package_state state;
};

struct manager;

struct packages {
    const struct manager *manager;
    struct package *list;
    size_t count;
    size_t tried;    /* how many the attempt under way is for */
    struct buf out;  /* what the manager printed on stdout in this attempt */
    char *complaint; /* its last line about an error */
    char *outage;    /* its last line about a connection that failed */
};

const char *package_state_name(enum package_state state);

/* Refuses languages without packages and names that are none. packages_free also on failure. */
int packages_init(struct packages *packages, const char *language, char *const *names,
                  struct error *err);
void packages_free(struct packages *packages);

/* The command line for all packages that are still wanted, for strv_free. */
char **packages_argv(struct packages *packages);
/* A line that it printed, without its end. True when it is one for people to see. */
bool packages_note(struct packages *packages, bool is_stdout, const char *line);
/* The command has ended. True when another attempt should be made for those still wanted. */
bool packages_conclude(struct packages *packages, int exit_code);
/* Where the version of an installed package can be read, for free(); NULL: it is known. */
char *packages_version_path(const struct packages *packages, const struct package *package);
void packages_take_version(struct package *package, const char *text, size_t length);
