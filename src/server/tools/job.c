#include "server/tools/job.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/utf8.h"
#include "server/tools/internal.h"

#define PROGRESS_MS 5000
/* Work that nobody asks for ends. */
#define LEFT_MS (15u * 60 * 1000)
#define LEFT_MAX 32
#define PRINTED_MAX (16u << 10)
#define LINE_SHOWN 200

static void on_closed(uv_handle_t *timer)
{
    struct job *job = timer->data;
    buf_free(&job->printed);
    free(job->base);
    json_decref(job->arguments);
    json_decref(job->result);
    free(job);
}

static void forget(struct job *job)
{
    struct job **at = &job->server->jobs;
    while (*at != job)
        at = &(*at)->next_job;
    *at = job->next_job;
    uv_close((uv_handle_t *)&job->timer, on_closed);
}

static void drop(struct job *job)
{
    if (!job->is_over)
        job->abandon(job);
    forget(job);
}

static void on_left_for_long(uv_timer_t *timer)
{
    drop(timer->data);
}

void jobs_end(struct server *server)
{
    while (server->jobs) {
        struct job *job = server->jobs;
        struct mcp_call *call = steal_pointer(&job->call);
        drop(job);
        if (!call)
            continue;
        call->cancelled = NULL;
        mcp_succeed(call, answer_error("the server ends, and the work with it",
                                       "run it again in a moment: sandboxes and sessions go on"));
    }
}

/* The newest are in front. */
static void end_surplus(struct server *server)
{
    struct job *last = NULL;
    size_t count = 0;
    for (struct job *at = server->jobs; at; at = at->next_job) {
        if (at->call)
            continue;
        last = at;
        count++;
    }
    if (count > LEFT_MAX)
        drop(last);
}

/* ---- while somebody waits ------------------------------------------------------------------- */

static void on_cancelled(struct mcp_call *call)
{
    struct job *job = call->context;
    job->call = NULL;
    drop(job);
}

/* The last line that is not empty, for free(). */
static char *last_line(const struct job *job)
{
    cleanup_buf struct buf line = {0};
    const char *text = (const char *)buf_data(&job->printed);
    size_t end = buf_length(&job->printed);
    while (end > 0 && (text[end - 1] == '\n' || text[end - 1] == '\r'))
        end--;
    size_t start = end;
    while (start > 0 && text[start - 1] != '\n' && text[start - 1] != '\r' &&
           end - start < LINE_SHOWN)
        start--;
    utf8_append_valid(&line, (const uint8_t *)text + start, end - start);
    return xstrdup(buf_text(&line));
}

static uint64_t seconds_of(const struct job *job)
{
    return (clock_monotonic_ms() - job->began_ms) / 1000;
}

static void on_progress(uv_timer_t *timer)
{
    struct job *job = timer->data;
    cleanup_free char *line = buf_length(&job->printed) > 0 ? last_line(job) : NULL;
    uint64_t seconds = seconds_of(job);
    cleanup_free char *text =
        line ? xstrdup(line) : xasprintf("running for %llu seconds", (unsigned long long)seconds);
    mcp_progress(job->call, (double)seconds, 0, text);
}

static json_t *describe_unfinished(const struct job *job)
{
    cleanup_buf struct buf text = {0};
    const char *tool = mcp_offer(job->call->mcp)->tools == job->server->offers[TOOLS_SESSIONS].tools
                           ? "execute_command"
                           : "sandbox_run_command";
    utf8_append_valid(&text, buf_data(&job->printed), buf_length(&job->printed));
    if (buf_length(&text) > 0 && buf_data(&text)[buf_length(&text) - 1] != '\n')
        buf_append_text(&text, "\n");
    buf_printf(&text,
               "[still running after %llu seconds; above is what it printed last. To wait for the "
               "rest, call %s with {\"continue\": \"%s\"}]",
               (unsigned long long)seconds_of(job), tool, job->handle);
    return answer_text(buf_text(&text));
}

static void on_late(uv_timer_t *timer)
{
    struct job *job = timer->data;
    json_t *answer = describe_unfinished(job);
    struct mcp_call *call = steal_pointer(&job->call);
    call->cancelled = NULL;
    uv_timer_start(timer, on_left_for_long, LEFT_MS, 0);
    mcp_succeed(call, answer);
    end_surplus(job->server);
}

static void attend(struct job *job, struct mcp_call *call)
{
    job->call = call;
    call->context = job;
    call->cancelled = on_cancelled;
    if (mcp_wants_progress(call)) {
        uv_timer_start(&job->timer, on_progress, PROGRESS_MS, PROGRESS_MS);
        return;
    }
    uv_timer_start(&job->timer, on_late, job->server->session_settings.answer_s * 1000, 0);
}

struct job *job_begin(struct mcp_call *call, const json_t *arguments, const char *namespace)
{
    uint64_t number;
    struct job *job = xcalloc(1, sizeof *job);
    if (getrandom(&number, sizeof number, 0) != sizeof number)
        abort();
    job->server = tools_server(call);
    job->began_ms = clock_monotonic_ms();
    job->arguments = json_deep_copy(arguments);
    snprintf(job->handle, sizeof job->handle, "job_%016llx", (unsigned long long)number);
    snprintf(job->scope, sizeof job->scope, "%s", call->scope);
    snprintf(job->namespace, sizeof job->namespace, "%s", namespace);
    job->base = call->base ? xstrdup(call->base) : NULL;
    job->next_job = job->server->jobs;
    job->server->jobs = job;
    uv_timer_init(&job->server->loop, &job->timer);
    job->timer.data = job;
    attend(job, call);
    return job;
}

void job_print(struct job *job, const uint8_t *bytes, size_t length)
{
    if (length > PRINTED_MAX) {
        bytes += length - PRINTED_MAX;
        length = PRINTED_MAX;
    }
    buf_append(&job->printed, bytes, length);
    if (buf_length(&job->printed) > PRINTED_MAX)
        buf_consume(&job->printed, buf_length(&job->printed) - PRINTED_MAX);
}

void job_end(struct job *job, json_t *result)
{
    struct mcp_call *call = steal_pointer(&job->call);
    job->is_over = true;
    if (!call) {
        json_decref(job->result);
        job->result = result;
        return;
    }
    call->cancelled = NULL;
    forget(job);
    mcp_succeed(call, result);
}

void job_continue(struct mcp_call *call, const char *handle)
{
    struct job *job = tools_server(call)->jobs;
    while (job && (strcmp(job->handle, handle) != 0 || strcmp(job->scope, call->scope) != 0))
        job = job->next_job;
    if (!job || job->call) {
        mcp_succeed(call, answer_error(job ? "another call waits for it already"
                                           : "there is no such work, or no more",
                                       "run it again"));
        return;
    }
    if (!job->is_over) {
        attend(job, call);
        return;
    }
    json_t *result = steal_pointer(&job->result);
    forget(job);
    mcp_succeed(call, result);
}
