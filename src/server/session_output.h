/*
 * What session REST tells about work: {"success", "output", "error", "execution_time_ms",
 * "artifacts"}, where an artifact is a picture that the code drew or a file that it wrote.
 */
#pragma once

#include "server/http/http.h"
#include "session/run.h"

struct server;

/* The address of a file of a session's data folder, for free(): that of the request's server, with
 * a signature and an end when the server asks for keys. */
char *artifact_url(const struct http_request *request, const char *namespace, const char *id,
                   const char *path);
/* The same when the request is over; the settings may have another base than what http_base told.
 */
char *artifact_url_at(const struct server *server, const char *base, const char *namespace,
                      const char *id, const char *path);
/* Whether the request is for an artifact and has a signature that is good, and for whose
 * namespace. */
bool artifact_is_signed(const struct http_request *request, char namespace[64]);
/* {"path", "filename", "size_bytes", "mime_type", "download_url"} of a record of a file. */
json_t *artifact_json(const struct http_request *request, const char *namespace, const char *id,
                      const json_t *record);

json_t *output_of_run(const struct http_request *request, const char *namespace,
                      const struct run_result *result);
/* Takes the packages. */
json_t *output_of_install(json_t *packages, uint64_t duration_ms);
