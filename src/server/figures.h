/*
 * What the server counts, by namespace: plain numbers, so that counting costs nothing. metrics.c
 * shows them.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FIGURES_METHODS 64
#define FIGURES_CODES 16
#define FIGURES_TOOL_SETS 2
#define FIGURES_TOOLS 10
#define FIGURES_OUTCOMES 3
#define FIGURES_BUCKETS 16

struct histogram {
    uint64_t counts[FIGURES_BUCKETS + 1]; /* the last one: above all bounds */
    uint64_t sum_us;
};

struct figures {
    char namespace[64]; /* "": calls that did not get so far as to have one */
    uint64_t calls[FIGURES_METHODS];
    uint64_t errors[FIGURES_CODES];
    uint64_t tools[FIGURES_TOOL_SETS][FIGURES_TOOLS][FIGURES_OUTCOMES]; /* calls, as mcp.h has it */
    struct histogram call_time;
    uint64_t bytes_in, bytes_out;
    uint64_t starts, failed_starts;
    struct histogram start_time;
    struct figures *next;
};

/* The upper ends of a histogram's parts, in microseconds. */
extern const uint64_t figures_bounds[FIGURES_BUCKETS];

/* Those of the namespace, made when there are none. Beyond some hundred namespaces all others share
 * one, named FIGURES_OTHERS, which no namespace can be called. */
#define FIGURES_OTHERS "(others)"
struct figures *figures_of(struct figures **list, const char *namespace);
void figures_time(struct histogram *histogram, uint64_t duration_us);
