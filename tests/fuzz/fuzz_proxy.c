/* Hostile requests to the proxy: what is taken is written as one request to the host it names. */
#include <assert.h>
#include <string.h>

#include "sandbox/proxy_request.h"

static void check_written(const struct proxy_request *request)
{
    const char *head = (const char *)buf_data(&request->head);
    size_t length = buf_length(&request->head);
    static const char end[] = "\r\nConnection: close\r\n\r\n";
    assert(length > sizeof end && memcmp(head + length - sizeof end + 1, end, sizeof end - 1) == 0);
    assert(memmem(head, length, "\r\n\r\n", 4) == head + length - 4);
    const char *host = memmem(head, length, "\r\nHost: ", 8);
    assert(host && memcmp(host + 8 + (host[8] == '['), request->host, strlen(request->host)) == 0);
    for (size_t i = 0; i < length; i++)
        assert(head[i] != '\0' && (head[i] != '\n' || head[i - 1] == '\r'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err;
    struct proxy_request request;
    int head = proxy_request_read(&request, data, size, &err);
    assert(head <= (int)size);
    if (head > 0) {
        assert(request.port != 0 && request.host[0] != '\0');
        if (!request.is_connect)
            check_written(&request);
    }
    proxy_request_free(&request);
    return 0;
}
