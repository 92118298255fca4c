#include "agent/account.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"

#define FILE_MAX (4u * 1024 * 1024)
#define COLUMNS 7

/* Only a plain file: opening a pipe that somebody put there would never return. */
static bool read_plain_file(const char *path, struct buf *out)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat status;
    if (fd < 0 || fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
        return false;
    while (buf_length(out) < FILE_MAX) {
        ssize_t got = read(fd, buf_reserve(out, 16384), 16384);
        if (got <= 0)
            return got == 0;
        buf_commit(out, (size_t)got);
    }
    return false;
}

/* Cuts the next line into its columns; false at the end. Missing columns are empty. */
static bool next_line(char **rest, char *columns[COLUMNS])
{
    static char empty[1];
    char *line = strsep(rest, "\n");
    if (!line)
        return false;
    for (int i = 0; i < COLUMNS; i++) {
        char *column = strsep(&line, ":");
        columns[i] = column ? column : empty;
    }
    return true;
}

static bool parse_id(const char *text, unsigned *id)
{
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || errno || value >= UINT32_MAX)
        return false;
    *id = (unsigned)value;
    return true;
}

static bool matches(char *columns[COLUMNS], const char *wanted, bool by_id, unsigned id)
{
    unsigned entry;
    if (by_id)
        return parse_id(columns[2], &entry) && entry == id;
    return strcmp(columns[0], wanted) == 0;
}

/* Fills the account from passwd. A number that has no entry is itself, with group 0. */
static int find_user(const char *wanted, struct account *account, struct error *err)
{
    unsigned id = 0;
    bool by_id = parse_id(wanted, &id);
    cleanup_buf struct buf text = {0};
    read_plain_file("/etc/passwd", &text);
    char *rest = (buf_text(&text), (char *)buf_data(&text));
    for (char *columns[COLUMNS]; next_line(&rest, columns);) {
        unsigned uid, gid;
        if (!matches(columns, wanted, by_id, id) || !parse_id(columns[2], &uid) ||
            !parse_id(columns[3], &gid))
            continue;
        account->uid = uid;
        account->gid = gid;
        snprintf(account->name, sizeof account->name, "%s", columns[0]);
        snprintf(account->home, sizeof account->home, "%s", columns[5][0] ? columns[5] : "/");
        return 0;
    }
    bool is_root = strcmp(wanted, "root") == 0;
    if (!by_id && !is_root) {
        error_set(err, ERROR_NOT_FOUND, "there is no user %.64s in the sandbox", wanted);
        return error_hint(err, "use a name from its /etc/passwd, or a number");
    }
    account->uid = id;
    snprintf(account->name, sizeof account->name, "%s", is_root ? "root" : "");
    snprintf(account->home, sizeof account->home, "%s", id == 0 ? "/root" : "/");
    return 0;
}

static bool list_has(char *members, const char *name)
{
    for (const char *member; (member = strsep(&members, ","));) {
        if (strcmp(member, name) == 0)
            return true;
    }
    return false;
}

static void find_supplementary(struct account *account)
{
    account->groups[account->group_count++] = account->gid;
    if (!account->name[0])
        return;
    cleanup_buf struct buf text = {0};
    read_plain_file("/etc/group", &text);
    char *rest = (buf_text(&text), (char *)buf_data(&text));
    for (char *columns[COLUMNS]; next_line(&rest, columns);) {
        unsigned gid;
        if (account->group_count < ACCOUNT_GROUPS_MAX && parse_id(columns[2], &gid) &&
            gid != account->gid && list_has(columns[3], account->name))
            account->groups[account->group_count++] = gid;
    }
}

static int find_group(const char *wanted, struct account *account, struct error *err)
{
    unsigned id = 0;
    if (parse_id(wanted, &id)) {
        account->gid = id;
        return 0;
    }
    cleanup_buf struct buf text = {0};
    read_plain_file("/etc/group", &text);
    char *rest = (buf_text(&text), (char *)buf_data(&text));
    for (char *columns[COLUMNS]; next_line(&rest, columns);) {
        if (matches(columns, wanted, false, 0) && parse_id(columns[2], &account->gid))
            return 0;
    }
    error_set(err, ERROR_NOT_FOUND, "there is no group %.64s in the sandbox", wanted);
    return error_hint(err, "use a name from its /etc/group, or a number");
}

int account_find(const char *spec, struct account *account, struct error *err)
{
    *account = (struct account){0};
    cleanup_free char *user = xstrdup(spec);
    char *group = strchr(user, ':');
    if (group)
        *group++ = '\0';
    int result = find_user(user, account, err);
    if (result < 0)
        return result;
    if (!group) {
        find_supplementary(account);
        return 0;
    }
    result = find_group(group, account, err);
    account->groups[account->group_count++] = account->gid;
    return result;
}

void account_name(uid_t uid, char *name, size_t size)
{
    struct account account = {0};
    struct error ignored;
    char number[16];
    snprintf(number, sizeof number, "%u", uid);
    find_user(number, &account, &ignored);
    snprintf(name, size, "%s", account.name);
}
