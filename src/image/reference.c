#include "image/reference.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

#define REFERENCE_MAX 200
#define DEFAULT_NAMESPACE "microsandbox"
#define DEFAULT_TAG "latest"

static bool is_letter_or_digit(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

/* One path component or a tag: no separator at the ends, no two in a row, so never "..". */
static bool is_component(const char *text, size_t length)
{
    bool after_separator = true;
    for (size_t i = 0; i < length; i++) {
        bool separator = text[i] == '.' || text[i] == '_' || text[i] == '-';
        if (separator ? after_separator : !is_letter_or_digit(text[i]))
            return false;
        after_separator = separator;
    }
    return !after_separator;
}

static bool is_name(const char *name, size_t length)
{
    const char *end = name + length;
    for (;;) {
        const char *slash = memchr(name, '/', (size_t)(end - name));
        if (!is_component(name, (size_t)((slash ? slash : end) - name)))
            return false;
        if (!slash)
            return true;
        name = slash + 1;
    }
}

int reference_normalize(const char *text, char **reference, struct error *err)
{
    size_t length = strcspn(text, ":");
    const char *tag = text[length] ? text + length + 1 : DEFAULT_TAG;
    if (strlen(text) > REFERENCE_MAX || !is_name(text, length) || !is_component(tag, strlen(tag))) {
        error_set(err, ERROR_INVALID, "this is not the name of an image: %.100s", text);
        return error_hint(err, "a name looks like python or microsandbox/python");
    }
    bool qualified = memchr(text, '/', length) != NULL;
    bool default_tag = strcmp(tag, DEFAULT_TAG) == 0;
    *reference = xasprintf("%s%.*s%s%s", qualified ? "" : DEFAULT_NAMESPACE "/", (int)length, text,
                           default_tag ? "" : ":", default_tag ? "" : tag);
    return 0;
}
