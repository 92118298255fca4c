#include "server/mcp/mcp.h"

#include <string.h>

#include "base/mem.h"
#include "server/mcp/internal.h"

struct mcp *mcp_make(uv_loop_t *loop, const struct mcp_offer *offer, const void *secret,
                     size_t length)
{
    struct mcp *mcp = xcalloc(1, sizeof *mcp);
    mcp->loop = loop;
    mcp->offer = offer;
    mcp->definitions = json_loads(offer->definitions, 0, NULL);
    mcp->secret = xmalloc(length);
    mcp->secret_length = length;
    memcpy(mcp->secret, secret, length);
    uv_timer_init(loop, &mcp->pulse);
    mcp->pulse.data = mcp;
    return mcp;
}

const struct mcp_offer *mcp_offer(const struct mcp *mcp)
{
    return mcp->offer;
}

static void free_at_last(uv_handle_t *pulse)
{
    struct mcp *mcp = pulse->data;
    json_decref(mcp->definitions);
    strv_free(mcp->ended);
    free(mcp->secret);
    free(mcp);
}

void mcp_close(struct mcp *mcp)
{
    subscription_end_all(mcp);
    mcp_call_cancel_all(mcp->loose);
    while (mcp->peers)
        peer_free(mcp, mcp->peers);
    mcp_http_close(mcp);
    uv_close((uv_handle_t *)&mcp->pulse, free_at_last);
}
