#include "image/oci/fetch.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/progress.h"
#include "image/oci/blobs.h"

#define TRIES 5
#define PAUSE_MS 300
#define CHUNK ((size_t)1 << 20)

struct download {
    const struct descriptor *blob;
    char *path; /* of the part that is there */
    int fd;
    int lock;
    EVP_MD_CTX *digest; /* of that part */
    uint64_t length;
    bool pieced; /* from more than one answer */
    bool done;
    struct transfer transfer;
};

struct fetch {
    struct registry *registry;
    struct download *downloads;
    size_t count;
    uint64_t total;
    uint64_t began_ms, began_length;
};

/* ---- one download -------------------------------------------------------------------------- */

static int start_anew(struct download *download, struct error *err)
{
    EVP_DigestInit_ex(download->digest, EVP_sha256(), NULL);
    download->length = 0;
    download->pieced = false;
    if (ftruncate(download->fd, 0) < 0 || lseek(download->fd, 0, SEEK_SET) < 0)
        return error_errno(err, errno, "cannot write %s", download->path);
    return 0;
}

static int take_bytes(struct transfer *transfer, const uint8_t *bytes, size_t length, bool whole,
                      struct error *err)
{
    struct download *download = transfer->owner;
    if (whole && transfer->received == length && start_anew(download, err) < 0)
        return -1;
    if (file_write_all(download->fd, bytes, length) < 0)
        return error_errno(err, errno, "cannot write %s", download->path);
    EVP_DigestUpdate(download->digest, bytes, length);
    download->length += length;
    return 0;
}

/* Reads what an earlier download left. */
static int resume(struct download *download, struct error *err)
{
    cleanup_free uint8_t *chunk = xmalloc(CHUNK);
    for (;;) {
        ssize_t got = read(download->fd, chunk, CHUNK);
        if (got < 0)
            return error_errno(err, errno, "cannot read %s", download->path);
        if (got == 0)
            break;
        EVP_DigestUpdate(download->digest, chunk, (size_t)got);
        download->length += (uint64_t)got;
    }
    return download->length <= download->blob->size ? 0 : start_anew(download, err);
}

static int open_download(struct download *download, const struct descriptor *blob,
                         struct error *err)
{
    *download = (struct download){.blob = blob, .fd = -1};
    download->lock = blobs_lock(blob->digest, err);
    if (download->lock < 0)
        return -1;
    download->done = blobs_have(blob->digest, blob->size);
    if (download->done)
        return 0;
    download->path = blobs_partial_path(blob->digest);
    download->fd = open(download->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (download->fd < 0)
        return error_errno(err, errno, "cannot write %s", download->path);
    download->digest = EVP_MD_CTX_new();
    EVP_DigestInit_ex(download->digest, EVP_sha256(), NULL);
    download->transfer.take = take_bytes;
    download->transfer.owner = download;
    return resume(download, err);
}

static void close_download(struct download *download, bool keep)
{
    if (download->path && (download->length == 0 || !keep))
        unlink(download->path);
    fd_close(download->fd);
    fd_close(download->lock);
    EVP_MD_CTX_free(download->digest);
    transfer_release(&download->transfer);
    free(download->path);
}

static bool digest_matches(const struct download *download)
{
    uint8_t bytes[EVP_MAX_MD_SIZE];
    char hex[65];
    EVP_DigestFinal_ex(download->digest, bytes, NULL);
    for (size_t i = 0; i < 32; i++)
        snprintf(hex + i * 2, 3, "%02x", bytes[i]);
    return strcmp(hex, download->blob->digest + strlen("sha256:")) == 0;
}

/* 1: done; 0: pieces that do not fit together, so everything once more; negative: no use. */
static int finish_download(struct download *download, struct error *err)
{
    const char *digest = download->blob->digest;
    if (digest_matches(download)) {
        download->done = true;
        return blobs_take(download->path, digest, err) < 0 ? -1 : 1;
    }
    bool again = download->pieced;
    if (start_anew(download, err) < 0)
        return -1;
    error_set(err, ERROR_PROTOCOL, "what arrived as %s has another digest", digest);
    error_hint(err, "try again; if it stays so, the registry's copy is damaged");
    return again ? 0 : -1;
}

/* ---- progress ------------------------------------------------------------------------------ */

/* "3/5 layers 43% 12%": how many are whole, and how far the others are. */
static void describe_layers(const struct fetch *fetch, char *out, size_t size)
{
    size_t whole = 0;
    for (size_t i = 0; i < fetch->count; i++)
        whole += fetch->downloads[i].done ||
                 fetch->downloads[i].length == fetch->downloads[i].blob->size;
    size_t used = (size_t)snprintf(out, size, "%zu/%zu layers", whole, fetch->count);
    for (size_t i = 0; i < fetch->count && used + 6 < size; i++) {
        const struct download *download = &fetch->downloads[i];
        if (download->length > 0 && download->length < download->blob->size)
            used += (size_t)snprintf(
                out + used, size - used, " %llu%%",
                (unsigned long long)(download->length * 100 / download->blob->size));
    }
}

static void show(void *owner)
{
    const struct fetch *fetch = owner;
    uint64_t length = 0;
    for (size_t i = 0; i < fetch->count; i++)
        length += fetch->downloads[i].length;
    char layers[100];
    describe_layers(fetch, layers, sizeof layers);
    double seconds = (double)(clock_monotonic_ms() - fetch->began_ms) / 1000.0;
    double speed = seconds > 0 && length > fetch->began_length
                       ? (double)(length - fetch->began_length) / seconds
                       : 0;
    double left = speed > 0 ? (double)(fetch->total - length) / speed : 0;
    progress_detail("%.0f/%.0f MB %.1f MB/s, %.0f s left, %s", (double)length / 1e6,
                    (double)fetch->total / 1e6, speed / 1e6, left, layers);
}

/* ---- all of them --------------------------------------------------------------------------- */

/* 1: done; 0: worth another try; negative: no use. */
static int judge(struct fetch *fetch, struct download *download, bool *asked, struct error *err)
{
    struct transfer *transfer = &download->transfer;
    cleanup_free char *what = xasprintf("its part %.19s…", download->blob->digest);
    /* 416: the registry has no more than we have. */
    if (!transfer->err.code && (transfer->status < 300 || transfer->status == 416)) {
        if (download->length == download->blob->size)
            return finish_download(download, err);
        error_set(err, ERROR_PROTOCOL, "%s ended after %llu of %llu bytes", what,
                  (unsigned long long)download->length, (unsigned long long)download->blob->size);
        error_hint(err, "try again; what has arrived is kept");
        return 0;
    }
    if (transfer->err.code == ERROR_NO_SPACE) {
        *err = transfer->err;
        return error_hint(err, SPACE_HINT);
    }
    registry_explain(fetch->registry, transfer, what, err);
    if (!transfer->err.code && transfer->status == 401 && transfer->challenge) {
        bool again = *asked;
        *asked = true;
        return again ? 0 : registry_authenticate(fetch->registry, transfer->challenge, err);
    }
    bool passing = transfer->err.code ? err->code != ERROR_DENIED : transfer->status >= 500;
    return passing ? 0 : -1;
}

/* What is whole goes into the store, whatever becomes of the others. */
static int judge_all(struct fetch *fetch, size_t *left, struct error *err)
{
    bool asked = false;
    int result = 0;
    *left = 0;
    for (size_t i = 0; i < fetch->count; i++) {
        struct error later;
        if (fetch->downloads[i].done)
            continue;
        int verdict = judge(fetch, &fetch->downloads[i], &asked, result < 0 ? &later : err);
        *left += verdict == 0;
        result = verdict < 0 ? verdict : result;
    }
    return result;
}

static int try_once(struct fetch *fetch, size_t *left, struct error *err)
{
    struct transfer **transfers = xcalloc(fetch->count + 1, sizeof(struct transfer *));
    size_t pending = 0;
    for (size_t i = 0; i < fetch->count; i++) {
        struct download *download = &fetch->downloads[i];
        if (download->done)
            continue;
        cleanup_free char *path = xasprintf("blobs/%s", download->blob->digest);
        transfer_reset(&download->transfer);
        registry_prepare(fetch->registry, path, NULL, &download->transfer);
        download->transfer.offset = download->length;
        download->pieced = download->length > 0;
        download->transfer.limit = download->blob->size - download->length;
        /* A part may be whole already; nothing is asked for then. */
        if (download->length < download->blob->size || download->blob->size == 0)
            transfers[pending++] = &download->transfer;
        else
            download->transfer.status = 200;
    }
    int result = transfers_run(transfers, pending, show, fetch, err);
    free(transfers);
    return result < 0 ? result : judge_all(fetch, left, err);
}

/* A try that brought something on does not count. */
static int try_all(struct fetch *fetch, struct error *err)
{
    uint64_t before = 0;
    for (int tries = 0;;) {
        size_t left;
        int result = try_once(fetch, &left, err);
        if (result < 0 || left == 0)
            return result;
        uint64_t length = 0;
        for (size_t i = 0; i < fetch->count; i++)
            length += fetch->downloads[i].length;
        tries = length > before ? 1 : tries + 1;
        before = length > before ? length : before;
        if (tries == TRIES)
            return -1;
        struct pollfd cancel = {.fd = cancel_fd(), .events = POLLIN};
        poll(&cancel, 1, tries > 1 ? PAUSE_MS * tries : 0);
        if (cancel_requested())
            return cancel_error(err);
    }
}

static int check_space(const struct fetch *fetch, struct error *err)
{
    uint64_t free_bytes, missing = 0;
    cleanup_free char *folder = home_path("images/partial");
    for (size_t i = 0; i < fetch->count; i++) {
        if (!fetch->downloads[i].done)
            missing += fetch->downloads[i].blob->size - fetch->downloads[i].length;
    }
    int result = folder_free_space(folder, &free_bytes, err);
    if (result < 0 || free_bytes >= missing)
        return result;
    error_set(err, ERROR_NO_SPACE, "its layers need %llu MB, %s has %llu MB left",
              (unsigned long long)(missing >> 20) + 1, home_folder(),
              (unsigned long long)(free_bytes >> 20));
    return error_hint(err, SPACE_HINT);
}

static int compare(const void *left, const void *right)
{
    const struct descriptor *first = left, *second = right;
    return strcmp(first->digest, second->digest);
}

/* Always in the same order, so that two who want the same layers cannot wait for each other. */
static int open_all(struct fetch *fetch, struct descriptor *blobs, size_t count, struct error *err)
{
    qsort(blobs, count, sizeof *blobs, compare);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && compare(&blobs[i], &blobs[i - 1]) == 0)
            continue;
        struct download *download = &fetch->downloads[fetch->count++];
        int result = open_download(download, &blobs[i], err);
        if (result < 0)
            return result;
        fetch->total += download->done ? 0 : blobs[i].size;
        fetch->began_length += download->length;
    }
    return 0;
}

int fetch_blobs(struct registry *registry, const char *title, const struct descriptor *blobs,
                size_t count, struct error *err)
{
    struct fetch fetch = {.registry = registry, .began_ms = clock_monotonic_ms()};
    cleanup_free struct descriptor *sorted = xcalloc(count + 1, sizeof *sorted);
    memcpy(sorted, blobs, count * sizeof *sorted);
    fetch.downloads = xcalloc(count + 1, sizeof *fetch.downloads);
    int result = open_all(&fetch, sorted, count, err);
    if (result == 0)
        result = check_space(&fetch, err);
    if (result == 0) {
        progress_begin("%s", title);
        result = try_all(&fetch, err);
        progress_end(result == 0);
    }
    /* On a full disk, what could be resumed is in the way. */
    bool keep = result == 0 || err->code != ERROR_NO_SPACE;
    for (size_t i = 0; i < fetch.count; i++)
        close_download(&fetch.downloads[i], keep);
    free(fetch.downloads);
    return result;
}
