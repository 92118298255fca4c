/* Which command of a sandbox runs. */
#include <string.h>

#include "base/mem.h"
#include "project/project.h"

/* Arguments are $1 and so on of a script; its name is $0, as in its complaints. */
static char **shell_command(const struct project_sandbox *sandbox, const char *name, char *text,
                            char *const *args)
{
    char **command = NULL;
    strv_append(&command, xstrdup(sandbox->shell ? sandbox->shell : "sh"));
    strv_append(&command, xstrdup("-c"));
    strv_append(&command, text);
    strv_append(&command, xstrdup(name));
    strv_append_all(&command, args);
    return command;
}

/* A program that gets the arguments, or a whole line without any. */
static char **line_command(const struct project_sandbox *sandbox, const char *line,
                           char *const *args)
{
    bool has_args = args && args[0];
    return shell_command(sandbox, "sh", has_args ? xasprintf("%s \"$@\"", line) : xstrdup(line),
                         args);
}

static char **named_script(const struct project *project, const struct project_sandbox *sandbox,
                           const struct project_wish *wish, struct error *err)
{
    const char *text = project_script(sandbox, wish->script);
    if (text)
        return shell_command(sandbox, wish->script, xstrdup(text), wish->args);
    error_set(err, ERROR_NOT_FOUND, "%s:%u:%u: the sandbox %s has no script \"%.80s\"",
              project->file, sandbox->line, sandbox->column, sandbox->name, wish->script);
    if (sandbox->script_count > 0)
        error_hint(err, "it has %s%s", sandbox->scripts[0].name,
                   sandbox->script_count > 1 ? " and others: \"msb list\" shows them" : "");
    else
        error_hint(err, "add it to the file under scripts:");
    return NULL;
}

static char **start_with(const struct project_sandbox *sandbox, char *const *args)
{
    char **command = NULL;
    const char *text = project_script(sandbox, "start");
    if (text)
        return shell_command(sandbox, "start", xstrdup(text), args);
    if (!sandbox->command || !sandbox->command[0])
        return NULL;
    strv_append_all(&command, sandbox->command);
    strv_append_all(&command, args);
    return command;
}

char **project_start_command(const struct project_sandbox *sandbox)
{
    return start_with(sandbox, NULL);
}

char **project_command(const struct project *project, const struct project_sandbox *sandbox,
                       const struct project_wish *wish, struct error *err)
{
    if (wish->exec)
        return line_command(sandbox, wish->exec, wish->args);
    if (wish->script)
        return named_script(project, sandbox, wish, err);
    char **command = start_with(sandbox, wish->args);
    if (!command && sandbox->shell) {
        strv_append(&command, xstrdup(sandbox->shell));
        strv_append_all(&command, wish->args);
    }
    if (command)
        return command;
    error_set(err, ERROR_INVALID, "%s:%u:%u: the sandbox %s has nothing to run", project->file,
              sandbox->line, sandbox->column, sandbox->name);
    error_hint(err, "give it a script \"start\", a command or a shell, or use --exec");
    return NULL;
}
