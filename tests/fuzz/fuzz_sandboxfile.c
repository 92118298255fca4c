/* Sandboxfiles of anybody: what is taken holds what it must, and edits change what they name and
 * nothing else. */
#include <assert.h>
#include <string.h>

#include "base/mem.h"
#include "project/project.h"

#define FILE_NAME "/dev/null"

/* Settings are not started from here, so that no engine is asked for. */
const struct engine *engine_find(const char *name)
{
    (void)name;
    return NULL;
}

static void check_order(const struct project *project)
{
    struct error err = {0};
    const struct project_sandbox **order;
    size_t count;
    int result = project_order(project, NULL, &order, &count, &err);
    assert(result == 0 && count == project->count);
    free(order);
}

static bool has(const struct project *project, const char *name)
{
    struct error err;
    return project_sandbox(project, name, &err) != NULL;
}

/* An edit that goes wrong must be seen: the text is no project any more, and commands refuse it. */
static void check_edit(const struct project *before, const char *text, const char *added,
                       const char *removed)
{
    struct error err = {0};
    struct project after;
    if (project_parse(FILE_NAME, text, &after, &err) == 0) {
        assert(after.count == before->count + (added ? 1 : 0) - (removed ? 1 : 0));
        assert(!added || has(&after, added));
        for (size_t i = 0; i < before->count; i++) {
            const char *name = before->sandboxes[i].name;
            assert(has(&after, name) == !(removed && strcmp(name, removed) == 0));
        }
    }
    project_free(&after);
}

static void check_edits(const struct project *project, const char *text)
{
    struct error err = {0};
    struct project_sandbox sandbox = {.name = (char[]){"added"}, .image = (char[]){"x"}};
    cleanup_free char *more =
        has(project, "added") ? NULL : sandboxfile_with(FILE_NAME, text, &sandbox, &err);
    if (more)
        check_edit(project, more, "added", NULL);
    for (size_t i = 0; i < project->count && i < 4; i++) {
        const char *name = project->sandboxes[i].name;
        cleanup_free char *less = sandboxfile_without(FILE_NAME, text, name, &err);
        if (less)
            check_edit(project, less, NULL, name);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct error err = {0};
    struct project project;
    cleanup_free char *text = xstrndup((const char *)data, size);
    if (project_parse(FILE_NAME, text, &project, &err) < 0) {
        assert(err.code && err.message[0]);
    } else {
        check_order(&project);
        for (size_t i = 0; i < project.count; i++)
            assert(project.sandboxes[i].image && project.sandboxes[i].line > 0);
        check_edits(&project, text);
    }
    project_free(&project);
    return 0;
}
