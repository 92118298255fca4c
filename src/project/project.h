/*
 * A project: a folder with a Sandboxfile, which names sandboxes and says how each is to be.
 * docs/projects.md describes the file. Whatever is wrong with it is told with its line and column.
 */
#pragma once

#include "base/error.h"
#include "sandbox/config.h"

#define PROJECT_FILE "Sandboxfile"

struct project_script {
    char *name, *text;
};

/* What the file says; NULL and 0 where it says nothing. */
struct project_sandbox {
    char *name;
    unsigned line, column; /* of the name, from 1 */
    char *image;
    char *workdir, *shell, *user, *engine;
    char *scope; /* none, group, public or any */
    unsigned memory_mb, cpus, disk_mb;
    char **volumes, **ports, **envs, **env_files;
    char **depends_on, **groups;
    char **command;
    struct project_script *scripts;
    size_t script_count;
};

struct project {
    char *folder;
    char *file;
    struct project_sandbox *sandboxes; /* in the order of the file */
    size_t count;
    char **warnings; /* what is not understood and left alone */
};

/* The file of a folder, or the file itself; NULL: of the current folder. For free(). */
char *project_find(const char *where, struct error *err);
/* Reads and checks it. project_free also on failure. */
int project_load(const char *file, struct project *project, struct error *err);
/* The same for what the file is to hold. */
int project_parse(const char *file, const char *text, struct project *project, struct error *err);
void project_free(struct project *project);
/* What one points to. */
void project_free_sandbox(struct project_sandbox *sandbox);

/* NULL: there is none of that name. */
const struct project_sandbox *project_sandbox(const struct project *project, const char *name,
                                              struct error *err);
/* Puts its place in the file in front of the error. */
int project_wrong(const struct project *project, const struct project_sandbox *sandbox,
                  struct error *err);
/* The text of a script, or NULL. */
const char *project_script(const struct project_sandbox *sandbox, const char *name);

/* Those named, or all without names, with all that they depend on, each after its dependencies. An
 * array for free(). */
int project_order(const struct project *project, char *const *names,
                  const struct project_sandbox ***order, size_t *count, struct error *err);

/* The namespace that the project's sandboxes run in: from its folder's name and place. For free().
 */
char *project_namespace(const struct project *project);
/* Everything but the image's own settings. */
int project_config(const struct project *project, const struct project_sandbox *sandbox,
                   struct sandbox_config *config, struct error *err);

/* HOST:GUEST, or one number for both. */
int project_add_port(struct sandbox_config *config, const char *text, struct error *err);
/* The ports of others of its groups; for project_config. */
int project_add_peers(const struct project *project, const struct project_sandbox *sandbox,
                      struct sandbox_config *config, struct error *err);

/* What is asked for beyond the name of a sandbox. */
struct project_wish {
    const char *exec;   /* a line for the shell, or NULL */
    const char *script; /* the name of one, or NULL */
    char *const *args;  /* go behind the command; may be NULL */
};

/* What runs in the sandbox then, for strv_free: the first there is of the line, the named script,
 * the script "start", the command, the shell. NULL: there is none of them. */
char **project_command(const struct project *project, const struct project_sandbox *sandbox,
                       const struct project_wish *wish, struct error *err);
/* What it is started for: the script "start", or the command. NULL: for nothing of its own. */
char **project_start_command(const struct project_sandbox *sandbox);

/* All settings, with those of the image, which is made when it is missing. Takes `start` over. */
int project_settings(const struct project *project, const struct project_sandbox *sandbox,
                     char **start, struct sandbox_config *config, struct error *err);
/* Where the output of a sandbox is written down. For free(). */
char *project_log_folder(const char *namespace, const char *name);

/* ---- editing: comments and order stay as they are ------------------------------------------- */

/* The file's text with the sandbox at the end of the others. For free(). */
char *sandboxfile_with(const char *file, const char *text, const struct project_sandbox *sandbox,
                       struct error *err);
/* The file's text without it. For free(). */
char *sandboxfile_without(const char *file, const char *text, const char *name, struct error *err);
