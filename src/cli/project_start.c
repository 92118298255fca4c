#include "cli/project_start.h"

#include <string.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/home.h"
#include "base/lock.h"
#include "base/mem.h"
#include "cli/command.h"
#include "cli/prefix.h"
#include "cli/usage.h"
#include "sandbox/launch.h"
#include "sandbox/state.h"

/* The fleet's context. */
struct show {
    const struct project *project;
    struct prefix (*prefixes)[2]; /* by member: its stdout and its stderr */
    size_t ready;
    int lock;
};

static struct prefix *prefix_of(const struct fleet_member *member, enum channel channel)
{
    const struct show *show = member->fleet->context;
    return &show->prefixes[member - member->fleet->members][channel == CHANNEL_STDERR];
}

static void on_ready(struct fleet_member *member)
{
    json_t *settings = state_settings(member->config.namespace, member->config.name);
    cleanup_free char *ports = usage_ports(settings);
    json_decref(settings);
    bool has_ports = strcmp(ports, "-") != 0;
    printf("started %s%s%s\n", member->sandbox->name, has_ports ? ", ports " : "",
           has_ports ? ports : "");
    fflush(stdout);
    struct show *show = member->fleet->context;
    if (++show->ready == member->fleet->count)
        fd_close(steal_fd(&show->lock));
}

static void on_output(struct fleet_member *member, enum channel channel, const uint8_t *bytes,
                      size_t length)
{
    if (member->fleet->stays)
        prefix_take(prefix_of(member, channel), bytes, length);
}

static void on_ended(struct fleet_member *member, const struct outcome *outcome)
{
    const char *name = member->sandbox->name;
    prefix_finish(prefix_of(member, CHANNEL_STDOUT));
    prefix_finish(prefix_of(member, CHANNEL_STDERR));
    if (!member->fleet->stays)
        return;
    if (outcome->verdict == VERDICT_SIGNALED)
        printf("%s was ended by signal %d\n", name, outcome->signal);
    else if (outcome->verdict == VERDICT_MEMORY)
        printf("%s was killed: the sandbox had no memory left\n", name);
    else if (outcome->verdict == VERDICT_ERROR)
        printf("%s: %s\n", name, outcome->error.message);
    else
        printf("%s ended with exit code %d\n", name, outcome->exit_code);
    fflush(stdout);
}

static void on_failed(struct fleet_member *member, const struct error *err)
{
    struct error told = *err;
    const struct show *show = member->fleet->context;
    project_wrong(show->project, member->sandbox, &told);
    report_error(&told, EXIT_SANDBOX);
}

static struct show *begin_show(const struct project *project, const struct fleet *fleet, int lock)
{
    int width = 0;
    struct show *show = xcalloc(1, sizeof *show);
    show->project = project;
    show->lock = lock;
    show->prefixes = xcalloc(fleet->count, sizeof *show->prefixes);
    for (size_t i = 0; i < fleet->count; i++) {
        int length = (int)strlen(fleet->members[i].sandbox->name);
        width = length > width ? length : width;
    }
    for (size_t i = 0; i < 2 * fleet->count; i++)
        show->prefixes[i / 2][i % 2] = (struct prefix){.to = i % 2 ? stderr : stdout,
                                                       .name = fleet->members[i / 2].sandbox->name,
                                                       .width = width,
                                                       .n = i / 2};
    return show;
}

static void end_show(const struct fleet *fleet)
{
    struct show *show = fleet->context;
    for (size_t i = 0; i < 2 * fleet->count; i++)
        prefix_finish(&show->prefixes[i / 2][i % 2]);
    free(show->prefixes);
    fd_close(show->lock);
    free(show);
}

int project_lock(const struct project *project, struct error *err)
{
    cleanup_free char *namespace = project_namespace(project);
    cleanup_free char *folder = home_path("logs/%s", namespace);
    cleanup_free char *path = xasprintf("%s/.lock", folder);
    int result = folder_make(folder, 0700, err);
    return result < 0 ? result : lock_wait(path, "starts sandboxes of this project", err);
}

void project_tell_loss(const struct sandbox_config *config)
{
    if (!config->keep)
        fprintf(stderr, "msb: what %s writes ends with it: engine %s keeps files for root only\n",
                config->name, config->engine);
}

static int prepare(struct fleet *fleet, struct error *err)
{
    for (size_t i = 0; i < fleet->count; i++) {
        struct fleet_member *member = &fleet->members[i];
        member->config.attached = fleet->stays;
        project_tell_loss(&member->config);
        if (launch_prepare(&member->config, err) < 0)
            return error_wrap(err, "%s", member->sandbox->name);
    }
    state_sweep();
    if (cancel_requested())
        return cancel_error(err);
    return fleet_fork(fleet, err);
}

static int judge(const struct fleet *fleet)
{
    if (fleet->has_failed)
        return EXIT_SANDBOX;
    if (fleet->signal)
        return 128 + fleet->signal;
    return fleet->stays ? fleet->exit_code : 0;
}

int project_start(const struct project *project, struct fleet *fleet, int lock)
{
    static const struct fleet_events events = {
        .ready = on_ready, .output = on_output, .ended = on_ended, .failed = on_failed};
    struct error err;
    int result;
    fleet->events = &events;
    if (prepare(fleet, &err) < 0) {
        result = report_error(&err, cancel_signal() ? 128 + cancel_signal() : EXIT_SANDBOX);
    } else {
        fleet->context = begin_show(project, fleet, steal_fd(&lock));
        fleet_run(fleet);
        end_show(fleet);
        result = judge(fleet);
    }
    fd_close(lock);
    fleet_free(fleet);
    return result;
}
