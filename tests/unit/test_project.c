/* Sandboxfiles: what is read from them, what is refused and where, and edits that keep the rest. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/mem.h"
#include "project/project.h"

static char folder[] = "/tmp/msb-project-XXXXXX";
static char *path;

static int set_up(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    path = xasprintf("%s/Sandboxfile", folder);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    rmdir(folder);
    free(path);
    return 0;
}

static int load(const char *text, struct project *project, struct error *err)
{
    assert_int_equal(file_write_atomic(path, text, strlen(text), 0644, err), 0);
    return project_load(path, project, err);
}

static void assert_wrong(const char *text, const char *place, const char *message)
{
    struct error err;
    struct project project;
    assert_true(load(text, &project, &err) < 0);
    cleanup_free char *expected = xasprintf("Sandboxfile:%s: ", place);
    if (!strstr(err.message, expected) || !strstr(err.message, message))
        fail_msg("\"%s\" is not said at %s: %s", message, place, err.message);
    project_free(&project);
}

static void all_keys_are_read(void **state)
{
    (void)state;
    struct error err;
    struct project project;
    assert_int_equal(load("meta: {description: x}\n"
                          "sandboxes:\n"
                          "  web:\n"
                          "    version: 1.0.0\n"
                          "    image: microsandbox/python\n"
                          "    memory: 512\n"
                          "    cpus: 2\n"
                          "    disk: 2G\n"
                          "    volumes: [./data:/data]\n"
                          "    ports: ['8080:80', \"9000\"]\n"
                          "    envs:\n"
                          "      - A=b c\n"
                          "    depends_on: [db]\n"
                          "    workdir: /srv\n"
                          "    shell: /bin/sh\n"
                          "    user: root\n"
                          "    scope: none\n"
                          "    groups:\n"
                          "      inner: {}\n"
                          "    scripts:\n"
                          "      start: |\n"
                          "        python3 -m http.server\n"
                          "      test: pytest\n"
                          "    command: [python3, -V]\n"
                          "    colour: blue\n"
                          "  db: {image: postgres, command: run me, engine: jail}\n",
                          &project, &err),
                     0);
    assert_int_equal(project.count, 2);
    const struct project_sandbox *web = project_sandbox(&project, "web", &err);
    assert_string_equal(web->image, "microsandbox/python");
    assert_int_equal(web->memory_mb, 512);
    assert_int_equal(web->cpus, 2);
    assert_int_equal(web->disk_mb, 2048);
    assert_string_equal(web->volumes[0], "./data:/data");
    assert_string_equal(web->ports[1], "9000");
    assert_string_equal(web->envs[0], "A=b c");
    assert_string_equal(web->groups[0], "inner");
    assert_string_equal(project_script(web, "start"), "python3 -m http.server\n");
    assert_null(project_script(web, "nothing"));
    assert_string_equal(web->command[1], "-V");
    assert_string_equal(project_sandbox(&project, "db", &err)->command[2], "run me");
    assert_int_equal(strv_length(project.warnings), 1);
    assert_non_null(strstr(project.warnings[0], "Sandboxfile:25:5: the key \"colour\""));
    assert_null(project_sandbox(&project, "other", &err));
    project_free(&project);
}

static void an_empty_file_is_a_project(void **state)
{
    (void)state;
    static const char *const texts[] = {"", "# nothing\n", "sandboxes:\n", "sandboxes: {}\n"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct error err;
        struct project project;
        assert_int_equal(load(texts[i], &project, &err), 0);
        assert_int_equal(project.count, 0);
        project_free(&project);
    }
}

static void what_is_wrong_is_told_with_its_place(void **state)
{
    (void)state;
    assert_wrong("sandboxes:\n  a: [\n", "3:1", "");
    assert_wrong("- a\n", "1:1", "must begin with");
    assert_wrong("sandboxes: 5\n", "1:12", "names with their settings");
    assert_wrong("sandboxes:\n  a: 5\n", "2:6", "keys such as");
    assert_wrong("sandboxes:\n  a:\n    memory: 1\n", "2:3", "has no image");
    assert_wrong("sandboxes:\n  a:\n    image: x\n    memory: lots\n", "4:13",
                 "number of megabytes");
    assert_wrong("sandboxes:\n  a:\n    image: x\n    cpus: -1\n", "4:11", "a number above 0");
    assert_wrong("sandboxes:\n  a:\n    image: x\n    ports: 80\n", "4:12", "must be a list");
    assert_wrong("sandboxes:\n  a:\n    image: [x]\n", "3:12", "must be a text");
    assert_wrong("sandboxes:\n  a:\n    image: x\n    scope: wide\n", "4:12", "no scope \"wide\"");
    assert_wrong("sandboxes:\n  a/b: {image: x}\n", "2:3", "cannot be used");
    assert_wrong("sandboxes:\n  a: {image: x}\n  a: {image: y}\n", "3:3", "already");
    assert_wrong("sandboxes:\n  a: {image: x}\nsandboxes:\n  b: {image: x}\n", "3:1", "already");
    assert_wrong("sandboxes:\n  a:\n    image: x\n    cpus: 1\n    image: y\n", "5:5",
                 "there is \"image\" already, in line 3");
    assert_wrong("sandboxes:\n  a: {image: x}\n---\nsandboxes:\n", "4:1", "a second document");
    assert_wrong("sandboxes:\n  a: {image: \"x\\0y\"}\n", "2:14", "a zero byte");
    assert_wrong("sandboxes:\n  a:\n    image: x\n    ports: [80, x:1]\n", "4:17", "port \"x:1\"");
    assert_wrong("sandboxes:\n  a: {image: x, depends_on: [z]}\n", "2:3", "which is not there");
    assert_wrong("sandboxes:\n  a: {image: x, depends_on: [b]}\n  b: {image: x, depends_on: [c]}\n"
                 "  c: {image: x, depends_on: [b]}\n",
                 "3:3", "wait for each other: b, c, b");
}

static void dependencies_come_first(void **state)
{
    (void)state;
    struct error err;
    struct project project;
    const struct project_sandbox **order;
    size_t count;
    assert_int_equal(load("sandboxes:\n"
                          "  web: {image: x, depends_on: [api, cache]}\n"
                          "  api: {image: x, depends_on: [db]}\n"
                          "  cache: {image: x}\n"
                          "  db: {image: x}\n"
                          "  alone: {image: x}\n",
                          &project, &err),
                     0);
    char *names[] = {(char[]){"web"}, NULL};
    assert_int_equal(project_order(&project, names, &order, &count, &err), 0);
    static const char *const expected[] = {"db", "api", "cache", "web"};
    assert_int_equal(count, 4);
    for (size_t i = 0; i < count; i++)
        assert_string_equal(order[i]->name, expected[i]);
    free(order);
    char *unknown[] = {(char[]){"nobody"}, NULL};
    assert_true(project_order(&project, unknown, &order, &count, &err) < 0);
    project_free(&project);
}

static char *with(const char *text, const struct project_sandbox *sandbox)
{
    struct error err;
    return sandboxfile_with("Sandboxfile", text, sandbox, &err);
}

static void what_lines_do_not_tell_is_not_changed(void **state)
{
    (void)state;
    static const char text[] = "sandboxes:\n  a: {image: x, envs: [\"A=1\n\n  b: 2\"]}\n";
    struct error err;
    struct project_sandbox sandbox = {.name = (char[]){"new"}, .image = (char[]){"x"}};
    assert_null(sandboxfile_with("Sandboxfile", text, &sandbox, &err));
    assert_non_null(strstr(err.message, "no command can change"));
    assert_null(sandboxfile_without("Sandboxfile", text, "a", &err));
    assert_non_null(strstr(err.message, "no command can change"));
}

static void a_sandbox_is_added_behind_the_others(void **state)
{
    (void)state;
    char *ports[] = {(char[]){"8080:80"}, NULL};
    struct project_sandbox one = {.name = (char[]){"new"},
                                  .image = (char[]){"microsandbox/node"},
                                  .memory_mb = 512,
                                  .ports = ports};
    static const char added[] = "new:\n    image: microsandbox/node\n    memory: 512\n"
                                "    ports:\n      - \"8080:80\"\n";
    cleanup_free char *block = xasprintf("  %s", added);
    cleanup_free char *empty = with("", &one), *bare = with("# hi\nsandboxes:\n", &one),
                      *braces = with("sandboxes: {}\n", &one),
                      *full = with("sandboxes:\n"
                                   "  # the first\n"
                                   "  old: # here\n"
                                   "    image: x\n"
                                   "\n"
                                   "# about groups\n"
                                   "groups: {}\n",
                                   &one);
    cleanup_free char *expect_empty = xasprintf("sandboxes:\n%s", block),
                      *expect_bare = xasprintf("# hi\nsandboxes:\n%s", block),
                      *expect_full = xasprintf("sandboxes:\n  # the first\n  old: # here\n"
                                               "    image: x\n%s\n# about groups\ngroups: {}\n",
                                               block);
    assert_string_equal(empty, expect_empty);
    assert_string_equal(bare, expect_bare);
    assert_string_equal(braces, expect_empty);
    assert_string_equal(full, expect_full);
    assert_null(with("sandboxes: {a: {image: x}}\n", &one));
}

static void a_sandbox_is_taken_out_with_its_lines(void **state)
{
    (void)state;
    struct error err;
    static const char text[] = "# top\n"
                               "sandboxes:\n"
                               "  a:\n"
                               "    image: x # why\n"
                               "    # inside a\n"
                               "\n"
                               "  # about b\n"
                               "  b:\n"
                               "    image: y\n"
                               "groups:\n"
                               "  g: {}\n";
    cleanup_free char *no_a = sandboxfile_without("Sandboxfile", text, "a", &err);
    assert_string_equal(no_a, "# top\nsandboxes:\n\n  # about b\n  b:\n    image: y\ngroups:\n"
                              "  g: {}\n");
    cleanup_free char *no_b = sandboxfile_without("Sandboxfile", text, "b", &err);
    assert_non_null(strstr(no_b, "    # inside a\n\n  # about b\ngroups:\n"));
    assert_null(sandboxfile_without("Sandboxfile", text, "c", &err));
    assert_int_equal(err.code, ERROR_NOT_FOUND);
}

static void values_survive_being_written(void **state)
{
    (void)state;
    static const char *const values[] = {"a", "true", "1", "a: b",  "#x",    "ä", "a\nb", "\"q\"",
                                         "",  "- x",  "{", "A=b c", "12:34", "~", "on"};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct error err;
        struct project project;
        char *value = xstrdup(values[i]);
        char *envs[] = {value, NULL};
        struct project_sandbox one = {
            .name = (char[]){"one"}, .image = (char[]){"x"}, .envs = envs};
        cleanup_free char *text = with("", &one);
        assert_int_equal(load(text, &project, &err), 0);
        assert_string_equal(project.sandboxes[0].envs[0], values[i]);
        project_free(&project);
        free(value);
    }
}

static void settings_follow_from_the_file(void **state)
{
    (void)state;
    struct error err;
    struct project project;
    struct sandbox_config config;
    cleanup_free char *environment = xasprintf("%s/.env", folder);
    assert_int_equal(file_write_atomic(environment, "# x\nA=1\n\nB=two words\r\n", 22, 0644, &err),
                     0);
    assert_int_equal(
        load("sandboxes:\n"
             "  a: {image: x, env_files: [.env], envs: [A=2], ports: ['80'], memory: 300}\n"
             "  b: {image: x, scope: none, volumes: [./nothing:/data]}\n",
             &project, &err),
        0);
    sandbox_config_init(&config);
    assert_int_equal(project_config(&project, &project.sandboxes[0], &config, &err), 0);
    assert_string_equal(config.env[1], "B=two words");
    assert_int_equal(config.ports[0].host, 80);
    assert_int_equal(config.memory_mb, 300);
    assert_string_equal(config.egress[0], "public");
    cleanup_free char *namespace = project_namespace(&project);
    assert_string_equal(config.namespace, namespace);
    sandbox_config_free(&config);
    sandbox_config_init(&config);
    assert_true(project_config(&project, &project.sandboxes[1], &config, &err) < 0);
    assert_non_null(strstr(err.message, "Sandboxfile:3:3: the sandbox b"));
    sandbox_config_free(&config);
    project_free(&project);
    unlink(environment);
}

static void assert_command(const struct project *project, size_t i, const char *exec,
                           const char *script, const char *expected)
{
    struct error err;
    cleanup_buf struct buf text = {0};
    char *args[] = {(char[]){"x"}, NULL};
    struct project_wish wish = {.exec = exec, .script = script, .args = args};
    cleanup_strv char **command = project_command(project, &project->sandboxes[i], &wish, &err);
    for (size_t at = 0; command && command[at]; at++)
        buf_printf(&text, "[%s]", command[at]);
    assert_string_equal(command ? buf_text(&text) : err.message, expected);
}

static void commands_have_an_order(void **state)
{
    (void)state;
    struct error err;
    struct project project;
    assert_int_equal(load("sandboxes:\n"
                          "  a: {image: x, shell: bash, command: [c], scripts: {start: s, t: u}}\n"
                          "  b: {image: x, shell: bash, command: [c, d]}\n"
                          "  c: {image: x, shell: bash}\n"
                          "  d: {image: x}\n",
                          &project, &err),
                     0);
    assert_command(&project, 0, "ls", "t", "[bash][-c][ls \"$@\"][sh][x]");
    assert_command(&project, 0, NULL, "t", "[bash][-c][u][t][x]");
    assert_command(&project, 0, NULL, NULL, "[bash][-c][s][start][x]");
    assert_command(&project, 1, NULL, NULL, "[c][d][x]");
    assert_command(&project, 2, NULL, NULL, "[bash][x]");
    assert_null(project_start_command(&project.sandboxes[2]));
    struct project_wish none = {0};
    assert_null(project_command(&project, &project.sandboxes[3], &none, &err));
    assert_non_null(strstr(err.message, "Sandboxfile:5:3: the sandbox d has nothing to run"));
    project_free(&project);
}

static void assert_peers(const struct project *project, size_t i, const char *expected)
{
    struct error err;
    struct sandbox_config config;
    cleanup_buf struct buf text = {0};
    sandbox_config_init(&config);
    int result = project_add_peers(project, &project->sandboxes[i], &config, &err);
    for (size_t at = 0; config.peers && config.peers[at]; at++)
        buf_printf(&text, "%s%s", at ? " " : "", config.peers[at]);
    assert_string_equal(result < 0 ? err.message : buf_text(&text), expected);
    sandbox_config_free(&config);
}

static void groups_reach_their_own(void **state)
{
    (void)state;
    struct error err;
    struct project project;
    assert_int_equal(load("sandboxes:\n"
                          "  a: {image: x, groups: {one: {}, two: {}}}\n"
                          "  b: {image: x, groups: {one: {}}, ports: ['1:80', '2:80', '0:443']}\n"
                          "  c: {image: x, groups: {two: {}}, scope: none, ports: ['22']}\n"
                          "  d: {image: x, scope: group, ports: ['127.0.0.1:0:99']}\n"
                          "  e: {image: x, scope: group}\n"
                          "  f: {image: x, ports: ['7']}\n"
                          "  g: {image: x, scope: group, ports: ['5:99']}\n",
                          &project, &err),
                     0);
    assert_peers(&project, 0, "b:80 b:443 c:22");
    assert_peers(&project, 1, "");
    assert_peers(&project, 2, "");
    assert_peers(&project, 3, "it has the same port 99 inside as g, which it may reach");
    assert_peers(&project, 4, "d:99 g:99");
    assert_peers(&project, 5, "");
    project_free(&project);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_keys_are_read),
        cmocka_unit_test(an_empty_file_is_a_project),
        cmocka_unit_test(what_is_wrong_is_told_with_its_place),
        cmocka_unit_test(dependencies_come_first),
        cmocka_unit_test(what_lines_do_not_tell_is_not_changed),
        cmocka_unit_test(a_sandbox_is_added_behind_the_others),
        cmocka_unit_test(a_sandbox_is_taken_out_with_its_lines),
        cmocka_unit_test(values_survive_being_written),
        cmocka_unit_test(settings_follow_from_the_file),
        cmocka_unit_test(commands_have_an_order),
        cmocka_unit_test(groups_reach_their_own),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
