/* A WebSocket over a real connection: a silent client is asked, and let go. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/http/websocket.h"

static struct http_server server;
static unsigned closed_with;

static void on_message(struct websocket *socket, bool is_text, const uint8_t *bytes, size_t length)
{
    (void)is_text, (void)bytes;
    websocket_consumed(socket, length);
}

static void on_close(struct websocket *socket, unsigned code)
{
    (void)socket;
    closed_with = code;
    http_drain(&server);
}

static void handle(struct http_request *request)
{
    static const struct websocket_handlers handlers = {.on_message = on_message,
                                                       .on_close = on_close};
    assert_non_null(websocket_accept(request, NULL, 1000, &handlers, NULL));
}

static const struct http_route routes[] = {{"GET", "/", handle, 0}, {0}};

/* Connects, says nothing more and reads to the end: 0 when the last it got was a ping. */
static int be_silent(uint16_t port)
{
    static const char head[] = "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n"
                               "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    uint8_t bytes[4096];
    size_t length = 0;
    ssize_t got;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) < 0 ||
        write(fd, head, sizeof head - 1) < 0)
        return 1;
    while ((got = read(fd, bytes + length, sizeof bytes - length)) > 0)
        length += (size_t)got;
    close(fd);
    return length < 2 || memcmp(bytes + length - 2, "\x89\x00", 2) != 0;
}

static void silent_clients_are_let_go(void **state)
{
    (void)state;
    struct error err;
    uv_loop_t loop;
    int status;
    uv_loop_init(&loop);
    http_init(&server, &loop, routes);
    server.limits.ping_ms = 50;
    assert_int_equal(http_listen(&server, "127.0.0.1", 0, &err), 0);
    pid_t child = fork();
    if (child == 0)
        _exit(be_silent(http_port(&server)));
    uv_run(&loop, UV_RUN_DEFAULT);
    assert_int_equal(uv_loop_close(&loop), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(closed_with, WEBSOCKET_LOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(silent_clients_are_let_go)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
