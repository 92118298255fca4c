/* Whether the host has memory to spare for what nobody has asked for yet. */
#pragma once

#include <stdbool.h>

/* A quarter is to stay available, of the host's memory and of what our control groups may have. */
bool pool_memory_is_short(void);
/* Readable by exception (EPOLLPRI) when programs have to wait for memory, be it for want of their
 * own limits only; -1 where the kernel does not tell. */
int pool_memory_watch(void);
