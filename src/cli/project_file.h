/* The project that a command works on. */
#pragma once

#include "base/buf.h"
#include "project/project.h"

/* For the tables of options: a `const char *` for it must be in the command's options. */
#define PROJECT_OPTION(target)                                                                     \
    {                                                                                              \
        'f', "file", OPTION_TEXT, target, "FILE", "the Sandboxfile, or its folder (that here)"     \
    }

/* Finds and reads it, and tells on stderr what was not understood. project_free also on failure. */
int project_open(const char *where, struct project *project, struct error *err);
/* Puts a text in place of the file's, with the same permissions. */
int project_rewrite(const char *file, const char *text, struct error *err);
/* Reads the text as it is. */
int project_read_text(const char *file, struct buf *text, struct error *err);
