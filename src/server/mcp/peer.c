/*
 * Legacy conversations. Their names are signed and say all that is needed to go on with them, so
 * any server with the same secret knows them: most clients never begin anew when one is refused.
 */
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "server/mcp/internal.h"

#define PEERS_MAX 1024
#define ENDED_MAX 1024
#define NONCE_BYTES 16

/* What a client may be able to do, as letters in the name of its conversation. */
static const struct {
    char letter;
    const char *name;
} abilities[] = {{'s', "sampling"}, {'e', "elicitation"}, {'r', "roots"}};
#define ABILITIES (sizeof abilities / sizeof abilities[0])

struct mcp_peer *peer_make(struct mcp *mcp)
{
    struct mcp_peer *peer = xcalloc(1, sizeof *peer);
    peer->abilities = json_object();
    peer->level = MCP_WARNING;
    peer->next = mcp->peers;
    mcp->peers = peer;
    return peer;
}

static bool is_idle(const struct mcp_peer *peer)
{
    return !peer->calls && !peer->back && !peer->streams && peer->id[0];
}

/* Nothing is lost with one that is idle but what it watches and how much it wants logged. */
static void forget_oldest(struct mcp *mcp)
{
    struct mcp_peer *oldest = NULL;
    size_t count = 0;
    for (struct mcp_peer *peer = mcp->peers; peer; peer = peer->next, count++) {
        if (is_idle(peer))
            oldest = peer;
    }
    if (count > PEERS_MAX && oldest)
        peer_free(mcp, oldest);
}

void peer_name(struct mcp *mcp, struct mcp_peer *peer)
{
    unsigned char nonce[NONCE_BYTES];
    char hex[2 * NONCE_BYTES + 1], letters[ABILITIES + 1] = "";
    size_t count = 0;
    for (size_t i = 0; i < ABILITIES; i++) {
        if (json_object_get(peer->abilities, abilities[i].name))
            letters[count++] = abilities[i].letter;
    }
    RAND_bytes(nonce, sizeof nonce);
    for (size_t i = 0; i < sizeof nonce; i++)
        snprintf(hex + 2 * i, 3, "%02x", nonce[i]);
    cleanup_free char *text = xasprintf("%s.%s.%s.%s", peer->version, letters, hex, peer->scope);
    cleanup_free char *sealed = mcp_seal(mcp, text);
    snprintf(peer->id, sizeof peer->id, "%s", sealed);
    forget_oldest(mcp);
}

/* One whose server has been restarted, or that was forgotten. */
static struct mcp_peer *revive(struct mcp *mcp, const char *id)
{
    struct mcp_peer *peer = peer_make(mcp);
    size_t version = strcspn(id, ".");
    snprintf(peer->id, sizeof peer->id, "%s", id);
    snprintf(peer->version, sizeof peer->version, "%.*s", (int)version, id);
    for (const char *letter = id + version + 1; *letter && *letter != '.'; letter++) {
        for (size_t i = 0; i < ABILITIES; i++) {
            if (abilities[i].letter == *letter)
                json_object_set_new(peer->abilities, abilities[i].name, json_object());
        }
    }
    forget_oldest(mcp);
    return peer;
}

static void move_to_front(struct mcp *mcp, struct mcp_peer *peer)
{
    struct mcp_peer **at = &mcp->peers;
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    peer->next = mcp->peers;
    mcp->peers = peer;
}

/* Conversations belong to those whose keys are good for the same. */
static bool is_of(const char *name, const char *scope)
{
    for (int i = 0; name && i < 3; i++) {
        name = strchr(name, '.');
        name = name ? name + 1 : NULL;
    }
    return name && strcmp(name, scope) == 0;
}

struct mcp_peer *peer_find(struct mcp *mcp, const char *id, const char *scope)
{
    cleanup_free char *known = strlen(id) < MCP_CONVERSATION_MAX ? mcp_unseal(mcp, id) : NULL;
    if (!known || !is_of(known, scope) || strv_contains(mcp->ended, id))
        return NULL;
    struct mcp_peer *peer = mcp->peers;
    while (peer && strcmp(peer->id, id) != 0)
        peer = peer->next;
    if (!peer)
        peer = revive(mcp, id);
    else
        move_to_front(mcp, peer);
    snprintf(peer->scope, sizeof peer->scope, "%s", scope);
    return peer;
}

void peer_end(struct mcp *mcp, struct mcp_peer *peer)
{
    if (strv_length(mcp->ended) >= ENDED_MAX)
        strv_free(steal_pointer(&mcp->ended));
    strv_append(&mcp->ended, xstrdup(peer->id));
    peer_free(mcp, peer);
}

void peer_free(struct mcp *mcp, struct mcp_peer *peer)
{
    struct mcp_peer **at = &mcp->peers;
    mcp_call_cancel_all(peer->calls);
    if (peer->back)
        peer->back->finish(peer->back, NULL, 0);
    mcp_http_forget(peer);
    while (*at != peer)
        at = &(*at)->next;
    *at = peer->next;
    json_decref(peer->abilities);
    strv_free(peer->watched);
    free(peer);
}
