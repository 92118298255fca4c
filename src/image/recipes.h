/* How the built-in images are made; the recipes are in the folder images/ of the source. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "image/image.h"

struct recipe {
    char *suite;
    char **packages;
    char **excludes; /* dpkg's path-exclude and path-include */
    char **includes;
    uint64_t space;      /* bytes that must be free for the build */
    struct buf script;   /* run in the new root, under `sh -eu` */
    char hash[65];       /* changes when the recipe does */
    struct image config; /* reference, user, workdir, env, command and language */
};

/* The recipe of a normalized reference; ERROR_NOT_FOUND with those there are as the hint. */
int recipe_load(const char *reference, struct recipe *recipe, struct error *err);
void recipe_release(struct recipe *recipe);
bool recipe_exists(const char *reference);
/* "microsandbox/python, microsandbox/node" */
char *recipe_names(void);
