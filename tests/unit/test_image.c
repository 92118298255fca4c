/* Image references, recipes and the store; nothing is built. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/digest.h"
#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "image/image.h"
#include "image/recipes.h"
#include "image/reference.h"
#include "image/store.h"
#include "refusal.h"
#include "temporary_home.h"

#define EMPTY_DIGEST "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

static int empty_store(void **state)
{
    struct error err;
    cleanup_free char *images = home_path("images");
    (void)state;
    return folder_remove(images, &err);
}

static void assert_normalized(const char *text, const char *expected)
{
    struct error err;
    cleanup_free char *reference = NULL;
    assert_int_equal(reference_normalize(text, &reference, &err), 0);
    assert_string_equal(reference, expected);
}

#define SOME_DIGEST "sha256:" EMPTY_DIGEST

static void our_images_come_first(void **state)
{
    (void)state;
    assert_normalized("python", "microsandbox/python");
    assert_normalized("node:latest", "microsandbox/node");
    assert_normalized("microsandbox/python", "microsandbox/python");
    assert_normalized("microsandbox/python:latest", "microsandbox/python");
}

static void reference_takes_its_full_form(void **state)
{
    (void)state;
    assert_normalized("python:3.11", "docker.io/library/python:3.11");
    assert_normalized("microsandbox/python:3.11", "docker.io/microsandbox/python:3.11");
    assert_normalized("docker.io/library/python", "docker.io/library/python:latest");
    assert_normalized("index.docker.io/python", "docker.io/library/python:latest");
    assert_normalized("alpine", "docker.io/library/alpine:latest");
    assert_normalized("team/tool:V1.2-rc_3", "docker.io/team/tool:V1.2-rc_3");
    assert_normalized("registry.example/my-image_2", "registry.example/my-image_2:latest");
    assert_normalized("localhost/x", "localhost/x:latest");
    assert_normalized("localhost:5000/a/b/c:1", "localhost:5000/a/b/c:1");
    assert_normalized("[::1]:5000/x", "[::1]:5000/x:latest");
    assert_normalized("a__b/c---d", "docker.io/a__b/c---d:latest");
    assert_normalized("python@" SOME_DIGEST, "docker.io/library/python@" SOME_DIGEST);
    assert_normalized("host:1/x:tag@" SOME_DIGEST, "host:1/x@" SOME_DIGEST);
}

static void default_registry_can_be_chosen(void **state)
{
    (void)state;
    setenv("OCI_REGISTRY_DOMAIN", "mirror.example:5000", 1);
    assert_normalized("alpine", "mirror.example:5000/library/alpine:latest");
    assert_normalized("team/tool", "mirror.example:5000/team/tool:latest");
    assert_normalized("docker.io/alpine", "docker.io/library/alpine:latest");
    assert_normalized("python", "microsandbox/python");
    setenv("OCI_REGISTRY_DOMAIN", "../..", 1);
    struct error err;
    char *reference = NULL;
    assert_refused(reference_normalize("alpine", &reference, &err), ERROR_INVALID);
    unsetenv("OCI_REGISTRY_DOMAIN");
}

static void full_form_is_its_own_and_comes_apart(void **state)
{
    (void)state;
    assert_normalized("host:5000/a/b:1", "host:5000/a/b:1");
    struct reference parts = reference_split("host:5000/a/b:1");
    assert_string_equal(parts.registry, "host:5000");
    assert_string_equal(parts.repository, "a/b");
    assert_string_equal(parts.version, "1");
    reference_release(&parts);
    parts = reference_split("docker.io/library/alpine@" SOME_DIGEST);
    assert_string_equal(parts.registry, "docker.io");
    assert_string_equal(parts.repository, "library/alpine");
    assert_string_equal(parts.version, SOME_DIGEST);
    reference_release(&parts);
}

static void reference_that_is_no_name_is_refused(void **state)
{
    static const char *const refused[] = {"",
                                          "/",
                                          ":",
                                          ".",
                                          "..",
                                          "../python",
                                          "a/../b",
                                          "a//b",
                                          "/python",
                                          "a/",
                                          "Python",
                                          "py thon",
                                          "py\nx",
                                          "python:",
                                          "python:a:b",
                                          "a/.b",
                                          "a/b.",
                                          "-a",
                                          "a..b",
                                          "python:/",
                                          "python:..",
                                          "a\x1b[",
                                          "p\xc3\xbct",
                                          "python:../../x",
                                          "%s%s%n%d",
                                          "x@sha256:12",
                                          "x@",
                                          "x@md5:00",
                                          "../..:5000/x",
                                          "..:1/x",
                                          "host:/x",
                                          "host:123456/x",
                                          "[::1/x",
                                          "[]/x",
                                          "x:.hidden",
                                          "x:-a",
                                          "a_b.example:1x/y",
                                          "user@host.example/x"};
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct error err;
        char *reference = NULL;
        assert_refused(reference_normalize(refused[i], &reference, &err), ERROR_INVALID);
        assert_null(reference);
    }
}

static void reference_of_any_length_is_handled(void **state)
{
    struct error err;
    char *reference = NULL;
    cleanup_free char *text = xmalloc(100001);
    (void)state;
    memset(text, 'a', 100000);
    text[100000] = '\0';
    assert_refused(reference_normalize(text, &reference, &err), ERROR_INVALID);
}

static void every_recipe_is_complete(void **state)
{
    static const char *const references[] = {"microsandbox/python", "microsandbox/node"};
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct error err;
        struct recipe recipe;
        assert_int_equal(recipe_load(references[i], &recipe, &err), 0);
        assert_string_equal(recipe.suite, "bookworm");
        assert_string_equal(recipe.config.user, "user");
        assert_string_equal(recipe.config.workdir, "/workspace");
        assert_non_null(recipe.config.language);
        assert_int_equal(strv_length(recipe.config.command), 1);
        assert_true(strv_length(recipe.packages) > 5);
        assert_true(strv_length(recipe.config.env) >= 4);
        assert_true(recipe.space > (uint64_t)1 << 30);
        assert_int_equal(strlen(recipe.hash), 64);
        recipe_release(&recipe);
    }
}

static void image_that_was_not_pulled_is_not_found(void **state)
{
    struct error err;
    struct image image;
    (void)state;
    assert_refused(image_find("nonesuch", &image, &err), ERROR_NOT_FOUND);
    assert_non_null(strstr(err.message, "docker.io/library/nonesuch:latest"));
    assert_non_null(strstr(err.hint, "msb pull"));
}

static void image_that_is_not_built_is_not_found(void **state)
{
    struct error err;
    struct image image;
    (void)state;
    assert_refused(image_find("python", &image, &err), ERROR_NOT_FOUND);
    assert_true(strlen(err.hint) > 0);
    assert_null(image.reference);
}

static void add_image(const char *reference, const char *contents)
{
    struct error err;
    cleanup_free char *blob = home_path("blob");
    char *env[] = {"A=1", "B=\"x\" y", NULL};
    char *command[] = {"python3", "-i", NULL};
    cleanup_free char *name = xstrdup(reference);
    struct image config = {
        .reference = name, .user = "user", .workdir = "/workspace", .env = env, .command = command};
    assert_int_equal(file_write_atomic(blob, contents, strlen(contents), 0600, &err), 0);
    assert_int_equal(store_add(blob, &config, "recipe", &err), 0);
    assert_false(file_exists(blob));
}

static void stored_image_comes_back_as_it_was(void **state)
{
    struct error err;
    struct image image;
    struct stat status;
    (void)state;
    add_image("microsandbox/python", "");
    assert_int_equal(image_find("python", &image, &err), 0);
    assert_string_equal(image.reference, "microsandbox/python");
    assert_string_equal(image.digest, "sha256:" EMPTY_DIGEST);
    assert_non_null(strstr(image.path, "/images/blobs/sha256-" EMPTY_DIGEST ".erofs"));
    assert_int_equal(image.size, 0);
    assert_string_equal(image.user, "user");
    assert_string_equal(image.workdir, "/workspace");
    assert_string_equal(image.env[1], "B=\"x\" y");
    assert_null(image.env[2]);
    assert_string_equal(image.command[1], "-i");
    assert_null(image.language);
    assert_int_equal(stat(image.path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0444);
    image_release(&image);
}

static void image_without_its_whole_blob_is_not_found(void **state)
{
    struct error err;
    struct image image;
    (void)state;
    add_image("microsandbox/python", "twelve bytes");
    assert_int_equal(image_find("python", &image, &err), 0);
    cleanup_free char *path = xstrdup(image.path);
    image_release(&image);
    assert_int_equal(truncate(path, 3), 0);
    assert_refused(image_find("python", &image, &err), ERROR_NOT_FOUND);
    assert_int_equal(unlink(path), 0);
    assert_refused(image_find("python", &image, &err), ERROR_NOT_FOUND);
}

static void removed_image_takes_its_file_along(void **state)
{
    struct error err;
    struct image image;
    uint64_t freed;
    (void)state;
    add_image("microsandbox/python", "same");
    add_image("microsandbox/node", "same");
    assert_int_equal(image_find("python", &image, &err), 0);
    assert_int_equal(image_remove("python", &freed, &err), 0);
    assert_int_equal(freed, 0);
    assert_true(file_exists(image.path));
    assert_int_equal(image_remove("node", &freed, &err), 0);
    assert_int_equal(freed, 4);
    assert_false(file_exists(image.path));
    image_release(&image);
    assert_refused(image_remove("node", &freed, &err), ERROR_NOT_FOUND);
}

static void assert_hint(const char *text, const char *part)
{
    struct error err;
    char *reference = NULL;
    assert_refused(reference_normalize(text, &reference, &err), ERROR_INVALID);
    assert_non_null(strstr(err.hint, part));
}

static void refused_name_tells_the_mistake(void **state)
{
    (void)state;
    assert_hint("Alpine:3.20", "capital letters");
    assert_hint("registry.example:5000/Team/tool:A", "capital letters");
    assert_hint("alpine:-A", "a name looks like");
    assert_hint("https://registry.example/tool", "leave out");
    setenv("OCI_REGISTRY_DOMAIN", "https://registry.example", 1);
    assert_hint("alpine", "OCI_REGISTRY_DOMAIN");
    unsetenv("OCI_REGISTRY_DOMAIN");
}

static void image_goes_by_the_front_of_its_digest(void **state)
{
    struct error err;
    cleanup_free char *found = NULL, *named = NULL, *other = NULL;
    (void)state;
    add_image("microsandbox/python", "");
    assert_int_equal(image_resolve("sha256:e3b0c44298fc", &found, &err), 0);
    assert_string_equal(found, "microsandbox/python");
    add_image("docker.io/library/e3b0c44298fc:latest", "x");
    assert_int_equal(image_resolve("e3b0c44298fc", &named, &err), 0);
    assert_string_equal(named, "docker.io/library/e3b0c44298fc:latest");
    assert_int_equal(image_resolve("e3b0c", &other, &err), 0);
    assert_string_equal(other, "docker.io/library/e3b0c:latest");
    add_image("microsandbox/node", "");
    char *none = NULL;
    assert_refused(image_resolve("sha256:e3b0c44298fc", &none, &err), ERROR_INVALID);
    assert_null(none);
    assert_non_null(strstr(err.hint, "microsandbox/node"));
}

static void damaged_reference_is_not_found(void **state)
{
    static const char *const texts[] = {
        "",
        "[]",
        "{\"digest\":",
        "{\"digest\": 1}",
        "{\"digest\": \"sha256:../../../etc/passwd\", \"config\": {\"user\": \"u\", \"workdir\": "
        "\"/\"}}",
        "{\"digest\": \"sha256:" EMPTY_DIGEST "\", \"config\": {\"user\": 3, \"workdir\": \"/\"}}",
        "{\"digest\": \"sha256:" EMPTY_DIGEST "\", \"size\": -1, \"config\": null}"};
    (void)state;
    add_image("microsandbox/python", "");
    cleanup_free char *path = home_path("images/refs/microsandbox/python.json");
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct error err;
        struct image image;
        assert_int_equal(file_write_atomic(path, texts[i], strlen(texts[i]), 0600, &err), 0);
        assert_refused(image_find("python", &image, &err), ERROR_NOT_FOUND);
        assert_null(image.digest);
    }
}

static void list_has_every_reference_once(void **state)
{
    struct error err;
    cleanup_strv char **before = NULL;
    cleanup_strv char **after = NULL;
    (void)state;
    assert_int_equal(image_list(&before, &err), 0);
    assert_int_equal(strv_length(before), 0);
    add_image("microsandbox/python", "p");
    add_image("microsandbox/node", "n");
    add_image("microsandbox/node", "n again");
    assert_int_equal(image_list(&after, &err), 0);
    assert_int_equal(strv_length(after), 2);
    assert_string_equal(after[0], "microsandbox/node");
    assert_string_equal(after[1], "microsandbox/python");
}

static void digest_form_is_checked(void **state)
{
    (void)state;
    assert_true(digest_is_valid("sha256:" EMPTY_DIGEST));
    assert_false(digest_is_valid(EMPTY_DIGEST));
    assert_false(digest_is_valid("sha256:" EMPTY_DIGEST "0"));
    assert_false(digest_is_valid("sha256:../" EMPTY_DIGEST));
    assert_false(digest_is_valid("sha256:"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(our_images_come_first),
        cmocka_unit_test(reference_takes_its_full_form),
        cmocka_unit_test(default_registry_can_be_chosen),
        cmocka_unit_test(full_form_is_its_own_and_comes_apart),
        cmocka_unit_test(reference_that_is_no_name_is_refused),
        cmocka_unit_test(reference_of_any_length_is_handled),
        cmocka_unit_test(refused_name_tells_the_mistake),
        cmocka_unit_test_setup(image_goes_by_the_front_of_its_digest, empty_store),
        cmocka_unit_test(every_recipe_is_complete),
        cmocka_unit_test_setup(image_that_was_not_pulled_is_not_found, empty_store),
        cmocka_unit_test_setup(image_that_is_not_built_is_not_found, empty_store),
        cmocka_unit_test_setup(stored_image_comes_back_as_it_was, empty_store),
        cmocka_unit_test_setup(image_without_its_whole_blob_is_not_found, empty_store),
        cmocka_unit_test_setup(damaged_reference_is_not_found, empty_store),
        cmocka_unit_test_setup(removed_image_takes_its_file_along, empty_store),
        cmocka_unit_test_setup(list_has_every_reference_once, empty_store),
        cmocka_unit_test(digest_form_is_checked),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
