/*
 * Work of a tool that may take long. While its caller waits, it is told of progress, if it wants to
 * be. A caller that does not is answered before clients usually give up, with what was printed so
 * far and a handle; the work goes on, and a later call with that handle waits for it again. A
 * caller that cancels ends the work.
 */
#pragma once

#include "server/context.h"

struct job {
    struct server *server;
    struct mcp_call *call; /* NULL: nobody waits for it now */
    char handle[32];
    char scope[64];     /* of its caller */
    char namespace[64]; /* that its sessions are in */
    char *base;         /* see mcp_call */
    json_t *arguments;
    /* For whoever does the work. */
    void (*abandon)(struct job *job); /* nobody wants it any more; the job goes */
    void *work;
    /* For the library. */
    bool is_over;
    json_t *result; /* when it is over and nobody has asked for it yet */
    uint64_t began_ms;
    struct buf printed;
    uv_timer_t timer;
    struct job *next_job;
};

/* The call is the job's until job_end. */
struct job *job_begin(struct mcp_call *call, const json_t *arguments, const char *namespace);
/* What it prints. */
void job_print(struct job *job, const uint8_t *bytes, size_t length);
/* Takes the result of the tool, or keeps it until somebody asks; the job may be gone. */
void job_end(struct job *job, json_t *result);
/* Waits for a job that has been left. */
void job_continue(struct mcp_call *call, const char *handle);
/* Ends all; those who wait are told. */
void jobs_end(struct server *server);
