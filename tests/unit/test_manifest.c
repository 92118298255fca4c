/* Manifests, lists of them, configurations, and what registries ask for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/mem.h"
#include "image/oci/challenge.h"
#include "image/oci/manifest.h"
#include "refusal.h"

#define DIGEST "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define CONFIG "\"config\": {\"digest\": \"" DIGEST "\", \"size\": 2}"
#define LAYER(type) "{\"mediaType\": \"" type "\", \"digest\": \"" DIGEST "\", \"size\": 5}"
#define GZIP "application/vnd.docker.image.rootfs.diff.tar.gzip"

static int parse(const char *text, struct manifest *manifest, struct error *err)
{
    return manifest_parse(text, strlen(text), manifest, err);
}

static void manifest_is_read(void **state)
{
    struct error err;
    struct manifest manifest;
    (void)state;
    assert_int_equal(
        parse("{\"schemaVersion\": 2, " CONFIG ", \"layers\": [" LAYER(GZIP) "]}", &manifest, &err),
        0);
    assert_string_equal(manifest.config.digest, DIGEST);
    assert_int_equal(manifest.layer_count, 1);
    assert_int_equal(manifest.layers[0].size, 5);
    manifest_release(&manifest);
}

static void damaged_manifest_is_refused(void **state)
{
    static const char *const refused[] = {
        "",
        "[]",
        "{\"schemaVersion\": 2}",
        "{\"schemaVersion\": 1, " CONFIG ", \"layers\": []}",
        "{\"schemaVersion\": 2, " CONFIG "}",
        "{\"schemaVersion\": 2, " CONFIG ", \"layers\": {}}",
        "{\"schemaVersion\": 2, " CONFIG ", \"layers\": [3]}",
        "{\"schemaVersion\": 2, " CONFIG ", \"layers\": [" LAYER("text/plain") "]}",
        "{\"schemaVersion\": 2, \"config\": {\"digest\": \"" DIGEST
        "\", \"size\": -2}, \"layers\": []}",
        "{\"schemaVersion\": 2, \"config\": {\"digest\": \"" DIGEST
        "\", \"size\": 99999999999999}, \"layers\": []}",
        "{\"schemaVersion\": 2, \"config\": {\"digest\": \"sha256:../../x\", \"size\": 2}, "
        "\"layers\": []}",
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct error err;
        struct manifest manifest;
        assert_true(parse(refused[i], &manifest, &err) < 0);
        assert_true(strlen(err.message) > 0);
    }
}

#define ENTRY(os, arch)                                                                            \
    "{\"digest\": \"" DIGEST "\", \"size\": 7, \"platform\": {\"os\": \"" os                       \
    "\", \"architecture\": \"" arch "\"}}"

static void list_gives_the_entry_of_this_host(void **state)
{
    struct error err;
    struct descriptor chosen;
    cleanup_free char *list =
        xasprintf("{\"manifests\": [" ENTRY("windows", "%1$s") ", " ENTRY("linux", "%1$s") "]}",
                  manifest_architecture());
    (void)state;
    assert_int_equal(manifest_choose(list, strlen(list), &chosen, &err), 0);
    assert_string_equal(chosen.digest, DIGEST);
    free(chosen.digest);
    const char *single = "{\"schemaVersion\": 2, \"layers\": []}";
    assert_int_equal(manifest_choose(single, strlen(single), &chosen, &err), 0);
    assert_null(chosen.digest);
}

static void list_without_this_host_names_what_there_is(void **state)
{
    struct error err;
    struct descriptor chosen;
    const char *list = "{\"manifests\": [" ENTRY("linux", "vax") ", " ENTRY("plan9", "m68k") "]}";
    (void)state;
    assert_refused(manifest_choose(list, strlen(list), &chosen, &err), ERROR_NOT_FOUND);
    assert_non_null(strstr(err.hint, "linux/vax, plan9/m68k"));
}

static void configuration_is_read(void **state)
{
    struct error err;
    struct image image;
    const char *text =
        "{\"config\": {\"Entrypoint\": [\"/run\"], \"Cmd\": [\"-x\"], \"Env\": [\"A=1\", \"bad\", "
        "\"=bad\"], \"User\": \"7:8\", \"WorkingDir\": \"/w\"}}";
    (void)state;
    assert_int_equal(manifest_config(text, strlen(text), &image, &err), 0);
    assert_string_equal(image.user, "7:8");
    assert_string_equal(image.workdir, "/w");
    assert_string_equal(image.command[0], "/run");
    assert_string_equal(image.command[1], "-x");
    assert_int_equal(strv_length(image.env), 1);
    image_release(&image);
    assert_int_equal(manifest_config("{}", 2, &image, &err), 0);
    assert_string_equal(image.user, "root");
    assert_string_equal(image.workdir, "/");
    image_release(&image);
    const char *foreign = "{\"os\": \"linux\", \"architecture\": \"vax\"}";
    assert_refused(manifest_config(foreign, strlen(foreign), &image, &err), ERROR_INVALID);
}

static void challenges_are_read(void **state)
{
    struct error err;
    struct challenge challenge;
    (void)state;
    assert_int_equal(challenge_parse("Bearer realm=\"https://auth.example/token?x=1\",service=reg, "
                                     "scope=\"repository:a/b:pull,push\"",
                                     &challenge, &err),
                     0);
    cleanup_free char *url = challenge_url(&challenge);
    assert_string_equal(url, "https://auth.example/token?x=1&service=reg&"
                             "scope=repository%3Aa/b%3Apull%2Cpush");
    challenge_release(&challenge);
    assert_int_equal(challenge_parse("Basic realm=\"x\"", &challenge, &err), 0);
    assert_null(challenge.realm);
    assert_refused(challenge_parse("Digest realm=\"x\"", &challenge, &err), ERROR_PROTOCOL);
    assert_refused(challenge_parse("Bearer service=\"x", &challenge, &err), ERROR_PROTOCOL);
}

static void only_two_kinds_of_challenges_are_known(void **state)
{
    (void)state;
    assert_true(challenge_is_known("Basic"));
    assert_true(challenge_is_known("basic realm=\"x\""));
    assert_true(challenge_is_known("BEARER realm=\"x\""));
    assert_false(challenge_is_known("Basically"));
    assert_false(challenge_is_known("Bearer"));
    assert_false(challenge_is_known("Negotiate"));
    assert_false(challenge_is_known(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifest_is_read),
        cmocka_unit_test(damaged_manifest_is_refused),
        cmocka_unit_test(list_gives_the_entry_of_this_host),
        cmocka_unit_test(list_without_this_host_names_what_there_is),
        cmocka_unit_test(configuration_is_read),
        cmocka_unit_test(challenges_are_read),
        cmocka_unit_test(only_two_kinds_of_challenges_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
