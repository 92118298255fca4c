/* Pictures that code drew, as files of the session's data folder instead of data: addresses. */
#pragma once

#include "server/rest.h"

/*
 * Writes each picture among the answer's artifacts to pictures/RUN-NUMBER.ENDING, puts its address
 * in place of its data, and answers. Takes the answer and the request's work.
 */
void pictures_save(struct rest *rest, json_t *answer, const char *run_id);
