/*
 * Memory and descriptors that clean up after themselves. Allocation failure aborts: no code path
 * of ours can do anything useful without memory.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *memory, size_t size);
char *xstrdup(const char *text);
char *xstrndup(const char *text, size_t length);
char *xasprintf(const char *format, ...) __attribute__((format(printf, 1, 2)));
char *xvasprintf(const char *format, va_list args) __attribute__((format(printf, 1, 0)));

/* A NULL-terminated list of strings that owns its strings. A NULL list is an empty one. */
void strv_append(char ***list, char *owned_text);
/* Copies; `more` may be NULL. */
void strv_append_all(char ***list, char *const *more);
size_t strv_length(char *const *list);
bool strv_contains(char *const *list, const char *text);
void strv_free(char **list);

/* close() that keeps errno and ignores -1. */
void fd_close(int fd);

static inline void cleanup_free_at(void *place)
{
    free(*(void **)place);
}

static inline void cleanup_fd_at(const int *fd)
{
    fd_close(*fd);
}

static inline void cleanup_strv_at(char ***list)
{
    strv_free(*list);
}

/* Declared like this, the variable is released when its scope ends. */
#define cleanup_free __attribute__((cleanup(cleanup_free_at), unused))
#define cleanup_fd __attribute__((cleanup(cleanup_fd_at), unused))
#define cleanup_strv __attribute__((cleanup(cleanup_strv_at), unused))

/* Takes ownership out of a cleanup variable. */
static inline int steal_fd(int *fd)
{
    int taken = *fd;
    *fd = -1;
    return taken;
}

static inline void *steal_pointer_at(void *place)
{
    void *taken = *(void **)place;
    *(void **)place = NULL;
    return taken;
}

#define steal_pointer(place) ((__typeof__(*(place)))steal_pointer_at(place))
