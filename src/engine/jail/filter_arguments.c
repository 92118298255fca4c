/* Arguments that calls of a jail may not have, though the calls themselves are there. */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/sched.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "engine/jail/filter_internal.h"

/* Calls that give a file its mode, and the number of the argument. */
static const struct {
    int call;
    unsigned mode;
} mode_setters[] = {
    {SCMP_SYS(chmod), 1},   {SCMP_SYS(fchmod), 1}, {SCMP_SYS(fchmodat), 2}, {SCMP_SYS(mkdir), 1},
    {SCMP_SYS(mkdirat), 2}, {SCMP_SYS(mknod), 1},  {SCMP_SYS(mknodat), 2},  {SCMP_SYS(open), 2},
    {SCMP_SYS(openat), 3},  {SCMP_SYS(creat), 1},
};

int filter_refuse_modes(scmp_filter_ctx filter)
{
    int result = 0;
    for (size_t i = 0; i < sizeof mode_setters / sizeof mode_setters[0]; i++) {
        int call = mode_setters[i].call;
        unsigned mode = mode_setters[i].mode;
        result |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1, HAS(mode, S_ISUID));
        result |= seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 1, HAS(mode, S_ISGID));
    }
    return result;
}

/* A namespace of its own is what most attacks upon the kernel begin with. */
static int refuse_namespaces(scmp_filter_ctx filter)
{
    static const unsigned flags[] = {CLONE_NEWNS,   CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC,
                                     CLONE_NEWUSER, CLONE_NEWPID,    CLONE_NEWNET};
    int result = 0;
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++)
        result |=
            seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, HAS(0, flags[i]));
    return result;
}

/*
 * AF_ALG, AF_VSOCK, AF_PACKET and forty others are code of the kernel that nobody in here needs.
 * What is left: AF_UNIX, AF_INET, AF_INET6, and of AF_NETLINK the list of network interfaces.
 */
static int refuse_sockets(scmp_filter_ctx filter)
{
    const uint32_t unknown = SCMP_ACT_ERRNO(EAFNOSUPPORT);
    int result =
        seccomp_rule_add(filter, unknown, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_GT, AF_NETLINK));
    result |=
        seccomp_rule_add(filter, unknown, SCMP_SYS(socket), 2, SCMP_A0(SCMP_CMP_EQ, AF_NETLINK),
                         SCMP_A2(SCMP_CMP_NE, NETLINK_ROUTE));
    for (unsigned domain = 0; domain < AF_NETLINK; domain++) {
        if (domain != AF_UNIX && domain != AF_INET && domain != AF_INET6)
            result |= seccomp_rule_add(filter, unknown, SCMP_SYS(socket), 1,
                                       SCMP_A0(SCMP_CMP_EQ, domain));
    }
    return result;
}

/* TIOCSTI puts words into the mouth of whoever sits at the terminal; the others do so with the
 * console. The kernel looks at 32 bits of the number. */
static int refuse_terminal_tricks(scmp_filter_ctx filter)
{
    static const unsigned requests[] = {TIOCSTI, TIOCLINUX, TIOCCONS};
    int result = 0;
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++)
        result |=
            seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, IS(1, requests[i]));
    return result;
}

int filter_refuse_arguments(scmp_filter_ctx filter, bool guards_modes)
{
    int result =
        refuse_namespaces(filter) | refuse_sockets(filter) | refuse_terminal_tricks(filter);
    return guards_modes ? result | filter_refuse_modes(filter) : result;
}
