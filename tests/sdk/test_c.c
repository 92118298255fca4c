/* libmsb against the server at MSB_SERVER_URL. */
#include <assert.h>
#include <msb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define CALLS 10

static struct msb_client *client;

static void *call_often(void *argument)
{
    struct msb_sandbox *sandbox = argument;
    struct msb_error err;
    for (int i = 0; i < CALLS; i++) {
        char number[16];
        snprintf(number, sizeof number, "%d\n", i);
        number[strlen(number) - 1] = '\0';
        struct msb_result *result =
            msb_command(sandbox, (const char *[]){"echo", number, NULL}, 30, &err);
        assert(result && strncmp(msb_result_stdout(result), number, strlen(number)) == 0);
        msb_result_free(result);
    }
    return NULL;
}

static int collect(void *context, bool is_stderr, const char *text, size_t length)
{
    assert(!is_stderr);
    strncat(context, text, length);
    return 0;
}

static int end_it(void *context, bool is_stderr, const char *text, size_t length)
{
    (void)context, (void)is_stderr, (void)text, (void)length;
    return 1;
}

static void test_running(struct msb_sandbox *sandbox)
{
    struct msb_error err;
    msb_result_free(msb_run(sandbox, "x = 41", 0, &err));
    struct msb_result *result = msb_run(sandbox, "x + 1", 0, &err);
    assert(result && msb_result_succeeded(result) && msb_result_exit_code(result) == 0);
    assert(strcmp(msb_result_stdout(result), "42\n") == 0);
    assert(strstr(msb_result_json(result), "\"results\""));
    msb_result_free(result);
    result = msb_run(sandbox, "1/0", 0, &err);
    assert(result && !msb_result_succeeded(result) && msb_result_exit_code(result) == 1);
    assert(strstr(msb_result_stderr(result), "ZeroDivisionError"));
    msb_result_free(result);
    assert(!msb_run(sandbox, "\xff", 0, &err) && strcmp(err.code, "invalid") == 0);
}

static void test_commands(struct msb_sandbox *sandbox)
{
    struct msb_error err;
    struct msb_result *result = msb_command(
        sandbox, (const char *[]){"sh", "-c", "echo out; echo err >&2; exit 3", NULL}, 0, &err);
    assert(result && msb_result_exit_code(result) == 3 && !msb_result_succeeded(result));
    assert(strcmp(msb_result_stdout(result), "out\n") == 0);
    assert(strcmp(msb_result_stderr(result), "err\n") == 0);
    msb_result_free(result);
    assert(!msb_command(sandbox, (const char *[]){"no-such-program", NULL}, 0, &err));
    assert(err.message[0] && !msb_command(sandbox, (const char *[]){NULL}, 0, &err));
}

static void test_streams(struct msb_sandbox *sandbox)
{
    struct msb_error err;
    char text[100] = "";
    struct msb_result *result =
        msb_run_stream(sandbox, "for i in range(3): print(i)", 0, collect, text, &err);
    assert(result && msb_result_succeeded(result) && strcmp(text, "0\n1\n2\n") == 0);
    msb_result_free(result);
    assert(!msb_run_stream(sandbox, "while True: print(1)", 0, end_it, NULL, &err));
    assert(strcmp(err.code, "cancelled") == 0);
}

static void test_files(struct msb_sandbox *sandbox)
{
    struct msb_error err;
    unsigned char bytes[257];
    size_t length;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)i;
    assert(msb_write_file(sandbox, "folder/a.bin", bytes, sizeof bytes, &err) == 0);
    char *read = msb_read_file(sandbox, "folder/a.bin", &length, &err);
    assert(read && length == sizeof bytes && memcmp(read, bytes, length) == 0);
    free(read);
    assert(msb_write_file(sandbox, "empty", "", 0, &err) == 0);
    read = msb_read_file(sandbox, "empty", &length, &err);
    assert(read && length == 0);
    free(read);
    assert(!msb_read_file(sandbox, "nothing", &length, &err));
    assert(strcmp(err.code, "not_found") == 0);
}

static void test_threads(struct msb_sandbox *sandbox)
{
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, call_often, sandbox);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

static void test_sessions(void)
{
    struct msb_error err;
    struct msb_result *first = msb_session_run(client, NULL, NULL, "y = 5", 60, &err);
    assert(first && msb_result_succeeded(first) && msb_result_session(first)[0]);
    struct msb_result *second =
        msb_session_run(client, msb_result_session(first), NULL, "print(y)", 60, &err);
    assert(second && strcmp(msb_result_stdout(second), "5\n") == 0);
    assert(msb_session_stop(client, msb_result_session(first), &err) == 1);
    assert(msb_session_stop(client, "none", &err) == 0);
    msb_result_free(first);
    msb_result_free(second);
}

int main(void)
{
    struct msb_error err;
    assert(!msb_connect("localhost", NULL, &err) && strcmp(err.code, "invalid") == 0);
    struct msb_client *nowhere = msb_connect("http://127.0.0.1:1", NULL, &err);
    assert(nowhere && !msb_call(nowhere, "sandbox.list", NULL, &err));
    assert(strcmp(err.code, "unavailable") == 0 && err.hint[0]);
    msb_disconnect(nowhere);

    client = msb_connect(NULL, NULL, &err);
    struct msb_sandbox *sandbox =
        msb_start(client, &(struct msb_options){.name = "c-test", .memory_mb = 512}, &err);
    assert(sandbox && strcmp(msb_sandbox_name(sandbox), "c-test") == 0);
    test_running(sandbox);
    test_commands(sandbox);
    test_streams(sandbox);
    test_files(sandbox);
    test_threads(sandbox);
    char *list = msb_call(client, "sandbox.list", "{}", &err);
    assert(list && strstr(list, "c-test"));
    free(list);
    assert(msb_stop(sandbox, &err) == 0 && msb_stop(sandbox, &err) < 0);
    msb_sandbox_free(sandbox);
    test_sessions();
    msb_disconnect(client);
    return 0;
}
