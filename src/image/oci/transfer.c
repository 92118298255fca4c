#include "image/oci/transfer.h"

#include <string.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "image/oci/challenge.h"
#include "image/oci/curl.h"

#define AT_ONCE 4L
#define REDIRECTS_MAX 8L
#define CONNECT_SECONDS 20L
#define SILENT_SECONDS 30L
#define MESSAGE_MAX 4096
#define TICK_MS 200
#define CHUNK (256L * 1024)

/* A transfer under way. */
struct visit {
    struct transfer *transfer;
    const struct curl_library *curl;
    CURL *handle;
    struct curl_slist *headers;
    char reason[CURL_ERROR_SIZE];
};

int transfer_take_memory(struct transfer *transfer, const uint8_t *bytes, size_t length, bool whole,
                         struct error *err)
{
    (void)whole;
    (void)err;
    buf_append(transfer->owner, bytes, length);
    return 0;
}

static size_t on_bytes(char *bytes, size_t one, size_t length, void *owner)
{
    struct visit *visit = owner;
    struct transfer *transfer = visit->transfer;
    long status = 0;
    (void)one;
    visit->curl->easy_getinfo(visit->handle, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 300) {
        size_t room = MESSAGE_MAX - buf_length(&transfer->message);
        buf_append(&transfer->message, bytes, length < room ? length : room);
        return length;
    }
    bool whole = transfer->offset > 0 && status != 206;
    uint64_t limit = transfer->limit + (whole ? transfer->offset : 0);
    if (transfer->received + length > limit) {
        error_set(&transfer->err, ERROR_PROTOCOL, "there are more than the expected %llu bytes",
                  (unsigned long long)limit);
        return 0;
    }
    transfer->received += length;
    int result = transfer->take(transfer, (const uint8_t *)bytes, length, whole, &transfer->err);
    return result < 0 ? 0 : length;
}

/* Those of the system, or those named as OpenSSL and other clients of registries have it. */
static void set_authorities(struct visit *visit)
{
    const char *file = getenv("SSL_CERT_FILE"), *folder = getenv("SSL_CERT_DIR");
    if (file && *file)
        visit->curl->easy_setopt(visit->handle, CURLOPT_CAINFO, file);
    if (folder && *folder)
        visit->curl->easy_setopt(visit->handle, CURLOPT_CAPATH, folder);
}

static void set_options(struct visit *visit)
{
    const struct curl_library *curl = visit->curl;
    const struct transfer *transfer = visit->transfer;
    const char *schemes = transfer->plain ? "http,https" : "https";
    CURL *handle = visit->handle;
    for (char **header = transfer->headers; header && *header; header++)
        visit->headers = curl->slist_append(visit->headers, *header);
    curl->easy_setopt(handle, CURLOPT_URL, transfer->url);
    curl->easy_setopt(handle, CURLOPT_HTTPHEADER, visit->headers);
    curl->easy_setopt(handle, CURLOPT_PROTOCOLS_STR, schemes);
    curl->easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, schemes);
    curl->easy_setopt(handle, CURLOPT_FOLLOWLOCATION, 1L);
    curl->easy_setopt(handle, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
    curl->easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    curl->easy_setopt(handle, CURLOPT_CONNECTTIMEOUT, CONNECT_SECONDS);
    curl->easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl->easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, SILENT_SECONDS);
    curl->easy_setopt(handle, CURLOPT_BUFFERSIZE, CHUNK);
    curl->easy_setopt(handle, CURLOPT_USERAGENT, "msb/" MSB_VERSION);
    curl->easy_setopt(handle, CURLOPT_ERRORBUFFER, visit->reason);
    curl->easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_bytes);
    curl->easy_setopt(handle, CURLOPT_WRITEDATA, visit);
    curl->easy_setopt(handle, CURLOPT_PRIVATE, visit);
    /* Not curl's own way to resume, which fails when the server sends everything again. */
    cleanup_free char *range = xasprintf("%llu-", (unsigned long long)transfer->offset);
    if (transfer->offset > 0)
        curl->easy_setopt(handle, CURLOPT_RANGE, range);
    set_authorities(visit);
}

static enum error_code code_of(CURLcode code)
{
    switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
        return ERROR_TIMEOUT;
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_CONNECT:
        return ERROR_UNAVAILABLE;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
        return ERROR_DENIED;
    case CURLE_PARTIAL_FILE:
    case CURLE_HTTP2_STREAM:
        return ERROR_PROTOCOL;
    default:
        return ERROR_IO;
    }
}

static bool came_from(const char *address, const char *url)
{
    size_t scheme = strcspn(url, ":") + strlen("://");
    size_t origin = scheme + strcspn(url + scheme, "/");
    return strncmp(address, url, origin) == 0 && (address[origin] == '/' || !address[origin]);
}

/* Of several, the first that can be met. Another host, where a redirect led, may ask for nothing:
 * it would be told the password. */
static void note_challenge(struct visit *visit)
{
    struct transfer *transfer = visit->transfer;
    const char *address = NULL;
    struct curl_header *header;
    visit->curl->easy_getinfo(visit->handle, CURLINFO_EFFECTIVE_URL, &address);
    if (!address || !came_from(address, transfer->url))
        return;
    for (size_t i = 0; visit->curl->easy_header(visit->handle, "WWW-Authenticate", i, CURLH_HEADER,
                                                -1, &header) == CURLHE_OK;
         i++) {
        bool usable = challenge_is_known(header->value);
        if (transfer->challenge && !usable)
            continue;
        free(transfer->challenge);
        transfer->challenge = xstrdup(header->value);
        if (usable)
            return;
    }
}

static void note_end(struct visit *visit, CURLcode code)
{
    struct transfer *transfer = visit->transfer;
    visit->curl->easy_getinfo(visit->handle, CURLINFO_RESPONSE_CODE, &transfer->status);
    /* A refused range says enough, whatever else is wrong with the answer. */
    if (transfer->status == 416)
        code = CURLE_OK;
    if (code != CURLE_OK && transfer->err.code == ERROR_NONE)
        error_set(&transfer->err, code_of(code), "%s",
                  visit->reason[0] ? visit->reason : visit->curl->easy_strerror(code));
    note_challenge(visit);
}

static void take_ends(const struct curl_library *curl, CURLM *multi)
{
    int left;
    for (CURLMsg *message; (message = curl->multi_info_read(multi, &left));) {
        struct visit *visit;
        if (message->msg != CURLMSG_DONE)
            continue;
        CURLcode code = message->data.result;
        curl->easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&visit);
        note_end(visit, code);
    }
}

static int follow(const struct curl_library *curl, CURLM *multi, void (*tick)(void *owner),
                  void *owner, struct error *err)
{
    int running = 1;
    while (running > 0) {
        if (curl->multi_perform(multi, &running) != CURLM_OK)
            return error_set(err, ERROR_IO, "libcurl failed");
        take_ends(curl, multi);
        struct curl_waitfd cancel = {.fd = cancel_fd(), .events = CURL_WAIT_POLLIN};
        if (running > 0)
            curl->multi_poll(multi, &cancel, cancel.fd >= 0 ? 1 : 0, TICK_MS, NULL);
        if (cancel_requested())
            return cancel_error(err);
        if (tick)
            tick(owner);
    }
    return 0;
}

int transfers_run(struct transfer *const *transfers, size_t count, void (*tick)(void *owner),
                  void *owner, struct error *err)
{
    const struct curl_library *curl = curl_load(err);
    if (!curl)
        return -1;
    struct visit *visits = xcalloc(count, sizeof *visits);
    CURLM *multi = curl->multi_init();
    curl->multi_setopt(multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, AT_ONCE);
    for (size_t i = 0; i < count; i++) {
        visits[i] =
            (struct visit){.transfer = transfers[i], .curl = curl, .handle = curl->easy_init()};
        set_options(&visits[i]);
        curl->multi_add_handle(multi, visits[i].handle);
    }
    int result = follow(curl, multi, tick, owner, err);
    for (size_t i = 0; i < count; i++) {
        curl->multi_remove_handle(multi, visits[i].handle);
        curl->easy_cleanup(visits[i].handle);
        curl->slist_free_all(visits[i].headers);
    }
    curl->multi_cleanup(multi);
    free(visits);
    return result;
}

void transfer_reset(struct transfer *transfer)
{
    transfer->err = (struct error){0};
    transfer->status = 0;
    transfer->received = 0;
    free(steal_pointer(&transfer->challenge));
    buf_free(&transfer->message);
    transfer->message = (struct buf){0};
}

void transfer_release(struct transfer *transfer)
{
    free(transfer->url);
    strv_free(transfer->headers);
    free(transfer->challenge);
    buf_free(&transfer->message);
}
