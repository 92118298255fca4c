/* Reading YAML with the place of everything that is wrong. */
#pragma once

#include <stdbool.h>
#include <yaml.h>

#include "base/error.h"

struct yaml_text {
    const char *file; /* for messages */
    yaml_document_t document;
};

/* Refuses keys that stand twice in a mapping, and a second document. yaml_close also on failure. */
int yaml_open(struct yaml_text *yaml, const char *file, const char *text, struct error *err);
void yaml_close(struct yaml_text *yaml);

/* NULL: the text is empty. */
const yaml_node_t *yaml_root(struct yaml_text *yaml);
/* "file:line:column: message". */
int yaml_wrong(const struct yaml_text *yaml, const yaml_node_t *node, struct error *err,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The text of a scalar; NULL when it is none, or is null. */
const char *yaml_scalar(const yaml_node_t *node);
bool yaml_is_null(const yaml_node_t *node);
/* The pairs of a mapping; 0 for anything else. */
size_t yaml_pairs(const yaml_node_t *node);
const yaml_node_t *yaml_key(struct yaml_text *yaml, const yaml_node_t *node, size_t i);
const yaml_node_t *yaml_value(struct yaml_text *yaml, const yaml_node_t *node, size_t i);
/* The value of a key; NULL: there is none. */
const yaml_node_t *yaml_member(struct yaml_text *yaml, const yaml_node_t *node, const char *name);
/* The items of a sequence; 0 for anything else. */
size_t yaml_items(const yaml_node_t *node);
const yaml_node_t *yaml_item(struct yaml_text *yaml, const yaml_node_t *node, size_t i);
