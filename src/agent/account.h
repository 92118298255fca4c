/*
 * Users and groups of the image, read from its /etc/passwd and /etc/group. Numbers work without
 * an entry.
 */
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"

#define ACCOUNT_GROUPS_MAX 64

struct account {
    uid_t uid;
    gid_t gid;
    gid_t groups[ACCOUNT_GROUPS_MAX]; /* supplementary */
    size_t group_count;
    char name[64]; /* empty when the number has no entry */
    char home[256];
};

/* spec: a name or a number, optionally with ":group". */
int account_find(const char *spec, struct account *account, struct error *err);

/* The name of a number; empty when it has no entry. */
void account_name(uid_t uid, char *name, size_t size);
