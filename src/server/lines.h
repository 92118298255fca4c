/* Output as the SDKs want it: a list of {"stream", "text"}, each one line without its newline. */
#pragma once

#include "sandbox/collect.h"

/* Of pieces as they came, in the order in which the lines ended. */
json_t *lines_of_pieces(const json_t *pieces);
/* Of code: what it printed, its results as text, its traceback, and `problem` (may be NULL). */
json_t *lines_of_run(const struct collection *collection, const char *problem);
