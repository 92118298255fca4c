/* One client on two descriptors, without a server: nothing is touched before its first call, and
 * nothing is left when it goes. */
#include <signal.h>
#include <string.h>
#include <sys/random.h>

#include "base/mem.h"
#include "server/tools/internal.h"

#define SECRET_BYTES 32

static int open_boxes(struct server *server, struct error *err)
{
    if (launcher_open(&server->launcher, &server->loop, err) < 0)
        return -1;
    server->boxes = (struct boxes){.loop = &server->loop,
                                   .launcher = &server->launcher,
                                   .pools = pools_open(&server->loop, &server->launcher),
                                   .attached = true,
                                   .context = server};
    return 0;
}

int tools_begin(struct server *server, struct error *err)
{
    if (server->sessions)
        return 0;
    if (session_settings_read(&server->session_settings, err) < 0) {
        session_settings_free(&server->session_settings);
        return -1;
    }
    if (!server->boxes.launcher && open_boxes(server, err) < 0)
        return -1;
    server->sessions = sessions_open(&server->boxes, &server->session_settings, ":memory:", err);
    return server->sessions ? 0 : -1;
}

static void on_ended(struct mcp *mcp)
{
    struct server *server = mcp_offer(mcp)->context;
    uv_stop(&server->loop);
}

static void on_signal(uv_signal_t *watch, int number)
{
    (void)number;
    uv_stop(watch->loop);
}

int tools_serve_stdio(struct server *server, const struct server_options *options,
                      enum tool_set set, int in, int out, struct error *err)
{
    char secret[2 * SECRET_BYTES + 1] = {0};
    if (getrandom(secret, sizeof secret - 1, 0) != sizeof secret - 1)
        abort();
    uv_loop_init(&server->loop);
    server->options = options;
    tools_open(server, set, secret);
    uv_signal_init(&server->loop, &server->term);
    uv_signal_init(&server->loop, &server->interrupt);
    uv_signal_start(&server->term, on_signal, SIGTERM);
    uv_signal_start(&server->interrupt, on_signal, SIGINT);
    int result = mcp_stdio_start(server->mcp[set], in, out, on_ended);
    if (result < 0)
        return error_set(err, ERROR_IO, "cannot use stdin and stdout: %s", uv_strerror(result));
    uv_run(&server->loop, UV_RUN_DEFAULT);
    return 0;
}
