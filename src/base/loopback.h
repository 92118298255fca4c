/* The network interface that leads nowhere but back. */
#pragma once

/* Brings it up in the network namespace we are in; needs to be allowed to. */
void loopback_bring_up(void);
