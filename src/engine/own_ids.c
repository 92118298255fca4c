#include "engine/own_ids.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/process.h"
#include "engine/ids.h"

#define LIST_MAX ((size_t)4 << 20)

/* The first of enough ids that the list has for a user: NAME-OR-NUMBER:FIRST:COUNT. 0: none. */
static unsigned find_range(const char *path, const char *name, const char *number)
{
    struct error ignored;
    cleanup_buf struct buf text = {0};
    if (file_read(path, LIST_MAX, &text, &ignored) < 0)
        return 0;
    char *rest = (buf_text(&text), (char *)buf_data(&text));
    for (char *line; (line = strsep(&rest, "\n"));) {
        const char *who = strsep(&line, ":");
        const char *first = strsep(&line, ":");
        if (!line || (strcmp(who, name) != 0 && strcmp(who, number) != 0))
            continue;
        if (strtoul(line, NULL, 10) >= NAMESPACE_IDS)
            return (unsigned)strtoul(first, NULL, 10);
    }
    return 0;
}

struct own_ids own_ids_find(uid_t inside)
{
    struct own_ids ids = {.inside = inside};
    const struct passwd *entry = getpwuid(geteuid());
    cleanup_free char *for_users = process_find("newuidmap");
    cleanup_free char *for_groups = process_find("newgidmap");
    if (!for_users || !for_groups)
        return ids;
    char number[16];
    snprintf(number, sizeof number, "%u", geteuid());
    const char *name = entry ? entry->pw_name : number;
    ids.first_user = find_range("/etc/subuid", name, number);
    ids.first_group = find_range("/etc/subgid", name, number);
    return ids;
}

/* His own id stands in a gap of the others. */
static int map_many(const char *program, pid_t process, unsigned first, unsigned own,
                    unsigned inside, struct error *err)
{
    const unsigned numbers[] = {
        (unsigned)process,          inside, own,   1,     inside + 1, first + inside + 1,
        NAMESPACE_IDS - inside - 1, 0,      first, inside};
    size_t count = sizeof numbers / sizeof numbers[0] - (inside ? 0 : 3);
    cleanup_strv char **argv = NULL;
    strv_append(&argv, xstrdup(program));
    for (size_t i = 0; i < count; i++)
        strv_append(&argv, xasprintf("%u", numbers[i]));
    int result = process_run(argv, &(struct process_options){0}, err);
    return result == 0
               ? 0
               : error_hint(err, "%s must be installed setuid root (package uidmap)", program);
}

static int map_one(const struct own_ids *ids, pid_t process, struct error *err)
{
    cleanup_free char *user = xasprintf("%u %u 1\n", ids->inside, geteuid());
    cleanup_free char *group = xasprintf("%u %u 1\n", ids->inside, getegid());
    int result = ids_write_map(process, "uid_map", user, err);
    if (result == 0)
        result = ids_write_map(process, "setgroups", "deny", err);
    return result < 0 ? result : ids_write_map(process, "gid_map", group, err);
}

int own_ids_map(const struct own_ids *ids, pid_t process, struct error *err)
{
    if (!own_ids_are_many(ids))
        return map_one(ids, process, err);
    int result = map_many("newuidmap", process, ids->first_user, geteuid(), ids->inside, err);
    return result < 0
               ? result
               : map_many("newgidmap", process, ids->first_group, getegid(), ids->inside, err);
}

static int map_for(const void *ids, pid_t process, struct error *err)
{
    return own_ids_map(ids, process, err);
}

int own_ids_space(const struct own_ids *ids, struct error *err)
{
    return ids_space(map_for, ids, err);
}
