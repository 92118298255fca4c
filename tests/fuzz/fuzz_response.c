/* Hostile answers from inside a sandbox: what the proxy passes on is in order, whatever came. */
#include <assert.h>
#include <string.h>

#include "server/http/response.h"

struct seen {
    unsigned heads, ends;
    uint64_t body;
};

static void on_head(struct response *response)
{
    struct seen *seen = response->context;
    seen->heads++;
    assert(response->status == 101 || (response->status >= 200 && response->status < 600));
    for (size_t i = 0; i < response->header_count; i++) {
        const struct http_header *header = &response->headers[i];
        assert(header->name[0] && !strpbrk(header->name, " \t:\r\n"));
        assert(!strpbrk(header->value, "\r\n"));
    }
}

static void on_body(struct response *response, const uint8_t *bytes, size_t length)
{
    struct seen *seen = response->context;
    (void)bytes;
    assert(seen->heads == 1 && seen->ends == 0 && response->status != 101);
    seen->body += length;
    assert(!response->has_length || seen->body <= response->length);
}

static void on_end(struct response *response)
{
    struct seen *seen = response->context;
    assert(seen->heads == 1);
    seen->ends++;
    assert(!response->has_length || response->has_no_body || response->status == 204 ||
           response->status == 304 || seen->body == response->length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct response_events events = {.head = on_head, .body = on_body, .end = on_end};
    struct seen seen = {0};
    struct response response;
    struct error err;
    long used = 0;
    if (size == 0)
        return 0;
    response_init(&response, &events, &seen, data[0] % 8 == 7);
    size_t piece = data[0] + 1u;
    for (size_t at = 1; at < size && used >= 0 && response.status != 101; at += piece)
        used = response_feed(&response, data + at, size - at < piece ? size - at : piece, &err);
    if (used >= 0)
        used = response_eof(&response, &err);
    assert(used < 0 ? err.message[0] != '\0' : seen.ends == 1);
    assert(seen.heads <= 1 && seen.ends <= seen.heads);
    response_free(&response);
    return 0;
}
