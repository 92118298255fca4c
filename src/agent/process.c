#include "agent/process.h"

#include <signal.h>

#include "agent/attachment.h"
#include "agent/terminal.h"
#include "base/clock.h"
#include "base/mem.h"

static struct process *table; /* the one that started first comes first */

struct process *process_make(void)
{
    struct process *process = xcalloc(1, sizeof *process);
    process->report.fd = process->input = -1;
    process->outputs[0].watch.fd = process->outputs[1].watch.fd = -1;
    process->began_us = clock_monotonic_us();
    process->began_realtime_us = clock_realtime_us();
    return process;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void take_out(struct process *process)
{
    struct process **at = &table;
    while (*at != process)
        at = &(*at)->next;
    *at = process->next;
}

static void forget(void *owner)
{
    struct process *process = owner;
    while (process->attachments)
        attachment_end(process->attachments, &process->outcome);
    if (process->serial)
        take_out(process);
    loop_timer_stop(&process->timer);
    tail_free(process->tail);
    exec_request_free(&process->request);
    outcome_free(&process->outcome);
    free(process);
}

/* The last one: the kernel may give a number away again while the output of an earlier process is
 * still under way. */
static struct process *find(uint64_t pid)
{
    struct process *found = NULL;
    for (struct process *at = table; at; at = at->next) {
        if ((uint64_t)at->pid == pid)
            found = at;
    }
    return found;
}

void process_add(struct process *process)
{
    static uint64_t count;
    struct process *before = find((uint64_t)process->pid);
    if (before && before->ended)
        forget(before);
    struct process **at = &table;
    while (*at)
        at = &(*at)->next;
    *at = process;
    process->serial = ++count;
}

struct process *process_find(uint64_t pid, struct error *err)
{
    struct process *process = find(pid);
    if (process)
        return process;
    error_set(err, ERROR_NOT_FOUND, "no command with the process id %llu is known",
              (unsigned long long)pid);
    error_hint(err, "list the commands; only what was started as one is known, and after its end "
                    "only for a while");
    return NULL;
}

struct process *process_find_running(uint64_t pid, struct error *err)
{
    struct process *process = process_find(pid, err);
    if (!process || !process->ended)
        return process;
    error_set(err, ERROR_NOT_FOUND, "the command with the process id %llu has ended",
              (unsigned long long)pid);
    error_hint(err, "attach to it to see how");
    return NULL;
}

struct process *process_after(uint64_t serial)
{
    struct process *process = table;
    while (process && process->serial <= serial)
        process = process->next;
    return process;
}

int process_check_kept(struct error *err)
{
    size_t count = 0;
    for (const struct process *at = table; at; at = at->next)
        count += at->request.keep && !at->ended;
    if (count < PROCESS_KEPT_MAX)
        return 0;
    error_set(err, ERROR_LIMIT, "%d commands run in the background already", PROCESS_KEPT_MAX);
    return error_hint(err, "end some of them, or wait until they have ended");
}

/* Makes room for one more that has ended: the one that did so first is forgotten. */
static void limit_ended(void)
{
    struct process *first = NULL;
    size_t count = 0;
    for (struct process *at = table; at; at = at->next) {
        if (!at->ended || !at->timer.armed)
            continue;
        count++;
        if (!first || at->timer.due_ms < first->timer.due_ms)
            first = at;
    }
    if (count >= PROCESS_ENDED_MAX)
        forget(first);
}

/* ---- one of them ----------------------------------------------------------------------------- */

void process_remember(struct process *process)
{
    if (!process->tail)
        process->tail = tail_make(process->printed);
}

void process_signal(const struct process *process, uint64_t number)
{
    if (number == 0 || number >= NSIG || process->exited || process->ended)
        return;
    pid_t group = process->request.pty ? terminal_foreground(process->input) : process->pid;
    if (group <= 0)
        group = process->pid;
    /* It has no group of its own yet in its first moments. */
    if (kill(-group, (int)number) < 0)
        kill(process->pid, (int)number);
}

void process_resize(struct process *process, uint16_t rows, uint16_t cols)
{
    if (!process->request.pty || !rows || !cols || process->input < 0)
        return;
    process->request.rows = rows;
    process->request.cols = cols;
    terminal_resize(process->input, rows, cols);
}

void process_close_input(struct process *process)
{
    fd_close(process->input);
    process->input = -1;
    attachment_close_inputs(process);
}

void process_cancel(struct process *process)
{
    scope_kill(process->scope);
    struct outcome outcome = {.verdict = VERDICT_CANCELLED};
    process_end(process, &outcome);
}

static void release_means(struct process *process)
{
    loop_timer_stop(&process->timer);
    loop_child_forget(&process->child);
    loop_watch_stop(&process->report);
    fd_close(process->report.fd);
    process->report.fd = -1;
    process_close_input(process);
    for (int i = 0; i < 2; i++)
        output_abandon(&process->outputs[i]);
    if (process->scope)
        scope_release(process->scope);
    process->scope = NULL;
}

void process_left(struct process *process)
{
    if (process->ended && !process->request.keep && !process->attachments)
        forget(process);
}

void process_end(struct process *process, const struct outcome *outcome)
{
    release_means(process);
    process->ended = true;
    process->outcome = *outcome;
    process->outcome.killed = outcome->killed ? xstrdup(outcome->killed) : NULL;
    process->outcome.duration_us = clock_monotonic_us() - process->began_us;
    if (outcome->verdict == VERDICT_ERROR || !process->tail) {
        forget(process);
        return;
    }
    attachment_advance_all(process);
    if (!process->request.keep && !process->attachments) {
        forget(process);
        return;
    }
    limit_ended();
    loop_timer_start(&process->timer, PROCESS_ENDED_MS, forget, process);
}
