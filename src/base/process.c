#include "base/process.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"

#define TICK_MS 200
#define TAIL_MAX 400

struct running {
    pid_t pid;
    int in;
    int out;
    int err;
    size_t written;   /* of the input */
    struct buf lines; /* stderr, not yet split */
    struct buf tail;  /* the last lines of stderr, for the error message */
};

static bool is_executable_file(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode) && access(path, X_OK) == 0;
}

char *process_find(const char *program)
{
    if (strchr(program, '/'))
        return is_executable_file(program) ? xstrdup(program) : NULL;
    const char *path = getenv("PATH");
    /* mkfs and friends live in sbin, which an ordinary user's PATH leaves out. */
    cleanup_free char *folders =
        xasprintf("%s:/usr/local/sbin:/usr/sbin:/sbin:/usr/bin:/bin", path ? path : "");
    char *rest = folders;
    for (const char *folder; (folder = strsep(&rest, ":"));) {
        cleanup_free char *candidate = xasprintf("%s/%s", folder, program);
        if (folder[0] == '/' && is_executable_file(candidate))
            return steal_pointer(&candidate);
    }
    return NULL;
}

static bool become_root_of(int space)
{
    return setns(space, CLONE_NEWUSER) == 0 && setgroups(0, NULL) == 0 && setresgid(0, 0, 0) == 0 &&
           setresuid(0, 0, 0) == 0;
}

static _Noreturn void child_run(const char *program, char *const *argv,
                                const struct process_options *options, const int fds[3])
{
    setpgid(0, 0);
    if (options->user_space && !become_root_of(options->user_space))
        _exit(126);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 3; i++) {
        if (dup2(fds[i], i) < 0)
            _exit(126);
    }
    close_range(3, ~0U, 0);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    if (options->private_mounts && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        _exit(126);
    if (options->folder && chdir(options->folder) < 0) {
        fprintf(stderr, "cannot enter %s: %s\n", options->folder, strerror(errno));
        _exit(126);
    }
    execve(program, argv, options->env ? options->env : environ);
    fprintf(stderr, "cannot run %s: %s\n", program, strerror(errno));
    _exit(126);
}

/* In a process namespace of its own, the first process takes all the others with it. */
static pid_t spawn(const struct process_options *options)
{
    if (!options->private_mounts)
        return fork();
    return (pid_t)syscall(SYS_clone, CLONE_NEWNS | CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
}

static int start(const char *program, char *const *argv, const struct process_options *options,
                 struct running *run, struct error *err)
{
    int in[2], out[2] = {-1, -1}, errors[2];
    if (pipe2(in, O_CLOEXEC) < 0)
        return error_errno(err, errno, "cannot make a pipe");
    if (pipe2(errors, O_CLOEXEC) < 0 || (options->output && pipe2(out, O_CLOEXEC) < 0)) {
        int reason = errno;
        fd_close(in[0]);
        fd_close(in[1]);
        return error_errno(err, reason, "cannot make a pipe");
    }
    fflush(NULL);
    run->pid = spawn(options);
    int reason = errno;
    if (run->pid == 0)
        child_run(program, argv, options,
                  (int[]){options->stdin_fd ? options->stdin_fd : in[0],
                          options->stdout_fd ? options->stdout_fd
                          : options->output  ? out[1]
                                             : errors[1],
                          errors[1]});
    fd_close(in[0]);
    fd_close(out[1]);
    fd_close(errors[1]);
    run->in = in[1];
    run->out = out[0];
    run->err = errors[0];
    if (run->pid < 0)
        return error_errno(err, reason, "cannot start %s", program);
    fcntl(run->in, F_SETFL, O_NONBLOCK);
    return 0;
}

static void remember_line(struct running *run, const char *line, size_t length)
{
    if (length == 0)
        return;
    if (buf_length(&run->tail))
        buf_append_text(&run->tail, " / ");
    buf_append(&run->tail, line, length);
    if (buf_length(&run->tail) > TAIL_MAX)
        buf_consume(&run->tail, buf_length(&run->tail) - TAIL_MAX);
}

static void split_lines(struct running *run, const struct process_options *options)
{
    for (;;) {
        const char *text = (const char *)buf_data(&run->lines);
        size_t available = buf_length(&run->lines), length = 0;
        while (length < available && text[length] != '\n' && text[length] != '\r')
            length++;
        if (length == available && available < 4096)
            return;
        remember_line(run, text, length);
        if (options->show_lines && length)
            progress_detail("%.*s", (int)length, text);
        buf_consume(&run->lines, length < available ? length + 1 : length);
    }
}

/* Reads once; closes and forgets the descriptor at its end. */
static void take_output(int *fd, struct buf *into)
{
    ssize_t got = read(*fd, buf_reserve(into, 65536), 65536);
    if (got > 0) {
        buf_commit(into, (size_t)got);
    } else if (got == 0 || errno != EINTR) {
        fd_close(*fd);
        *fd = -1;
    }
}

static void feed_input(struct running *run, const struct process_options *options)
{
    if (run->written < options->input_length) {
        ssize_t put = write(run->in, (const char *)options->input + run->written,
                            options->input_length - run->written);
        if (put > 0)
            run->written += (size_t)put;
        else if (errno != EAGAIN && errno != EINTR)
            run->written = options->input_length;
    }
    if (run->written >= options->input_length) {
        fd_close(run->in);
        run->in = -1;
    }
}

/* Until both outputs are at their end, or cancelled. */
static int follow(struct running *run, const struct process_options *options, struct error *err)
{
    while (run->out >= 0 || run->err >= 0) {
        struct pollfd wait[] = {
            {.fd = run->err, .events = POLLIN},
            {.fd = run->out, .events = POLLIN},
            {.fd = run->in, .events = POLLOUT},
            {.fd = cancel_fd(), .events = POLLIN},
        };
        poll(wait, 4, TICK_MS);
        if (cancel_requested())
            return cancel_error(err);
        if (wait[0].revents) {
            take_output(&run->err, &run->lines);
            split_lines(run, options);
        }
        if (wait[1].revents)
            take_output(&run->out, options->output);
        if (wait[2].revents)
            feed_input(run, options);
        progress_tick();
    }
    return 0;
}

static int judge(struct running *run, int status, const char *program, struct error *err)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    remember_line(run, (const char *)buf_data(&run->lines), buf_length(&run->lines));
    const char *said = buf_length(&run->tail) ? buf_text(&run->tail) : "it said nothing";
    bool full = strcasestr(said, "no space left") != NULL;
    enum error_code code = full ? ERROR_NO_SPACE : ERROR_IO;
    if (WIFSIGNALED(status))
        return error_set(err, code, "%s was ended by signal %d: %s", program, WTERMSIG(status),
                         said);
    return error_set(err, code, "%s failed with exit code %d: %s", program, WEXITSTATUS(status),
                     said);
}

int process_run(char *const *argv, const struct process_options *options, struct error *err)
{
    cleanup_free char *program = process_find(argv[0]);
    if (!program)
        return error_set(err, ERROR_MISSING, "the program %s is not installed", argv[0]);

    struct running run = {.in = -1, .out = -1, .err = -1};
    int result = start(program, argv, options, &run, err);
    if (result == 0)
        result = follow(&run, options, err);
    if (run.pid > 0) {
        int status = 0;
        if (result < 0)
            kill(-run.pid, SIGKILL);
        while (waitpid(run.pid, &status, 0) < 0 && errno == EINTR) {
        }
        if (result == 0)
            result = judge(&run, status, argv[0], err);
    }
    fd_close(run.in);
    fd_close(run.out);
    fd_close(run.err);
    buf_free(&run.lines);
    buf_free(&run.tail);
    return result;
}
