/* What pip and npm print, and what it means for each package. The lines are theirs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "sandbox/packages.h"

static void note_all(struct packages *packages, bool is_stdout, const char *const *lines)
{
    for (; *lines; lines++)
        packages_note(packages, is_stdout, *lines);
}

static void begin(struct packages *packages, const char *language, char *const *names)
{
    struct error err;
    assert_int_equal(packages_init(packages, language, names, &err), 0);
    strv_free(packages_argv(packages));
}

static void assert_package(const struct packages *packages, size_t index, enum package_state state,
                           const char *version)
{
    assert_int_equal(packages->list[index].state, state);
    if (version)
        assert_string_equal(packages->list[index].version, version);
    else
        assert_null(packages->list[index].version);
}

static void pip_installs(void **state)
{
    (void)state;
    struct packages packages;
    begin(&packages, "python", (char *[]){"numpy<2", "Python_Dateutil", "six==1.16.0", NULL});
    note_all(
        &packages, true,
        (const char *[]){
            "Requirement already satisfied: numpy<2 in /usr/lib/python3/dist-packages (1.24.2)",
            "Collecting python-dateutil",
            "  Downloading python_dateutil-2.9.0-py2.py3-none-any.whl (229 kB)",
            "Successfully installed python-dateutil-2.9.0 six-1.16.0", NULL});
    assert_false(packages_conclude(&packages, 0));
    assert_package(&packages, 0, PACKAGE_PRESENT, "1.24.2");
    assert_package(&packages, 1, PACKAGE_INSTALLED, "2.9.0");
    assert_package(&packages, 2, PACKAGE_INSTALLED, "1.16.0");
    packages_free(&packages);
}

static void pip_tries_again_without_what_is_not_there(void **state)
{
    (void)state;
    struct packages packages;
    begin(&packages, "python", (char *[]){"six", "nosuch==1", NULL});
    note_all(&packages, false,
             (const char *[]){"ERROR: Could not find a version that satisfies the requirement "
                              "nosuch==1 (from versions: none)",
                              "ERROR: No matching distribution found for nosuch==1", NULL});
    assert_true(packages_conclude(&packages, 1));
    assert_package(&packages, 1, PACKAGE_NOT_FOUND, NULL);
    assert_non_null(strstr(packages.list[1].message, "nosuch==1"));
    char **argv = packages_argv(&packages);
    assert_true(strv_contains(argv, "six"));
    assert_false(strv_contains(argv, "nosuch==1"));
    strv_free(argv);
    packages_note(&packages, true, "Successfully installed six-1.16.0");
    assert_false(packages_conclude(&packages, 0));
    assert_package(&packages, 0, PACKAGE_INSTALLED, "1.16.0");
    packages_free(&packages);
}

static void pip_without_an_index_is_offline(void **state)
{
    (void)state;
    struct packages packages;
    begin(&packages, "python", (char *[]){"six", "attrs", NULL});
    note_all(&packages, false,
             (const char *[]){
                 "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by "
                 "'NewConnectionError(…: Temporary failure in name resolution')': /simple/six/",
                 "ERROR: Could not find a version that satisfies the requirement six (from "
                 "versions: none)",
                 "ERROR: No matching distribution found for six", NULL});
    assert_false(packages_conclude(&packages, 1));
    assert_package(&packages, 0, PACKAGE_OFFLINE, NULL);
    assert_package(&packages, 1, PACKAGE_OFFLINE, NULL);
    assert_non_null(strstr(packages.list[0].message, "name resolution"));
    packages_free(&packages);
}

static void pip_tells_not_found_from_no_answer(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        enum package_state expected;
    } cases[] = {
        {"Could not fetch URL http://x/simple/six/: 404 Client Error: Not Found for url: "
         "http://x/simple/six/ - skipping",
         PACKAGE_NOT_FOUND},
        {"Could not fetch URL http://x/simple/six/: 502 Server Error: cannot connect to port 9 of "
         "x: connection refused for url: http://x/simple/six/ - skipping",
         PACKAGE_OFFLINE},
        {"Could not fetch URL http://x/simple/six/: 403 Client Error: this sandbox may not connect "
         "to x:80 for url: http://x/simple/six/ - skipping",
         PACKAGE_OFFLINE},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct packages packages;
        begin(&packages, "python", (char *[]){"six", NULL});
        packages_note(&packages, true, cases[i].line);
        packages_note(&packages, false, "ERROR: No matching distribution found for six");
        assert_false(packages_conclude(&packages, 1));
        assert_package(&packages, 0, cases[i].expected, NULL);
        packages_free(&packages);
    }
}

static void a_failure_without_a_culprit_fails_all(void **state)
{
    (void)state;
    struct packages packages;
    begin(&packages, "python", (char *[]){"six", "attrs", NULL});
    packages_note(&packages, false, "ERROR: Could not install packages due to an OSError");
    assert_false(packages_conclude(&packages, 1));
    assert_package(&packages, 0, PACKAGE_FAILED, NULL);
    assert_string_equal(packages.list[1].message, "Could not install packages due to an OSError");
    packages_free(&packages);
}

static void npm_installs(void **state)
{
    (void)state;
    struct packages packages;
    begin(&packages, "node", (char *[]){"@scope/tool@^1.0.0", "left-pad", NULL});
    note_all(&packages, true,
             (const char *[]){"{", "  \"added\": 2,", "  \"changed\": 0", "}", NULL});
    assert_false(packages_conclude(&packages, 0));
    assert_package(&packages, 0, PACKAGE_INSTALLED, NULL);
    cleanup_free char *path = packages_version_path(&packages, &packages.list[0]);
    assert_string_equal(path, "node_modules/@scope/tool/package.json");
    packages_take_version(&packages.list[0], "{\"version\": \"1.2.3\"}", 20);
    assert_string_equal(packages.list[0].version, "1.2.3");
    packages_free(&packages);
}

static void check_npm_error(const char *error, enum package_state first, enum package_state second,
                            bool again)
{
    struct packages packages;
    begin(&packages, "node", (char *[]){"left-pad", "nosuch@1", NULL});
    packages_note(&packages, true, error);
    assert_int_equal(packages_conclude(&packages, 1), again);
    assert_package(&packages, 0, first, NULL);
    assert_package(&packages, 1, second, NULL);
    packages_free(&packages);
}

static void npm_errors_are_told_apart(void **state)
{
    (void)state;
    check_npm_error("{\"error\": {\"code\": \"E404\", \"summary\": \"Not Found\", \"detail\": "
                    "\"'nosuch@1' is not in this registry.\"}}",
                    PACKAGE_WANTED, PACKAGE_NOT_FOUND, true);
    check_npm_error("{\"error\": {\"code\": \"ETARGET\", \"summary\": \"No matching version found "
                    "for nosuch@1.\", \"detail\": \"\"}}",
                    PACKAGE_WANTED, PACKAGE_NOT_FOUND, true);
    check_npm_error("{\"error\": {\"code\": \"EAI_AGAIN\", \"summary\": \"request failed\"}}",
                    PACKAGE_OFFLINE, PACKAGE_OFFLINE, false);
    check_npm_error("not json", PACKAGE_FAILED, PACKAGE_FAILED, false);
}

static void names_that_are_none_are_refused(void **state)
{
    (void)state;
    static char *const names[] = {"", "-rfile", "--index-url=x", "a b", "a\nb", "\x1b[31m"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        struct packages packages;
        struct error err;
        assert_int_equal(packages_init(&packages, "python", (char *[]){names[i], NULL}, &err), -1);
        assert_int_equal(err.code, ERROR_INVALID);
        packages_free(&packages);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pip_installs),
        cmocka_unit_test(pip_tries_again_without_what_is_not_there),
        cmocka_unit_test(pip_without_an_index_is_offline),
        cmocka_unit_test(pip_tells_not_found_from_no_answer),
        cmocka_unit_test(a_failure_without_a_culprit_fails_all),
        cmocka_unit_test(npm_installs),
        cmocka_unit_test(npm_errors_are_told_apart),
        cmocka_unit_test(names_that_are_none_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
