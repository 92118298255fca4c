/*
 * Starts a sandbox, runs code and a command in it, stops it.
 *
 *     cc workflow.c $(pkg-config --cflags --libs msb) -o workflow && ./workflow
 */
#include <msb.h>
#include <stdio.h>
#include <stdlib.h>

static struct msb_error err;

static void fail(const char *what)
{
    fprintf(stderr, "%s: %s (%s)\n%s\n", what, err.message, err.code, err.hint);
    exit(1);
}

static int print(void *context, bool is_stderr, const char *text, size_t length)
{
    (void)context;
    fwrite(text, 1, length, is_stderr ? stderr : stdout);
    return 0;
}

static void show(const char *what, struct msb_result *result)
{
    if (!result)
        fail(what);
    printf("%s", msb_result_stdout(result));
    msb_result_free(result);
}

int main(void)
{
    struct msb_client *client = msb_connect(NULL, NULL, &err);
    if (!client)
        fail("connect");
    struct msb_sandbox *sandbox = msb_start(client, NULL, &err);
    if (!sandbox)
        fail("start");
    show("run", msb_run(sandbox, "x = 6", 0, &err));
    show("run", msb_run(sandbox, "x * 7", 0, &err));
    show("command", msb_command(sandbox, (const char *[]){"echo", "hello", NULL}, 10, &err));
    show("stream",
         msb_run_stream(sandbox, "for i in range(3): print('step', i)", 0, print, NULL, &err));
    if (msb_stop(sandbox, &err) < 0)
        fail("stop");
    msb_sandbox_free(sandbox);
    msb_disconnect(client);
    return 0;
}
