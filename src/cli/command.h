/*
 * Commands of the msb program. Each file in this folder defines one `struct command`; main.c lists
 * them. Options are tables: parsing, checking and --help all come from there.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum option_kind {
    OPTION_FLAG,     /* bool */
    OPTION_TEXT,     /* const char * */
    OPTION_LIST,     /* char **, may be repeated */
    OPTION_COUNT,    /* unsigned */
    OPTION_MEGABYTE, /* unsigned; 512, 512M, 2G */
    OPTION_BYTES,    /* uint64_t; 1000, 64K, 64M, 2G */
    OPTION_SECONDS,  /* uint64_t, in milliseconds; 1.5, 30s, 5m, 2h */
};

struct option {
    char letter; /* 0: none */
    const char *name;
    enum option_kind kind;
    void *target;
    const char *value; /* what stands for the value in --help; NULL for flags */
    const char *help;
};

struct arguments {
    char **words; /* what is no option */
    size_t count;
    char **command; /* what follows "--", NULL-terminated; NULL when there is no "--" */
};

/* What the words of a command name, for completion. */
enum argument_kind {
    ARGUMENT_OTHER,
    ARGUMENT_PROJECT, /* sandboxes of the project */
    ARGUMENT_SANDBOX, /* sandboxes that run */
    ARGUMENT_KEPT,    /* sandboxes whose files are kept */
    ARGUMENT_SNAPSHOT,
    ARGUMENT_IMAGE,
};

struct command {
    const char *name;    /* one word or two */
    const char *alias;   /* another name of one word, or NULL */
    const char *summary; /* one line for the list of commands */
    const char *usage;   /* what follows "msb" */
    enum argument_kind argument;
    const char *description;      /* paragraphs for --help */
    const char *examples;         /* lines for --help */
    const struct option *options; /* ends with a NULL name */
    int (*run)(const struct arguments *arguments);
};

/* Exit codes of our own, apart from those of what ran inside; the same as docker's. */
enum { EXIT_USAGE = 2, EXIT_TIMED_OUT = 124, EXIT_SANDBOX = 125 };

int command_parse(const struct command *command, int argc, char **argv, struct arguments *arguments,
                  struct error *err);
void command_help(const struct command *command);

/* "msb: …" on stderr with the hint below; returns the exit code for it. */
int report_error(const struct error *err, int exit_code);

extern const struct command init_command, add_command, remove_command, list_command, up_command,
    down_command, apply_command, status_command, run_command, shell_command, log_command,
    clean_command, install_command, uninstall_command, exe_command, exec_command, ps_command,
    stop_command, pause_command, resume_command, fork_command, snapshot_command, snapshots_command,
    restore_command, kept_command, contexts_command, metrics_command, packages_command,
    prepare_command, pull_command, images_command, rmi_command, image_inspect_command,
    image_import_command, image_export_command, login_command, logout_command, doctor_command,
    completion_command, version_command, server_start_command, server_stop_command,
    server_status_command, server_log_command, server_keygen_command, server_launcher_command,
    unpack_command, mcp_command;
