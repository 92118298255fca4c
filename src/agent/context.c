#include "agent/context.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/driver.h"
#include "agent/loop.h"
#include "agent/oom.h"
#include "agent/output.h"
#include "agent/settings.h"
#include "agent/spawn.h"
#include "base/embed.h"
#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"

EMBED(runtime_python, "src/agent/runtimes/python.py");
EMBED(runtime_python_display, "src/agent/runtimes/python_display.py");
EMBED(runtime_python_imports, "src/agent/runtimes/python_imports.py");
EMBED(runtime_python_ipython, "src/agent/runtimes/python_ipython.py");
EMBED(runtime_python_magics, "src/agent/runtimes/python_magics.py");
EMBED(runtime_node, "src/agent/runtimes/node.js");

#define RUNTIME_FOLDER "/run/msb"
#define GRACE_MS 2000

struct context {
    const char *language;
    char *const argv[3];
    pid_t pid; /* 0: not running */
    int report;
    struct account account;
    char *cwd;
    struct scope *scope;
    struct loop_child child;
    struct driver driver;
    struct output outputs[2];
    struct loop_timer grace;
    struct context_call *queue; /* the first is running when `busy` */
    bool busy;
    struct context_outcome outcome;
};

static struct context contexts[] = {
    {.language = "python", .argv = {(char[]){"python3"}, (char[]){RUNTIME_FOLDER "/python.py"}}},
    {.language = "node", .argv = {(char[]){"node"}, (char[]){RUNTIME_FOLDER "/node.js"}}},
};
#define CONTEXT_COUNT (sizeof contexts / sizeof contexts[0])

static void begin_next(struct context *context, bool warm);

struct context *context_find(const char *language, struct error *err)
{
    for (size_t i = 0; i < CONTEXT_COUNT; i++) {
        if (strcmp(contexts[i].language, language) == 0)
            return &contexts[i];
    }
    error_set(err, ERROR_INVALID, "no such language: %.40s", language);
    error_hint(err, "use python or node, or run a program of the image");
    return NULL;
}

struct context *context_next(const struct context *context)
{
    size_t index = context ? (size_t)(context - contexts) + 1 : 0;
    return index < CONTEXT_COUNT ? &contexts[index] : NULL;
}

bool context_is_running(const struct context *context)
{
    return context->pid > 0;
}

static void forget_process(struct context *context)
{
    loop_timer_stop(&context->grace);
    driver_close(&context->driver);
    for (int i = 0; i < 2; i++)
        output_abandon(&context->outputs[i]);
    scope_release(steal_pointer(&context->scope));
    fd_close(context->report);
    free(steal_pointer(&context->cwd));
    context->pid = 0;
}

/* The one place where a call ends. */
static void end_call(struct context *context, const struct context_outcome *outcome)
{
    struct context_call *call = context->queue;
    context->queue = call->next;
    context->busy = false;
    call->ended(call->owner, outcome);
    begin_next(context, false);
}

static void set_stream(struct context *context, struct stream *stream)
{
    context->driver.stream = stream;
    for (int i = 0; i < 2; i++)
        output_restart(&context->outputs[i], stream);
}

static void conclude(void *owner)
{
    struct context *context = owner;
    if (!output_is_settled(&context->outputs[0]) || !output_is_settled(&context->outputs[1]))
        return;
    struct context_outcome outcome = context->outcome;
    bool failed = outcome.died || outcome.exit_code;
    outcome.killed = oom_find(context->scope, context->pid, failed, &outcome.out_of_memory);
    loop_timer_stop(&context->grace);
    if (outcome.died)
        forget_process(context);
    else
        set_stream(context, NULL);
    if (context->busy)
        end_call(context, &outcome);
    else
        begin_next(context, false);
}

static void on_done(void *owner, int exit_code)
{
    struct context *context = owner;
    if (!context->busy) {
        context->driver.events->broken(owner, "an end without a call");
        return;
    }
    context->outcome.exit_code = exit_code;
    loop_timer_stop(&context->grace);
    output_settle_both(context->outputs, conclude, context);
}

static void on_broken(void *owner, const char *why)
{
    struct context *context = owner;
    log_warn("the %s interpreter sent %s and is replaced", context->language, why);
    scope_kill(context->scope);
}

static void on_settled(void *owner)
{
    struct context *context = owner;
    output_settle_both(context->outputs, conclude, context);
}

static const struct driver_events driver_events = {
    .done = on_done, .broken = on_broken, .settled = on_settled};

/* Everybody who waits hears why the interpreter cannot be had. */
static void fail_all(struct context *context, const struct error *err)
{
    struct context_outcome outcome = {.err = err};
    while (context->queue) {
        struct context_call *call = context->queue;
        context->queue = call->next;
        context->busy = false;
        call->ended(call->owner, &outcome);
    }
}

static void explain_missing(const struct context *context, struct error *err)
{
    if (err->code != ERROR_NOT_FOUND)
        return;
    error_set(err, ERROR_MISSING, "the image has no %s", context->argv[0]);
    error_hint(err, "use an image that has it, for example microsandbox/%s", context->language);
}

static void on_exited(void *owner, int status)
{
    struct context *context = owner;
    struct error err;
    int exit_code;
    if (spawn_outcome(context->report, context->argv[0], context->cwd, &exit_code, &err) < 0) {
        if (exit_code == 127)
            explain_missing(context, &err);
        forget_process(context);
        fail_all(context, &err);
        return;
    }
    context->outcome.died = true;
    context->outcome.status = status;
    driver_settle(&context->driver);
}

/* Where code starts to run: what the sandbox says, a workspace if there is one, or home. */
static char *choose_cwd(const struct account *account)
{
    struct stat status;
    if (settings_cwd())
        return xstrdup(settings_cwd());
    if (stat("/workspace", &status) == 0 && S_ISDIR(status.st_mode))
        return xstrdup("/workspace");
    return xstrdup(stat(account->home, &status) == 0 ? account->home : "/");
}

struct wires {
    int null;
    struct spawn_pipes pipes; /* the first pair carries commands, the others stdout and stderr */
    int messages[2];
};

static int open_wires(struct wires *wires, struct error *err)
{
    cleanup_fd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || pipe2(wires->messages, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot connect an interpreter");
    int result = spawn_pipes_open(&wires->pipes, err);
    if (result < 0) {
        close(wires->messages[0]);
        close(wires->messages[1]);
        return result;
    }
    fcntl(wires->messages[0], F_SETFL, O_NONBLOCK);
    wires->null = steal_fd(&null);
    return 0;
}

static void close_far_ends(const struct wires *wires)
{
    fd_close(wires->null);
    for (int i = 0; i < 3; i++)
        fd_close(wires->pipes.theirs[i]);
    fd_close(wires->messages[1]);
}

static int start_process(struct context *context, bool warm, struct error *err)
{
    struct wires wires;
    int result = account_find(settings_user(), &context->account, err);
    if (result < 0)
        return result;
    context->scope = scope_make(err);
    if (!context->scope)
        return -1;
    result = open_wires(&wires, err);
    if (result < 0) {
        scope_release(steal_pointer(&context->scope));
        return result;
    }
    context->cwd = choose_cwd(&context->account);
    cleanup_strv char **env = environment_build(&context->account, NULL);
    if (warm)
        environment_set(&env, "MSB_WARM=1");
    struct spawn spawn = {
        .argv = context->argv,
        .env = env,
        .cwd = context->cwd,
        .account = &context->account,
        .scope = context->scope,
        .fds = {wires.null, wires.pipes.theirs[1], wires.pipes.theirs[2], wires.pipes.theirs[0],
                wires.messages[1]},
        .fd_count = 5,
    };
    pid_t pid = spawn_start(&spawn, &context->report, err);
    close_far_ends(&wires);
    context->outcome = (struct context_outcome){0};
    driver_open(&context->driver, wires.pipes.ours[0], wires.messages[0], &driver_events, context);
    output_open(&context->outputs[0], wires.pipes.ours[1], CHANNEL_STDOUT, false, NULL);
    output_open(&context->outputs[1], wires.pipes.ours[2], CHANNEL_STDERR, false, NULL);
    if (pid < 0) {
        context->report = -1;
        forget_process(context);
        return -1;
    }
    context->pid = pid;
    loop_child_watch(&context->child, pid, on_exited, context);
    return 0;
}

static void begin_next(struct context *context, bool warm)
{
    struct error err;
    if (context->busy || !context->queue)
        return;
    if (context->pid == 0 && start_process(context, warm, &err) < 0) {
        fail_all(context, &err);
        return;
    }
    /* It has died but is not buried yet; conclude comes back here. */
    if (context->outcome.died)
        return;
    struct context_call *call = context->queue;
    context->busy = true;
    context->outcome = (struct context_outcome){0};
    set_stream(context, call->stream);
    driver_send(&context->driver, call->kind, buf_data(&call->payload), buf_length(&call->payload));
    buf_free(&call->payload);
    if (call->begun)
        call->begun(call->owner);
}

void context_submit(struct context *context, struct context_call *call, bool warm)
{
    struct context_call **at = &context->queue;
    while (*at)
        at = &(*at)->next;
    call->next = NULL;
    *at = call;
    begin_next(context, warm);
}

static void on_grace_over(void *owner)
{
    struct context *context = owner;
    scope_kill(context->scope);
}

/* The whole group, as Ctrl-C on a terminal would: what the code waits for is to end as well. */
void context_interrupt(struct context *context, struct context_call *call)
{
    if (!context->busy || context->queue != call || context->outcome.interrupted)
        return;
    context->outcome.interrupted = true;
    kill(-context->pid, SIGINT);
    loop_timer_start(&context->grace, GRACE_MS, on_grace_over, context);
}

bool context_withdraw(struct context *context, struct context_call *call)
{
    struct context_call **at = &context->queue;
    if (context->busy && *at == call)
        return false;
    while (*at && *at != call)
        at = &(*at)->next;
    if (*at)
        *at = call->next;
    return true;
}

void context_redirect(struct context *context, struct context_call *call, struct stream *stream)
{
    call->stream = stream;
    if (!context->busy || context->queue != call)
        return;
    context->driver.stream = stream;
    for (int i = 0; i < 2; i++)
        context->outputs[i].stream = stream;
    driver_resume(&context->driver);
    /* The driver's last message may have ended the call. */
    if (context->busy && context->queue == call)
        output_resume_both(context->outputs);
}

#define RUNTIME(name, symbol)                                                                      \
    {                                                                                              \
        name, runtime_##symbol##_begin, &runtime_##symbol##_size                                   \
    }

static const struct {
    const char *name;
    const uint8_t *bytes;
    const uint64_t *size;
} runtimes[] = {
    RUNTIME("python.py", python),
    RUNTIME("python_display.py", python_display),
    RUNTIME("python_imports.py", python_imports),
    RUNTIME("python_ipython.py", python_ipython),
    RUNTIME("python_magics.py", python_magics),
    RUNTIME("node.js", node),
};

int context_install(struct error *err)
{
    int result = folder_make(RUNTIME_FOLDER, 0755, err);
    for (size_t i = 0; result == 0 && i < sizeof runtimes / sizeof runtimes[0]; i++) {
        cleanup_free char *path = xasprintf("%s/%s", RUNTIME_FOLDER, runtimes[i].name);
        result = file_write_atomic(path, runtimes[i].bytes, *runtimes[i].size, 0644, err);
    }
    return result;
}
