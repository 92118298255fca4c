#include "sandbox/pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/outcome.h"
#include "sandbox/launch.h"
#include "sandbox/pool_memory.h"

#define SIZE_DEFAULT 2
#define MAX_DEFAULT 16
#define STOCK_MAX 256
#define KINDS_MAX 8
/* Demand is the most that was asked for in any second of the last minute: making one takes about as
 * long. */
#define SPAN_MS 1000
#define SPANS 60
/* Nothing is made until no start has come for so long, or it has been put off for too long. */
#define QUIET_MS 50
#define PATIENCE_MS 2000
#define FORGET_MS (10 * 60 * 1000)
/* After trouble: memory was short, or one could not be made. */
#define PAUSE_MS 30000

/* All machines that can stand in for each other. */
struct kind {
    char *machine; /* what sandbox_config_machine_text says; NULL: not in use */
    int stock[STOCK_MAX];
    unsigned count;
    unsigned demand[SPANS];
    uint64_t span;     /* number of the newest of these */
    uint64_t asked_ms; /* when it was last asked for */
    bool is_standing;  /* kept whether anybody asks for it or not */
};

struct pools {
    struct launcher *launcher;
    int keepers; /* epoll of their connections */
    uv_poll_t heard;
    uv_poll_t pressure; /* on memory */
    uv_timer_t timer;
    unsigned size, max;
    struct kind kinds[KINDS_MAX];
    struct kind *maker_of; /* what is being made; NULL: nothing */
    int making;            /* -1: its keeper is being forked */
    struct launch forking;
    bool is_forking;     /* be it wanted any more or not */
    struct buf said;     /* by the one that is being made */
    uint64_t quiet_ms;   /* nothing is made before that */
    uint64_t lacking_ms; /* since when there are too few; 0: there are enough */
    struct pool_counts counts;
};

/* ---- what there should be ------------------------------------------------------------------ */

static unsigned setting(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    char *end;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    if (!text || !text[0])
        return otherwise;
    if (*end) {
        log_warn("%s is no number: \"%.20s\"; it is taken as %u", name, text, otherwise);
        return otherwise;
    }
    return value < STOCK_MAX ? (unsigned)value : STOCK_MAX;
}

static void move_to_span(struct kind *kind, uint64_t now)
{
    uint64_t span = now / SPAN_MS;
    if (span >= kind->span + SPANS)
        kind->span = span - SPANS;
    while (kind->span < span)
        kind->demand[++kind->span % SPANS] = 0;
}

static unsigned wanted(const struct pools *pools, struct kind *kind, uint64_t now)
{
    unsigned peak = pools->size;
    if (!kind->machine || (!kind->is_standing && now >= kind->asked_ms + FORGET_MS))
        return 0;
    move_to_span(kind, now);
    for (size_t i = 0; i < SPANS; i++)
        peak = kind->demand[i] > peak ? kind->demand[i] : peak;
    return peak < pools->max ? peak : pools->max;
}

/* ---- what there is ------------------------------------------------------------------------- */

static void watch(const struct pools *pools, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    epoll_ctl(pools->keepers, EPOLL_CTL_ADD, fd, &event);
}

static void unwatch(const struct pools *pools, int fd)
{
    epoll_ctl(pools->keepers, EPOLL_CTL_DEL, fd, NULL);
}

/* Its keeper sees that and ends. */
static void drop(struct pools *pools, int fd)
{
    unwatch(pools, fd);
    close(fd);
}

static int remove_from_stock(struct pools *pools, struct kind *kind, unsigned index)
{
    int fd = kind->stock[index];
    kind->count--;
    memmove(kind->stock + index, kind->stock + index + 1,
            (kind->count - index) * sizeof kind->stock[0]);
    pools->counts.stock--;
    return fd;
}

static void shrink(struct pools *pools, struct kind *kind, unsigned count)
{
    while (kind->count > count) {
        drop(pools, remove_from_stock(pools, kind, 0));
        pools->counts.dropped++;
    }
}

static void stop_making(struct pools *pools)
{
    if (pools->making >= 0)
        drop(pools, steal_fd(&pools->making));
    pools->maker_of = NULL;
    buf_free(&pools->said);
}

static void empty(struct pools *pools, uint64_t now)
{
    for (size_t i = 0; i < KINDS_MAX; i++)
        shrink(pools, &pools->kinds[i], 0);
    if (pools->maker_of)
        stop_making(pools);
    pools->quiet_ms = now + PAUSE_MS;
    log_info("memory is short: nothing is made ahead for a while");
}

static void forget_kind(struct pools *pools, struct kind *kind)
{
    shrink(pools, kind, 0);
    if (pools->maker_of == kind)
        stop_making(pools);
    free(kind->machine);
    *kind = (struct kind){0};
}

/* Takes over the text. The one that was asked for longest ago makes room; never are all of them
 * standing. */
static struct kind *find_or_add(struct pools *pools, char *machine)
{
    struct kind *oldest = pools->kinds;
    for (struct kind *kind = pools->kinds; kind < pools->kinds + KINDS_MAX; kind++) {
        if (kind->machine && strcmp(kind->machine, machine) == 0) {
            free(machine);
            return kind;
        }
        if (!kind->is_standing && (oldest->is_standing || kind->asked_ms < oldest->asked_ms))
            oldest = kind;
    }
    forget_kind(pools, oldest);
    oldest->machine = machine;
    return oldest;
}

/* ---- making -------------------------------------------------------------------------------- */

static struct kind *find_lacking(struct pools *pools, uint64_t now)
{
    struct kind *found = NULL;
    for (struct kind *kind = pools->kinds; kind < pools->kinds + KINDS_MAX; kind++) {
        if (kind->count < wanted(pools, kind, now) && (!found || kind->asked_ms > found->asked_ms))
            found = kind;
    }
    return found;
}

static bool is_making(const struct pools *pools)
{
    return pools->maker_of || pools->is_forking;
}

static void fail_making(struct pools *pools, const struct error *err)
{
    log_warn("nothing can be made ahead: %s", err->message);
    stop_making(pools);
    pools->quiet_ms = clock_monotonic_ms() + PAUSE_MS;
}

static void plan(struct pools *pools, uint64_t now);

static void on_forked(struct launch *launch, int fd, const struct error *err)
{
    struct pools *pools = launch->context;
    launch_free(launch);
    pools->is_forking = false;
    if (!pools->maker_of) {
        fd_close(fd);
    } else if (fd < 0) {
        fail_making(pools, err);
    } else {
        pools->making = fd;
        watch(pools, fd);
    }
    plan(pools, clock_monotonic_ms());
}

static void begin_making(struct pools *pools, struct kind *kind, uint64_t now)
{
    struct error err;
    if (pool_memory_is_short()) {
        empty(pools, now);
        return;
    }
    pools->maker_of = kind;
    pools->making = -1;
    pools->forking =
        (struct launch){.settings = xstrdup(kind->machine), .ended = on_forked, .context = pools};
    pools->is_forking = launcher_start_ahead(pools->launcher, &pools->forking, &err) == 0;
    if (pools->is_forking)
        return;
    launch_free(&pools->forking);
    fail_making(pools, &err);
}

/* 1: it is ready; 0: not yet; -1: it never will be. */
static int hear_maker(struct pools *pools, struct error *err)
{
    struct frame frame;
    struct outcome outcome;
    ssize_t got = recv(pools->making, buf_reserve(&pools->said, 4096), 4096, MSG_DONTWAIT);
    if (got <= 0)
        return error_set(err, ERROR_UNAVAILABLE, "its keeper ended");
    buf_commit(&pools->said, (size_t)got);
    int size = frame_decode(&pools->said, &frame, err);
    if (size <= 0)
        return size;
    int result = outcome_read(&frame, &outcome, err);
    if (result == 0 && outcome.error.code != ERROR_NONE) {
        *err = outcome.error;
        result = -1;
    }
    outcome_free(&outcome);
    return result < 0 ? -1 : 1;
}

static void go_on_making(struct pools *pools)
{
    struct error err;
    struct kind *kind = pools->maker_of;
    int result = hear_maker(pools, &err);
    if (result < 0) {
        fail_making(pools, &err);
    } else if (result > 0) {
        kind->stock[kind->count++] = steal_fd(&pools->making);
        pools->maker_of = NULL;
        buf_free(&pools->said);
        pools->counts.made++;
        pools->counts.stock++;
    }
}

/* Nobody who waits says anything: it has ended. */
static void lose(struct pools *pools, int fd)
{
    for (struct kind *kind = pools->kinds; kind < pools->kinds + KINDS_MAX; kind++) {
        for (unsigned i = 0; i < kind->count; i++) {
            if (kind->stock[i] != fd)
                continue;
            drop(pools, remove_from_stock(pools, kind, i));
            pools->counts.dropped++;
            return;
        }
    }
}

/* ---- the time ------------------------------------------------------------------------------ */

static void on_time(uv_timer_t *timer)
{
    plan(timer->data, clock_monotonic_ms());
}

/* When something changes by itself: demand is forgotten, then the whole kind. 0: never. */
static uint64_t next_change(const struct pools *pools, const struct kind *kind)
{
    if (kind->count > pools->size)
        return kind->asked_ms + (SPANS + 1) * SPAN_MS;
    return kind->is_standing ? 0 : kind->asked_ms + FORGET_MS;
}

/* Gives up what is too much, begins to make what is missing, and decides when to look again. */
static void plan(struct pools *pools, uint64_t now)
{
    uint64_t next = 0;
    for (struct kind *kind = pools->kinds; kind < pools->kinds + KINDS_MAX; kind++) {
        unsigned count = wanted(pools, kind, now);
        shrink(pools, kind, count);
        if (kind->machine && count == 0)
            forget_kind(pools, kind);
        uint64_t change = kind->machine ? next_change(pools, kind) : 0;
        if (change && (!next || change < next))
            next = change;
    }
    struct kind *lacking = find_lacking(pools, now);
    pools->lacking_ms = !lacking ? 0 : pools->lacking_ms ? pools->lacking_ms : now;
    if (lacking && !is_making(pools) && now >= pools->quiet_ms)
        begin_making(pools, lacking, now);
    if (lacking && !is_making(pools))
        next = pools->quiet_ms;
    if (next)
        uv_timer_start(&pools->timer, on_time, next > now ? next - now : 0, 0);
    else
        uv_timer_stop(&pools->timer);
}

/* Work that somebody waits for goes first, within reason. */
static void put_off(struct pools *pools, uint64_t now)
{
    uint64_t latest = (pools->lacking_ms ? pools->lacking_ms : now) + PATIENCE_MS;
    uint64_t quiet = now + QUIET_MS < latest ? now + QUIET_MS : latest;
    if (quiet > pools->quiet_ms)
        pools->quiet_ms = quiet;
}

static void on_heard(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct pools *pools = poll->data;
    struct epoll_event event;
    if (epoll_wait(pools->keepers, &event, 1, 0) < 1)
        return;
    if (pools->maker_of && event.data.fd == pools->making)
        go_on_making(pools);
    else
        lose(pools, event.data.fd);
    plan(pools, clock_monotonic_ms());
}

/* Looking at it takes the reason away, so it cannot be among what is looked at twice. */
static void on_pressure(uv_poll_t *poll, int status, int events)
{
    (void)status, (void)events;
    struct pools *pools = poll->data;
    uint64_t now = clock_monotonic_ms();
    if (!pool_memory_is_short())
        return;
    empty(pools, now);
    plan(pools, now);
}

/* ---- for the server ------------------------------------------------------------------------ */

struct pools *pools_open(uv_loop_t *loop, struct launcher *launcher)
{
    unsigned size = setting("MSB_POOL_SIZE", SIZE_DEFAULT);
    unsigned max = setting("MSB_POOL_MAX", size > MAX_DEFAULT ? size : MAX_DEFAULT);
    if (size == 0 || max == 0)
        return NULL;
    struct pools *pools = xcalloc(1, sizeof *pools);
    pools->launcher = launcher;
    pools->size = size < max ? size : max;
    pools->max = max;
    pools->making = -1;
    pools->keepers = epoll_create1(EPOLL_CLOEXEC);
    pools->heard.data = pools->pressure.data = pools->timer.data = pools;
    uv_timer_init(loop, &pools->timer);
    uv_poll_init(loop, &pools->heard, pools->keepers);
    uv_poll_start(&pools->heard, UV_READABLE, on_heard);
    int pressure = pool_memory_watch();
    if (pressure >= 0) {
        uv_poll_init(loop, &pools->pressure, pressure);
        uv_poll_start(&pools->pressure, UV_PRIORITIZED, on_pressure);
    }
    return pools;
}

static bool is_alive(int fd)
{
    char byte;
    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0;
}

/* The newest that can still be had: what it needs is in a cache, if anything is. */
static int take(struct pools *pools, struct kind *kind, const char *settings,
                const struct buf *call)
{
    struct error ignored;
    while (kind->count > 0) {
        int fd = remove_from_stock(pools, kind, kind->count - 1);
        unwatch(pools, fd);
        if (is_alive(fd) && launch_begin(fd, settings, call, &ignored) == 0)
            return fd;
        close(fd);
        pools->counts.dropped++;
    }
    return -1;
}

int pools_take(struct pools *pools, const struct sandbox_config *config, const char *settings,
               const struct buf *call)
{
    uint64_t now = clock_monotonic_ms();
    char *machine = sandbox_config_machine_text(config);
    if (!machine)
        return -1;
    struct kind *kind = find_or_add(pools, machine);
    move_to_span(kind, now);
    kind->demand[kind->span % SPANS]++;
    kind->asked_ms = now;
    int fd = take(pools, kind, settings, call);
    if (fd >= 0)
        pools->counts.hits++;
    else
        pools->counts.misses++;
    put_off(pools, now);
    plan(pools, now);
    return fd;
}

int pools_keep(struct pools *pools, const struct sandbox_config *config, struct error *err)
{
    unsigned standing = 0;
    uint64_t now = clock_monotonic_ms();
    char *machine = sandbox_config_machine_text(config);
    for (size_t i = 0; i < KINDS_MAX; i++)
        standing += pools->kinds[i].is_standing;
    if (!machine || standing >= KINDS_MAX - 1) {
        free(machine);
        return error_set(err, ERROR_LIMIT, "there are too many kinds");
    }
    struct kind *kind = find_or_add(pools, machine);
    kind->asked_ms = now;
    kind->is_standing = true;
    plan(pools, now);
    return 0;
}

const struct pool_counts *pools_counts(const struct pools *pools)
{
    static const struct pool_counts none;
    return pools ? &pools->counts : &none;
}
