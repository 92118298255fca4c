/* Tables that line up. Cells come from anywhere: control characters do not reach the terminal. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct table {
    size_t columns;
    size_t rows; /* the heading included */
    char **cells;
};

/* `heading` ends with NULL and sets the number of columns. */
void table_begin(struct table *table, const char *const *heading);
void table_row(struct table *table, const char *const *cells);
/* Prints and frees it. */
void table_print(struct table *table);

/* A cell that says how long ago something began; 0 is not known. */
void table_age(char *out, size_t size, uint64_t started_us);
/* A cell with megabytes, rounded up. */
void table_size(char *out, size_t size, uint64_t bytes);
