/* What a sandbox was asked to be. Travels as JSON to its keeper and stays in its state folder. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "engine/engine.h"

#define SANDBOX_DEFAULT_CPUS 1
#define SANDBOX_DEFAULT_MEMORY_MB 1024
#define SANDBOX_DEFAULT_DISK_MB 8192
#define SANDBOX_DEFAULT_PROCESSES 1024
#define SANDBOX_DEFAULT_OPEN_FILES 65536
#define SANDBOX_DEFAULT_OUTPUT_LIMIT (64ull << 20)
#define SANDBOX_DEFAULT_NAMESPACE "default"
#define SANDBOX_DEFAULT_ENGINE "vm"

struct sandbox_volume {
    char *host;  /* absolute */
    char *guest; /* absolute */
    bool read_only;
};

struct sandbox_port {
    char *address; /* of the host, as a number */
    uint16_t host; /* 0: any free one */
    uint16_t guest;
};

struct sandbox_config {
    char *namespace;
    char *name;
    char *engine;
    char *image; /* reference, as a person knows it */
    char *image_digest;
    char *image_path;
    char *language; /* of the warm context; NULL when the image has none */
    char *image_user;
    char *image_workdir;
    char *user;        /* who runs commands; NULL: the image's */
    char *kernel;      /* NULL: Debian's */
    char *accelerator; /* NULL: the best one */
    char *workdir;     /* NULL: the image's */
    char *fork_of;     /* a copy of this running sandbox, with its settings; or NULL */
    char *snapshot;    /* a copy of what was saved under this name, with its settings; or NULL */
    char *log_folder;  /* where its output is written down; NULL: in its state folder */
    char *fingerprint; /* of the settings that were asked for: whoever compares them sets it */
    char **start;      /* what its keeper runs in it from the beginning on; NULL: nothing */
    char **image_env;  /* NAME=value, as the image has it */
    char **env;        /* NAME=value, wins over the image's */
    struct sandbox_volume *volumes;
    size_t volume_count;
    struct sandbox_port *ports;
    size_t port_count;
    char **peers;  /* NAME:PORT, ports of others of its namespace that it may connect to; or NULL */
    char **egress; /* where the inside may connect to, as in egress_policy.h; NULL: nowhere */
    unsigned cpus;
    unsigned memory_mb;
    unsigned disk_mb;
    unsigned files;        /* how many the disk can hold; 0: one for each 16 KB of it */
    unsigned processes;    /* at once, threads included */
    unsigned open_files;   /* of each process */
    unsigned cpu_limit;    /* percent of one processor of the host; 0: what the CPUs can use */
    uint64_t output_limit; /* bytes passed on of a call that says nothing itself; 0: all */
    uint64_t idle_ms;      /* ends after so long without a call; 0: never */
    uint64_t lifetime_ms;  /* ends after so long; 0: never */
    bool keep;             /* its files are found again by the next sandbox of that name */
    bool fresh;            /* …but not those of earlier ones */
    bool attached;         /* ends when whoever started it goes away */
};

/* Defaults; everything else empty. */
void sandbox_config_init(struct sandbox_config *config);
void sandbox_config_free(struct sandbox_config *config);

/* Names become file names and host names: letters, digits, and . _ - inside, at most 63. */
int sandbox_check_name(const char *what, const char *name, struct error *err);
/* Numbers and names within their limits; volumes exist. */
int sandbox_config_check(const struct sandbox_config *config, struct error *err);

/* HOST:GUEST[:ro|:rw]; a relative HOST is taken from `base`. */
int sandbox_config_add_volume(struct sandbox_config *config, const char *text, const char *base,
                              struct error *err);
/* The engine asked for by name, by MSB_ENGINE if that is NULL, or else the default. */
void sandbox_config_choose_engine(struct sandbox_config *config, const char *name);
/* NAME=value; a name alone takes its value from our environment. */
int sandbox_config_add_env(struct sandbox_config *config, const char *text, struct error *err);

/* [ADDRESS:]HOST:GUEST; an address of IPv6 stands in brackets. */
int sandbox_config_add_port(struct sandbox_config *config, const char *text, struct error *err);
/* "none", or entries of egress_policy.h with commas between them. */
int sandbox_config_set_egress(struct sandbox_config *config, const char *text, struct error *err);

/* The machine that fits; it borrows the strings. Volumes are left out. */
struct machine_spec sandbox_config_machine(const struct sandbox_config *config);

/*
 * What of the settings shapes the machine and cannot be changed later, as settings in JSON without
 * a name. A machine made from equal ones can be had ahead. NULL when none can serve; for free().
 */
char *sandbox_config_machine_text(const struct sandbox_config *config);
/* Of a running sandbox or of a snapshot: all about those is the keeper's to find out. */
bool sandbox_config_is_copy(const struct sandbox_config *config);

json_t *sandbox_config_to_json(const struct sandbox_config *config);
int sandbox_config_from_json(const json_t *json, struct sandbox_config *config, struct error *err);

/* Ports and egress; for the functions above. */
void sandbox_config_free_network(struct sandbox_config *config);
void sandbox_config_network_to_json(const struct sandbox_config *config, json_t *json);
int sandbox_config_network_from_json(const json_t *json, struct sandbox_config *config,
                                     struct error *err);
