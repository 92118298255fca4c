#include "base/title.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static char *area;
static size_t room;

void title_init(int argc, char **argv)
{
    if (argc < 1)
        return;
    area = argv[0];
    room = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - area);
}

void title_set(const char *title)
{
    if (!area)
        return;
    memset(area, 0, room);
    snprintf(area, room, "%s", title);
}
