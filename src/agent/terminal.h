/* Pseudo terminals. */
#pragma once

#include <stdint.h>
#include <sys/types.h>

#include "agent/account.h"
#include "base/error.h"

/* The slave belongs to the account. 0 rows or columns mean 24 x 80. */
int terminal_open(uint16_t rows, uint16_t cols, const struct account *account, int *master,
                  int *slave, struct error *err);
void terminal_resize(int master, uint16_t rows, uint16_t cols);
/* The process group that Ctrl-C would reach; -1 when there is none. */
pid_t terminal_foreground(int master);
