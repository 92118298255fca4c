/*
 * The agent's event loop: one thread, epoll, level or edge triggered as the watch says. All
 * structs belong to their users, who stop them before freeing them; callbacks may stop anything.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

struct loop_watch {
    int fd;
    uint32_t events; /* 0: not watched at the moment */
    void (*ready)(void *owner, uint32_t events);
    void *owner;
};

struct loop_timer {
    bool armed;
    uint64_t due_ms;
    void (*fire)(void *owner);
    void *owner;
    struct loop_timer *next;
};

struct loop_child {
    pid_t pid; /* 0: not waited for */
    void (*exited)(void *owner, int status);
    void *owner;
    struct loop_child *next;
};

void loop_open(void);
/* Runs until loop_stop; `after` is called when the events at hand are dealt with. */
void loop_run(void (*after)(void));
void loop_stop(void);

void loop_watch_start(struct loop_watch *watch, int fd, uint32_t events,
                      void (*ready)(void *owner, uint32_t events), void *owner);
/* 0 pauses: not even a hang-up is reported. */
void loop_watch_change(struct loop_watch *watch, uint32_t events);
/* Leaves the descriptor open. */
void loop_watch_stop(struct loop_watch *watch);

void loop_timer_start(struct loop_timer *timer, uint64_t delay_ms, void (*fire)(void *owner),
                      void *owner);
void loop_timer_stop(struct loop_timer *timer);

/* Every process that ends is reaped here; those watched are reported. */
void loop_child_watch(struct loop_child *child, pid_t pid, void (*exited)(void *owner, int status),
                      void *owner);
void loop_child_forget(struct loop_child *child);

/* Calls `inspect` with every child that SIGKILL ended, before it is reaped. */
void loop_inspect_killed(void (*inspect)(pid_t pid));
