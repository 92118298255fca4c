#include "cli/request.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "proto/frame.h"
#include "sandbox/requests.h"

#define CODE_MAX (16u << 20)

static int read_code(struct buf *code, const char *given, struct error *err)
{
    if (strcmp(given, "-") != 0) {
        buf_append_text(code, given);
        return 0;
    }
    for (;;) {
        ssize_t got = read(STDIN_FILENO, buf_reserve(code, 65536), 65536);
        if (got < 0)
            return error_errno(err, errno, "cannot read the code from stdin");
        if (got == 0)
            return 0;
        buf_commit(code, (size_t)got);
        if (buf_length(code) > CODE_MAX)
            return error_set(err, ERROR_LIMIT, "the code is longer than %u MB", CODE_MAX >> 20);
    }
}

static int build_run(struct work *work, const struct work_options *options, char *const *command,
                     const char *language, struct error *err)
{
    if (command && command[0]) {
        error_set(err, ERROR_INVALID, "both code and a command were given");
        return error_hint(err, "use either --code or -- COMMAND");
    }
    if (!language && !options->context) {
        error_set(err, ERROR_INVALID, "this image has no interpreter for --code");
        return error_hint(err, "give a command behind -- instead");
    }
    if (options->user || options->workdir) {
        error_set(err, ERROR_INVALID,
                  "the interpreter runs already: --user and --workdir of a call do not apply to "
                  "--code");
        return error_hint(err, "use -- COMMAND, or change the folder in the code");
    }
    run_request_fields(&work->fields,
                       &(struct run_request){.language = language,
                                             .context = options->context,
                                             .env = options->env,
                                             .timeout_ms = options->timeout_ms,
                                             .output_limit = &options->output_limit});
    work->attach.operation = OP_RUN;
    int result = read_code(&work->code, options->code, err);
    work->attach.input = buf_text(&work->code);
    work->attach.input_length = buf_length(&work->code);
    return result;
}

static int build_exec(struct work *work, const struct work_options *options, char *const *command,
                      struct error *err)
{
    if (!command || !command[0]) {
        error_set(err, ERROR_INVALID, "no command was given");
        return error_hint(err, "put it behind --, as in: -- ls -l");
    }
    exec_request_fields(&work->fields,
                        &(struct exec_request){.argv = command,
                                               .env = options->env,
                                               .cwd = options->workdir,
                                               .user = options->user,
                                               .timeout_ms = options->timeout_ms,
                                               .output_limit = &options->output_limit,
                                               .keep = options->background});
    work->attach.operation = OP_EXEC;
    work->attach.terminal = !options->no_terminal && !options->json && attach_has_terminal();
    if (work->attach.terminal)
        attach_describe_terminal(&work->fields);
    return 0;
}

int work_build(struct work *work, const struct work_options *options, char *const *command,
               char *const *fallback, const char *language, struct error *err)
{
    *work = (struct work){0};
    int result = options->code
                     ? build_run(work, options, command, language, err)
                     : build_exec(work, options, command && command[0] ? command : fallback, err);
    if (result == 0 && buf_length(&work->fields) > FRAME_MAX)
        result = error_set(err, ERROR_LIMIT, "the command is too long");
    work->attach.fields = &work->fields;
    work->attach.json = options->json;
    work->attach.timeout_ms = options->timeout_ms;
    if (result < 0)
        work_free(work);
    return result;
}

void work_free(struct work *work)
{
    buf_free(&work->fields);
    buf_free(&work->code);
}
