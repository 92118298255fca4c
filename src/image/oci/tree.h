/*
 * A root file system that grows layer by layer. Every path is resolved by the kernel with the new
 * root as its end of the world: links and ".." lead nowhere else, whatever an archive says.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "image/oci/marks.h"

struct tree {
    int root;          /* the folder; owned by whoever made it */
    struct marks made; /* by the layer that is being applied */

    /* The folder that was used last. */
    char *parent_path;
    int parent;
    ino_t parent_inode;
};

void tree_open(struct tree *tree, int root);
void tree_close(struct tree *tree);

/*
 * Splits a path of an archive: the folder, made where it is missing, is in tree->parent; the
 * return value is the last name, inside the text. "" for the root itself. NULL: refused.
 */
char *tree_enter(struct tree *tree, char *path, struct error *err);
/* A file or folder as it is, links followed within the root, except for the last name. */
int tree_look(const struct tree *tree, const char *path, int flags);

/* Removes the name below tree->parent, with all that is in it. */
int tree_remove(struct tree *tree, const char *name, struct error *err);
/* The same, but only what the layer itself has not put there. */
int tree_hide(struct tree *tree, const char *name, struct error *err);
/* The same for everything in tree->parent. */
int tree_hide_all(struct tree *tree, struct error *err);
/* Notes that the layer has put the name into tree->parent. */
void tree_mark(struct tree *tree, const char *name);
/* The next layer begins. */
void tree_forget_marks(struct tree *tree);
