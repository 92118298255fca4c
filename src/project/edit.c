/*
 * Changes to the text of a Sandboxfile. Whole lines are put in or taken out; all others stay as
 * they are, with their comments.
 */
#include <ctype.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "project/project.h"
#include "project/yaml.h"

#define INDENT 2

/* ---- lines --------------------------------------------------------------------------------- */

static const char *line_start(const char *text, size_t line)
{
    while (line-- > 0) {
        const char *end = strchr(text, '\n');
        if (!end)
            return text + strlen(text);
        text = end + 1;
    }
    return text;
}

static const char *next_line(const char *line)
{
    const char *end = strchr(line, '\n');
    return end ? end + 1 : line + strlen(line);
}

static size_t indent_of(const char *line)
{
    return strspn(line, " ");
}

/* Blank, or a comment: whom such a line belongs to depends on what follows. */
static bool is_blank(const char *line)
{
    size_t indent = strspn(line, " \t\r");
    return line[indent] == '\n' || line[indent] == '\0' || line[indent] == '#';
}

/* Where the block that begins in a line ends: behind the last line that is indented more. */
static const char *block_end(const char *line)
{
    size_t indent = indent_of(line);
    const char *end = next_line(line);
    for (const char *at = end; *at; at = next_line(at)) {
        if (is_blank(at)) {
            if (indent_of(at) > indent && at[indent_of(at)] == '#')
                end = next_line(at);
            continue;
        }
        if (indent_of(at) <= indent)
            break;
        end = next_line(at);
    }
    return end;
}

/* ---- writing ------------------------------------------------------------------------------- */

static bool is_plain(const char *text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on",
                                        "off",  "null",  "y",   "n"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (strcasecmp(text, words[i]) == 0)
            return false;
    }
    if (!isalpha((unsigned char)text[0]) && !strchr("/.", text[0]))
        return false;
    for (const char *at = text; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("_./@=-", *at) &&
            !(*at == ':' && at[1] && at[1] != ' '))
            return false;
    }
    return text[0] != '\0';
}

static void write_scalar(struct buf *out, const char *text)
{
    if (is_plain(text)) {
        buf_append_text(out, text);
        return;
    }
    json_t *json = json_string(text);
    cleanup_free char *quoted = json ? json_dumps(json, JSON_ENCODE_ANY) : xstrdup("\"\"");
    json_decref(json);
    buf_append_text(out, quoted);
}

static void write_text(struct buf *out, size_t indent, const char *key, const char *text)
{
    if (!text)
        return;
    buf_printf(out, "%*s%s: ", (int)indent, "", key);
    write_scalar(out, text);
    buf_append_text(out, "\n");
}

static void write_number(struct buf *out, size_t indent, const char *key, unsigned number)
{
    if (number)
        buf_printf(out, "%*s%s: %u\n", (int)indent, "", key, number);
}

static void write_texts(struct buf *out, size_t indent, const char *key, char *const *texts)
{
    if (!texts || !texts[0])
        return;
    buf_printf(out, "%*s%s:\n", (int)indent, "", key);
    for (; *texts; texts++) {
        buf_printf(out, "%*s- ", (int)indent + INDENT, "");
        write_scalar(out, *texts);
        buf_append_text(out, "\n");
    }
}

static void write_scripts(struct buf *out, size_t indent, const struct project_sandbox *sandbox)
{
    if (sandbox->script_count == 0)
        return;
    buf_printf(out, "%*sscripts:\n", (int)indent, "");
    for (size_t i = 0; i < sandbox->script_count; i++)
        write_text(out, indent + INDENT, sandbox->scripts[i].name, sandbox->scripts[i].text);
}

static void write_sandbox(struct buf *out, size_t indent, const struct project_sandbox *sandbox)
{
    size_t inner = indent + INDENT;
    buf_printf(out, "%*s%s:\n", (int)indent, "", sandbox->name);
    write_text(out, inner, "image", sandbox->image);
    write_number(out, inner, "memory", sandbox->memory_mb);
    write_number(out, inner, "cpus", sandbox->cpus);
    write_number(out, inner, "disk", sandbox->disk_mb);
    write_texts(out, inner, "volumes", sandbox->volumes);
    write_texts(out, inner, "ports", sandbox->ports);
    write_texts(out, inner, "envs", sandbox->envs);
    write_texts(out, inner, "env_files", sandbox->env_files);
    write_texts(out, inner, "depends_on", sandbox->depends_on);
    write_text(out, inner, "workdir", sandbox->workdir);
    write_text(out, inner, "shell", sandbox->shell);
    write_text(out, inner, "user", sandbox->user);
    write_text(out, inner, "engine", sandbox->engine);
    write_text(out, inner, "scope", sandbox->scope);
    write_scripts(out, inner, sandbox);
    write_texts(out, inner, "command", sandbox->command);
}

/* ---- places -------------------------------------------------------------------------------- */

static int refuse_flow(const struct yaml_text *yaml, const yaml_node_t *node, struct error *err)
{
    if (!node || node->type != YAML_MAPPING_NODE ||
        node->data.mapping.style != YAML_FLOW_MAPPING_STYLE || yaml_pairs(node) == 0)
        return 0;
    yaml_wrong(yaml, node, err, "sandboxes in braces cannot be changed by a command");
    return error_hint(err, "edit the file by hand, or write them as indented lines");
}

/* The place in the text behind the last sandbox, and how far names of sandboxes are indented. NULL
 * when there is no key "sandboxes". */
static const char *find_end(struct yaml_text *yaml, const char *text, size_t *indent,
                            struct error *err, int *result)
{
    const yaml_node_t *root = yaml_root(yaml);
    *indent = INDENT;
    *result = 0;
    for (size_t i = 0; i < yaml_pairs(root); i++) {
        const yaml_node_t *key = yaml_key(yaml, root, i);
        const yaml_node_t *value = yaml_value(yaml, root, i);
        if (!yaml_scalar(key) || strcmp(yaml_scalar(key), "sandboxes") != 0)
            continue;
        *result = refuse_flow(yaml, value, err);
        size_t count = yaml_pairs(value);
        if (count == 0)
            return next_line(line_start(text, key->start_mark.line));
        const yaml_node_t *last = yaml_key(yaml, value, count - 1);
        *indent = last->start_mark.column;
        return block_end(line_start(text, last->start_mark.line));
    }
    return NULL;
}

/* "sandboxes: {}" would have its braces in front of what is added. */
static void append_head(struct buf *out, const char *text, const char *end)
{
    static const char empty[] = "sandboxes: {}\n";
    size_t length = (size_t)(end - text), size = sizeof empty - 1;
    if (length >= size && memcmp(end - size, empty, size) == 0) {
        buf_append(out, text, length - size);
        buf_append_text(out, "sandboxes:\n");
    } else {
        buf_append(out, text, length);
    }
    if (buf_length(out) > 0 && buf_data(out)[buf_length(out) - 1] != '\n')
        buf_append_text(out, "\n");
}

/* ---- what came out ------------------------------------------------------------------------- */

/* Adds the names of the sandboxes in their order. */
static int read_names(const char *file, const char *text, char ***names, struct error *err)
{
    struct yaml_text yaml;
    int result = yaml_open(&yaml, file, text, err);
    const yaml_node_t *all =
        result == 0 && yaml_root(&yaml) ? yaml_member(&yaml, yaml_root(&yaml), "sandboxes") : NULL;
    for (size_t i = 0; all && i < yaml_pairs(all); i++) {
        const char *name = yaml_scalar(yaml_key(&yaml, all, i));
        strv_append(names, xstrdup(name ? name : ""));
    }
    yaml_close(&yaml);
    return result;
}

static bool are_equal(char *const *one, char *const *other)
{
    size_t count = strv_length(one);
    bool equal = strv_length(other) == count;
    for (size_t i = 0; one && other && equal && i < count; i++)
        equal = strcmp(one[i], other[i]) == 0;
    return equal;
}

/* Lines are not all there is to YAML: texts and brackets may go on in lines that look like others.
 */
static int confirm(const char *file, const char *text, char *const *expected, struct error *err)
{
    struct error ignored;
    cleanup_strv char **names = NULL;
    if (read_names(file, text, &names, &ignored) == 0 && are_equal(names, expected))
        return 0;
    error_set(err, ERROR_INVALID, "%s is written in a way that no command can change", file);
    return error_hint(err, "edit it by hand, or write sandboxes as indented lines");
}

/* The text with the sandbox behind the last one. */
static int write_behind(struct buf *out, const char *file, const char *text,
                        const struct project_sandbox *sandbox, struct error *err)
{
    struct yaml_text yaml;
    size_t indent = INDENT;
    const char *end = NULL;
    int result = yaml_open(&yaml, file, text, err);
    if (result == 0)
        end = find_end(&yaml, text, &indent, err, &result);
    yaml_close(&yaml);
    if (result < 0)
        return result;
    bool is_first = !end;
    if (is_first)
        end = text + strlen(text);
    append_head(out, text, end);
    if (is_first)
        buf_append_text(out, "sandboxes:\n");
    write_sandbox(out, indent, sandbox);
    buf_append_text(out, end);
    return 0;
}

char *sandboxfile_with(const char *file, const char *text, const struct project_sandbox *sandbox,
                       struct error *err)
{
    cleanup_buf struct buf out = {0};
    cleanup_strv char **names = NULL;
    int result = read_names(file, text, &names, err);
    if (result == 0 && strv_contains(names, sandbox->name)) {
        error_set(err, ERROR_EXISTS, "%s: there is a sandbox %s already", file, sandbox->name);
        result = error_hint(err, "choose another name, or take that one out with: msb remove %s",
                            sandbox->name);
    }
    if (result == 0)
        result = write_behind(&out, file, text, sandbox, err);
    strv_append(&names, xstrdup(sandbox->name));
    if (result == 0)
        result = confirm(file, buf_text(&out), names, err);
    return result < 0 ? NULL : xstrdup(buf_text(&out));
}

char *sandboxfile_without(const char *file, const char *text, const char *name, struct error *err)
{
    struct yaml_text yaml;
    cleanup_buf struct buf out = {0};
    cleanup_strv char **names = NULL;
    const char *begin = NULL;
    int result = yaml_open(&yaml, file, text, err);
    const yaml_node_t *all = result < 0 ? NULL : yaml_member(&yaml, yaml_root(&yaml), "sandboxes");
    if (result == 0)
        result = refuse_flow(&yaml, all, err);
    for (size_t i = 0; result == 0 && i < yaml_pairs(all); i++) {
        const yaml_node_t *key = yaml_key(&yaml, all, i);
        const char *found = yaml_scalar(key) ? yaml_scalar(key) : "";
        if (strcmp(found, name) == 0)
            begin = line_start(text, key->start_mark.line);
        else
            strv_append(&names, xstrdup(found));
    }
    yaml_close(&yaml);
    if (result == 0 && !begin) {
        error_set(err, ERROR_NOT_FOUND, "%s has no sandbox \"%.80s\"", file, name);
        error_hint(err, "\"msb list\" shows those it has");
    }
    if (!begin)
        return NULL;
    buf_append(&out, text, (size_t)(begin - text));
    buf_append_text(&out, block_end(begin));
    return confirm(file, buf_text(&out), names, err) < 0 ? NULL : xstrdup(buf_text(&out));
}
