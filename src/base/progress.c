#include "base/progress.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"

#define QUIET_MS 500

static struct {
    bool silent;
    bool active;
    bool shown;
    uint64_t began;
    char title[200];
    char detail[200];
} step;

static double elapsed_seconds(void)
{
    return (double)(clock_monotonic_ms() - step.began) / 1000.0;
}

static int terminal_width(void)
{
    struct winsize size;
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 20)
        return size.ws_col;
    return 80;
}

void progress_silence(void)
{
    step.silent = true;
}

void progress_begin(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(step.title, sizeof step.title, format, args);
    va_end(args);
    step.detail[0] = '\0';
    step.began = clock_monotonic_ms();
    step.active = true;
    step.shown = false;
}

/* Tool output reaches the terminal through here: control characters do not. */
static void make_printable(char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < ' ' || *text == 0x7f)
            *text = ' ';
    }
}

void progress_detail(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(step.detail, sizeof step.detail, format, args);
    va_end(args);
    make_printable(step.detail);
    progress_tick();
}

void progress_tick(void)
{
    if (step.silent || !step.active || clock_monotonic_ms() - step.began < QUIET_MS)
        return;
    if (!isatty(STDERR_FILENO)) {
        if (!step.shown)
            fprintf(stderr, "%s …\n", step.title);
        step.shown = true;
        return;
    }
    char line[512];
    snprintf(line, sizeof line, "%s … %.0f s  %s", step.title, elapsed_seconds(), step.detail);
    fprintf(stderr, "\r\033[K%.*s", terminal_width() - 1, line);
    fflush(stderr);
    step.shown = true;
}

void progress_end(bool ok)
{
    if (step.shown && !step.silent) {
        if (isatty(STDERR_FILENO))
            fputs("\r\033[K", stderr);
        fprintf(stderr, "%s: %s, %.1f s\n", step.title, ok ? "done" : "failed", elapsed_seconds());
    }
    step.active = false;
}
