#include "agent/zygote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "agent/loop.h"
#include "agent/settings.h"
#include "agent/spawn.h"
#include "base/fdpass.h"
#include "base/log.h"
#include "base/mem.h"

/* When the next spare is made: not while code begins to run in the context that took the last. */
#define RESTOCK_MS 1000
#define LATE_MS 10000
#define LATE_FROM_OUTSIDE_MS 2000

/* What a new copy gets: its ends of the wires, and where to say that it is there. */
#define COPY_FDS (WIRE_COUNT + 1)

/* A process of ours, in a scope of its own once it has said that it is there. */
struct copy {
    struct loop_watch link; /* fd -1: nothing is awaited from it */
    struct scope *scope;    /* NULL: it is not there */
    pid_t pid;
};

static struct {
    struct copy zygote;
    struct copy spare;
    struct wires wires; /* of the spare, our ends */
    struct loop_child spare_child;
    char *user;
    struct account account;
    char **env;
    char *cwd;
    struct loop_timer timer; /* until the next spare is asked for, or is late */
    struct zygote_waiter *waiters;
} store = {.zygote.link.fd = -1, .spare.link.fd = -1};

static void restock(void);

/* The zygote runs code of others, so that nothing waits for it to read. */
static int open_link(struct copy *copy, void (*ready)(void *owner, uint32_t events))
{
    int ends[2];
    if (fdpass_pair(ends) < 0)
        return -1;
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    loop_watch_start(&copy->link, ends[0], EPOLLIN, ready, NULL);
    return ends[1];
}

static void close_link(struct copy *copy)
{
    loop_watch_stop(&copy->link);
    fd_close(copy->link.fd);
    copy->link.fd = -1;
}

/* A zygote without a link and a spare without wires end themselves. */
static void drop_spare(void)
{
    if (store.spare.scope || store.spare.link.fd >= 0)
        wires_close_ours(&store.wires);
    close_link(&store.spare);
    loop_child_forget(&store.spare_child);
    if (store.spare.scope)
        scope_release(steal_pointer(&store.spare.scope));
}

static void drop_zygote(void)
{
    close_link(&store.zygote);
    if (store.zygote.scope)
        scope_release(steal_pointer(&store.zygote.scope));
    strv_free(steal_pointer(&store.env));
    free(steal_pointer(&store.cwd));
    free(steal_pointer(&store.user));
}

/* The kernel says who it is: a process cannot pass itself off as another one. 0: nobody wrote. */
static pid_t read_sender(int link)
{
    struct ucred sender;
    if (!fdpass_read_sender(link, &sender))
        return 0;
    /* One that has been reaped meanwhile does not count. */
    bool lives = sender.pid > 1 && kill(sender.pid, 0) == 0;
    return lives && sender.uid == store.account.uid ? sender.pid : 0;
}

/* Copies say once that they are there. Anything else on the link means that they have gone. */
static bool receive(struct copy *copy)
{
    struct error err;
    pid_t pid = read_sender(copy->link.fd);
    if (pid == 0 || copy->scope || !(copy->scope = scope_make(&err)))
        return false;
    copy->pid = pid;
    scope_move(copy->scope, pid);
    spawn_limit_files_of(pid);
    return true;
}

static void wake(struct zygote_waiter *waiter)
{
    zygote_wait_stop(waiter);
    waiter->ready(waiter->owner);
}

static void disconnect(void)
{
    loop_timer_stop(&store.timer);
    drop_spare();
    drop_zygote();
    while (store.waiters)
        wake(store.waiters);
}

static void on_late(void *owner)
{
    (void)owner;
    log_warn("a copy of an interpreter did not come in time");
    disconnect();
}

static void on_spare_exited(void *owner, int status)
{
    (void)owner, (void)status;
    drop_spare();
    restock();
}

static void on_spare(void *owner, uint32_t events)
{
    (void)owner, (void)events;
    if (!receive(&store.spare)) {
        disconnect();
        return;
    }
    loop_timer_stop(&store.timer);
    close_link(&store.spare);
    loop_child_watch(&store.spare_child, store.spare.pid, on_spare_exited, NULL);
    if (store.waiters)
        wake(store.waiters);
}

/* Pipes are the program's own: it may open /dev/stdout as such. */
static bool send_order(int report)
{
    int fds[COPY_FDS];
    for (int i = 0; i < WIRE_COUNT; i++) {
        fds[i] = store.wires.theirs[i];
        fchown(fds[i], store.account.uid, store.account.gid);
    }
    fds[WIRE_COUNT] = report;
    return fdpass_send_all(store.zygote.link.fd, "c", 1, fds, COPY_FDS) == 0;
}

static void order_spare(void)
{
    struct error err;
    if (wires_open(&store.wires, &err) < 0) {
        disconnect();
        return;
    }
    int report = open_link(&store.spare, on_spare);
    bool sent = report >= 0 && send_order(report);
    wires_close_theirs(&store.wires);
    fd_close(report);
    if (report < 0)
        wires_close_ours(&store.wires);
    if (sent)
        loop_timer_start(&store.timer, LATE_MS, on_late, NULL);
    else
        disconnect();
}

static void on_restock(void *owner)
{
    (void)owner;
    order_spare();
}

static void restock(void)
{
    if (store.zygote.link.fd < 0) /* the one from outside is gone */
        disconnect();
    else if (store.waiters)
        order_spare();
    else
        loop_timer_start(&store.timer, RESTOCK_MS, on_restock, NULL);
}

static void on_zygote(void *owner, uint32_t events)
{
    (void)owner, (void)events;
    if (receive(&store.zygote))
        order_spare();
    else
        disconnect();
}

int zygote_connect(const char *user, const struct account *account, char *const *env,
                   const char *cwd, struct error *err)
{
    disconnect();
    int theirs = open_link(&store.zygote, on_zygote);
    if (theirs < 0)
        return error_errno(err, errno, "cannot connect an interpreter");
    store.user = xstrdup(user);
    store.account = *account;
    store.cwd = xstrdup(cwd);
    for (; env && *env; env++)
        strv_append(&store.env, xstrdup(*env));
    return theirs;
}

void zygote_expect(const char *user, char *const *env, int link, const struct wires *wires)
{
    struct error err;
    store.wires = *wires;
    loop_watch_start(&store.spare.link, link, EPOLLIN, on_spare, NULL);
    if (account_find(user, &store.account, &err) < 0) {
        disconnect();
        return;
    }
    store.user = xstrdup(user);
    store.env = environment_build(&store.account, env);
    store.cwd = xstrdup("");
    for (int i = 0; i < WIRE_COUNT; i++)
        fchown(wires->ours[i], store.account.uid, store.account.gid);
    loop_timer_start(&store.timer, LATE_FROM_OUTSIDE_MS, on_late, NULL);
}

const struct account *zygote_account(const char *user)
{
    return store.user && strcmp(store.user, user) == 0 ? &store.account : NULL;
}

char *const *zygote_env(void)
{
    return store.env;
}

const char *zygote_cwd(void)
{
    return store.cwd;
}

void zygote_lose_cwd(void)
{
    if (!store.cwd)
        return;
    free(store.cwd);
    store.cwd = xstrdup("");
}

static bool concerns_start(const char *assignment)
{
    return strncmp(assignment, "PYTHON", 6) == 0 || strncmp(assignment, "LD_", 3) == 0;
}

bool zygote_suits(char *const *env)
{
    for (char *const *at = env; at && *at; at++) {
        if (concerns_start(*at) && !strv_contains(store.env, *at))
            return false;
    }
    return true;
}

void zygote_review(void)
{
    bool is_from_outside = store.user && store.zygote.link.fd < 0;
    if (is_from_outside && (!zygote_account(settings_user()) || !zygote_suits(settings_env())))
        disconnect();
}

void zygote_wait(struct zygote_waiter *waiter, void (*ready)(void *owner), void *owner)
{
    struct zygote_waiter **at = &store.waiters;
    while (*at)
        at = &(*at)->next;
    *waiter = (struct zygote_waiter){.ready = ready, .owner = owner};
    *at = waiter;
    bool is_none = store.zygote.link.fd < 0 && store.spare.link.fd < 0;
    if (is_none || store.spare.scope)
        wake(waiter);
    else if (store.zygote.scope && store.spare.link.fd < 0)
        order_spare();
}

void zygote_wait_stop(struct zygote_waiter *waiter)
{
    struct zygote_waiter **at = &store.waiters;
    while (*at && *at != waiter)
        at = &(*at)->next;
    if (*at)
        *at = waiter->next;
}

pid_t zygote_take(struct wires *wires, struct scope **scope)
{
    if (!store.spare.scope)
        return 0;
    *wires = store.wires;
    *scope = steal_pointer(&store.spare.scope);
    loop_child_forget(&store.spare_child);
    restock();
    return store.spare.pid;
}
