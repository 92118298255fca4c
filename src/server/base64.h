/* Strict base64, with padding and without line ends. */
#pragma once

#include "base/buf.h"

/* Appends what the text stands for; negative when it is no base64. */
int base64_take(struct buf *out, const char *text, size_t length);
/* The text for these bytes, for free(). */
char *base64_make(const void *bytes, size_t length);
