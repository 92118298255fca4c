#include "events.h"

#include <stdlib.h>
#include <string.h>

static int take_event(struct msb_events *events, const char *text, size_t length)
{
    static const char name_is[] = "event: ", data_is[] = "\ndata: ";
    const char *data = memmem(text, length, data_is, sizeof data_is - 1);
    if (!data || strncmp(text, name_is, sizeof name_is - 1) != 0)
        return 0;
    const char *name = text + sizeof name_is - 1;
    size_t name_length = (size_t)(data - name);
    data += sizeof data_is - 1;
    json_t *json = json_loadb(data, length - (size_t)(data - text), JSON_ALLOW_NUL, NULL);
    int result = 0;
    if (name_length == 6 && memcmp(name, "output", 6) == 0) {
        const json_t *content = json_object_get(json, "text");
        const char *stream = json_string_value(json_object_get(json, "stream"));
        if (content && stream)
            result = events->output(events->context, strcmp(stream, "stderr") == 0,
                                    json_string_value(content), json_string_length(content));
    } else if (name_length == 3 && memcmp(name, "end", 3) == 0) {
        json_decref(events->end);
        events->end = json_incref(json);
    }
    json_decref(json);
    return result;
}

int msb_events_take(void *context, const char *bytes, size_t length)
{
    struct msb_events *events = context;
    char *longer = realloc(events->rest, events->length + length + 1);
    if (!longer)
        return -1;
    events->rest = longer;
    memcpy(longer + events->length, bytes, length);
    events->length += length;
    longer[events->length] = '\0';
    char *at = longer, *end;
    while ((end = memmem(at, events->length - (size_t)(at - longer), "\n\n", 2))) {
        if (take_event(events, at, (size_t)(end - at)) != 0) {
            events->ended_by_caller = true;
            return -1;
        }
        at = end + 2;
    }
    events->length -= (size_t)(at - longer);
    memmove(longer, at, events->length);
    return 0;
}
