#include <stdio.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "base/progress.h"
#include "cli/command.h"
#include "cli/project_file.h"
#include "cli/project_start.h"
#include "cli/stop.h"
#include "project/plan.h"

static struct {
    const char *file;
    bool detach, quiet, fresh;
} options;

/* Takes the settings of those that are to be started out of the plan. */
static void fill_fleet(struct fleet *fleet, struct plan *plan, bool restarts)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_step *step = &plan->steps[i];
        if (!plan_starts(step, restarts))
            continue;
        fleet_add(fleet, step->sandbox)->config = step->config;
        step->config = (struct sandbox_config){0};
    }
    fleet->stays = !options.detach;
}

static int start(const struct project *project, struct plan *plan, bool restarts, int lock)
{
    struct fleet fleet = {0};
    fill_fleet(&fleet, plan, restarts);
    if (fleet.count > 0)
        return project_start(project, &fleet, lock);
    fd_close(lock);
    return 0;
}

static int report(const struct error *err)
{
    return report_error(err, cancel_signal() ? 128 + cancel_signal() : EXIT_FAILURE);
}

/* ---- up -------------------------------------------------------------------------------------- */

static int run_up(const struct arguments *arguments)
{
    struct error err;
    struct project project;
    struct plan plan = {0};
    int lock = -1;
    cancel_install();
    if (options.quiet)
        progress_silence();
    int result = project_open(options.file, &project, &err);
    if (result == 0)
        result = lock = project_lock(&project, &err);
    if (result >= 0)
        result = plan_make(&plan, &project, arguments->count ? arguments->words : NULL, &err);
    if (result == 0)
        result = plan_check(&plan, &project, false, options.fresh, &err);
    for (size_t i = 0; result == 0 && i < plan.count; i++) {
        if (plan.steps[i].action == PLAN_KEEP)
            printf("%s runs already\n", plan.steps[i].name);
        else if (plan.steps[i].action == PLAN_RESTART)
            printf("%s runs already, with other settings: \"msb apply\" restarts it\n",
                   plan.steps[i].name);
    }
    result = result < 0 ? report(&err) : start(&project, &plan, false, lock);
    plan_free(&plan);
    project_free(&project);
    return result;
}

/* ---- apply ----------------------------------------------------------------------------------- */

/* What goes, and what is to come back with other settings; those that others depend on last. */
static int stop_unwanted(const struct plan *plan, const char *namespace, struct error *err)
{
    for (size_t i = plan->count; i > 0; i--) {
        const struct plan_step *step = &plan->steps[i - 1];
        if (step->action != PLAN_STOP && step->action != PLAN_RESTART)
            continue;
        if (stop_sandbox(namespace, step->name, err) < 0 && err->code != ERROR_NOT_FOUND)
            return error_wrap(err, "%s", step->name);
        printf("stopped %s: %s\n", step->name,
               step->action == PLAN_STOP ? "it is not in the file any more"
                                         : "its settings have changed");
        fflush(stdout);
    }
    return 0;
}

static bool is_settled(const struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        if (plan->steps[i].action != PLAN_KEEP)
            return false;
    }
    return true;
}

static int run_apply(const struct arguments *arguments)
{
    struct error err;
    struct project project;
    struct plan plan = {0};
    int lock = -1;
    if (arguments->count) {
        error_set(&err, ERROR_INVALID, "msb apply is for the whole file and takes no names");
        error_hint(&err, "msb up NAME starts one");
        return report_error(&err, EXIT_USAGE);
    }
    cancel_install();
    if (options.quiet)
        progress_silence();
    int result = project_open(options.file, &project, &err);
    if (result == 0)
        result = lock = project_lock(&project, &err);
    if (result >= 0)
        result = plan_make(&plan, &project, NULL, &err);
    if (result == 0)
        result = plan_check(&plan, &project, true, options.fresh, &err);
    if (result == 0 && is_settled(&plan))
        printf("nothing to do\n");
    if (result == 0) {
        cleanup_free char *namespace = project_namespace(&project);
        result = stop_unwanted(&plan, namespace, &err);
    }
    result = result < 0 ? report(&err) : start(&project, &plan, true, lock);
    plan_free(&plan);
    project_free(&project);
    return result;
}

static const struct option option_table[] = {
    {'d', "detach", OPTION_FLAG, &options.detach, NULL,
     "return when all are ready, and let them go on"},
    {0, "fresh", OPTION_FLAG, &options.fresh, NULL,
     "throw away the files kept of those that are started"},
    {'q', "quiet", OPTION_FLAG, &options.quiet, NULL, "show no progress"},
    PROJECT_OPTION(&options.file),
    {0},
};

const struct command up_command = {
    .name = "up",
    .summary = "start the sandboxes of the project",
    .usage = "up [NAME…] [OPTIONS]",
    .argument = ARGUMENT_PROJECT,
    .description =
        "Starts the sandboxes of the Sandboxfile, or those named and all they depend on, each "
        "when\n"
        "those it depends on are ready and all others at the same time. In each runs its script\n"
        "\"start\", or else its command; one without either waits for msb run and msb shell. A\n"
        "sandbox is ready when its command runs and, if it has ports, when the first of them "
        "takes\n"
        "a connection. Sandboxes that run already are left alone. When one cannot be started,\n"
        "those that were started with it are stopped again. Each finds the files that its last "
        "run\n"
        "has left, unless --fresh is given.\n"
        "\n"
        "Without --detach it shows what they print, with the name in front of each line, until "
        "all\n"
        "commands have ended or Ctrl-C is typed; then it stops what it has started. The exit code\n"
        "is the first that was not 0.",
    .examples = "  msb up\n"
                "  msb up web --detach\n"
                "  msb down\n",
    .options = option_table,
    .run = run_up,
};

const struct command apply_command = {
    .name = "apply",
    .summary = "make the sandboxes that run those of the file",
    .usage = "apply [OPTIONS]",
    .description =
        "Starts sandboxes that are new in the Sandboxfile, restarts those whose settings, image "
        "or\n"
        "start command changed, stops those that are not in it any more, and tells what it did.\n"
        "A second time it does nothing. What was started is as with msb up.",
    .examples = "  msb apply --detach\n",
    .options = option_table,
    .run = run_apply,
};
