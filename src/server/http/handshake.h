/* The opening handshake of a WebSocket. */
#pragma once

#include "server/http/http.h"

/* A base64 text of 20 bytes and its NUL. */
#define HANDSHAKE_ACCEPT_SIZE 29

/* 0, or the status with which it is refused. */
int handshake_check(struct http_request *request, char accept[HANDSHAKE_ACCEPT_SIZE],
                    struct error *err);
/* Whether a list has this in it, whatever its case. */
bool list_has(const char *list, const char *wanted);
/* The same of a header whose value is a list. */
bool header_lists(const struct http_request *request, const char *name, const char *wanted);
