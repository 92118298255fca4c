/*
 * Groups: sandboxes that share one reach each other's published ports by name. One whose scope is
 * "group" and that names no group belongs to the project's own. The scope "none" reaches nobody,
 * but may be reached.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "project/project.h"

static bool is_grouped(const struct project_sandbox *sandbox)
{
    return sandbox->groups || (sandbox->scope && strcmp(sandbox->scope, "group") == 0);
}

static bool share_a_group(const struct project_sandbox *one, const struct project_sandbox *other)
{
    if (!is_grouped(one) || !is_grouped(other))
        return false;
    if (!one->groups || !other->groups)
        return !one->groups && !other->groups;
    for (size_t i = 0; one->groups[i]; i++) {
        if (strv_contains(other->groups, one->groups[i]))
            return true;
    }
    return false;
}

/* What stands behind the last colon. */
static const char *guest_port(const char *port)
{
    const char *colon = strrchr(port, ':');
    return colon ? colon + 1 : port;
}

/* A program that listens on all addresses would find the port taken. */
static int refuse_own_port(const struct project_sandbox *sandbox,
                           const struct project_sandbox *other, const char *port, struct error *err)
{
    for (size_t i = 0; sandbox->ports && sandbox->ports[i]; i++) {
        if (strcmp(guest_port(sandbox->ports[i]), port) != 0)
            continue;
        error_set(err, ERROR_INVALID, "it has the same port %s inside as %s, which it may reach",
                  port, other->name);
        return error_hint(err, "let the servers in a group listen on different ports");
    }
    return 0;
}

static int add_peer(const struct project_sandbox *sandbox, const struct project_sandbox *other,
                    struct sandbox_config *config, struct error *err)
{
    for (size_t i = 0; other->ports && other->ports[i]; i++) {
        const char *port = guest_port(other->ports[i]);
        cleanup_free char *peer = xasprintf("%s:%s", other->name, port);
        if (refuse_own_port(sandbox, other, port, err) < 0)
            return -1;
        if (!strv_contains(config->peers, peer))
            strv_append(&config->peers, steal_pointer(&peer));
    }
    return 0;
}

int project_add_peers(const struct project *project, const struct project_sandbox *sandbox,
                      struct sandbox_config *config, struct error *err)
{
    int result = 0;
    if (sandbox->scope && strcmp(sandbox->scope, "none") == 0)
        return 0;
    for (size_t i = 0; result == 0 && i < project->count; i++) {
        const struct project_sandbox *other = &project->sandboxes[i];
        if (other != sandbox && share_a_group(sandbox, other))
            result = add_peer(sandbox, other, config, err);
    }
    return result;
}
