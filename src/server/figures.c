#include "server/figures.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define NAMESPACES_MAX 256

const uint64_t figures_bounds[FIGURES_BUCKETS] = {
    500,    1000,   2500,    5000,    10000,   25000,    50000,    100000,
    250000, 500000, 1000000, 2500000, 5000000, 10000000, 30000000, 60000000,
};

static struct figures *find(struct figures *list, const char *namespace, size_t *count)
{
    *count = 0;
    while (list && strcmp(list->namespace, namespace) != 0) {
        list = list->next;
        ++*count;
    }
    return list;
}

struct figures *figures_of(struct figures **list, const char *namespace)
{
    size_t count;
    struct figures *figures = find(*list, namespace, &count);
    if (!figures && count >= NAMESPACES_MAX) {
        namespace = FIGURES_OTHERS;
        figures = find(*list, namespace, &count);
    }
    if (figures)
        return figures;
    figures = xcalloc(1, sizeof *figures);
    snprintf(figures->namespace, sizeof figures->namespace, "%s", namespace);
    figures->next = *list;
    *list = figures;
    return figures;
}

void figures_time(struct histogram *histogram, uint64_t duration_us)
{
    size_t i = 0;
    while (i < FIGURES_BUCKETS && duration_us > figures_bounds[i])
        i++;
    histogram->counts[i]++;
    histogram->sum_us += duration_us;
}
