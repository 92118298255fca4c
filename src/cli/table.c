#include "cli/table.h"

#include <stdio.h>

#include "base/clock.h"
#include "base/mem.h"

/* Characters, not bytes: UTF-8 continuation bytes take no room. */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (; *text; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

void table_begin(struct table *table, const char *const *heading)
{
    *table = (struct table){0};
    while (heading[table->columns])
        table->columns++;
    table_row(table, heading);
}

void table_row(struct table *table, const char *const *cells)
{
    table->cells =
        xrealloc(table->cells, (table->rows + 1) * table->columns * sizeof *table->cells);
    for (size_t i = 0; i < table->columns; i++) {
        char *cell = xstrdup(cells[i]);
        for (char *at = cell; *at; at++) {
            if ((unsigned char)*at < ' ' || *at == 0x7f)
                *at = '?';
        }
        table->cells[table->rows * table->columns + i] = cell;
    }
    table->rows++;
}

static size_t column_width(const struct table *table, size_t column)
{
    size_t widest = 0;
    for (size_t row = 0; row < table->rows; row++) {
        size_t width = width_of(table->cells[row * table->columns + column]);
        if (width > widest)
            widest = width;
    }
    return widest;
}

void table_print(struct table *table)
{
    for (size_t row = 0; row < table->rows; row++) {
        for (size_t column = 0; column < table->columns; column++) {
            const char *cell = table->cells[row * table->columns + column];
            bool last = column + 1 == table->columns;
            size_t padding = last ? 0 : column_width(table, column) - width_of(cell) + 2;
            printf("%s%*s", cell, (int)padding, "");
        }
        printf("\n");
    }
    for (size_t i = 0; i < table->rows * table->columns; i++)
        free(table->cells[i]);
    free(table->cells);
}

void table_age(char *out, size_t size, uint64_t started_us)
{
    uint64_t now = clock_realtime_us();
    unsigned long seconds = now > started_us ? (unsigned long)((now - started_us) / 1000000) : 0;
    if (started_us == 0)
        snprintf(out, size, "-");
    else if (seconds < 60)
        snprintf(out, size, "%lu s", seconds);
    else if (seconds < 3600)
        snprintf(out, size, "%lu min", seconds / 60);
    else
        snprintf(out, size, "%lu h %lu min", seconds / 3600, seconds / 60 % 60);
}
