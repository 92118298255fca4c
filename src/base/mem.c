#include "base/mem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void *checked(void *memory)
{
    if (!memory) {
        static const char text[] = "msb: out of memory\n";
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
        abort();
    }
    return memory;
}

void *xmalloc(size_t size)
{
    return checked(malloc(size ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
    return checked(calloc(count ? count : 1, size ? size : 1));
}

void *xrealloc(void *memory, size_t size)
{
    return checked(realloc(memory, size ? size : 1));
}

char *xstrdup(const char *text)
{
    return checked(strdup(text));
}

char *xstrndup(const char *text, size_t length)
{
    return checked(strndup(text, length));
}

char *xvasprintf(const char *format, va_list args)
{
    char *text = NULL;
    int length = vasprintf(&text, format, args);
    return checked(length < 0 ? NULL : text);
}

char *xasprintf(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = xvasprintf(format, args);
    va_end(args);
    return text;
}

void strv_append_all(char ***list, char *const *more)
{
    for (; more && *more; more++)
        strv_append(list, xstrdup(*more));
}

size_t strv_length(char *const *list)
{
    size_t length = 0;
    while (list && list[length])
        length++;
    return length;
}

void strv_append(char ***list, char *owned_text)
{
    size_t length = strv_length(*list);
    *list = xrealloc(*list, (length + 2) * sizeof **list);
    (*list)[length] = owned_text;
    (*list)[length + 1] = NULL;
}

bool strv_contains(char *const *list, const char *text)
{
    for (size_t i = 0; list && list[i]; i++) {
        if (strcmp(list[i], text) == 0)
            return true;
    }
    return false;
}

void strv_free(char **list)
{
    for (size_t i = 0; list && list[i]; i++)
        free(list[i]);
    free(list);
}

void fd_close(int fd)
{
    if (fd < 0)
        return;
    int saved = errno;
    close(fd);
    errno = saved;
}
