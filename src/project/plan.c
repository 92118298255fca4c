#include "project/plan.h"

#include <string.h>

#include "base/mem.h"
#include "sandbox/kept.h"
#include "sandbox/state.h"

static struct plan_step *add_step(struct plan *plan, const char *name)
{
    plan->steps = xrealloc(plan->steps, (plan->count + 1) * sizeof *plan->steps);
    struct plan_step *step = &plan->steps[plan->count++];
    *step = (struct plan_step){.name = xstrdup(name)};
    return step;
}

/* One that is so new that it has no settings yet is left alone: somebody starts it just now. */
static enum plan_action compare(const struct sandbox_config *wanted)
{
    json_t *running = state_settings(wanted->namespace, wanted->name);
    const char *fingerprint = json_string_value(json_object_get(running, "fingerprint"));
    enum plan_action action = PLAN_RESTART;
    if (!running)
        action = PLAN_START;
    else if (json_object_size(running) == 0 ||
             (fingerprint && strcmp(fingerprint, wanted->fingerprint) == 0))
        action = PLAN_KEEP;
    json_decref(running);
    return action;
}

static bool is_named(const struct project *project, const char *name)
{
    for (size_t i = 0; i < project->count; i++) {
        if (strcmp(project->sandboxes[i].name, name) == 0)
            return true;
    }
    return false;
}

static int add_gone(struct plan *plan, const struct project *project, struct error *err)
{
    struct state_entry *entries;
    size_t count;
    cleanup_free char *namespace = project_namespace(project);
    if (state_list(namespace, &entries, &count, err) < 0)
        return -1;
    for (size_t i = 0; i < count; i++) {
        if (!is_named(project, entries[i].name))
            add_step(plan, entries[i].name)->action = PLAN_STOP;
    }
    state_list_free(entries, count);
    return 0;
}

int plan_make(struct plan *plan, const struct project *project, char *const *names,
              struct error *err)
{
    *plan = (struct plan){0};
    cleanup_free const struct project_sandbox **order = NULL;
    size_t count;
    int result = project_order(project, names, &order, &count, err);
    if (result == 0 && !names)
        result = add_gone(plan, project, err);
    for (size_t i = 0; result == 0 && i < count; i++) {
        struct plan_step *step = add_step(plan, order[i]->name);
        step->sandbox = order[i];
        result = project_settings(project, order[i], project_start_command(order[i]), &step->config,
                                  err);
        if (result == 0)
            step->action = compare(&step->config);
    }
    return result;
}

bool plan_starts(const struct plan_step *step, bool restarts)
{
    return step->action == PLAN_START || (restarts && step->action == PLAN_RESTART);
}

static bool has_port(const struct sandbox_config *config, const struct sandbox_port *port)
{
    for (size_t i = 0; i < config->port_count; i++) {
        const struct sandbox_port *own = &config->ports[i];
        if (own != port && own->host == port->host && strcmp(own->address, port->address) == 0)
            return true;
    }
    return false;
}

/* Among those up to and including this one. */
static int check_ports(const struct plan *plan, const struct plan_step *step, struct error *err)
{
    for (size_t i = 0; i < step->config.port_count; i++) {
        const struct sandbox_port *port = &step->config.ports[i];
        const struct plan_step *other = plan->steps;
        while (other < step && !has_port(&other->config, port))
            other++;
        if (port->host == 0 || !has_port(&other->config, port))
            continue;
        error_set(err, ERROR_INVALID, "port %u of %s is published by %s already", port->host,
                  port->address, other == step ? "it" : other->name);
        return error_hint(err, "choose another port, or 0 for any free one");
    }
    return 0;
}

int plan_check(struct plan *plan, const struct project *project, bool restarts, bool fresh,
               struct error *err)
{
    for (size_t i = 0; i < plan->count; i++) {
        struct plan_step *step = &plan->steps[i];
        step->config.fresh = fresh;
        if (!plan_starts(step, restarts))
            continue;
        if (check_ports(plan, step, err) < 0 || kept_check(&step->config, err) < 0)
            return project_wrong(project, step->sandbox, err);
    }
    return 0;
}

void plan_free(struct plan *plan)
{
    for (size_t i = 0; i < plan->count; i++) {
        free(plan->steps[i].name);
        sandbox_config_free(&plan->steps[i].config);
    }
    free(plan->steps);
    *plan = (struct plan){0};
}
