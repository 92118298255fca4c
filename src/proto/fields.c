#include "proto/fields.h"

#include <string.h>

#include "base/mem.h"
#include "proto/wire.h"

#define FIELD_HEADER 5

void fields_add_bytes(struct buf *out, uint8_t tag, const void *bytes, size_t length)
{
    uint8_t *at = buf_reserve(out, FIELD_HEADER + length);
    at[0] = tag;
    wire_put32(at + 1, (uint32_t)length);
    if (length)
        memcpy(at + FIELD_HEADER, bytes, length);
    buf_commit(out, FIELD_HEADER + length);
}

void fields_add_text(struct buf *out, uint8_t tag, const char *text)
{
    fields_add_bytes(out, tag, text, strlen(text));
}

void fields_add_number(struct buf *out, uint8_t tag, uint64_t value)
{
    uint8_t bytes[8];
    wire_put64(bytes, value);
    fields_add_bytes(out, tag, bytes, sizeof bytes);
}

int fields_next(const uint8_t *payload, uint32_t length, uint32_t *at, struct field *field,
                struct error *err)
{
    if (*at == length)
        return 0;
    if (length - *at < FIELD_HEADER)
        return error_set(err, ERROR_PROTOCOL, "a field is cut short");
    uint32_t size = wire_get32(payload + *at + 1);
    if (size > length - *at - FIELD_HEADER)
        return error_set(err, ERROR_PROTOCOL, "a field of %u bytes is cut short", size);
    *field = (struct field){
        .tag = payload[*at],
        .bytes = payload + *at + FIELD_HEADER,
        .length = size,
    };
    *at += FIELD_HEADER + size;
    return 1;
}

int fields_each(const uint8_t *payload, uint32_t length,
                int (*take)(void *owner, const struct field *field, struct error *err), void *owner,
                struct error *err)
{
    struct field field;
    uint32_t at = 0;
    int result;
    while ((result = fields_next(payload, length, &at, &field, err)) > 0) {
        if ((result = take(owner, &field, err)) < 0)
            return result;
    }
    return result;
}

int field_text(const struct field *field, char **text, struct error *err)
{
    if (memchr(field->bytes, '\0', field->length))
        return error_set(err, ERROR_PROTOCOL, "field %u has a NUL byte inside", field->tag);
    *text = xstrndup((const char *)field->bytes, field->length);
    return 0;
}

int field_replace_text(const struct field *field, char **place, struct error *err)
{
    char *text;
    int result = field_text(field, &text, err);
    if (result < 0)
        return result;
    free(*place);
    *place = text;
    return 0;
}

int field_append_text(const struct field *field, char ***list, struct error *err)
{
    char *text;
    int result = field_text(field, &text, err);
    if (result == 0)
        strv_append(list, text);
    return result;
}

int field_number(const struct field *field, uint64_t *value, struct error *err)
{
    if (field->length != 8)
        return error_set(err, ERROR_PROTOCOL, "field %u is a number of %u bytes", field->tag,
                         field->length);
    *value = wire_get64(field->bytes);
    return 0;
}

int field_flag(const struct field *field, bool *flag, struct error *err)
{
    uint64_t value = 0;
    int result = field_number(field, &value, err);
    if (result == 0)
        *flag = value != 0;
    return result;
}
