#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/attach_internal.h"
#include "cli/command.h"
#include "cli/results.h"

static int show(struct attachment *a, enum channel channel, const uint8_t *bytes, size_t length)
{
    if (a->request->json) {
        collect_take(&a->answer, channel, bytes, length);
        return 0;
    }
    if (channel == CHANNEL_RESULTS)
        return results_take(&a->records, bytes, length);
    return file_write_all(channel == CHANNEL_STDERR ? STDERR_FILENO : STDOUT_FILENO, bytes, length);
}

/* Blocks while our own reader is slow: the sandbox gets no credit meanwhile and waits too. */
void attach_on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    struct attachment *a = call->context;
    if (!a->first_output)
        a->first_output = clock_monotonic_us();
    if (channel != CHANNEL_RESULTS)
        a->shown += length;
    int failed = show(a, channel, bytes, length);
    if (failed && !a->write_error) {
        a->write_error = errno;
        if (attach_joins(a))
            call_detach(call);
        else
            call_cancel(call);
    }
    call_consumed(call, length);
}

/* As for any program whose reader went away or whose disk is full. */
static int unwritable(int reason)
{
    struct error err;
    if (reason == EPIPE)
        return 128 + SIGPIPE;
    error_errno(&err, reason, "cannot write the output");
    return report_error(&err, EXIT_FAILURE);
}

int attach_judge(struct attachment *a, const struct outcome *outcome)
{
    struct error err = outcome->error;
    uint64_t limit_ms = attach_joins(a) ? outcome->duration_us / 1000 : a->request->timeout_ms;
    switch (outcome->verdict) {
    case VERDICT_DONE:
    case VERDICT_EXITED:
        return a->write_error ? unwritable(a->write_error) : outcome->exit_code;
    case VERDICT_SIGNALED:
        return 128 + outcome->signal;
    case VERDICT_TIMEOUT:
        error_set(&err, ERROR_TIMEOUT, "it took longer than %g s and was ended with all it started",
                  (double)limit_ms / 1000.0);
        error_hint(&err, "give it more time with --timeout");
        return report_error(&err, EXIT_TIMED_OUT);
    case VERDICT_MEMORY:
        error_set(&err, ERROR_LIMIT, "%s was killed: the sandbox had no memory left",
                  outcome->killed ? outcome->killed : "it");
        error_hint(&err, "give it more with --memory");
        return report_error(&err, 128 + SIGKILL);
    case VERDICT_CANCELLED:
        return a->write_error ? unwritable(a->write_error) : 128 + SIGINT;
    default:
        return report_error(&err, outcome->exit_code > 1 ? outcome->exit_code : EXIT_SANDBOX);
    }
}

static void tell_left(const struct attachment *a, const struct outcome *outcome)
{
    uint64_t due = a->joined_at + a->shown;
    if (outcome->verdict == VERDICT_DONE)
        fprintf(stderr, "\nThe command goes on.\n");
    else if (outcome->output_bytes > due)
        fprintf(stderr,
                "msb: %" PRIu64 " bytes of the output were missed: it came faster than it was "
                "read here\n",
                outcome->output_bytes - due);
}

static void print_answer(struct attachment *a, const struct outcome *outcome)
{
    collect_finish(&a->answer);
    json_t *json = collect_json(&a->answer, outcome);
    if (json_dumpf(json, stdout, JSON_INDENT(2)) < 0 || printf("\n") < 0 || fflush(stdout) != 0)
        a->write_error = errno;
    json_decref(json);
}

/* What a limit took away from a command that went on all the same. */
static void tell_limits(const struct attachment *a, const struct outcome *outcome)
{
    if (outcome->output_bytes)
        fprintf(stderr,
                "msb: output cut: %" PRIu64 " of %" PRIu64 " bytes shown (--output-limit)\n",
                a->shown, outcome->output_bytes);
    if (outcome->killed && outcome->verdict != VERDICT_MEMORY)
        fprintf(stderr, "msb: %s was killed: the sandbox had no memory left (--memory)\n",
                outcome->killed);
}

void attach_conclude(struct attachment *a, const struct outcome *outcome)
{
    if (a->request->json)
        print_answer(a, outcome);
    if (attach_joins(a))
        tell_left(a, outcome);
    else if (a->working)
        tell_limits(a, outcome);
}

void attach_tell_place(const struct attachment *a)
{
    if (!a->request->verbose || !a->ready)
        return;
    fprintf(stderr, "Ran in a sandbox of its own: %s.\n", a->place);
    fprintf(stderr, "Ready after %.0f ms, ", (double)(a->ready - a->began) / 1000.0);
    if (a->first_output)
        fprintf(stderr, "first output after %.0f ms, ",
                (double)(a->first_output - a->began) / 1000.0);
    fprintf(stderr, "done after %.0f ms.\n", (double)(a->done - a->began) / 1000.0);
}
