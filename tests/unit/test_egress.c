/* Where connections from inside may go, and which requests to the proxy are understood. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "refusal.h"
#include "sandbox/egress_policy.h"
#include "sandbox/proxy_request.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static struct egress_policy policy_of(const char *const *entries)
{
    struct error err;
    struct egress_policy policy;
    cleanup_strv char **list = NULL;
    for (; *entries; entries++)
        strv_append(&list, xstrdup(*entries));
    assert_int_equal(egress_policy_parse(&policy, list, &err), 0);
    return policy;
}

#define POLICY(...) policy_of((const char *const[]){__VA_ARGS__, NULL})

static bool allows_host(const struct egress_policy *policy, const char *host, uint16_t port)
{
    struct error err = {0};
    bool allowed = egress_check_host(policy, host, port, &err) == 0;
    assert_true(allowed || (err.code == ERROR_DENIED && strstr(err.hint, "--network")));
    return allowed;
}

static bool allows_address(const struct egress_policy *policy, const char *host, const char *text,
                           uint16_t port)
{
    struct error err = {0};
    struct sockaddr_storage address;
    assert_true(egress_host_address(text, port, &address));
    bool allowed = egress_check_address(policy, host, port, (struct sockaddr *)&address, &err) == 0;
    assert_true(allowed || err.code == ERROR_DENIED);
    return allowed;
}

/* ---- the policy ---------------------------------------------------------------------------- */

static void nothing_is_allowed_by_no_entries(void **state)
{
    (void)state;
    struct egress_policy policy = {0};
    assert_false(allows_host(&policy, "example.com", 443));
    assert_false(allows_host(&policy, "8.8.8.8", 443));
}

static void names_match_whole_and_ports_exactly(void **state)
{
    static const struct {
        const char *host;
        uint16_t port;
        bool allowed;
    } cases[] = {
        {"example.com", 443, true},     {"example.com", 80, true},
        {"example.com", 25, false},     {"example.com.evil.org", 443, false},
        {"notexample.com", 443, false}, {"a.example.com", 443, false},
        {"wild.org", 443, false},       {"a.wild.org", 443, true},
        {"a.b.wild.org", 8443, true},   {".wild.org", 443, false},
        {"awild.org", 443, false},      {"a.wild.org.evil.org", 443, false},
        {"secure.net", 443, true},      {"secure.net", 80, false},
        {"mail.net", 25, true},         {"10.1.2.3", 8080, true},
        {"10.1.2.3", 8081, false},      {"::ffff:10.1.2.3", 8080, true},
        {"1.1.1.1", 443, true},         {"1.0.0.1", 443, false},
        {"2606:4700::1111", 443, true}, {"localhost", 8000, true},
        {"localhost", 8001, false},
    };
    (void)state;
    struct egress_policy policy =
        POLICY("Example.COM.", "*.wild.org", "secure.net:443", "mail.net:25", "10.1.2.3:8080",
               "1.1.1.1", "[2606:4700::1111]:443", "localhost:8000");
    for (size_t i = 0; i < COUNT(cases); i++) {
        if (allows_host(&policy, cases[i].host, cases[i].port) != cases[i].allowed)
            fail_msg("%s:%u", cases[i].host, cases[i].port);
    }
    egress_policy_free(&policy);
}

static void public_means_every_name_but_no_mail(void **state)
{
    (void)state;
    struct egress_policy policy = POLICY("public");
    assert_true(allows_host(&policy, "anything.example", 443));
    assert_true(allows_host(&policy, "8.8.8.8", 9999));
    assert_false(allows_host(&policy, "anything.example", 25));
    egress_policy_free(&policy);
}

static void only_the_public_internet_is_reached(void **state)
{
    static const char *const refused[] = {
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.0.1",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.8",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.1.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::8.8.8.8",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "64:ff9b::7f00:1",
        "64:ff9b::808:808",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "3fff::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    };
    static const char *const reached[] = {
        "1.1.1.1",         "8.8.8.8",         "9.255.255.255",   "11.0.0.1",
        "100.63.255.255",  "100.128.0.1",     "126.255.255.255", "128.0.0.1",
        "169.253.255.255", "172.15.255.255",  "172.32.0.1",      "192.167.255.255",
        "192.169.0.1",     "198.17.255.255",  "198.20.0.1",      "223.255.255.255",
        "::ffff:8.8.8.8",  "2606:4700::1111", "2a00:1450::1",    "2001:4860:4860::8888",
    };
    (void)state;
    struct egress_policy policy = POLICY("public", "name.example");
    for (size_t i = 0; i < COUNT(refused); i++) {
        if (allows_address(&policy, "name.example", refused[i], 443))
            fail_msg("%s was allowed", refused[i]);
    }
    for (size_t i = 0; i < COUNT(reached); i++) {
        if (!allows_address(&policy, "name.example", reached[i], 443))
            fail_msg("%s was refused", reached[i]);
    }
    egress_policy_free(&policy);
}

static void other_addresses_are_reached_when_named_with_their_port(void **state)
{
    (void)state;
    struct egress_policy policy = POLICY("public", "10.1.2.3:8080", "[::1]:9000");
    assert_true(allows_address(&policy, "10.1.2.3", "10.1.2.3", 8080));
    assert_true(allows_address(&policy, "10.1.2.3", "::ffff:10.1.2.3", 8080));
    assert_false(allows_address(&policy, "10.1.2.3", "10.1.2.3", 80));
    assert_false(allows_address(&policy, "10.1.2.4", "10.1.2.4", 8080));
    assert_true(allows_address(&policy, "::1", "::1", 9000));
    assert_false(allows_address(&policy, "::1", "127.0.0.1", 9000));
    egress_policy_free(&policy);
}

static void the_host_has_a_name(void **state)
{
    (void)state;
    struct egress_policy policy = POLICY("host.internal:8000");
    assert_true(allows_address(&policy, "host.internal", "127.0.0.1", 8000));
    assert_false(allows_address(&policy, "host.internal", "127.0.0.1", 8001));
    assert_false(allows_address(&policy, "host.internal", "127.0.0.2", 8000));
    egress_policy_free(&policy);
    struct sockaddr_storage address;
    assert_true(egress_host_address("host.internal", 80, &address));
    assert_false(egress_host_address("other.internal", 80, &address));
    policy = POLICY("public");
    assert_false(allows_address(&policy, "host.internal", "127.0.0.1", 8000));
    egress_policy_free(&policy);
}

static void localhost_is_a_name_of_this_host_alone(void **state)
{
    (void)state;
    struct egress_policy policy = POLICY("public", "localhost:8000");
    assert_true(allows_address(&policy, "localhost", "127.0.0.1", 8000));
    assert_true(allows_address(&policy, "localhost", "::1", 8000));
    assert_false(allows_address(&policy, "localhost", "127.0.0.1", 8001));
    assert_false(allows_address(&policy, "localhost", "10.0.0.1", 8000));
    assert_false(allows_address(&policy, "evil.example", "127.0.0.1", 8000));
    egress_policy_free(&policy);
}

static void entries_that_make_no_sense_are_refused(void **state)
{
    static const char *const entries[] = {
        "",
        "*",
        "*.",
        "*.*",
        "a b",
        "http://example.com",
        "example.com:",
        "example.com:0",
        "example.com:65536",
        "example.com:x",
        "user@example.com",
        "example.com/path",
        "*.10.0.0.1",
        "a..b",
        ".a",
        "127.0.0.1",
        "10.0.0.1",
        "localhost",
        "[::1]",
        "[::1",
        "[example.com]:80",
        "::1",
        "[fe80::1%eth0]:80",
    };
    struct error err;
    (void)state;
    for (size_t i = 0; i < COUNT(entries); i++) {
        struct egress_policy policy;
        cleanup_strv char **list = NULL;
        strv_append(&list, xstrdup(entries[i]));
        if (egress_policy_parse(&policy, list, &err) == 0)
            fail_msg("%s was taken", entries[i]);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_true(err.hint[0] != '\0');
        egress_policy_free(&policy);
    }
}

/* ---- requests to the proxy ----------------------------------------------------------------- */

static void connect_names_host_and_port(void **state)
{
    static const struct {
        const char *target, *host;
        uint16_t port;
    } cases[] = {
        {"example.com:443", "example.com", 443},
        {"EXAMPLE.com.:443", "example.com", 443},
        {"10.0.0.1:80", "10.0.0.1", 80},
        {"[2606:4700::1]:443", "2606:4700::1", 443},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct error err;
        struct proxy_request request;
        cleanup_free char *text =
            xasprintf("CONNECT %s HTTP/1.1\r\nHost: other\r\n\r\nbytes", cases[i].target);
        int head = proxy_request_read(&request, (const uint8_t *)text, strlen(text), &err);
        assert_int_equal(head, strlen(text) - strlen("bytes"));
        assert_true(request.is_connect);
        assert_string_equal(request.host, cases[i].host);
        assert_int_equal(request.port, cases[i].port);
        assert_int_equal(buf_length(&request.head), 0);
        proxy_request_free(&request);
    }
}

static void requests_are_written_anew_for_the_server_that_was_checked(void **state)
{
    static const struct {
        const char *in, *host;
        uint16_t port;
        const char *out;
    } cases[] = {
        {"GET http://example.com/a?b HTTP/1.1\r\nHost: evil.org\r\nAccept: */*\r\n\r\n",
         "example.com", 80,
         "GET /a?b HTTP/1.1\r\nHost: example.com\r\nAccept: */*\r\nConnection: close\r\n\r\n"},
        {"GET HTTP://Example.com:8080 HTTP/1.0\r\n\r\n", "example.com", 8080,
         "GET / HTTP/1.0\r\nHost: example.com:8080\r\nConnection: close\r\n\r\n"},
        {"GET http://example.com?q HTTP/1.1\r\n\r\n", "example.com", 80,
         "GET /?q HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n"},
        {"POST http://[2606::1]/ HTTP/1.1\r\nConnection: keep-alive\r\nproxy-connection: x\r\n"
         "Proxy-Authorization: secret\r\nContent-Length: 3\r\n\r\nabc",
         "2606::1", 80,
         "POST / HTTP/1.1\r\nHost: [2606::1]\r\nContent-Length: 3\r\nConnection: close\r\n\r\n"},
        {"GET http://a.org/x@y HTTP/1.1\r\n\r\n", "a.org", 80,
         "GET /x@y HTTP/1.1\r\nHost: a.org\r\nConnection: close\r\n\r\n"},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct error err;
        struct proxy_request request;
        assert_true(proxy_request_read(&request, (const uint8_t *)cases[i].in, strlen(cases[i].in),
                                       &err) > 0);
        assert_false(request.is_connect);
        assert_string_equal(request.host, cases[i].host);
        assert_int_equal(request.port, cases[i].port);
        assert_string_equal(buf_text(&request.head), cases[i].out);
        proxy_request_free(&request);
    }
}

static void half_a_head_is_waited_for(void **state)
{
    static const char text[] = "GET http://example.com/ HTTP/1.1\r\nA: b\r\n\r\n";
    struct error err;
    struct proxy_request request;
    (void)state;
    for (size_t length = 0; length < sizeof text - 1; length++) {
        assert_int_equal(proxy_request_read(&request, (const uint8_t *)text, length, &err), 0);
        proxy_request_free(&request);
    }
}

static void what_can_be_read_in_two_ways_is_refused(void **state)
{
#define HEAD "GET http://a.org/ HTTP/1.1\r\n"
    static const char *const texts[] = {
        "\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a.org\r\n\r\n",
        "GET https://a.org/ HTTP/1.1\r\n\r\n",
        "GET ftp://a.org/ HTTP/1.1\r\n\r\n",
        "GET http:// HTTP/1.1\r\n\r\n",
        "GET http:///path HTTP/1.1\r\n\r\n",
        "GET http://user@a.org/ HTTP/1.1\r\n\r\n",
        "GET http://a.org@evil.org/ HTTP/1.1\r\n\r\n",
        "GET http://a.org:80@evil.org/ HTTP/1.1\r\n\r\n",
        "GET http://a.org\\@evil.org/ HTTP/1.1\r\n\r\n",
        "GET http://a.org#@evil.org/ HTTP/1.1\r\n\r\n",
        "GET http://a.org%2eevil.org/ HTTP/1.1\r\n\r\n",
        "GET http://a.org:99999/ HTTP/1.1\r\n\r\n",
        "GET http://a.org:/ HTTP/1.1\r\n\r\n",
        "GET http://[::1/ HTTP/1.1\r\n\r\n",
        "GET http://[::1%25lo]/ HTTP/1.1\r\n\r\n",
        "GET  http://a.org/ HTTP/1.1\r\n\r\n",
        "GET http://a.org/ x HTTP/1.1\r\n\r\n",
        "GET http://a.org/\tx HTTP/1.1\r\n\r\n",
        "GET http://a.org/ HTTP/2.0\r\n\r\n",
        "GET http://a.org/\r\n\r\n",
        "G(T http://a.org/ HTTP/1.1\r\n\r\n",
        "CONNECT a.org HTTP/1.1\r\n\r\n",
        "CONNECT a.org:443/ HTTP/1.1\r\n\r\n",
        "CONNECT a.org:443 x HTTP/1.1\r\n\r\n",
        "CONNECT user@a.org:443 HTTP/1.1\r\n\r\n",
        "CONNECT http://a.org:443 HTTP/1.1\r\n\r\n",
        "CONNECT ::1:443 HTTP/1.1\r\n\r\n",
        "CONNECT [a.org]:443 HTTP/1.1\r\n\r\n",
        HEAD "no colon\r\n\r\n",
        HEAD ": empty\r\n\r\n",
        HEAD "Spaced : x\r\n\r\n",
        HEAD "A: b\r\n folded\r\n\r\n",
        HEAD "A: b\rC: d\r\n\r\n",
        HEAD "A: b\nC: d\r\n\r\n",
        HEAD "A: \x01\r\n\r\n",
        HEAD "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
        HEAD "Content-Length: 1\r\ntransfer-encoding: chunked\r\n\r\n",
        HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
    };
#undef HEAD
    struct error err;
    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct proxy_request request;
        if (proxy_request_read(&request, (const uint8_t *)texts[i], strlen(texts[i]), &err) >= 0)
            fail_msg("%s was taken", texts[i]);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_null(strpbrk(err.message, "\r\n"));
        proxy_request_free(&request);
    }
}

static void bytes_that_end_no_text_are_refused(void **state)
{
    static const char text[] = "GET http://a.org/\0x HTTP/1.1\r\nA: b\0c\r\n\r\n";
    struct error err;
    struct proxy_request request;
    (void)state;
    assert_refused(proxy_request_read(&request, (const uint8_t *)text, sizeof text - 1, &err),
                   ERROR_INVALID);
    proxy_request_free(&request);
}

static void a_head_has_a_greatest_length(void **state)
{
    struct error err;
    struct proxy_request request;
    cleanup_buf struct buf text = {0};
    (void)state;
    buf_append_text(&text, "GET http://a.org/ HTTP/1.1\r\nA: ");
    while (buf_length(&text) < PROXY_HEAD_MAX - 1)
        buf_append_text(&text, "x");
    assert_int_equal(proxy_request_read(&request, buf_data(&text), buf_length(&text), &err), 0);
    buf_append_text(&text, "\r\n\r\n");
    assert_refused(proxy_request_read(&request, buf_data(&text), buf_length(&text), &err),
                   ERROR_INVALID);
    proxy_request_free(&request);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_allowed_by_no_entries),
        cmocka_unit_test(names_match_whole_and_ports_exactly),
        cmocka_unit_test(public_means_every_name_but_no_mail),
        cmocka_unit_test(only_the_public_internet_is_reached),
        cmocka_unit_test(other_addresses_are_reached_when_named_with_their_port),
        cmocka_unit_test(the_host_has_a_name),
        cmocka_unit_test(localhost_is_a_name_of_this_host_alone),
        cmocka_unit_test(entries_that_make_no_sense_are_refused),
        cmocka_unit_test(connect_names_host_and_port),
        cmocka_unit_test(requests_are_written_anew_for_the_server_that_was_checked),
        cmocka_unit_test(half_a_head_is_waited_for),
        cmocka_unit_test(what_can_be_read_in_two_ways_is_refused),
        cmocka_unit_test(bytes_that_end_no_text_are_refused),
        cmocka_unit_test(a_head_has_a_greatest_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
