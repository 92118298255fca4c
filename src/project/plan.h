/* What has to be done so that the sandboxes that run are those that the file names. */
#pragma once

#include "project/project.h"

enum plan_action {
    PLAN_START,
    PLAN_RESTART, /* it runs with other settings */
    PLAN_KEEP,
    PLAN_STOP, /* it runs and the file does not name it any more */
};

struct plan_step {
    enum plan_action action;
    char *name;
    const struct project_sandbox *sandbox; /* NULL to stop */
    struct sandbox_config config;          /* as of project_settings; empty to stop */
};

struct plan {
    struct plan_step *steps; /* in the order of dependencies; what is to stop comes first */
    size_t count;
};

/* For those named and all they depend on; without names for the whole project. Images are made when
 * they are missing. plan_free also on failure. */
int plan_make(struct plan *plan, const struct project *project, char *const *names,
              struct error *err);
/*
 * Finds out what would fail later. Those that start find the files that were kept of them: with
 * `fresh` these are thrown away, without it is an error if they do not fit any more. No two that
 * will run may have the same port of the host.
 */
int plan_check(struct plan *plan, const struct project *project, bool restarts, bool fresh,
               struct error *err);
/* Whether it is to be started, by somebody who restarts what has changed or who does not. */
bool plan_starts(const struct plan_step *step, bool restarts);
void plan_free(struct plan *plan);
