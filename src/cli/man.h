/* The manual page, made from the tables of commands and options. */
#pragma once

/* On stdout, for man(1). */
void man_print(void);
