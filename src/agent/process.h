/*
 * Commands and the table of them. A command is in the table while it runs; one that was to be kept
 * stays for a while after its end, so that who comes late still gets its last output and its
 * outcome.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "agent/exec_request.h"
#include "agent/loop.h"
#include "agent/output.h"
#include "agent/scope.h"
#include "agent/tail.h"
#include "proto/outcome.h"

/* Commands that run without needing a client. */
#define PROCESS_KEPT_MAX 256
/* Commands that have ended and are still known. */
#define PROCESS_ENDED_MAX 64
#define PROCESS_ENDED_MS (10u * 60 * 1000)

struct attachment;

struct process {
    struct exec_request request;
    struct scope *scope;
    struct loop_child child;
    pid_t pid;                /* 0: not started */
    struct loop_watch report; /* fd -1: the program runs */
    int input;                /* its stdin, a pipe or terminal; -1: closed */
    struct output outputs[2]; /* a terminal uses the first only */
    struct tail *tail;        /* NULL: nobody needs what it has printed */
    uint64_t printed;         /* bytes, all in all */
    struct loop_timer timer;  /* of its time limit; once it has ended, until it is forgotten */
    uint64_t began_us;        /* since boot */
    uint64_t began_realtime_us;
    bool exited;
    bool timed_out;
    int status;
    bool ended;
    struct outcome outcome;
    struct attachment *starter; /* the stream that started it, which slows it down; NULL: left */
    struct attachment *attachments; /* all of them, the starter too */
    uint64_t serial;                /* its number in the table; 0: not there */
    struct process *next;
};

struct process *process_make(void);
/* Adds it to the table. What has ended and had the same process id is forgotten. */
void process_add(struct process *process);
/* NULL: no command of the table has this process id. */
struct process *process_find(uint64_t pid, struct error *err);
/* The same without those that have ended. */
struct process *process_find_running(uint64_t pid, struct error *err);
/* The next in the table, in the order of their start; 0 begins. */
struct process *process_after(uint64_t serial);
/* Refuses one more kept command when there are too many. */
int process_check_kept(struct error *err);

/* From now on what it prints is remembered. */
void process_remember(struct process *process);
/* To its group, on a terminal to the foreground group. */
void process_signal(const struct process *process, uint64_t number);
void process_resize(struct process *process, uint16_t rows, uint16_t cols);
/* Closes its stdin for everybody. */
void process_close_input(struct process *process);
/* Kills everything it started and ends it. */
void process_cancel(struct process *process);
/* It is over. Streams that are behind go on until they have got everything that is remembered. The
 * process may be gone afterwards. */
void process_end(struct process *process, const struct outcome *outcome);
/* A stream has left. Frees what nobody needs any more. */
void process_left(struct process *process);
