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

static void reference_takes_its_full_form(void **state)
{
    (void)state;
    assert_normalized("python", "microsandbox/python");
    assert_normalized("node:latest", "microsandbox/node");
    assert_normalized("microsandbox/python", "microsandbox/python");
    assert_normalized("microsandbox/python:latest", "microsandbox/python");
    assert_normalized("python:3.11", "microsandbox/python:3.11");
    assert_normalized("registry.example/team/my-image_2", "registry.example/team/my-image_2");
}

static void reference_that_is_no_name_is_refused(void **state)
{
    static const char *const refused[] = {
        "",        "/",        ":",          ".",      "..",         "../python",
        "a/../b",  "a//b",     "/python",    "a/",     "Python",     "py thon",
        "py\nx",   "python:",  "python:a:b", "a/.b",   "a/b.",       "-a",
        "a..b",    "python:/", "python:..",  "a\x1b[", "p\xc3\xbct", "python:../../x",
        "%s%s%n%d"};
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

static void unknown_image_names_the_known_ones(void **state)
{
    struct error err;
    struct image image;
    (void)state;
    assert_refused(image_find("nonesuch", &image, &err), ERROR_NOT_FOUND);
    assert_non_null(strstr(err.message, "microsandbox/nonesuch"));
    assert_non_null(strstr(err.hint, "microsandbox/python"));
    assert_refused(image_ensure("nonesuch", &image, &err), ERROR_NOT_FOUND);
    assert_non_null(strstr(err.hint, "microsandbox/node"));
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
        cmocka_unit_test(reference_takes_its_full_form),
        cmocka_unit_test(reference_that_is_no_name_is_refused),
        cmocka_unit_test(reference_of_any_length_is_handled),
        cmocka_unit_test(every_recipe_is_complete),
        cmocka_unit_test_setup(unknown_image_names_the_known_ones, empty_store),
        cmocka_unit_test_setup(image_that_is_not_built_is_not_found, empty_store),
        cmocka_unit_test_setup(stored_image_comes_back_as_it_was, empty_store),
        cmocka_unit_test_setup(image_without_its_whole_blob_is_not_found, empty_store),
        cmocka_unit_test_setup(damaged_reference_is_not_found, empty_store),
        cmocka_unit_test_setup(list_has_every_reference_once, empty_store),
        cmocka_unit_test(digest_form_is_checked),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
