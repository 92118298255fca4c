/* Sandboxes that the session layer has made and that no session has any more. */
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/internal.h"
#include "session/tasks.h"

/* How long a start that nobody waits for any more may still lead to a sandbox. */
#define START_FORGOTTEN_MS 3600000

struct orphan {
    struct sessions *sessions;
    struct box_waiter waiter;
    char *namespace, *sandbox;
    bool may_come; /* its start may still be under way */
};

/* Rows that belong to no session, copied: the store cannot be changed while it is read. */
struct orphan_list {
    struct sessions *sessions;
    struct orphan **list;
    size_t count;
};

static void orphan_free(struct orphan *orphan)
{
    free(orphan->namespace);
    free(orphan->sandbox);
    free(orphan);
}

static void end_cycle(struct sessions *sessions)
{
    struct orphan_counts *counts = &sessions->orphan_counts;
    if (--counts->open > 0)
        return;
    counts->cycles++;
    counts->duration_ms = clock_monotonic_ms() - counts->began;
    struct orphan_wait *next, *wait = steal_pointer(&sessions->orphan_waits);
    for (; wait; wait = next) {
        next = wait->next;
        wait->swept(wait, wait->count);
    }
}

static void on_orphan_gone(struct box_waiter *waiter, const struct error *err)
{
    (void)err;
    struct orphan *orphan = waiter->context;
    struct sessions *sessions = orphan->sessions;
    store_forget(sessions->store, orphan->namespace, orphan->sandbox);
    sessions->orphan_counts.cleaned++;
    for (struct orphan_wait *wait = sessions->orphan_waits; wait; wait = wait->next)
        wait->count++;
    orphan_free(orphan);
    end_cycle(sessions);
}

static bool has_session(const struct sessions *sessions, const struct store_row *row)
{
    for (const struct session *at = sessions->first; at; at = at->next) {
        if (strcmp(at->sandbox, row->sandbox) == 0 && strcmp(at->namespace, row->namespace) == 0)
            return true;
    }
    return false;
}

static void take_row(void *context, const struct store_row *row)
{
    struct orphan_list *orphans = context;
    uint64_t now = clock_monotonic_ms();
    if (has_session(orphans->sessions, row))
        return;
    struct orphan *orphan = xcalloc(1, sizeof *orphan);
    orphan->sessions = orphans->sessions;
    orphan->namespace = xstrdup(row->namespace);
    orphan->sandbox = xstrdup(row->sandbox);
    /* After a boot the clock has begun anew. */
    orphan->may_come = row->created <= now && now - row->created < START_FORGOTTEN_MS;
    orphans->list = xrealloc(orphans->list, (orphans->count + 1) * sizeof(struct orphan *));
    orphans->list[orphans->count++] = orphan;
}

static void end_orphan(struct orphan *orphan)
{
    struct sessions *sessions = orphan->sessions;
    struct error err;
    struct box *box = boxes_find(sessions->boxes, orphan->namespace, orphan->sandbox, &err);
    if (box) {
        log_info("sandbox %s/%s belongs to no session and is ended", orphan->namespace,
                 orphan->sandbox);
        orphan->waiter = (struct box_waiter){.done = on_orphan_gone, .context = orphan};
        sessions->orphan_counts.open++;
        box_stop(box, &orphan->waiter);
        return;
    }
    if (err.code == ERROR_NOT_FOUND && !orphan->may_come)
        store_forget(sessions->store, orphan->namespace, orphan->sandbox);
    else if (err.code != ERROR_NOT_FOUND && err.code != ERROR_BUSY)
        sessions->orphan_counts.errors++;
    orphan_free(orphan);
}

void orphans_clean(struct sessions *sessions)
{
    struct orphan_counts *counts = &sessions->orphan_counts;
    struct orphan_list orphans = {.sessions = sessions};
    if (counts->open > 0)
        return;
    counts->began = clock_monotonic_ms();
    counts->open = 1;
    store_each(sessions->store, take_row, &orphans);
    for (size_t i = 0; i < orphans.count; i++)
        end_orphan(orphans.list[i]);
    free(orphans.list);
    end_cycle(sessions);
}

static void on_sweep(uv_timer_t *timer)
{
    orphans_clean(timer->data);
}

void orphans_clean_soon(struct sessions *sessions)
{
    uv_timer_start(&sessions->sweep, on_sweep, 0, 0);
}

void tasks_sweep_orphans(struct sessions *sessions, struct orphan_wait *wait)
{
    wait->count = 0;
    wait->next = sessions->orphan_waits;
    sessions->orphan_waits = wait;
    orphans_clean_soon(sessions);
}
