/*
 * The pictures of an answer. What a sandbox has drawn is never decoded out here: a picture that is
 * too large is made smaller in its sandbox, by a program that runs there as the user, and what that
 * prints is passed on like any other picture. One that cannot be made smaller is told of instead.
 */
#pragma once

#include "server/rpc.h"
#include "server/tools/answer.h"

/* Work that belongs to its caller, and must be all zero but for what is given. */
struct pictures {
    struct server *server;
    const char *scope, *namespace;
    char *sandbox; /* that has the pictures; this is freed at the end */
    struct file_place place;
    json_t *answer; /* gets them */
    json_t *wanted; /* as answer_run found them: {"path", "size"}, and "data" of what is no file */
    /* All are in the answer; maybe before pictures_show returns. */
    void (*shown)(struct pictures *pictures);
    void *context;
    /* For the library. */
    struct rpc_asker asker;
    void (*told)(struct pictures *pictures, const json_t *result);
    size_t next;
};

void pictures_show(struct pictures *pictures);
/* Nobody wants them any more: `shown` is not called. */
void pictures_abandon(struct pictures *pictures);
