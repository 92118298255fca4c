/*
 * Progress of long work for a person. On a terminal one line that renews itself with the elapsed
 * time; elsewhere a line when a step begins and one when it ends. One step at a time; steps that
 * end within half a second show nothing. Goes to stderr.
 */
#pragma once

#include <stdbool.h>

/* Switches everything off (--quiet). */
void progress_silence(void);
/* "Building image microsandbox/python" */
void progress_begin(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* What it is doing at the moment, e.g. a line of a tool's output. */
void progress_detail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Redraws; call it every 100 to 500 ms while waiting. */
void progress_tick(void);
/* Ends the step; ok == false leaves the line as it stands. */
void progress_end(bool ok);
