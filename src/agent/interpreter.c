#include "agent/interpreter.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/oom.h"
#include "agent/settings.h"
#include "agent/spawn.h"
#include "base/log.h"
#include "base/mem.h"

#define GRACE_MS 2000
#define AGAIN_MS 300
#define NOTICE_MS 20

static void forget_process(struct interpreter *interpreter)
{
    interpreter->phase = INTERPRETER_NONE;
    loop_timer_stop(&interpreter->timer);
    loop_timer_stop(&interpreter->notice);
    buf_free(&interpreter->earlier);
    loop_child_forget(&interpreter->child);
    fd_close(interpreter->report);
    driver_close(&interpreter->driver);
    for (int i = 0; i < 2; i++)
        output_abandon(&interpreter->outputs[i]);
    scope_release(steal_pointer(&interpreter->scope));
    interpreter->pid = 0;
}

void interpreter_kill(struct interpreter *interpreter)
{
    if (interpreter->phase == INTERPRETER_WAITING) {
        zygote_wait_stop(&interpreter->waiter);
        interpreter->phase = INTERPRETER_NONE;
    } else if (interpreter->phase != INTERPRETER_NONE) {
        scope_kill(interpreter->scope);
        forget_process(interpreter);
    }
}

static void fail(struct interpreter *interpreter, const struct error *err)
{
    interpreter_kill(interpreter);
    interpreter->events->failed(interpreter->owner, err);
}

static void set_stream(struct interpreter *interpreter, struct stream *stream)
{
    interpreter->driver.stream = stream;
    for (int i = 0; i < 2; i++)
        output_restart(&interpreter->outputs[i], stream);
}

static void note_earlier(void *owner)
{
    struct interpreter *interpreter = owner;
    scope_list(interpreter->scope, &interpreter->earlier);
}

static void conclude(void *owner)
{
    struct interpreter *interpreter = owner;
    if (!output_is_settled(&interpreter->outputs[0]) ||
        !output_is_settled(&interpreter->outputs[1]))
        return;
    loop_timer_stop(&interpreter->timer);
    bool dead = interpreter->phase == INTERPRETER_DEAD;
    interpreter->killed =
        oom_find(interpreter->scope, interpreter->pid, &interpreter->out_of_memory);
    if (dead) {
        forget_process(interpreter);
        interpreter->events->died(interpreter->owner, interpreter->status);
        return;
    }
    set_stream(interpreter, NULL);
    interpreter->phase = INTERPRETER_IDLE;
    /* Not now: whoever waits for the answer comes first, and so does a call that follows soon. */
    loop_timer_start(&interpreter->notice, NOTICE_MS, note_earlier, interpreter);
    interpreter->events->done(interpreter->owner, interpreter->exit_code);
}

static void on_broken(void *owner, const char *why)
{
    struct interpreter *interpreter = owner;
    log_warn("the %s interpreter sent %s and is replaced", interpreter->language->name, why);
    scope_kill(interpreter->scope);
}

/* The answer to the first message; not 0: it could not enter its working folder. */
static void take_greeting(struct interpreter *interpreter, int exit_code)
{
    if (exit_code == 0) {
        interpreter->phase = INTERPRETER_IDLE;
        interpreter->no_spare = false;
        interpreter->events->up(interpreter->owner);
        return;
    }
    struct error err;
    error_set(&err, ERROR_DENIED, "cannot enter the working folder %.200s", interpreter->cwd);
    error_hint(&err, "create it in the sandbox or choose another one");
    fail(interpreter, &err);
}

static void on_done(void *owner, int exit_code)
{
    struct interpreter *interpreter = owner;
    if (interpreter->phase == INTERPRETER_STARTED) {
        take_greeting(interpreter, exit_code);
    } else if (interpreter->phase == INTERPRETER_BUSY) {
        interpreter->exit_code = exit_code;
        if (interpreter->timer.armed) /* it was interrupted */
            scope_kill_others(interpreter->scope, &interpreter->earlier);
        loop_timer_stop(&interpreter->timer);
        output_settle_both(interpreter->outputs, conclude, interpreter);
    } else {
        on_broken(interpreter, "an end without a call");
    }
}

static void on_settled(void *owner)
{
    struct interpreter *interpreter = owner;
    output_settle_both(interpreter->outputs, conclude, interpreter);
}

static const struct driver_events driver_events = {
    .done = on_done, .broken = on_broken, .settled = on_settled};

/* It ended before it ever answered. */
static void explain_start(const struct interpreter *interpreter, struct error *err)
{
    const struct language *language = interpreter->language;
    int exit_code;
    if (spawn_outcome(interpreter->report, language->argv[0], interpreter->cwd, &exit_code, err) <
        0) {
        if (exit_code != 127)
            return;
        error_set(err, ERROR_MISSING, "the image has no %s", language->argv[0]);
        error_hint(err, "use an image that has it, for example %s", language->image);
        return;
    }
    error_set(err, ERROR_UNAVAILABLE, "the %s interpreter ended while it started", language->name);
    error_hint(err, "run %s as a command to see what it says", language->argv[0]);
}

/* A spare that died in store is nobody's fault. */
static void try_program(struct interpreter *interpreter)
{
    struct error err;
    interpreter->no_spare = true;
    forget_process(interpreter);
    if (interpreter_start(interpreter, &err) < 0)
        interpreter->events->failed(interpreter->owner, &err);
}

static void on_exited(void *owner, int status)
{
    struct interpreter *interpreter = owner;
    if (interpreter->phase == INTERPRETER_STARTED && interpreter->report < 0) {
        try_program(interpreter);
        return;
    }
    if (interpreter->phase == INTERPRETER_STARTED) {
        struct error err;
        explain_start(interpreter, &err);
        fail(interpreter, &err);
        return;
    }
    interpreter->phase = INTERPRETER_DEAD;
    interpreter->status = status;
    driver_settle(&interpreter->driver);
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

static void attach(struct interpreter *interpreter, const struct wires *wires, pid_t pid)
{
    interpreter->phase = INTERPRETER_STARTED;
    interpreter->pid = pid;
    interpreter->report = -1;
    driver_open(&interpreter->driver, wires->ours[WIRE_COMMANDS], wires->ours[WIRE_MESSAGES],
                &driver_events, interpreter);
    output_open(&interpreter->outputs[0], wires->ours[WIRE_STDOUT], CHANNEL_STDOUT, false, NULL);
    output_open(&interpreter->outputs[1], wires->ours[WIRE_STDERR], CHANNEL_STDERR, false, NULL);
    loop_child_watch(&interpreter->child, pid, on_exited, interpreter);
}

static void append_line(struct buf *out, const char *text)
{
    buf_append(out, text, strlen(text) + 1);
}

static bool has_name(char *const *env, const char *name, size_t length)
{
    for (; env && *env; env++) {
        if (strncmp(*env, name, length) == 0 && (*env)[length] == '=')
            return true;
    }
    return false;
}

/* What turns one environment into another: assignments, and names to forget. */
static void append_changes(struct buf *out, char *const *from, char *const *to)
{
    for (char *const *at = to; at && *at; at++) {
        if (!strv_contains(from, *at))
            append_line(out, *at);
    }
    for (char *const *at = from; at && *at; at++) {
        size_t length = strcspn(*at, "=");
        if (has_name(to, *at, length))
            continue;
        buf_append(out, *at, length);
        append_line(out, "");
    }
}

/* The first message: random numbers of its own, and what else it does not have yet. */
static void greet(struct interpreter *interpreter, const struct buf *changes)
{
    cleanup_buf struct buf payload = {0};
    uint8_t entropy[DRIVER_ENTROPY];
    if (getrandom(entropy, sizeof entropy, 0) != sizeof entropy)
        log_warn("no random numbers for an interpreter: errno %d", errno);
    driver_put_entropy(&payload, entropy);
    buf_append(&payload, buf_data(changes), buf_length(changes));
    driver_send(&interpreter->driver, 'a', buf_data(&payload), buf_length(&payload));
}

static void on_spare(void *owner)
{
    struct interpreter *interpreter = owner;
    struct error err;
    interpreter->phase = INTERPRETER_NONE;
    if (interpreter_start(interpreter, &err) < 0)
        interpreter->events->failed(interpreter->owner, &err);
}

static void take_spare(struct interpreter *interpreter, char *const *env)
{
    struct wires wires;
    cleanup_buf struct buf changes = {0};
    append_line(&changes, strcmp(interpreter->cwd, zygote_cwd()) == 0 ? "" : interpreter->cwd);
    append_changes(&changes, zygote_env(), env);
    pid_t pid = zygote_take(&wires, &interpreter->scope);
    if (pid == 0) {
        interpreter->phase = INTERPRETER_WAITING;
        zygote_wait(&interpreter->waiter, on_spare, interpreter);
        return;
    }
    attach(interpreter, &wires, pid);
    greet(interpreter, &changes);
}

static pid_t spawn_program(struct interpreter *interpreter, const struct account *account,
                           char ***env, const struct wires *wires, int *report, struct error *err)
{
    cleanup_fd int link = -1;
    cleanup_fd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0)
        return error_errno(err, errno, "cannot open /dev/null");
    if (interpreter->warm && interpreter->language->copies)
        link = zygote_connect(settings_user(), account, *env, interpreter->cwd, err);
    if (interpreter->warm)
        environment_set(env, "MSB_WARM=1");
    interpreter->warm = false;
    const int *theirs = wires->theirs;
    struct spawn spawn = {
        .argv = interpreter->language->argv,
        .env = *env,
        .cwd = interpreter->cwd,
        .account = account,
        .scope = interpreter->scope,
        .fds = {null, theirs[WIRE_STDOUT], theirs[WIRE_STDERR], theirs[WIRE_COMMANDS],
                theirs[WIRE_MESSAGES], link},
        .fd_count = link < 0 ? 5 : 6,
    };
    return spawn_start(&spawn, report, err);
}

static int start_program(struct interpreter *interpreter, const struct account *account,
                         char ***env, struct error *err)
{
    cleanup_buf struct buf nothing = {0};
    struct wires wires;
    int report = -1;
    if (wires_open(&wires, err) < 0)
        return -1;
    pid_t pid = -1;
    interpreter->scope = scope_make(err);
    if (interpreter->scope)
        pid = spawn_program(interpreter, account, env, &wires, &report, err);
    wires_close_theirs(&wires);
    if (pid < 0) {
        wires_close_ours(&wires);
        if (interpreter->scope)
            scope_release(steal_pointer(&interpreter->scope));
        return -1;
    }
    attach(interpreter, &wires, pid);
    interpreter->report = report;
    append_line(&nothing, "");
    greet(interpreter, &nothing);
    return 0;
}

int interpreter_start(struct interpreter *interpreter, struct error *err)
{
    bool copies = interpreter->language->copies && !interpreter->warm && !interpreter->no_spare;
    const struct account *known = copies ? zygote_account(settings_user()) : NULL;
    struct account found;
    if (!known && account_find(settings_user(), &found, err) < 0)
        return -1;
    const struct account *account = known ? known : &found;
    cleanup_strv char **env = environment_build(account, interpreter->env);
    free(interpreter->cwd);
    interpreter->cwd =
        interpreter->wanted_cwd ? xstrdup(interpreter->wanted_cwd) : choose_cwd(account);
    if (!known || !zygote_suits(env))
        return start_program(interpreter, account, &env, err);
    take_spare(interpreter, env);
    return 0;
}

void interpreter_call(struct interpreter *interpreter, struct stream *stream, char kind,
                      const struct buf *payload)
{
    interpreter->phase = INTERPRETER_BUSY;
    if (interpreter->notice.armed) {
        loop_timer_stop(&interpreter->notice);
        note_earlier(interpreter);
    }
    set_stream(interpreter, stream);
    driver_send(&interpreter->driver, kind, buf_data(payload), buf_length(payload));
}

void interpreter_tell(struct interpreter *interpreter, const struct buf *notice)
{
    driver_send(&interpreter->driver, 'n', buf_data(notice), buf_length(notice));
}

void interpreter_redirect(struct interpreter *interpreter, struct stream *stream)
{
    interpreter->driver.stream = stream;
    for (int i = 0; i < 2; i++)
        interpreter->outputs[i].stream = stream;
    driver_resume(&interpreter->driver);
    /* The driver's last message may have ended the call. */
    if (interpreter->driver.stream == stream)
        output_resume_both(interpreter->outputs);
}

static void on_grace_over(void *owner)
{
    struct interpreter *interpreter = owner;
    scope_kill(interpreter->scope);
}

/* What was born while the interrupt was on its way has not got it, and the code waits for it. */
static void on_still_running(void *owner)
{
    struct interpreter *interpreter = owner;
    scope_signal_others(interpreter->scope, &interpreter->earlier, SIGINT);
    loop_timer_start(&interpreter->timer, GRACE_MS - AGAIN_MS, on_grace_over, interpreter);
}

/* The whole group, as Ctrl-C on a terminal would: what the code waits for is to end as well. */
void interpreter_interrupt(struct interpreter *interpreter)
{
    if (interpreter->phase != INTERPRETER_BUSY || interpreter->timer.armed)
        return;
    kill(-interpreter->pid, SIGINT);
    loop_timer_start(&interpreter->timer, AGAIN_MS, on_still_running, interpreter);
}
