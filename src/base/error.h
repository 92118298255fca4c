/*
 * One error shape for the whole program: a stable code, a sentence that says what failed and on
 * what, and a hint that says what to do about it.
 *
 * Contract: a function that can fail takes `struct error *err` last and returns 0 (or a useful
 * non-negative number) on success and a negative number on failure. It fills err exactly once,
 * where the cause is known; callers on the way up may put context in front of the message with
 * error_wrap and add a hint with error_hint. err may not be NULL. Nothing in it needs freeing.
 */
#pragma once

#include <stdbool.h>

enum error_code {
    ERROR_NONE = 0,
    ERROR_INVALID,     /* the request makes no sense as given */
    ERROR_NOT_FOUND,   /* what was named does not exist */
    ERROR_EXISTS,      /* what was to be made exists already */
    ERROR_BUSY,        /* somebody else is using it now */
    ERROR_DENIED,      /* not allowed */
    ERROR_MISSING,     /* the host lacks a program, a feature or a file we need */
    ERROR_NO_SPACE,    /* disk, memory or another finite thing ran out */
    ERROR_LIMIT,       /* a configured limit was hit */
    ERROR_TIMEOUT,     /* it took longer than it may */
    ERROR_CANCELLED,   /* the caller went away or asked to stop */
    ERROR_PROTOCOL,    /* the other side sent something malformed */
    ERROR_UNAVAILABLE, /* the sandbox is gone or cannot answer now */
    ERROR_IO,          /* the operating system said no; the message has its reason */
    ERROR_CODE_COUNT,
};

struct error {
    enum error_code code;
    char message[768];
    char hint[384];
};

/* "invalid", "not_found", … as it appears in JSON and on the wire. */
const char *error_code_name(enum error_code code);
/* The inverse; ERROR_IO for a name we do not know. */
enum error_code error_code_from_name(const char *name);
/* The code that fits an errno value best. */
enum error_code error_code_from_errno(int number);

/*
 * All four are negative as expressions, so that `return error_set(err, …)` reads well and readers
 * and analyzers see that it is a failure.
 */
static inline int error_result(void)
{
    return -1;
}

#define error_set(err, code, ...) (error_fill(err, code, __VA_ARGS__), error_result())
/* The message ends in ": " and the text of errno; the code follows from errno. */
#define error_errno(err, number, ...) (error_fill_errno(err, number, __VA_ARGS__), error_result())
/* Puts "context: " in front of the message. */
#define error_wrap(err, ...) (error_add_context(err, __VA_ARGS__), error_result())
/* Sets what to do about it, unless something nearer to the cause did. */
#define error_hint(err, ...) (error_add_hint(err, __VA_ARGS__), error_result())

void error_fill(struct error *err, enum error_code code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void error_fill_errno(struct error *err, int number, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void error_add_context(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void error_add_hint(struct error *err, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
