/* What the kernel of a machine says on its console, and what of that explains its end. */
#pragma once

#include "base/buf.h"

/* The lines that tell why the kernel crashed, on one line; NULL when it did not. For free(). */
char *console_crash(struct buf *said);
/* The last line; "" when there is none. For free(). */
char *console_last_line(struct buf *said);
