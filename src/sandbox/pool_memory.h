/* Whether the host has memory to spare for what nobody has asked for yet. */
#pragma once

#include <stdbool.h>

/* A quarter of it is to stay available. */
bool pool_memory_is_short(void);
/* Readable by exception (EPOLLPRI) when programs have to wait for memory; -1 where the kernel does
 * not tell. */
int pool_memory_watch(void);
