/* Shared by the filter's files only. What returns int is 0 when all rules could be added. */
#pragma once

#include <seccomp.h>
#include <stdbool.h>

#define WORD 0xffffffffu
#define HAS(argument, bit) SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, bit, bit)
#define IS(argument, value) SCMP_CMP(argument, SCMP_CMP_MASKED_EQ, WORD, value)

/* filter_calls.c: which calls there are. */
int filter_add_calls(scmp_filter_ctx filter, bool is_zygote);
/* filter_arguments.c: with which arguments not. */
int filter_refuse_arguments(scmp_filter_ctx filter, bool guards_modes);
int filter_refuse_modes(scmp_filter_ctx filter);
