#include "base/signals.h"

#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

/* By the system call itself: C libraries keep a few signals for their own use and would leave those
 * as we inherited them. */
void signals_reset(void)
{
    static const struct {
        void (*handler)(int);
        unsigned long flags;
        void (*restorer)(void);
        unsigned long mask;
    } action = {.handler = SIG_DFL};
    for (int number = 1; number < NSIG; number++)
        syscall(SYS_rt_sigaction, number, &action, NULL, sizeof action.mask);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}
