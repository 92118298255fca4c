/*
 * Bodies of type multipart/form-data, taken apart as they come. Knows no connection: it is given
 * bytes and says what the front of them is.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct multipart {
    char delimiter[80]; /* "\r\n--BOUNDARY" */
    size_t delimiter_length;
    enum { BEFORE_ALL, AFTER_DELIMITER, IN_HEAD, IN_DATA, AFTER_ALL } place;
    char filename[256]; /* of the present part; "" when it is no file */
};

enum multipart_event {
    MULTIPART_MORE,  /* more bytes are needed */
    MULTIPART_AGAIN, /* nothing to tell: ask again behind the used bytes */
    MULTIPART_PART,  /* a part begins: see filename */
    MULTIPART_BYTES, /* `used` bytes at the front belong to it */
    MULTIPART_PART_END,
    MULTIPART_END, /* there are no more parts; what follows means nothing */
};

/* False when the value of Content-Type is no multipart/form-data with a boundary. */
bool multipart_init(struct multipart *multipart, const char *content_type);
/*
 * The next event, or negative. `used` is how many bytes at the front are dealt with. There is
 * always an event for 8 KB and more.
 */
int multipart_next(struct multipart *multipart, const uint8_t *bytes, size_t length, size_t *used,
                   struct error *err);
