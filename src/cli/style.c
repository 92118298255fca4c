#include "cli/style.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

static bool is_on(FILE *stream)
{
    const char *refused = getenv("NO_COLOR");
    return !(refused && refused[0]) && isatty(fileno(stream));
}

const char *style_begin(FILE *stream, size_t n)
{
    static const char *const colours[] = {"\033[36m", "\033[33m", "\033[32m",
                                          "\033[35m", "\033[34m", "\033[31m"};
    return is_on(stream) ? colours[n % (sizeof colours / sizeof colours[0])] : "";
}

const char *style_end(FILE *stream)
{
    return is_on(stream) ? "\033[0m" : "";
}
