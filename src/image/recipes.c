#include "image/recipes.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/embed.h"
#include "base/mem.h"

/* Goes into every hash: raise it when the way of building changes what comes out. */
#define BUILD_REVISION "1"

EMBED(base_recipe, "images/base.recipe");
EMBED(base_script, "images/base.sh");
EMBED(finish_script, "images/finish.sh");
EMBED(python_recipe, "images/python.recipe");
EMBED(python_script, "images/python.sh");
EMBED(node_recipe, "images/node.recipe");
EMBED(node_script, "images/node.sh");

/* Embedded files end in a NUL that their size does not count, so they are strings. */
static const struct {
    const char *reference;
    const uint8_t *recipe;
    const uint8_t *script;
} known[] = {
    {"microsandbox/python", python_recipe_begin, python_script_begin},
    {"microsandbox/node", node_recipe_begin, node_script_begin},
};

#define KNOWN_COUNT (sizeof known / sizeof *known)

char *recipe_names(void)
{
    struct buf names = {0};
    for (size_t i = 0; i < KNOWN_COUNT; i++)
        buf_printf(&names, "%s%s", i ? ", " : "", known[i].reference);
    char *text = xstrdup(buf_text(&names));
    buf_free(&names);
    return text;
}

static size_t find(const char *reference)
{
    size_t i = 0;
    while (i < KNOWN_COUNT && strcmp(known[i].reference, reference) != 0)
        i++;
    return i;
}

bool recipe_exists(const char *reference)
{
    return find(reference) < KNOWN_COUNT;
}

static void append_words(char ***list, const char *value)
{
    cleanup_free char *copy = xstrdup(value);
    char *rest = copy;
    for (const char *word; (word = strsep(&rest, " "));) {
        if (*word)
            strv_append(list, xstrdup(word));
    }
}

static void replace(char **place, const char *value)
{
    free(*place);
    *place = xstrdup(value);
}

/* The recipes are part of the program: a key that is not known is a mistake in it. */
static void apply(struct recipe *recipe, const char *key, const char *value)
{
    if (strcmp(key, "suite") == 0)
        replace(&recipe->suite, value);
    else if (strcmp(key, "packages") == 0)
        append_words(&recipe->packages, value);
    else if (strcmp(key, "exclude") == 0)
        strv_append(&recipe->excludes, xstrdup(value));
    else if (strcmp(key, "include") == 0)
        strv_append(&recipe->includes, xstrdup(value));
    else if (strcmp(key, "env") == 0)
        strv_append(&recipe->config.env, xstrdup(value));
    else if (strcmp(key, "command") == 0)
        append_words(&recipe->config.command, value);
    else if (strcmp(key, "user") == 0)
        replace(&recipe->config.user, value);
    else if (strcmp(key, "workdir") == 0)
        replace(&recipe->config.workdir, value);
    else if (strcmp(key, "language") == 0)
        replace(&recipe->config.language, value);
    else if (strcmp(key, "space_mb") == 0)
        recipe->space = strtoull(value, NULL, 10) << 20;
    else
        abort();
}

static void read_lines(struct recipe *recipe, const uint8_t *text)
{
    cleanup_free char *lines = xstrdup((const char *)text);
    char *rest = lines;
    for (char *line; (line = strsep(&rest, "\n"));) {
        char *equals = strchr(line, '=');
        if (!equals || line[0] == '#')
            continue;
        *equals = '\0';
        apply(recipe, line, equals + 1);
    }
}

static void hash_recipe(struct recipe *recipe, const uint8_t *own)
{
    cleanup_buf struct buf all = {0};
    buf_append_text(&all, BUILD_REVISION "\n");
    buf_append_text(&all, (const char *)base_recipe_begin);
    buf_append_text(&all, (const char *)own);
    buf_append(&all, buf_data(&recipe->script), buf_length(&recipe->script));
    digest_bytes(buf_data(&all), buf_length(&all), recipe->hash);
}

int recipe_load(const char *reference, struct recipe *recipe, struct error *err)
{
    size_t i = find(reference);
    if (i == KNOWN_COUNT) {
        cleanup_free char *names = recipe_names();
        error_set(err, ERROR_NOT_FOUND, "there is no image %s", reference);
        return error_hint(err, "images that can be built: %s", names);
    }
    *recipe = (struct recipe){.config.reference = xstrdup(reference)};
    read_lines(recipe, base_recipe_begin);
    read_lines(recipe, known[i].recipe);
    buf_append_text(&recipe->script, (const char *)base_script_begin);
    buf_append_text(&recipe->script, (const char *)known[i].script);
    buf_append_text(&recipe->script, (const char *)finish_script_begin);
    hash_recipe(recipe, known[i].recipe);
    return 0;
}

void recipe_release(struct recipe *recipe)
{
    free(recipe->suite);
    strv_free(recipe->packages);
    strv_free(recipe->excludes);
    strv_free(recipe->includes);
    buf_free(&recipe->script);
    image_release(&recipe->config);
    *recipe = (struct recipe){0};
}
