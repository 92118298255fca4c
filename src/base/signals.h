/* Signals as a new program expects them. */
#pragma once

/* All have their default actions and none is blocked. */
void signals_reset(void);
