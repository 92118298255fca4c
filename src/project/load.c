/* From the text of a Sandboxfile to its sandboxes. */
#include <errno.h>
#include <libgen.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "project/project.h"
#include "project/yaml.h"

#define FILE_MAX (1u << 20)
#define SANDBOXES_MAX 256
/* Of one list; aliases could repeat a long one often. */
#define ENTRIES_MAX 1024
#define WARNINGS_MAX 50

enum kind {
    TEXT,
    NUMBER,
    MEGABYTES,
    TEXTS,
    COMMAND, /* a list, or one line for the shell */
    SCRIPTS,
    NAMES, /* the keys of a mapping */
    IGNORED,
};

static const struct key {
    const char *name;
    enum kind kind;
    size_t offset; /* in struct project_sandbox */
} keys[] = {
    {"image", TEXT, offsetof(struct project_sandbox, image)},
    {"memory", MEGABYTES, offsetof(struct project_sandbox, memory_mb)},
    {"cpus", NUMBER, offsetof(struct project_sandbox, cpus)},
    {"disk", MEGABYTES, offsetof(struct project_sandbox, disk_mb)},
    {"volumes", TEXTS, offsetof(struct project_sandbox, volumes)},
    {"ports", TEXTS, offsetof(struct project_sandbox, ports)},
    {"envs", TEXTS, offsetof(struct project_sandbox, envs)},
    {"env_files", TEXTS, offsetof(struct project_sandbox, env_files)},
    {"depends_on", TEXTS, offsetof(struct project_sandbox, depends_on)},
    {"groups", NAMES, offsetof(struct project_sandbox, groups)},
    {"workdir", TEXT, offsetof(struct project_sandbox, workdir)},
    {"shell", TEXT, offsetof(struct project_sandbox, shell)},
    {"user", TEXT, offsetof(struct project_sandbox, user)},
    {"engine", TEXT, offsetof(struct project_sandbox, engine)},
    {"scope", TEXT, offsetof(struct project_sandbox, scope)},
    {"scripts", SCRIPTS, 0},
    {"command", COMMAND, offsetof(struct project_sandbox, command)},
    /* Of the format, without a meaning here. */
    {"version", IGNORED, 0},
    {"meta", IGNORED, 0},
    {"imports", IGNORED, 0},
    {"exports", IGNORED, 0},
};
#define KEYS (sizeof keys / sizeof keys[0])

struct reader {
    struct yaml_text yaml;
    struct project *project;
};

/* ---- values -------------------------------------------------------------------------------- */

static int read_text(struct reader *reader, const yaml_node_t *node, char **text, struct error *err)
{
    const char *found = yaml_scalar(node);
    if (!found)
        return yaml_wrong(&reader->yaml, node, err, "this must be a text");
    free(*text);
    *text = xstrdup(found);
    return 0;
}

static int read_number(struct reader *reader, const yaml_node_t *node, bool megabytes,
                       unsigned *number, struct error *err)
{
    const char *text = yaml_scalar(node) ? yaml_scalar(node) : "";
    char *end;
    errno = 0;
    unsigned long value = strtoul(text, &end, 10);
    if (megabytes && (*end == 'M' || *end == 'G') && end[1] == '\0')
        value *= *end++ == 'G' ? 1024 : 1;
    if (end == text || *end || errno || value == 0 || value > 1u << 30 || text[0] == '-')
        return yaml_wrong(&reader->yaml, node, err, "this must be a number%s above 0",
                          megabytes ? " of megabytes, or one with M or G," : "");
    *number = (unsigned)value;
    return 0;
}

static int read_texts(struct reader *reader, const yaml_node_t *node, char ***texts,
                      struct error *err)
{
    if (node->type != YAML_SEQUENCE_NODE && !yaml_is_null(node)) {
        yaml_wrong(&reader->yaml, node, err, "this must be a list");
        return error_hint(err, "write each entry in a line of its own, after \"- \"");
    }
    if (yaml_items(node) > ENTRIES_MAX)
        return yaml_wrong(&reader->yaml, node, err, "a list has at most %d entries", ENTRIES_MAX);
    for (size_t i = 0; i < yaml_items(node); i++) {
        char *text = NULL;
        if (read_text(reader, yaml_item(&reader->yaml, node, i), &text, err) < 0)
            return -1;
        strv_append(texts, text);
    }
    return 0;
}

static int read_command(struct reader *reader, const yaml_node_t *node, char ***command,
                        struct error *err)
{
    const char *line = yaml_scalar(node);
    if (!line)
        return read_texts(reader, node, command, err);
    strv_append(command, xstrdup("sh"));
    strv_append(command, xstrdup("-c"));
    strv_append(command, xstrdup(line));
    return 0;
}

static int read_scripts(struct reader *reader, const yaml_node_t *node,
                        struct project_sandbox *sandbox, struct error *err)
{
    if (node->type != YAML_MAPPING_NODE && !yaml_is_null(node))
        return yaml_wrong(&reader->yaml, node, err, "this must be names with a script each");
    if (yaml_pairs(node) > ENTRIES_MAX)
        return yaml_wrong(&reader->yaml, node, err, "a sandbox has at most %d scripts",
                          ENTRIES_MAX);
    for (size_t i = 0; i < yaml_pairs(node); i++) {
        sandbox->scripts =
            xrealloc(sandbox->scripts, (sandbox->script_count + 1) * sizeof *sandbox->scripts);
        struct project_script *script = &sandbox->scripts[sandbox->script_count++];
        *script = (struct project_script){0};
        if (read_text(reader, yaml_key(&reader->yaml, node, i), &script->name, err) < 0 ||
            read_text(reader, yaml_value(&reader->yaml, node, i), &script->text, err) < 0)
            return -1;
    }
    return 0;
}

static int read_names(struct reader *reader, const yaml_node_t *node, char ***names,
                      struct error *err)
{
    if (node->type != YAML_MAPPING_NODE && !yaml_is_null(node))
        return yaml_wrong(&reader->yaml, node, err, "this must be a mapping");
    if (yaml_pairs(node) > ENTRIES_MAX)
        return yaml_wrong(&reader->yaml, node, err, "a sandbox has at most %d groups", ENTRIES_MAX);
    for (size_t i = 0; i < yaml_pairs(node); i++) {
        char *name = NULL;
        if (read_text(reader, yaml_key(&reader->yaml, node, i), &name, err) < 0)
            return -1;
        strv_append(names, name);
    }
    return 0;
}

/* ---- sandboxes ----------------------------------------------------------------------------- */

static void warn_unknown(struct reader *reader, const yaml_node_t *key)
{
    if (strv_length(reader->project->warnings) >= WARNINGS_MAX)
        return;
    strv_append(&reader->project->warnings,
                xasprintf("%s:%zu:%zu: the key \"%.80s\" is not known and left alone",
                          reader->yaml.file, key->start_mark.line + 1, key->start_mark.column + 1,
                          yaml_scalar(key) ? yaml_scalar(key) : "?"));
}

static int read_value(struct reader *reader, const struct key *key, const yaml_node_t *node,
                      struct project_sandbox *sandbox, struct error *err)
{
    char *target = (char *)sandbox + key->offset;
    switch (key->kind) {
    case TEXT:
        return yaml_is_null(node) ? 0 : read_text(reader, node, (char **)target, err);
    case NUMBER:
    case MEGABYTES:
        return read_number(reader, node, key->kind == MEGABYTES, (unsigned *)target, err);
    case TEXTS:
        return read_texts(reader, node, (char ***)target, err);
    case COMMAND:
        return read_command(reader, node, (char ***)target, err);
    case SCRIPTS:
        return read_scripts(reader, node, sandbox, err);
    case NAMES:
        return read_names(reader, node, (char ***)target, err);
    case IGNORED:
        break;
    }
    return 0;
}

static int read_key(struct reader *reader, const yaml_node_t *node, size_t i,
                    struct project_sandbox *sandbox, struct error *err)
{
    const yaml_node_t *key = yaml_key(&reader->yaml, node, i);
    const char *name = yaml_scalar(key);
    for (size_t k = 0; name && k < KEYS; k++) {
        if (strcmp(keys[k].name, name) == 0)
            return read_value(reader, &keys[k], yaml_value(&reader->yaml, node, i), sandbox, err);
    }
    warn_unknown(reader, key);
    return 0;
}

static int check_scope(struct reader *reader, const yaml_node_t *node,
                       const struct project_sandbox *sandbox, struct error *err)
{
    static const char *const scopes[] = {"none", "group", "public", "any"};
    for (size_t i = 0; i < sizeof scopes / sizeof scopes[0]; i++) {
        if (!sandbox->scope || strcmp(sandbox->scope, scopes[i]) == 0)
            return 0;
    }
    yaml_wrong(&reader->yaml, yaml_member(&reader->yaml, node, "scope"), err,
               "there is no scope \"%.40s\"", sandbox->scope);
    return error_hint(err, "use none, group, public or any");
}

int project_add_port(struct sandbox_config *config, const char *text, struct error *err)
{
    cleanup_free char *pair = strchr(text, ':') ? NULL : xasprintf("%s:%s", text, text);
    return sandbox_config_add_port(config, pair ? pair : text, err);
}

static int check_ports(struct reader *reader, const yaml_node_t *node, struct error *err)
{
    struct error cause;
    struct sandbox_config scratch = {0};
    const yaml_node_t *ports = yaml_member(&reader->yaml, node, "ports");
    int result = 0;
    for (size_t i = 0; result == 0 && ports && i < yaml_items(ports); i++) {
        const yaml_node_t *port = yaml_item(&reader->yaml, ports, i);
        if (project_add_port(&scratch, yaml_scalar(port), &cause) < 0) {
            yaml_wrong(&reader->yaml, port, err, "%s", cause.message);
            result = error_hint(err, "%s", cause.hint);
        }
    }
    sandbox_config_free(&scratch);
    return result;
}

static int read_sandbox(struct reader *reader, const yaml_node_t *key, const yaml_node_t *node,
                        struct project_sandbox *sandbox, struct error *err)
{
    struct error name_err;
    if (read_text(reader, key, &sandbox->name, err) < 0)
        return -1;
    sandbox->line = (unsigned)key->start_mark.line + 1;
    sandbox->column = (unsigned)key->start_mark.column + 1;
    if (sandbox_check_name("sandbox name", sandbox->name, &name_err) < 0) {
        yaml_wrong(&reader->yaml, key, err, "%s", name_err.message);
        return error_hint(err, "%s", name_err.hint);
    }
    if (node->type != YAML_MAPPING_NODE)
        return yaml_wrong(&reader->yaml, node, err, "a sandbox has keys such as image: python");
    for (size_t i = 0; i < yaml_pairs(node); i++) {
        if (read_key(reader, node, i, sandbox, err) < 0)
            return -1;
    }
    if (!sandbox->image) {
        yaml_wrong(&reader->yaml, key, err, "the sandbox %s has no image", sandbox->name);
        return error_hint(err, "add image: microsandbox/python");
    }
    int result = check_scope(reader, node, sandbox, err);
    return result < 0 ? result : check_ports(reader, node, err);
}

static int read_sandboxes(struct reader *reader, const yaml_node_t *node, struct error *err)
{
    struct project *project = reader->project;
    size_t count = yaml_pairs(node);
    if (node->type != YAML_MAPPING_NODE && !yaml_is_null(node))
        return yaml_wrong(&reader->yaml, node, err, "this must be names with their settings");
    if (count > SANDBOXES_MAX)
        return yaml_wrong(&reader->yaml, node, err, "a project has at most %d sandboxes",
                          SANDBOXES_MAX);
    project->sandboxes = xcalloc(count + 1, sizeof *project->sandboxes);
    for (size_t i = 0; i < count; i++) {
        const yaml_node_t *key = yaml_key(&reader->yaml, node, i);
        struct project_sandbox *sandbox = &project->sandboxes[project->count++];
        if (read_sandbox(reader, key, yaml_value(&reader->yaml, node, i), sandbox, err) < 0)
            return -1;
    }
    return 0;
}

static int read_project(struct reader *reader, struct error *err)
{
    static const char *const others[] = {"meta", "modules", "builds", "groups"};
    const yaml_node_t *root = yaml_root(&reader->yaml);
    if (!root || yaml_is_null(root))
        return 0;
    if (root->type != YAML_MAPPING_NODE)
        return yaml_wrong(&reader->yaml, root, err, "the file must begin with \"sandboxes:\"");
    int result = 0;
    for (size_t i = 0; result == 0 && i < yaml_pairs(root); i++) {
        const yaml_node_t *key = yaml_key(&reader->yaml, root, i);
        const char *name = yaml_scalar(key);
        bool known = false;
        for (size_t k = 0; name && k < sizeof others / sizeof others[0]; k++)
            known |= strcmp(name, others[k]) == 0;
        if (name && strcmp(name, "sandboxes") == 0)
            result = read_sandboxes(reader, yaml_value(&reader->yaml, root, i), err);
        else if (!known)
            warn_unknown(reader, key);
    }
    return result;
}

/* Every name in depends_on is one of the file, and nothing waits for itself. */
static int check_dependencies(const struct project *project, struct error *err)
{
    const struct project_sandbox **order;
    size_t count;
    int result = project_order(project, NULL, &order, &count, err);
    if (result == 0)
        free(order);
    return result;
}

char *project_find(const char *where, struct error *err)
{
    struct stat status;
    const char *place = where ? where : ".";
    if (stat(place, &status) == 0 && !S_ISDIR(status.st_mode))
        return xstrdup(place);
    char *file = where ? xasprintf("%s/" PROJECT_FILE, place) : xstrdup(PROJECT_FILE);
    if (access(file, R_OK) == 0)
        return file;
    error_errno(err, errno, "there is no %s", file);
    error_hint(err, "\"msb init\" makes one");
    free(file);
    return NULL;
}

int project_parse(const char *file, const char *text, struct project *project, struct error *err)
{
    *project = (struct project){0};
    cleanup_free char *absolute = realpath(file, NULL);
    if (!absolute)
        return error_errno(err, errno, "cannot find %s", file);
    project->file = xstrdup(absolute);
    project->folder = xstrdup(dirname(absolute));
    struct reader reader = {.project = project};
    int result = yaml_open(&reader.yaml, file, text, err);
    if (result == 0)
        result = read_project(&reader, err);
    yaml_close(&reader.yaml);
    return result < 0 ? result : check_dependencies(project, err);
}

int project_load(const char *file, struct project *project, struct error *err)
{
    cleanup_buf struct buf text = {0};
    *project = (struct project){0};
    int result = file_read(file, FILE_MAX, &text, err);
    return result < 0 ? result : project_parse(file, buf_text(&text), project, err);
}

void project_free_sandbox(struct project_sandbox *sandbox)
{
    free(sandbox->name);
    for (size_t i = 0; i < KEYS; i++) {
        char *target = (char *)sandbox + keys[i].offset;
        if (keys[i].kind == TEXT)
            free(*(char **)target);
        else if (keys[i].kind == TEXTS || keys[i].kind == COMMAND || keys[i].kind == NAMES)
            strv_free(*(char ***)target);
    }
    for (size_t i = 0; i < sandbox->script_count; i++) {
        free(sandbox->scripts[i].name);
        free(sandbox->scripts[i].text);
    }
    free(sandbox->scripts);
}

void project_free(struct project *project)
{
    for (size_t i = 0; i < project->count; i++)
        project_free_sandbox(&project->sandboxes[i]);
    free(project->sandboxes);
    free(project->folder);
    free(project->file);
    strv_free(project->warnings);
    *project = (struct project){0};
}

const struct project_sandbox *project_sandbox(const struct project *project, const char *name,
                                              struct error *err)
{
    for (size_t i = 0; i < project->count; i++) {
        if (strcmp(project->sandboxes[i].name, name) == 0)
            return &project->sandboxes[i];
    }
    error_set(err, ERROR_NOT_FOUND, "%s has no sandbox \"%.80s\"", project->file, name);
    error_hint(err, "\"msb list\" shows those it has, \"msb add\" adds one");
    return NULL;
}

const char *project_script(const struct project_sandbox *sandbox, const char *name)
{
    for (size_t i = 0; i < sandbox->script_count; i++) {
        if (strcmp(sandbox->scripts[i].name, name) == 0)
            return sandbox->scripts[i].text;
    }
    return NULL;
}
