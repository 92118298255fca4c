/*
 * Answers of tools, made for models: text first, then pictures, then links whose addresses stand in
 * the text too. All of these are results of tools/call, for mcp_succeed.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "session/failure.h"

struct server;

/* Larger ones are made smaller, see pictures.h. */
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

/* Where files are that an answer tells of. */
struct file_place {
    const char *session; /* NULL: they have no addresses */
    const struct server *server;
    const char *namespace;
    const char *base; /* of addresses on the web, see mcp_call; NULL: there are none */
};

struct run_told {
    const char *out, *err;
    bool out_cut, err_cut; /* there was more */
    const char *reader;    /* the tool that reads files */
    const char *rest;      /* the file that has all of stdout, where it is too long; or NULL */
    const char *footer;    /* exit code, times and so on, in one line */
    const char *id;        /* for names of figures that get files */
    struct file_place place;
    const json_t *results; /* whose figures are shown */
    const json_t *files;   /* records of files that are new or have changed; or NULL */
    json_t *pictures;      /* gets what is left to be shown, see pictures.h */
};

json_t *answer_run(const struct run_told *told);
/* One more line of its text. */
void answer_note(json_t *answer, const char *line);
/* The same for a file, with a link where it has an address. */
void answer_add_link(json_t *answer, const struct file_place *place, const char *prefix,
                     const char *path, json_int_t size);
/* False: it is too large, or there is no room for it. */
bool answer_add_picture(json_t *answer, const char *type, const void *bytes, size_t length);
bool answer_add_base64(json_t *answer, const char *type, const char *data, size_t length);
/* What is left for pictures, in base64. */
size_t answer_room(const json_t *answer);
/* Whether models can look at it. */
bool answer_is_picture(const char *type);

/* {"path", "filename", "size_bytes", "mime_type", "download_url", "uri"} of a session's file. */
json_t *answer_artifact(const struct file_place *place, const char *path, json_int_t size);

/* resources.c */
/* The address of a session's file, for free(). */
char *resource_uri(const char *session, const char *path);
/* Where the file of a record lies below the working folder. NULL for what is not listed: what is no
 * file, and what programs keep in hidden folders. */
const char *artifact_path(const json_t *record);
