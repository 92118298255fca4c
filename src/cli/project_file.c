#include "cli/project_file.h"

#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

#define FILE_MAX (1u << 20)

int project_open(const char *where, struct project *project, struct error *err)
{
    *project = (struct project){0};
    cleanup_free char *file = project_find(where, err);
    int result = file ? project_load(file, project, err) : -1;
    for (size_t i = 0; result == 0 && project->warnings && project->warnings[i]; i++)
        fprintf(stderr, "msb: %s\n", project->warnings[i]);
    return result;
}

int project_read_text(const char *file, struct buf *text, struct error *err)
{
    return file_read(file, FILE_MAX, text, err);
}

int project_rewrite(const char *file, const char *text, struct error *err)
{
    struct stat status;
    mode_t mode = stat(file, &status) == 0 ? status.st_mode & 07777 : 0644;
    cleanup_free char *target = realpath(file, NULL);
    return file_write_atomic(target ? target : file, text, strlen(text), mode, err);
}
