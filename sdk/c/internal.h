/* What the files of libmsb share. */
#pragma once

#include <jansson.h>

#include "msb.h"

/* Takes the parameters. The result is for json_decref; NULL: see the error. */
json_t *msb_call_json(struct msb_client *client, const char *method, json_t *params,
                      struct msb_error *err);

/* Pieces of an answer as they come; nonzero ends it. */
typedef int msb_piece(void *context, const char *bytes, size_t length);
/* A call that is answered with server-sent events, handed on as they are. */
int msb_call_events(struct msb_client *client, const char *method, json_t *params, msb_piece *piece,
                    void *context, struct msb_error *err);

int msb_set_error(struct msb_error *err, const char *code, const char *message, const char *hint);
/* Takes the answer. */
struct msb_result *msb_make_result(json_t *answer);
