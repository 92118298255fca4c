#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli/attach_internal.h"
#include "proto/fields.h"

bool attach_has_terminal(void)
{
    return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO);
}

void attach_describe_terminal(struct buf *fields)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    ioctl(STDIN_FILENO, TIOCGWINSZ, &size);
    const char *kind = getenv("TERM");
    fields_add_number(fields, TAG_PTY, 1);
    fields_add_number(fields, TAG_ROWS, size.ws_row);
    fields_add_number(fields, TAG_COLS, size.ws_col);
    fields_add_text(fields, TAG_TERM, kind && kind[0] ? kind : "xterm");
}

void attach_set_raw(struct attachment *a)
{
    if (!a->request->terminal || a->raw || tcgetattr(STDIN_FILENO, &a->before) < 0)
        return;
    struct termios raw = a->before;
    cfmakeraw(&raw);
    a->raw = tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0;
}

void attach_restore_terminal(struct attachment *a)
{
    if (a->raw)
        tcsetattr(STDIN_FILENO, TCSANOW, &a->before);
    a->raw = false;
}

void attach_adopt_size(struct attachment *a)
{
    struct winsize size;
    if (a->working && a->raw && ioctl(STDIN_FILENO, TIOCGWINSZ, &size) == 0)
        call_resize(&a->work, size.ws_row, size.ws_col);
}
