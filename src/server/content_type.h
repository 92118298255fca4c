/* The media type of a file, by the end of its name. */
#pragma once

#include <stddef.h>
#include <stdint.h>

const char *content_type(const char *name);
/* The same, and where the name says nothing, by the first bytes. */
const char *content_type_of(const char *name, const uint8_t *bytes, size_t length);
