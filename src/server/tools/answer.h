/*
 * Answers of tools, made for models: text first, then pictures, then links whose addresses stand in
 * the text too. All of these are results of tools/call, for mcp_succeed.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "session/failure.h"

/* Larger ones are not shown, but linked to or told of. */
#define PICTURE_MAX (1u << 20)
/* All of an answer together, in base64: a line on stdio must not be longer than 4 MiB. */
#define PICTURES_MAX (3u << 20)

/* What is shown of a stream. */
#define OUTPUT_SHOWN (100u << 10)

json_t *answer_text(const char *text);
/* The tool could not do it; the remedy may be "". */
json_t *answer_error(const char *what, const char *remedy);
json_t *answer_failure(const struct session_failure *failure);
/* An object, which it takes, for programs and, as text, for models. */
json_t *answer_data(json_t *object);

struct run_told {
    const char *out, *err;
    bool out_cut, err_cut; /* there was more */
    const char *reader;    /* the tool that reads files */
    const char *rest;      /* the file that has all of stdout, where it is too long; or NULL */
    const char *footer;    /* exit code, times and so on, in one line */
    const char *session;   /* that has the files; NULL: there are none */
    const json_t *results; /* whose figures are shown */
    const json_t *files;   /* records of files that are new or have changed; or NULL */
    json_t *pictures;      /* gets those that answer_add_picture is to show; or NULL */
};

json_t *answer_run(const struct run_told *told);
/* False: there is no room for it. */
bool answer_add_picture(json_t *answer, const char *type, const void *bytes, size_t length);
void answer_add_text(json_t *answer, const char *text);
/* Whether models can look at it. */
bool answer_is_picture(const char *type);

/* resources.c: the address of a session's file, for free(). */
char *resource_uri(const char *session, const char *path);
