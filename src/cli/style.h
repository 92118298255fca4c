/* Colours, for terminals only and never with NO_COLOR. */
#pragma once

#include <stddef.h>
#include <stdio.h>

/* What begins the colour of the nth of several things, and what ends it; "" where there is none. */
const char *style_begin(FILE *stream, size_t n);
const char *style_end(FILE *stream);
