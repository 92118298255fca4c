#include <unistd.h>

#include "base/clock.h"
#include "sandbox/keeper_internal.h"
#include "sandbox/start_command.h"

/* The machine's load is measured over at least this time. */
#define LOAD_US 100000

/* Between two questions, or since the start; nobody has to keep time for that. */
static void measure_load(struct keeper *keeper, uint64_t now_us, uint64_t cpu_us)
{
    uint64_t passed = now_us - keeper->load.time_us;
    if (passed < LOAD_US)
        return;
    keeper->load.percent = 100.0 * (double)(cpu_us - keeper->load.cpu_us) / (double)passed;
    keeper->load.time_us = now_us;
    keeper->load.cpu_us = cpu_us;
}

static json_t *usage_to_json(struct keeper *keeper)
{
    uint64_t now_us = clock_monotonic_us();
    struct machine_usage usage = machine_usage(keeper->machine);
    usage.cpu_us -= keeper->cpu_us;
    measure_load(keeper, now_us, usage.cpu_us);
    json_t *json =
        json_pack("{s:I, s:I, s:f, s:I}", "uptime_us", (json_int_t)(now_us - keeper->began_us),
                  "cpu_us", (json_int_t)usage.cpu_us, "cpu_percent", keeper->load.percent,
                  "host_memory", (json_int_t)usage.memory_bytes);
    if (usage.knows_disk)
        json_object_set_new(json, "disk_bytes", json_integer((json_int_t)usage.disk_bytes));
    return json;
}

static json_t *timing_to_json(const struct timing *timing)
{
    json_t *json = json_object();
    for (unsigned i = 0; i < timing->count; i++)
        json_object_set_new(json, timing->steps[i].name,
                            json_integer((json_int_t)timing->steps[i].us));
    return json;
}

char *keeper_start_report(const struct keeper *keeper)
{
    json_t *json = json_pack("{s:s, s:s, s:s, s:o}", "engine", keeper->config.engine, "accelerator",
                             machine_accelerator(keeper->machine), "guest_kernel",
                             machine_kernel(keeper->machine), "start_steps_us",
                             timing_to_json(&keeper->timing));
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}

char *keeper_status(struct keeper *keeper)
{
    json_t *json = sandbox_config_to_json(&keeper->config);
    json_t *more = json_pack(
        "{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "state",
        keeper->paused ? "paused" : "running", "accelerator", machine_accelerator(keeper->machine),
        "guest_kernel", machine_kernel(keeper->machine), "started_us",
        (json_int_t)keeper->started_us, "keeper_pid", (json_int_t)getpid(), "machine_pid",
        (json_int_t)machine_process(keeper->machine), "operations", (json_int_t)keeper->active,
        "network_received", (json_int_t)keeper->network.received, "network_sent",
        (json_int_t)keeper->network.sent);
    json_object_update_new(json, more);
    json_object_update_new(json, usage_to_json(keeper));
    json_object_set_new(json, "start_steps_us", timing_to_json(&keeper->timing));
    start_command_describe(keeper, json);
    char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    return text;
}
