#include "base/variables.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <strings.h>

#include "base/mem.h"

const char *variable_value(const char *variable)
{
    const char *value = getenv(variable);
    return value && value[0] ? value : NULL;
}

int variable_wrong(const char *variable, const char *wanted, struct error *err)
{
    error_set(err, ERROR_INVALID, "%s is \"%.200s\", which cannot be used", variable,
              getenv(variable));
    return error_hint(err, "set %s to %s, or leave it unset", variable, wanted);
}

int variable_number(const char *variable, const char *unit, uint64_t fallback, uint64_t low,
                    uint64_t high, uint64_t *number, struct error *err)
{
    const char *text = variable_value(variable);
    char *end;
    *number = fallback;
    if (!text)
        return 0;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (isdigit((unsigned char)text[0]) && !errno && !*end && value >= low && value <= high) {
        *number = value;
        return 0;
    }
    cleanup_free char *wanted =
        xasprintf("a whole number of %s from %" PRIu64 " to %" PRIu64, unit, low, high);
    return variable_wrong(variable, wanted, err);
}

int variable_flag(const char *variable, bool *flag, struct error *err)
{
    static const char *const words[][5] = {{"false", "0", "no", "off", "disabled"},
                                           {"true", "1", "yes", "on", "enabled"}};
    const char *text = variable_value(variable);
    if (!text)
        return 0;
    for (size_t i = 0; i < 10; i++) {
        if (strcasecmp(text, words[i / 5][i % 5]) == 0) {
            *flag = i / 5;
            return 0;
        }
    }
    return variable_wrong(variable, "true or false", err);
}
