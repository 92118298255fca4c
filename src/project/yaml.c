#include "project/yaml.h"

#include <stdarg.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"

int yaml_open(struct yaml_text *yaml, const char *file, const char *text, struct error *err)
{
    yaml_parser_t parser;
    *yaml = (struct yaml_text){.file = file};
    if (!yaml_parser_initialize(&parser))
        return error_set(err, ERROR_NO_SPACE, "out of memory");
    yaml_parser_set_input_string(&parser, (const unsigned char *)text, strlen(text));
    int result = 0;
    if (!yaml_parser_load(&parser, &yaml->document)) {
        memset(&yaml->document, 0, sizeof yaml->document);
        result = error_set(err, ERROR_INVALID, "%s:%zu:%zu: %s", file, parser.problem_mark.line + 1,
                           parser.problem_mark.column + 1,
                           parser.problem ? parser.problem : "this is no YAML");
        error_hint(err, "nesting is by spaces, and a value follows \": \"");
    }
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
