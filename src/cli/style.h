/* Colours, for terminals only and never with NO_COLOR. */
#pragma once

#include <stdbool.h>
#include <stdio.h>

bool style_is_on(FILE *stream);
/* What begins the colour of the nth of several things, and what ends it; "" where there is none. */
const char *style_begin(FILE *stream, size_t n);
const char *style_end(FILE *stream);
