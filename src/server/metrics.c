/* GET /metrics: figures in the text format of Prometheus. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "server/context.h"
#include "server/keys.h"
#include "server/rpc.h"
#include "server/survey.h"

#define TYPE "text/plain; version=0.0.4; charset=utf-8"

struct page {
    struct server *server;
    struct buf text;
    const char *scope; /* the namespace whose figures are shown; NULL: all, and the server's own */
};

static void begin(struct page *page, const char *name, const char *type, const char *help)
{
    buf_printf(&page->text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static bool is_shown(const struct page *page, const char *namespace)
{
    return !page->scope || strcmp(page->scope, namespace) == 0;
}

/* The figures after `at` (NULL: from the first on) that may be seen. */
static const struct figures *next_shown(const struct page *page, const struct figures *at)
{
    at = at ? at->next : page->server->figures;
    while (at && !is_shown(page, at->namespace))
        at = at->next;
    return at;
}

#define EACH_SHOWN(page, at)                                                                       \
    const struct figures *(at) = next_shown(page, NULL);                                           \
    at;                                                                                            \
    (at) = next_shown(page, at)

static void show_calls(struct page *page)
{
    begin(page, "msb_calls_total", "counter", "Calls that are over, by method.");
    for (EACH_SHOWN(page, figures)) {
        for (size_t i = 0; rpc_methods[i].name; i++) {
            if (figures->calls[i])
                buf_printf(&page->text,
                           "msb_calls_total{namespace=\"%s\",method=\"%s\"} %" PRIu64 "\n",
                           figures->namespace, rpc_methods[i].name, figures->calls[i]);
        }
    }
    begin(page, "msb_call_errors_total", "counter", "Calls that ended with an error, by its code.");
    for (EACH_SHOWN(page, figures)) {
        for (size_t i = 0; rpc_codes[i]; i++) {
            if (figures->errors[i])
                buf_printf(&page->text,
                           "msb_call_errors_total{namespace=\"%s\",code=\"%d\"} %" PRIu64 "\n",
                           figures->namespace, (int)rpc_codes[i], figures->errors[i]);
        }
    }
}

static void show_tool(struct page *page, const struct figures *figures, size_t set, size_t which)
{
    static const char *const outcomes[] = {
        [MCP_DONE] = "done", [MCP_FAILED] = "failed", [MCP_CANCELLED] = "cancelled"};
    for (size_t i = 0; i < sizeof outcomes / sizeof outcomes[0]; i++) {
        uint64_t count = figures->tools[set][which][i];
        if (count)
            buf_printf(&page->text,
                       "msb_tool_calls_total{namespace=\"%s\",tool=\"%s\",outcome=\"%s\"} %" PRIu64
                       "\n",
                       figures->namespace, page->server->offers[set].tools[which].name, outcomes[i],
                       count);
    }
}

static void show_tools(struct page *page)
{
    begin(page, "msb_tool_calls_total", "counter", "Calls of tools for models that are over.");
    for (EACH_SHOWN(page, figures)) {
        for (size_t set = 0; set < FIGURES_TOOL_SETS; set++) {
            for (size_t i = 0; i < FIGURES_TOOLS; i++)
                show_tool(page, figures, set, i);
        }
    }
}

static void show_counter(struct page *page, const char *name, const char *help, size_t offset)
{
    begin(page, name, "counter", help);
    for (EACH_SHOWN(page, figures)) {
        const uint64_t *value = (const void *)((const char *)figures + offset);
        buf_printf(&page->text, "%s{namespace=\"%s\"} %" PRIu64 "\n", name, figures->namespace,
                   *value);
    }
}

static uint64_t count_of(const struct histogram *histogram)
{
    uint64_t count = 0;
    for (size_t i = 0; i <= FIGURES_BUCKETS; i++)
        count += histogram->counts[i];
    return count;
}

static void show_times(struct page *page, const char *name, const char *namespace,
                       const struct histogram *histogram)
{
    struct buf *text = &page->text;
    uint64_t count = count_of(histogram), so_far = 0;
    for (size_t i = 0; i < FIGURES_BUCKETS; i++) {
        so_far += histogram->counts[i];
        buf_printf(text, "%s_bucket{namespace=\"%s\",le=\"%g\"} %" PRIu64 "\n", name, namespace,
                   (double)figures_bounds[i] / 1e6, so_far);
    }
    buf_printf(text, "%s_bucket{namespace=\"%s\",le=\"+Inf\"} %" PRIu64 "\n", name, namespace,
               count);
    buf_printf(text, "%s_sum{namespace=\"%s\"} %.6f\n", name, namespace,
               (double)histogram->sum_us / 1e6);
    buf_printf(text, "%s_count{namespace=\"%s\"} %" PRIu64 "\n", name, namespace, count);
}

static void show_histogram(struct page *page, const char *name, const char *help, size_t offset)
{
    begin(page, name, "histogram", help);
    for (EACH_SHOWN(page, figures)) {
        const struct histogram *histogram = (const void *)((const char *)figures + offset);
        if (count_of(histogram) > 0)
            show_times(page, name, figures->namespace, histogram);
    }
}

static void show_namespaces(struct page *page)
{
    show_calls(page);
    show_tools(page);
    show_histogram(page, "msb_call_duration_seconds", "How long calls took.",
                   offsetof(struct figures, call_time));
    show_counter(page, "msb_received_bytes_total", "Bytes in the bodies of calls.",
                 offsetof(struct figures, bytes_in));
    show_counter(page, "msb_sent_bytes_total", "Bytes in the bodies of their answers.",
                 offsetof(struct figures, bytes_out));
    show_counter(page, "msb_sandbox_starts_total", "Sandboxes that this server started.",
                 offsetof(struct figures, starts));
    show_counter(page, "msb_sandbox_start_failures_total", "Sandboxes that could not be started.",
                 offsetof(struct figures, failed_starts));
    show_histogram(page, "msb_sandbox_start_duration_seconds",
                   "How long it took until a sandbox was ready.",
                   offsetof(struct figures, start_time));
}

static void show_number(struct page *page, const char *name, const char *type, const char *help,
                        double value)
{
    begin(page, name, type, help);
    buf_printf(&page->text, "%s %.15g\n", name, value);
}

static void show_pool(struct page *page, const struct pool_counts *pool)
{
    show_number(page, "msb_pool_stock", "gauge", "Sandboxes made ahead that wait.",
                (double)pool->stock);
    show_number(page, "msb_pool_hits_total", "counter", "Starts that took one of them.",
                (double)pool->hits);
    show_number(page, "msb_pool_misses_total", "counter", "Starts that found none.",
                (double)pool->misses);
    show_number(page, "msb_pool_made_total", "counter", "Sandboxes made ahead so far.",
                (double)pool->made);
    show_number(page, "msb_pool_dropped_total", "counter", "Of these, given up or dead.",
                (double)pool->dropped);
}

static void show_server(struct page *page)
{
    const struct server *server = page->server;
    double uptime = (double)(clock_monotonic_us() - server->began_us) / 1e6;
    begin(page, "msb_build_info", "gauge", "The version of the server.");
    buf_printf(&page->text, "msb_build_info{version=\"%s\"} 1\n", MSB_VERSION);
    show_number(page, "msb_uptime_seconds", "gauge", "How long the server has run.", uptime);
    show_pool(page, pools_counts(server->boxes.pools));
    show_number(page, "msb_connections", "gauge", "Open connections.",
                (double)server->http.connection_count);
    show_number(page, "msb_connections_total", "counter", "Connections so far.",
                (double)server->http.accepted);
    begin(page, "msb_http_answers_total", "counter", "Answers, by their HTTP status.");
    for (size_t i = 0; i < SERVER_STATUSES; i++) {
        if (server->answers[i])
            buf_printf(&page->text, "msb_http_answers_total{status=\"%zu\"} %" PRIu64 "\n", i,
                       server->answers[i]);
    }
}

static const char *text_of(const json_t *status, const char *key, const char *otherwise)
{
    const char *text = json_string_value(json_object_get(status, key));
    return text ? text : otherwise;
}

static bool is_same_kind(const struct survey_entry *a, const struct survey_entry *b)
{
    return strcmp(a->namespace, b->namespace) == 0 &&
           strcmp(text_of(a->status, "engine", ""), text_of(b->status, "engine", "")) == 0 &&
           strcmp(text_of(a->status, "state", ""), text_of(b->status, "state", "")) == 0;
}

/* Told once for each kind, by the first of it. */
static void show_kind(struct page *page, const struct survey *survey, size_t first)
{
    const struct survey_entry *entry = &survey->entries[first];
    size_t count = 1;
    for (size_t i = 0; i < survey->count; i++) {
        bool same = i != first && is_same_kind(entry, &survey->entries[i]);
        if (same && i < first)
            return;
        count += same;
    }
    buf_printf(&page->text, "msb_sandboxes{namespace=\"%s\",engine=\"%s\",state=\"%s\"} %zu\n",
               entry->namespace, text_of(entry->status, "engine", "unknown"),
               text_of(entry->status, "state", "unresponsive"), count);
}

static void show_sandboxes(struct page *page, const struct survey *survey)
{
    size_t starting = 0;
    begin(page, "msb_sandboxes", "gauge", "Sandboxes that there are, whoever started them.");
    for (size_t i = 0; i < survey->count; i++)
        show_kind(page, survey, i);
    for (const struct box *box = page->server->boxes.first; box; box = box->next)
        starting += !box->is_ready && is_shown(page, box->namespace);
    show_number(page, "msb_sandboxes_starting", "gauge", "Sandboxes that are being started.",
                (double)starting);
}

static void on_surveyed(struct survey *survey, const struct error *err)
{
    struct http_request *request = survey->context;
    bool all = strcmp(request->scope, KEY_ALL_NAMESPACES) == 0;
    struct page page = {.server = request->server->context, .scope = all ? NULL : request->scope};
    if (!err)
        show_sandboxes(&page, survey);
    show_namespaces(&page);
    if (all)
        show_server(&page);
    http_answer(request, 200, TYPE, buf_data(&page.text), buf_length(&page.text));
    buf_free(&page.text);
}

static void on_gone(struct http_request *request)
{
    struct survey *survey = request->context;
    survey->done = NULL;
}

void metrics_handle(struct http_request *request)
{
    struct server *server = request->server->context;
    bool all = strcmp(request->scope, KEY_ALL_NAMESPACES) == 0;
    request->gone = on_gone;
    request->context =
        survey_begin(&server->boxes, all ? NULL : request->scope, NULL, on_surveyed, request);
}
