/* What a process that reads hostile archives may still do: make files below one folder. */
#pragma once

#include "base/error.h"

/* The folder is the whole world afterwards; no more programs, processes, sockets or code. */
int confine_to(const char *folder, struct error *err);
