/* What a sandbox is asked to be: names, volumes, variables, limits, and its way as JSON. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sandbox/config.h"
#include "some_config.h"

static void defaults_are_possible(void **state)
{
    struct error err;
    assert_int_equal(sandbox_config_check(*state, &err), 0);
}

static void engines_are_asked_for_by_name(void **state)
{
    struct sandbox_config *config = *state;
    unsetenv("MSB_ENGINE");
    sandbox_config_choose_engine(config, NULL);
    assert_string_equal(config->engine, "vm");
    setenv("MSB_ENGINE", "jail", 1);
    sandbox_config_choose_engine(config, NULL);
    assert_string_equal(config->engine, "jail");
    sandbox_config_choose_engine(config, "vm");
    assert_string_equal(config->engine, "vm");
    unsetenv("MSB_ENGINE");
}

static void names_stay_inside_their_folder(void **state)
{
    static const char *const good[] = {"a", "0", "my-box_1.2", "exe-0123abcd", "Box"};
    static const char *const bad[] = {"",  ".",   "..",   "../a",   "a/b",      "-a",     "_a",
                                      "*", "a b", "a\nb", "\x1b[m", "\xc3\xa4", ".hidden"};
    char longest[65] = "";
    struct error err;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        assert_int_equal(sandbox_check_name("name", good[i], &err), 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_true(sandbox_check_name("name", bad[i], &err) < 0);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_true(err.hint[0] != '\0');
    }
    memset(longest, 'a', 63);
    assert_int_equal(sandbox_check_name("name", longest, &err), 0);
    longest[63] = 'a';
    assert_true(sandbox_check_name("name", longest, &err) < 0);
}

static void numbers_have_limits(void **state)
{
    struct sandbox_config *config = *state;
    unsigned *const numbers[] = {&config->cpus,      &config->memory_mb,  &config->disk_mb,
                                 &config->processes, &config->open_files, &config->files,
                                 &config->cpu_limit};
    struct error err;
    for (size_t i = 0; i < 7; i++) {
        unsigned before = *numbers[i];
        bool zero_means_default = i >= 5;
        *numbers[i] = 0;
        assert_int_equal(sandbox_config_check(config, &err) == 0, zero_means_default);
        *numbers[i] = 1;
        assert_int_equal(sandbox_config_check(config, &err) == 0, i == 0);
        *numbers[i] = UINT32_MAX;
        assert_true(sandbox_config_check(config, &err) < 0);
        assert_int_equal(err.code, ERROR_INVALID);
        assert_true(err.hint[0] != '\0');
        *numbers[i] = before;
    }
}

static void refused_numbers_are_named_with_their_range(void **state)
{
    struct sandbox_config *config = *state;
    struct error err;
    config->processes = 5;
    assert_true(sandbox_config_check(config, &err) < 0);
    assert_string_equal(err.message, "a limit of 5 processes is not possible");
    assert_string_equal(err.hint, "processes can be 16 to 32768");
}

static void a_disk_holds_only_so_many_files(void **state)
{
    struct sandbox_config *config = *state;
    struct error err;
    config->disk_mb = 100;
    config->files = 25600;
    assert_int_equal(sandbox_config_check(config, &err), 0);
    config->files++;
    assert_true(sandbox_config_check(config, &err) < 0);
}

static void only_known_engines_pass(void **state)
{
    struct sandbox_config *config = *state;
    struct error err;
    free(config->engine);
    config->engine = xstrdup("rocket");
    assert_true(sandbox_config_check(config, &err) < 0);
}

static void volume_has_two_paths_and_a_mode(void **state)
{
    struct sandbox_config *config = *state;
    struct error err;
    assert_int_equal(sandbox_config_add_volume(config, "/tmp:/data", "/", &err), 0);
    assert_int_equal(sandbox_config_add_volume(config, "tmp:/more:ro", "/", &err), 0);
    assert_int_equal(sandbox_config_add_volume(config, "/usr/../tmp:/a/b:rw", "/", &err), 0);
    assert_int_equal(config->volume_count, 3);
    assert_string_equal(config->volumes[0].guest, "/data");
    assert_false(config->volumes[0].read_only);
    assert_string_equal(config->volumes[1].host, "/tmp");
    assert_string_equal(config->volumes[1].guest, "/more");
    assert_true(config->volumes[1].read_only);
    assert_string_equal(config->volumes[2].host, "/tmp");
    assert_false(config->volumes[2].read_only);
}

static void volume_that_makes_no_sense_is_refused(void **state)
{
    static const char *const bad[] = {
        "",         "/tmp",          ":/data",       "/tmp:",       "/tmp:data",    "/tmp:/",
        "/tmp:/..", "/tmp:/a/../b",  "/tmp::ro",     "/nowhere:/a", "/dev/null:/a", "/tmp://",
        "/tmp:/.",  "/tmp:/data:rx", "/tmp:/a/..:ro"};
    struct sandbox_config *config = *state;
    struct error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (sandbox_config_add_volume(config, bad[i], "/", &err) == 0)
            fail_msg("%s was taken", bad[i]);
    }
    assert_int_equal(config->volume_count, 0);
}

static void volumes_are_counted(void **state)
{
    struct error err;
    int taken = 0;
    while (taken < 1000 && sandbox_config_add_volume(*state, "/tmp:/a", "/", &err) == 0)
        taken++;
    assert_in_range(taken, 8, 64);
    assert_int_equal(err.code, ERROR_LIMIT);
}

static void variables_are_set_or_passed_on(void **state)
{
    struct sandbox_config *config = *state;
    struct error err;
    setenv("MSB_TEST_SET", "of the host", 1);
    unsetenv("MSB_TEST_UNSET");
    assert_int_equal(sandbox_config_add_env(config, "A=b=c", &err), 0);
    assert_int_equal(sandbox_config_add_env(config, "EMPTY=", &err), 0);
    assert_int_equal(sandbox_config_add_env(config, "MSB_TEST_SET", &err), 0);
    assert_int_equal(sandbox_config_add_env(config, "MSB_TEST_UNSET", &err), 0);
    assert_int_equal(strv_length(config->env), 3);
    assert_string_equal(config->env[0], "A=b=c");
    assert_string_equal(config->env[1], "EMPTY=");
    assert_string_equal(config->env[2], "MSB_TEST_SET=of the host");
    assert_true(sandbox_config_add_env(config, "=x", &err) < 0);
    assert_true(sandbox_config_add_env(config, "1A=x", &err) < 0);
    assert_true(sandbox_config_add_env(config, "A B=x", &err) < 0);
    assert_true(sandbox_config_add_env(config, "", &err) < 0);
}

static void json_carries_everything(void **state)
{
    struct sandbox_config *config = *state, got;
    struct error err;
    assert_int_equal(sandbox_config_add_volume(config, "/tmp:/data:ro", "/", &err), 0);
    assert_int_equal(sandbox_config_add_env(config, "A=\"quoted\"\n\xc3\xa4", &err), 0);
    config->user = xstrdup("somebody");
    config->fingerprint = xstrdup("print");
    config->log_folder = xstrdup("/log");
    strv_append(&config->start, xstrdup("sleep"));
    strv_append(&config->peers, xstrdup("db:5432"));
    config->idle_ms = 1ull << 40;
    config->attached = true;
    config->cpus = 3;
    config->files = 5000;
    config->cpu_limit = 70;
    config->processes = 77;
    config->open_files = 333;
    config->output_limit = 1ull << 35;

    json_t *json = sandbox_config_to_json(config);
    cleanup_free char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    json = json_loads(text, 0, NULL);
    assert_non_null(json);
    assert_int_equal(sandbox_config_from_json(json, &got, &err), 0);
    json_decref(json);

    assert_string_equal(got.name, "box");
    assert_string_equal(got.namespace, "default");
    assert_string_equal(got.user, "somebody");
    assert_null(got.workdir);
    assert_string_equal(got.fingerprint, "print");
    assert_string_equal(got.log_folder, "/log");
    assert_string_equal(got.start[0], "sleep");
    assert_string_equal(got.peers[0], "db:5432");
    assert_string_equal(got.env[0], config->env[0]);
    assert_int_equal(got.volume_count, 1);
    assert_string_equal(got.volumes[0].host, "/tmp");
    assert_true(got.volumes[0].read_only);
    assert_true(got.idle_ms == 1ull << 40);
    assert_true(got.attached);
    assert_int_equal(got.cpus, 3);
    assert_int_equal(got.files, 5000);
    assert_int_equal(got.cpu_limit, 70);
    assert_int_equal(got.processes, 77);
    assert_int_equal(got.open_files, 333);
    assert_true(got.output_limit == 1ull << 35);
    assert_int_equal(got.memory_mb, config->memory_mb);
    sandbox_config_free(&got);
}

static void json_that_lacks_something_is_refused(void **state)
{
    static const char *const bad[] = {
        "{}", "[]", "{\"name\": 5}", "{\"namespace\": \"a\", \"name\": \"b\", \"engine\": \"vm\"}"};
    struct sandbox_config got;
    struct error err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        json_t *json = json_loads(bad[i], 0, NULL);
        assert_true(sandbox_config_from_json(json, &got, &err) < 0);
        sandbox_config_free(&got);
        json_decref(json);
    }
}

static void settings_given_later_make_no_other_machine(void **state)
{
    struct sandbox_config *config = *state;
    struct error err;
    cleanup_free char *plain = sandbox_config_machine_text(config);
    assert_int_equal(sandbox_config_add_env(config, "SECRET=1", &err), 0);
    assert_int_equal(sandbox_config_add_port(config, "0:80", &err), 0);
    assert_int_equal(sandbox_config_set_egress(config, "example.org", &err), 0);
    config->workdir = xstrdup("/tmp");
    config->idle_ms = 1000;
    config->lifetime_ms = 1000;
    config->attached = true;
    free(config->name);
    config->name = xstrdup("other");
    cleanup_free char *same = sandbox_config_machine_text(config);
    assert_string_equal(same, plain);
    assert_null(strstr(same, "SECRET"));
}

static void what_shapes_the_machine_makes_another(void **state)
{
    struct sandbox_config *config = *state;
    unsigned *const numbers[] = {&config->cpus,     &config->memory_mb, &config->disk_mb,
                                 &config->files,    &config->processes, &config->open_files,
                                 &config->cpu_limit};
    cleanup_free char *plain = sandbox_config_machine_text(config);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        (*numbers[i])++;
        cleanup_free char *other = sandbox_config_machine_text(config);
        assert_string_not_equal(other, plain);
        (*numbers[i])--;
    }
    free(config->image_digest);
    config->image_digest = xstrdup("sha256:1");
    cleanup_free char *image = sandbox_config_machine_text(config);
    assert_string_not_equal(image, plain);
}

static void folders_and_users_cannot_be_given_later(void **state)
{
    struct error err;
    struct sandbox_config *config = *state;
    config->image_user = xstrdup("user");
    config->user = xstrdup("user");
    cleanup_free char *same = sandbox_config_machine_text(config);
    assert_non_null(same);
    free(config->user);
    config->user = xstrdup("root");
    assert_null(sandbox_config_machine_text(config));
    free(steal_pointer(&config->user));
    assert_int_equal(sandbox_config_add_volume(config, "/tmp:/data", "/", &err), 0);
    assert_null(sandbox_config_machine_text(config));
}

#define test(name) cmocka_unit_test_setup_teardown(name, make_config, free_config)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(defaults_are_possible),
        test(names_stay_inside_their_folder),
        test(numbers_have_limits),
        test(refused_numbers_are_named_with_their_range),
        test(a_disk_holds_only_so_many_files),
        test(only_known_engines_pass),
        test(engines_are_asked_for_by_name),
        test(volume_has_two_paths_and_a_mode),
        test(volume_that_makes_no_sense_is_refused),
        test(volumes_are_counted),
        test(variables_are_set_or_passed_on),
        test(json_carries_everything),
        test(json_that_lacks_something_is_refused),
        test(settings_given_later_make_no_other_machine),
        test(what_shapes_the_machine_makes_another),
        test(folders_and_users_cannot_be_given_later),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
