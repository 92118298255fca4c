/* The languages contexts speak: their names, their interpreters, and our drivers for those. */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "proto/fields.h"

struct language {
    const char *name;
    const char *image;     /* one that has the interpreter */
    char *const argv[5];   /* starts the interpreter with its driver */
    const char *rehearsal; /* code of a first call */
    bool copies;           /* a warm interpreter can be copied: see zygote.h */
    bool text;             /* code cannot have NUL bytes in it */
};

/*
 * By its name or another one that people use for it. *kind is the message to the driver that runs
 * such code. NULL: no such language; err says which there are.
 */
const struct language *language_find(const char *name, char *kind, struct error *err);
/* The same by a field of a request; *language is set. */
int language_take(const struct field *field, const struct language **language, char *kind,
                  struct error *err);

/* Writes the drivers to where the interpreters find them. */
int language_install(struct error *err);
