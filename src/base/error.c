#include "base/error.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const names[ERROR_CODE_COUNT] = {
    [ERROR_NONE] = "none",
    [ERROR_INVALID] = "invalid",
    [ERROR_NOT_FOUND] = "not_found",
    [ERROR_EXISTS] = "exists",
    [ERROR_BUSY] = "busy",
    [ERROR_DENIED] = "denied",
    [ERROR_MISSING] = "missing",
    [ERROR_NO_SPACE] = "no_space",
    [ERROR_LIMIT] = "limit",
    [ERROR_TIMEOUT] = "timeout",
    [ERROR_CANCELLED] = "cancelled",
    [ERROR_PROTOCOL] = "protocol",
    [ERROR_UNAVAILABLE] = "unavailable",
    [ERROR_IO] = "io",
};

const char *error_code_name(enum error_code code)
{
    return code < ERROR_CODE_COUNT ? names[code] : names[ERROR_IO];
}

enum error_code error_code_from_name(const char *name)
{
    for (int code = ERROR_NONE; code < ERROR_CODE_COUNT; code++) {
        if (strcmp(names[code], name) == 0)
            return (enum error_code)code;
    }
    return ERROR_IO;
}

enum error_code error_code_from_errno(int number)
{
    switch (number) {
    case ENOENT:
    case ESRCH:
        return ERROR_NOT_FOUND;
    case EEXIST:
        return ERROR_EXISTS;
    case EACCES:
    case EPERM:
    case EROFS:
        return ERROR_DENIED;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE:
        return ERROR_NO_SPACE;
    case ETIMEDOUT:
        return ERROR_TIMEOUT;
    case EINVAL:
    case ENOTDIR:
    case EISDIR:
    case ENAMETOOLONG:
    case ELOOP:
    case ENOTEMPTY:
    case EXDEV:
        return ERROR_INVALID;
    case EBUSY:
    case EADDRINUSE:
    case EAGAIN:
        return ERROR_BUSY;
    case ENOSYS:
        return ERROR_MISSING;
    case EPIPE:
    case ECONNREFUSED:
    case ECONNRESET:
        return ERROR_UNAVAILABLE;
    default:
        return ERROR_IO;
    }
}

void error_fill(struct error *err, enum error_code code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    err->code = code;
    err->hint[0] = '\0';
}

void error_fill_errno(struct error *err, int number, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", strerror(number));
    err->code = error_code_from_errno(number);
    err->hint[0] = '\0';
}

void error_add_context(struct error *err, const char *format, ...)
{
    char inner[sizeof err->message];
    memcpy(inner, err->message, sizeof inner);
    va_list args;
    va_start(args, format);
    vsnprintf(err->message, sizeof err->message, format, args);
    va_end(args);
    size_t used = strlen(err->message);
    snprintf(err->message + used, sizeof err->message - used, ": %s", inner);
}

void error_add_hint(struct error *err, const char *format, ...)
{
    if (err->hint[0] == '\0') {
        va_list args;
        va_start(args, format);
        vsnprintf(err->hint, sizeof err->hint, format, args);
        va_end(args);
    }
}
