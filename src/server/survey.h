/*
 * What every sandbox is and does: the state folders are read beside the loop, then all keepers are
 * asked at once. Those that do not answer within some seconds are told of without a status.
 */
#pragma once

#include <jansson.h>

#include "sandbox/boxes.h"

struct survey_entry {
    char *namespace, *name;
    uint64_t disk_bytes; /* that its disk takes on the host */
    json_t *status;      /* NULL: its keeper does not answer */
};

struct survey {
    /* Once. err is NULL when it went well; the survey frees itself. */
    void (*done)(struct survey *survey, const struct error *err);
    void *context;
    struct survey_entry *entries; /* sorted by namespace and name */
    size_t count;
    /* For survey.c. */
    struct boxes *boxes;
    char *namespace, *name;
    uv_work_t work;
    uv_timer_t patience;
    struct question *questions;
    size_t open; /* questions, and one each for the folders, the asking and the timer */
    struct error err;
};

/* A NULL namespace means all, a NULL name all of them. To end it early, set `done` to NULL. */
struct survey *survey_begin(struct boxes *boxes, const char *namespace, const char *name,
                            void (*done)(struct survey *survey, const struct error *err),
                            void *context);
