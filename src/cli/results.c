#include "cli/results.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "proto/wire.h"

#define RECORD_MAX (64u << 20)

static void show(const json_t *record)
{
    const char *type = json_string_value(json_object_get(record, "type"));
    const char *text = json_string_value(json_object_get(record, "text"));
    const char *traceback = json_string_value(json_object_get(record, "traceback"));
    if (type && strcmp(type, "result") == 0 && text)
        printf("%s\n", text);
    if (type && strcmp(type, "error") == 0 && traceback)
        fprintf(stderr, "%s%s", traceback,
                traceback[0] && traceback[strlen(traceback) - 1] == '\n' ? "" : "\n");
    fflush(stdout);
}

void results_take(struct results *results, const uint8_t *bytes, size_t length)
{
    buf_append(&results->in, bytes, length);
    while (buf_length(&results->in) >= 4) {
        uint32_t size = wire_get32(buf_data(&results->in));
        if (size > RECORD_MAX || buf_length(&results->in) - 4 < size)
            return;
        json_t *record =
            json_loadb((const char *)buf_data(&results->in) + 4, size, JSON_ALLOW_NUL, NULL);
        show(record);
        json_decref(record);
        buf_consume(&results->in, 4 + size);
    }
}

void results_free(struct results *results)
{
    buf_free(&results->in);
}
