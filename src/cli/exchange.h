/* One operation of a sandbox that answers with records or nothing, waited for. */
#pragma once

#include "sandbox/collect.h"

/*
 * Takes the connection over. Returns 0 and the answer (collect_free) with its outcome
 * (outcome_free), or reports the error and returns the exit code for it. Ctrl-C cancels.
 */
int exchange_run(int connection, enum operation operation, const struct buf *fields,
                 struct collection *answer, struct outcome *outcome);
/* A member of a record, for tables: "-" when it is not there. */
const char *record_text(const json_t *record, const char *key);
long long record_number(const json_t *record, const char *key);
/* On stdout, with a newline. */
void print_json(const json_t *json);
