#include "agent/loop.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define BATCH 64

static struct {
    int epoll;
    bool stopping;
    struct epoll_event batch[BATCH];
    int batch_length;
    struct loop_timer *timers; /* the next one due first */
    struct loop_child *children;
    struct loop_watch signals;
    void (*on_kill)(pid_t pid);
} loop;

void loop_inspect_killed(void (*inspect)(pid_t pid))
{
    loop.on_kill = inspect;
}

/* While it can still be looked at. */
static void inspect_dead(void)
{
    siginfo_t dead = {0};
    if (loop.on_kill && waitid(P_ALL, 0, &dead, WEXITED | WNOHANG | WNOWAIT) == 0 &&
        dead.si_pid > 0 && dead.si_code == CLD_KILLED && dead.si_status == SIGKILL)
        loop.on_kill(dead.si_pid);
}

static void reap(void)
{
    int status;
    pid_t pid;
    while (inspect_dead(), (pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct loop_child *child = loop.children;
        while (child && child->pid != pid)
            child = child->next;
        if (!child)
            continue;
        loop_child_forget(child);
        child->exited(child->owner, status);
    }
}

static void on_signal(void *owner, uint32_t events)
{
    (void)owner, (void)events;
    struct signalfd_siginfo info[8];
    while (read(loop.signals.fd, info, sizeof info) > 0) {
    }
    reap();
}

void loop_open(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    loop.epoll = epoll_create1(EPOLL_CLOEXEC);
    int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (loop.epoll < 0 || fd < 0) {
        log_error("no event loop: errno %d", errno);
        abort();
    }
    loop_watch_start(&loop.signals, fd, EPOLLIN, on_signal, NULL);
}

static void watch_control(struct loop_watch *watch, int operation, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(loop.epoll, operation, watch->fd, &event) < 0)
        log_warn("cannot watch descriptor %d: errno %d", watch->fd, errno);
}

void loop_watch_start(struct loop_watch *watch, int fd, uint32_t events,
                      void (*ready)(void *owner, uint32_t events), void *owner)
{
    *watch = (struct loop_watch){.fd = fd, .ready = ready, .owner = owner};
    loop_watch_change(watch, events);
}

void loop_watch_change(struct loop_watch *watch, uint32_t events)
{
    if (events == watch->events)
        return;
    if (events == 0)
        watch_control(watch, EPOLL_CTL_DEL, 0);
    else
        watch_control(watch, watch->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, events);
    watch->events = events;
    /* What is in the batch was reported for the interest of before. */
    for (int i = 0; events == 0 && i < loop.batch_length; i++) {
        if (loop.batch[i].data.ptr == watch)
            loop.batch[i].data.ptr = NULL;
    }
}

void loop_watch_stop(struct loop_watch *watch)
{
    if (watch->events)
        loop_watch_change(watch, 0);
}

void loop_timer_start(struct loop_timer *timer, uint64_t delay_ms, void (*fire)(void *owner),
                      void *owner)
{
    loop_timer_stop(timer);
    uint64_t now = clock_monotonic_ms();
    uint64_t due = delay_ms < UINT64_MAX - now ? now + delay_ms : UINT64_MAX;
    struct loop_timer **at = &loop.timers;
    while (*at && (*at)->due_ms <= due)
        at = &(*at)->next;
    *timer = (struct loop_timer){
        .armed = true, .due_ms = due, .fire = fire, .owner = owner, .next = *at};
    *at = timer;
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (!timer->armed)
        return;
    struct loop_timer **at = &loop.timers;
    while (*at != timer)
        at = &(*at)->next;
    *at = timer->next;
    timer->armed = false;
}

void loop_child_watch(struct loop_child *child, pid_t pid, void (*exited)(void *owner, int status),
                      void *owner)
{
    *child =
        (struct loop_child){.pid = pid, .exited = exited, .owner = owner, .next = loop.children};
    loop.children = child;
}

void loop_child_forget(struct loop_child *child)
{
    if (child->pid == 0)
        return;
    struct loop_child **at = &loop.children;
    while (*at != child)
        at = &(*at)->next;
    *at = child->next;
    child->pid = 0;
}

/* Rounded up by a millisecond: a timer never fires before its time. */
static int next_timeout(void)
{
    if (!loop.timers)
        return -1;
    uint64_t now = clock_monotonic_ms();
    if (loop.timers->due_ms < now)
        return 0;
    uint64_t left = loop.timers->due_ms - now + 1;
    return left > 3600000 ? 3600000 : (int)left;
}

static void fire_timers(void)
{
    uint64_t now = loop.timers ? clock_monotonic_ms() : 0;
    while (loop.timers && loop.timers->due_ms < now) {
        struct loop_timer *timer = loop.timers;
        loop_timer_stop(timer);
        timer->fire(timer->owner);
    }
}

void loop_run(void (*after)(void))
{
    while (!loop.stopping) {
        int count = epoll_wait(loop.epoll, loop.batch, BATCH, next_timeout());
        loop.batch_length = count > 0 ? count : 0;
        for (int i = 0; i < loop.batch_length; i++) {
            const struct loop_watch *watch = loop.batch[i].data.ptr;
            if (watch)
                watch->ready(watch->owner, loop.batch[i].events);
        }
        loop.batch_length = 0;
        fire_timers();
        after();
    }
}

void loop_stop(void)
{
    loop.stopping = true;
}
