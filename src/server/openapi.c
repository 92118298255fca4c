/* The description of the session routes that programs can read. */
#include "base/embed.h"
#include "server/rest.h"

EMBED(openapi, "src/server/openapi.json");

void openapi_get(struct http_request *request)
{
    http_answer(request, 200, "application/json", openapi_begin, EMBED_SIZE(openapi));
}
