/* The settings of sessions: defaults, values, and errors that name variable, value and remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "session/settings.h"
#include "session/volumes.h"

static void defaults(void **state)
{
    (void)state;
    struct session_settings settings;
    struct error err;
    assert_int_equal(session_settings_read(&settings, &err), 0);
    assert_int_equal(settings.idle_s, 1800);
    assert_int_equal(settings.max_sessions, 10);
    assert_int_equal(settings.cleanup_s, 60);
    assert_int_equal(settings.orphan_s, 600);
    assert_int_equal(settings.execution_s, 300);
    assert_int_equal(settings.start_ms, 180000);
    assert_int_equal(settings.max_memory_mb, 0);
    assert_string_equal(settings.flavor->name, "small");
    assert_string_equal(settings.template->image, "microsandbox/python");
    assert_true(settings.evict);
    assert_null(settings.volumes);
    session_settings_free(&settings);
}

static void flavors_and_templates(void **state)
{
    (void)state;
    assert_int_equal(session_flavor_find("Small")->memory_mb, 1024);
    assert_int_equal(session_flavor_find("medium")->cpus, 2);
    assert_int_equal(session_flavor_find("LARGE")->memory_mb, 4096);
    assert_null(session_flavor_find("huge"));
    assert_string_equal(session_template_find("nodejs")->name, "node");
    assert_string_equal(session_template_find("JavaScript")->language, "node");
    assert_null(session_template_find("ruby"));
}

static int read_with(const char *variable, const char *value, struct session_settings *settings,
                     struct error *err)
{
    setenv(variable, value, 1);
    int result = session_settings_read(settings, err);
    unsetenv(variable);
    return result;
}

static void every_wrong_value_is_named(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"MSB_SESSION_TIMEOUT", "0"},
        {"MSB_SESSION_TIMEOUT", "-5"},
        {"MSB_SESSION_TIMEOUT", "half an hour"},
        {"MSB_SESSION_TIMEOUT", "99999999999999999999"},
        {"MSB_CLEANUP_INTERVAL", "0"},
        {"MSB_MAX_SESSIONS", "0"},
        {"MSB_MAX_SESSIONS", "1.5"},
        {"MSB_MAX_SESSIONS", "10 "},
        {"MSB_EXECUTION_TIMEOUT", "x"},
        {"MSB_SANDBOX_START_TIMEOUT", "0"},
        {"MSB_SANDBOX_START_TIMEOUT", "nan"},
        {"MSB_SANDBOX_START_TIMEOUT", "-1"},
        {"MSB_MAX_TOTAL_MEMORY_MB", "lots"},
        {"MSB_ORPHAN_CLEANUP_INTERVAL", "0"},
        {"MSB_ENABLE_LRU_EVICTION", "maybe"},
        {"MSB_DEFAULT_FLAVOR", "huge"},
        {"MSB_DEFAULT_TEMPLATE", "ruby"},
        {"MSB_SERVER_URL", "ftp://x"},
        {"MSB_SHARED_VOLUME_PATH", "{\"a\": \"b\"}"},
        {"MSB_SHARED_VOLUME_PATH", "[\"/tmp:/data\""},
        {"MSB_SHARED_VOLUME_PATH", "\"/tmp:/data\"]"},
        {"MSB_SHARED_VOLUME_PATH", "[1]"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct session_settings settings;
        struct error err = {0};
        assert_true(read_with(wrong[i][0], wrong[i][1], &settings, &err) < 0);
        assert_non_null(strstr(err.message, wrong[i][0]));
        assert_non_null(strstr(err.message, wrong[i][1]));
        assert_non_null(strstr(err.hint, wrong[i][0]));
        session_settings_free(&settings);
    }
}

static void what_must_fit_together(void **state)
{
    (void)state;
    struct session_settings settings;
    struct error err;
    assert_true(read_with("MSB_SESSION_TIMEOUT", "60", &settings, &err) < 0);
    assert_non_null(strstr(err.message, "MSB_CLEANUP_INTERVAL"));
    session_settings_free(&settings);
    assert_true(read_with("MSB_MAX_TOTAL_MEMORY_MB", "512", &settings, &err) < 0);
    assert_non_null(strstr(err.hint, "1024"));
    session_settings_free(&settings);
}

static void values_are_taken(void **state)
{
    (void)state;
    struct session_settings settings;
    struct error err;
    assert_int_equal(read_with("MSB_SANDBOX_START_TIMEOUT", "2.5", &settings, &err), 0);
    assert_int_equal(settings.start_ms, 2500);
    session_settings_free(&settings);
    assert_int_equal(read_with("MSB_ENABLE_LRU_EVICTION", "Disabled", &settings, &err), 0);
    assert_false(settings.evict);
    session_settings_free(&settings);
    assert_int_equal(read_with("MSB_DEFAULT_FLAVOR", "Large", &settings, &err), 0);
    assert_int_equal(settings.flavor->cpus, 4);
    session_settings_free(&settings);
    assert_int_equal(read_with("MSB_MAX_SESSIONS", "", &settings, &err), 0);
    assert_int_equal(settings.max_sessions, 10);
    session_settings_free(&settings);
}

static void volumes_in_all_forms(void **state)
{
    (void)state;
    static const char *const forms[] = {"[\"/tmp:/a\", \"/usr:/b\"]", "/tmp:/a,/usr:/b",
                                        " /tmp:/a , /usr:/b "};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        struct session_settings settings;
        struct error err;
        assert_int_equal(read_with("MSB_SHARED_VOLUME_PATH", forms[i], &settings, &err), 0);
        json_t *list = volumes_json(settings.volumes);
        assert_int_equal(json_array_size(list), 2);
        const json_t *second = json_array_get(list, 1);
        assert_string_equal(json_string_value(json_object_get(second, "host_path")), "/usr");
        assert_string_equal(json_string_value(json_object_get(second, "container_path")), "/b");
        json_decref(list);
        session_settings_free(&settings);
    }
}

static void volumes_that_cannot_be(void **state)
{
    (void)state;
    static const char *const wrong[] = {"/tmp",   "/tmp:", ":/a", "/nosuch-folder:/a",
                                        "tmp:/a", "/tmp:a"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        struct session_settings settings;
        struct error err;
        assert_true(read_with("MSB_SHARED_VOLUME_PATH", wrong[i], &settings, &err) < 0);
        assert_non_null(strstr(err.message, "MSB_SHARED_VOLUME_PATH"));
        session_settings_free(&settings);
    }
}

static void clients_share_only_what_is_allowed(void **state)
{
    (void)state;
    char folder[] = "/tmp/msb-roots-XXXXXX";
    struct error err;
    assert_non_null(mkdtemp(folder));
    char *roots[] = {folder, NULL};
    cleanup_free char *inside = xasprintf("%s:/a", folder);
    cleanup_free char *outside = xasprintf("%s/../..:/a", folder);
    cleanup_free char *beside = xasprintf("%sx:/a", folder);
    assert_int_equal(volumes_check(inside, roots, &err), 0);
    assert_true(volumes_check(outside, roots, &err) < 0);
    assert_int_equal(err.code, ERROR_DENIED);
    assert_true(volumes_check(beside, roots, &err) < 0);
    assert_true(volumes_check("/etc:/a", roots, &err) < 0);
    assert_true(volumes_check(inside, NULL, &err) < 0);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(flavors_and_templates),
        cmocka_unit_test(every_wrong_value_is_named),
        cmocka_unit_test(what_must_fit_together),
        cmocka_unit_test(values_are_taken),
        cmocka_unit_test(volumes_in_all_forms),
        cmocka_unit_test(volumes_that_cannot_be),
        cmocka_unit_test(clients_share_only_what_is_allowed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
