#include "project/yaml.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

static int load(struct yaml_text *yaml, yaml_parser_t *parser, yaml_document_t *document,
                struct error *err)
{
    if (yaml_parser_load(parser, document))
        return 0;
    *document = (yaml_document_t){0};
    error_set(err, ERROR_INVALID, "%s:%zu:%zu: %s", yaml->file, parser->problem_mark.line + 1,
              parser->problem_mark.column + 1,
              parser->problem ? parser->problem : "this is no YAML");
    return error_hint(err, "nesting is by spaces, and a value follows \": \"");
}

static int refuse_second(struct yaml_text *yaml, yaml_parser_t *parser, struct error *err)
{
    yaml_document_t second = {0};
    int result = yaml_root(yaml) ? load(yaml, parser, &second, err) : 0;
    const yaml_node_t *root = result == 0 ? yaml_document_get_root_node(&second) : NULL;
    if (root)
        result = yaml_wrong(yaml, root, err, "a second document begins here, and only one can be");
    yaml_document_delete(&second);
    return result;
}

/* By their text, and those that are equal by their place. */
static int compare_keys(const void *left, const void *right)
{
    const yaml_node_t *a = *(const yaml_node_t *const *)left;
    const yaml_node_t *b = *(const yaml_node_t *const *)right;
    int order = strcmp((const char *)a->data.scalar.value, (const char *)b->data.scalar.value);
    return order ? order : a < b ? -1 : a > b;
}

static int check_mapping(struct yaml_text *yaml, const yaml_node_t *node, struct error *err)
{
    size_t count = 0;
    cleanup_free const yaml_node_t **keys = xcalloc(yaml_pairs(node) + 1, sizeof(void *));
    for (size_t i = 0; i < yaml_pairs(node); i++) {
        const yaml_node_t *key = yaml_key(yaml, node, i);
        if (key->type == YAML_SCALAR_NODE)
            keys[count++] = key;
    }
    qsort(keys, count, sizeof(void *), compare_keys);
    for (size_t i = 1; i < count; i++) {
        const char *text = (const char *)keys[i]->data.scalar.value;
        if (strcmp(text, (const char *)keys[i - 1]->data.scalar.value) == 0)
            return yaml_wrong(yaml, keys[i], err, "there is \"%.80s\" already, in line %zu", text,
                              keys[i - 1]->start_mark.line + 1);
    }
    return 0;
}

/* What the format allows and no reader of ours could make sense of. */
static int check_nodes(struct yaml_text *yaml, struct error *err)
{
    int result = 0;
    const yaml_node_t *node = yaml->document.nodes.start;
    for (; result == 0 && node < yaml->document.nodes.top; node++) {
        if (node->type == YAML_MAPPING_NODE)
            result = check_mapping(yaml, node, err);
        else if (node->type == YAML_SCALAR_NODE &&
                 strlen((const char *)node->data.scalar.value) != node->data.scalar.length)
            result = yaml_wrong(yaml, node, err, "a text cannot have a zero byte in it");
    }
    return result;
}

int yaml_open(struct yaml_text *yaml, const char *file, const char *text, struct error *err)
{
    yaml_parser_t parser;
    *yaml = (struct yaml_text){.file = file};
    if (!yaml_parser_initialize(&parser))
        return error_set(err, ERROR_NO_SPACE, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    int result = load(yaml, &parser, &yaml->document, err);
    if (result == 0)
        result = refuse_second(yaml, &parser, err);
    if (result == 0)
        result = check_nodes(yaml, err);
    yaml_parser_delete(&parser);
    return result;
}

void yaml_close(struct yaml_text *yaml)
{
    yaml_document_delete(&yaml->document);
}

const yaml_node_t *yaml_root(struct yaml_text *yaml)
{
    return yaml_document_get_root_node(&yaml->document);
}

int yaml_wrong(const struct yaml_text *yaml, const yaml_node_t *node, struct error *err,
               const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cleanup_free char *text = xvasprintf(format, args);
    va_end(args);
    return error_set(err, ERROR_INVALID, "%s:%zu:%zu: %s", yaml->file, node->start_mark.line + 1,
                     node->start_mark.column + 1, text);
}

static bool is_plain(const yaml_node_t *node)
{
    return node->type == YAML_SCALAR_NODE && node->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

bool yaml_is_null(const yaml_node_t *node)
{
    if (!is_plain(node))
        return false;
    const char *text = (const char *)node->data.scalar.value;
    return text[0] == '\0' || strcmp(text, "~") == 0 || strcmp(text, "null") == 0;
}

const char *yaml_scalar(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || yaml_is_null(node))
        return NULL;
    return (const char *)node->data.scalar.value;
}

size_t yaml_pairs(const yaml_node_t *node)
{
    if (!node || node->type != YAML_MAPPING_NODE)
        return 0;
    return (size_t)(node->data.mapping.pairs.top - node->data.mapping.pairs.start);
}

const yaml_node_t *yaml_key(struct yaml_text *yaml, const yaml_node_t *node, size_t i)
{
    return yaml_document_get_node(&yaml->document, node->data.mapping.pairs.start[i].key);
}

const yaml_node_t *yaml_value(struct yaml_text *yaml, const yaml_node_t *node, size_t i)
{
    return yaml_document_get_node(&yaml->document, node->data.mapping.pairs.start[i].value);
}

const yaml_node_t *yaml_member(struct yaml_text *yaml, const yaml_node_t *node, const char *name)
{
    for (size_t i = 0; i < yaml_pairs(node); i++) {
        const char *key = yaml_scalar(yaml_key(yaml, node, i));
        if (key && strcmp(key, name) == 0)
            return yaml_value(yaml, node, i);
    }
    return NULL;
}

size_t yaml_items(const yaml_node_t *node)
{
    if (!node || node->type != YAML_SEQUENCE_NODE)
        return 0;
    return (size_t)(node->data.sequence.items.top - node->data.sequence.items.start);
}

const yaml_node_t *yaml_item(struct yaml_text *yaml, const yaml_node_t *node, size_t i)
{
    return yaml_document_get_node(&yaml->document, node->data.sequence.items.start[i]);
}
