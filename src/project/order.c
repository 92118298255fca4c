/* Who starts after whom. */
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "project/project.h"

enum mark { NEW, OPEN, DONE };

struct walk {
    const struct project *project;
    enum mark *marks; /* by the sandbox's place in the file */
    const struct project_sandbox **path;
    size_t depth;
    const struct project_sandbox **order;
    size_t count;
};

static int wrong(const struct walk *walk, const struct project_sandbox *sandbox, struct error *err,
                 const char *text)
{
    return error_set(err, ERROR_INVALID, "%s:%u:%u: %s", walk->project->file, sandbox->line,
                     sandbox->column, text);
}

static int refuse_circle(const struct walk *walk, const struct project_sandbox *sandbox,
                         struct error *err)
{
    cleanup_buf struct buf text = {0};
    size_t i = 0;
    while (walk->path[i] != sandbox)
        i++;
    buf_append_text(&text, "these wait for each other: ");
    for (; i < walk->depth; i++)
        buf_printf(&text, "%s, ", walk->path[i]->name);
    buf_printf(&text, "%s", sandbox->name);
    wrong(walk, sandbox, err, buf_text(&text));
    return error_hint(err, "take one of them out of a depends_on");
}

static int visit(struct walk *walk, const struct project_sandbox *sandbox, struct error *err)
{
    enum mark *mark = &walk->marks[sandbox - walk->project->sandboxes];
    if (*mark == DONE)
        return 0;
    if (*mark == OPEN)
        return refuse_circle(walk, sandbox, err);
    *mark = OPEN;
    walk->path[walk->depth++] = sandbox;
    for (size_t i = 0; sandbox->depends_on && sandbox->depends_on[i]; i++) {
        const struct project_sandbox *needed =
            project_sandbox(walk->project, sandbox->depends_on[i], err);
        if (!needed) {
            cleanup_free char *text = xasprintf("%s depends on %.80s, which is not there",
                                                sandbox->name, sandbox->depends_on[i]);
            return wrong(walk, sandbox, err, text);
        }
        if (visit(walk, needed, err) < 0)
            return -1;
    }
    walk->depth--;
    *mark = DONE;
    walk->order[walk->count++] = sandbox;
    return 0;
}

static int visit_all(struct walk *walk, char *const *names, struct error *err)
{
    int result = 0;
    for (size_t i = 0; !names && result == 0 && i < walk->project->count; i++)
        result = visit(walk, &walk->project->sandboxes[i], err);
    for (size_t i = 0; names && result == 0 && names[i]; i++) {
        const struct project_sandbox *sandbox = project_sandbox(walk->project, names[i], err);
        result = sandbox ? visit(walk, sandbox, err) : -1;
    }
    return result;
}

int project_order(const struct project *project, char *const *names,
                  const struct project_sandbox ***order, size_t *count, struct error *err)
{
    size_t room = project->count + 1;
    cleanup_free enum mark *marks = xcalloc(room, sizeof *marks);
    cleanup_free const struct project_sandbox **path = xcalloc(room, sizeof(void *));
    struct walk walk = {
        .project = project, .marks = marks, .path = path, .order = xcalloc(room, sizeof(void *))};
    if (visit_all(&walk, names, err) < 0) {
        free(walk.order);
        return -1;
    }
    *order = walk.order;
    *count = walk.count;
    return 0;
}
