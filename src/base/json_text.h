/* Arbitrary bytes as text: strings for JSON without a JSON library, and messages. */
#pragma once

#include <stddef.h>

#include "base/buf.h"

/* Appends the bytes as a JSON string with its quotes. What is no UTF-8 becomes U+FFFD. */
void json_text_append(struct buf *out, const void *bytes, size_t length);
/* Puts a question mark in place of every control character and of what is no UTF-8. */
void json_text_clean(char *text);
