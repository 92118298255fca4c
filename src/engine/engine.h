/*
 * What isolates a sandbox, seen from above: an engine turns an image into a running machine with
 * an agent at the end of a byte stream. Nothing above this header knows which engine runs.
 *
 * Everything here blocks, is bounded in time, stops on cancel_fd (base/cancel.h), and leaves
 * nothing behind when it fails.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct machine_volume {
    const char *host_path;  /* an existing folder, absolute */
    const char *guest_path; /* where it shows inside, absolute */
    bool read_only;
};

/* Everything that shapes a machine. The strings belong to the caller. */
struct machine_spec {
    const char *image_path;   /* the packed root file system */
    const char *image_digest; /* its content address */
    const char *language;     /* the context kept warm: python, node or NULL */
    const char *user;         /* …as whom, where and with which environment; NULL: the agent's */
    const char *workdir;
    char *const *env;        /* NAME=value, ends with NULL */
    const char *kernel;      /* a kernel other than Debian's, or NULL */
    const char *accelerator; /* kvm, tcg, or NULL to choose */
    unsigned cpus;
    unsigned memory_mb;
    unsigned disk_mb;
    unsigned files;     /* how many the disk can hold; 0: as many as usual */
    unsigned processes; /* inside, with open_files: set ahead, so that clones find them set */
    unsigned open_files;
    unsigned cpu_percent; /* of one processor of the host; 0: what its CPUs can use */
    const char *disk;     /* what is written goes to this file, of disk_make; NULL: it is lost */
    const char *from;     /* a folder that machine_save has filled; NULL: begins as the image is */
    const struct machine_volume *volumes;
    size_t volume_count;
};

struct machine;

struct engine {
    const char *name;
    bool saves_memory; /* with a machine's files its memory is saved too: what runs goes on */
    /* Makes whatever has to exist before a start can be quick; shows progress. Does nothing when
     * it exists already; processes that want the same one wait for each other. */
    int (*prepare)(const struct machine_spec *spec, struct error *err);
    /* After that, for machines that will wait: makes what takes long and saves a little. May be
     * NULL; does nothing when it is done or under way already. */
    int (*settle)(const struct machine_spec *spec, struct error *err);
    /* Starts a machine whose files live in `folder`. Needs what prepare makes: ERROR_NOT_FOUND
     * says that it is missing. */
    int (*start)(const struct machine_spec *spec, const char *folder, struct machine **machine,
                 struct error *err);
    /* What of the usual wall and limits this user cannot have here, for people; NULL: nothing.
     * Owned by the caller. May be NULL itself. */
    char *(*weaknesses)(void);
    /* Whether machines of this user can have spec.disk. May be NULL: they can. */
    bool (*can_keep)(void);
    /*
     * Keeps a warm interpreter for machines of this image that start elsewhere on this host, until
     * `until` becomes readable. Returns early when another process does so already or when it
     * cannot be done: starts then do without. NULL: the engine has no use for that. The image must
     * be one whose interpreter is trusted with the machines of everybody who uses that image.
     */
    int (*keep_warm)(const struct machine_spec *spec, int until, struct error *err);
};

/* NULL when there is no engine of that name. */
const struct engine *engine_find(const char *name);

/* The agent's byte stream. The machine keeps ownership. */
int machine_agent(const struct machine *machine);
/* Becomes readable when the machine is gone. The machine keeps ownership. */
int machine_exit(const struct machine *machine);
/* Readable when the kernel inside says something; -1: the machine has no kernel of its own. The
 * machine keeps ownership. */
int machine_console(const struct machine *machine);
/* Takes what the kernel has said, so that it can go on; machine_explain uses the end of it. */
void machine_hear(struct machine *machine);
/* The host process that is the machine. */
pid_t machine_process(const struct machine *machine);
/* "kvm", "tcg", "native" and the release of the kernel inside. */
const char *machine_accelerator(const struct machine *machine);
const char *machine_kernel(const struct machine *machine);

/* Whether its one volume is all of what it shares, instead of a folder 0 in it. */
bool machine_shares_root(const struct machine *machine);

/* What it costs the host: processor time, and memory that is its alone. */
struct machine_usage {
    uint64_t cpu_us;
    uint64_t memory_bytes;
    bool knows_disk; /* otherwise its disk is a file of the host */
    uint64_t disk_bytes;
};
struct machine_usage machine_usage(const struct machine *machine);

int machine_pause(struct machine *machine, struct error *err);
int machine_resume(struct machine *machine, struct error *err);
/* Of a paused one of which nothing is asked before it is woken: makes that quicker. */
int machine_poise(struct machine *machine, struct error *err);
/* Resumes it without waiting for that. If it does not go on, machine_explain knows why. */
int machine_wake(struct machine *machine, struct error *err);
/*
 * Writes a running machine down into an existing, empty folder, from which others start with
 * spec.from. It stands still meanwhile, for as long as it takes to copy what it has written to
 * memory and disk; so this is for a thread of its own. The agent must have been told to HOLD.
 */
int machine_save(struct machine *machine, const char *folder, struct error *err);
/*
 * Puts a running machine under its host limits where that could not be done at its birth. Takes
 * tens of milliseconds on such hosts, so it is for a thread of its own.
 */
void machine_enclose(struct machine *machine);
/* While others want the processors too, it gets little of them; needs machine_enclose before. */
void machine_step_back(struct machine *machine, bool back);
/* Ends the machine at once: it cannot act any more. What it held is given back a little later. */
void machine_kill(struct machine *machine);
/* Puts the machine's own reason into the error of something that failed because of it. */
void machine_explain(struct machine *machine, struct error *err);
/* A machine that is no copy never answered: what it was made from is made anew with the next start,
 * if that can help. */
bool machine_distrust(const struct machine *machine);
/* Kills it if it still runs and frees everything. NULL is fine. */
void machine_free(struct machine *machine);
