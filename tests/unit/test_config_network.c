/* Published ports and the way out, as they are asked for and as they travel to the keeper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "refusal.h"
#include "sandbox/config.h"
#include "some_config.h"

#define COUNT(list) (sizeof(list) / sizeof *(list))

static void ports_have_an_address_and_two_numbers(void **state)
{
    static const struct {
        const char *text, *address;
        uint16_t host, guest;
    } cases[] = {
        {"8080:80", "127.0.0.1", 8080, 80},         {"0:65535", "127.0.0.1", 0, 65535},
        {"0.0.0.0:8080:80", "0.0.0.0", 8080, 80},   {"[::1]:8080:80", "::1", 8080, 80},
        {"127.0.0.2:0:8000", "127.0.0.2", 0, 8000},
    };
    struct sandbox_config *config = *state;
    struct error err;
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(sandbox_config_add_port(config, cases[i].text, &err), 0);
        assert_string_equal(config->ports[i].address, cases[i].address);
        assert_int_equal(config->ports[i].host, cases[i].host);
        assert_int_equal(config->ports[i].guest, cases[i].guest);
    }
    assert_int_equal(config->port_count, COUNT(cases));
}

static void ports_that_make_no_sense_are_refused(void **state)
{
    static const char *const bad[] = {"",
                                      "80",
                                      ":80",
                                      "80:",
                                      "80:0",
                                      "a:80",
                                      "80:b",
                                      "65536:80",
                                      "80:65536",
                                      "-1:80",
                                      "80:80:80",
                                      "localhost:80:80",
                                      "::1:80:80",
                                      "[::1:80:80",
                                      "[::1]80:80",
                                      "1.2.3:80:80",
                                      "80:80 ",
                                      "99999999999999999999:80",
                                      "[127.0.0.1]:80:80",
                                      "127.0.0.1:80:80:80"};
    struct sandbox_config *config = *state;
    struct error err;
    for (size_t i = 0; i < COUNT(bad); i++) {
        if (sandbox_config_add_port(config, bad[i], &err) == 0)
            fail_msg("%s was taken", bad[i]);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_true(err.hint[0] != '\0');
    }
    assert_int_equal(config->port_count, 0);
}

static void ports_are_counted(void **state)
{
    struct error err;
    int taken = 0;
    while (taken < 1000 && sandbox_config_add_port(*state, "0:80", &err) == 0)
        taken++;
    assert_in_range(taken, 16, 256);
    assert_int_equal(err.code, ERROR_LIMIT);
}

static void the_way_out_is_closed_unless_opened(void **state)
{
    struct sandbox_config *config = *state;
    struct error err;
    assert_null(config->egress);
    assert_int_equal(sandbox_config_set_egress(config, "public,10.0.0.1:80,a.org", &err), 0);
    assert_int_equal(strv_length(config->egress), 3);
    assert_string_equal(config->egress[1], "10.0.0.1:80");
    assert_int_equal(sandbox_config_set_egress(config, "none", &err), 0);
    assert_null(config->egress);
    assert_refused(sandbox_config_set_egress(config, "", &err), ERROR_INVALID);
    assert_refused(sandbox_config_set_egress(config, "none,a.org", &err), ERROR_INVALID);
    assert_refused(sandbox_config_set_egress(config, "a.org,,b.org", &err), ERROR_INVALID);
}

static struct sandbox_config through_json(const struct sandbox_config *config)
{
    struct sandbox_config got;
    struct error err;
    json_t *json = sandbox_config_to_json(config);
    assert_int_equal(sandbox_config_from_json(json, &got, &err), 0);
    json_decref(json);
    return got;
}

static void json_carries_ports_and_the_way_out(void **state)
{
    struct sandbox_config *config = *state;
    struct error err;
    struct sandbox_config empty = through_json(config);
    assert_int_equal(empty.port_count, 0);
    assert_null(empty.egress);
    sandbox_config_free(&empty);

    assert_int_equal(sandbox_config_add_port(config, "[::1]:0:80", &err), 0);
    assert_int_equal(sandbox_config_add_port(config, "8080:8000", &err), 0);
    assert_int_equal(sandbox_config_set_egress(config, "public,*.a.org:443", &err), 0);
    struct sandbox_config got = through_json(config);
    assert_int_equal(got.port_count, 2);
    assert_string_equal(got.ports[0].address, "::1");
    assert_int_equal(got.ports[0].guest, 80);
    assert_int_equal(got.ports[1].host, 8080);
    assert_int_equal(strv_length(got.egress), 2);
    assert_string_equal(got.egress[1], "*.a.org:443");
    sandbox_config_free(&got);
}

static void json_is_checked_like_options(void **state)
{
    static const char *const bad[] = {
        "{\"ports\": [{\"host\": 1}]}",
        "{\"ports\": [{\"host\": -1, \"guest\": 80}]}",
        "{\"ports\": [5]}",
        "{\"ports\": [{\"address\": \"x\", \"host\": 1, \"guest\": 80}]}",
        "{\"egress\": [\"127.0.0.1\"]}",
        "{\"egress\": [5]}",
        "{\"egress\": \"a b\"}"};
    struct error err;
    for (size_t i = 0; i < COUNT(bad); i++) {
        json_t *json = sandbox_config_to_json(*state);
        json_t *more = json_loads(bad[i], 0, NULL);
        json_object_update(json, more);
        struct sandbox_config got;
        if (sandbox_config_from_json(json, &got, &err) == 0)
            fail_msg("%s was taken", bad[i]);
        sandbox_config_free(&got);
        json_decref(more);
        json_decref(json);
    }
}

#define test(name) cmocka_unit_test_setup_teardown(name, make_config, free_config)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(ports_have_an_address_and_two_numbers),
        test(ports_that_make_no_sense_are_refused),
        test(ports_are_counted),
        test(the_way_out_is_closed_unless_opened),
        test(json_carries_ports_and_the_way_out),
        test(json_is_checked_like_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
