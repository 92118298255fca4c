#include "agent/privileges.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From <linux/capability.h>, <linux/filter.h> and <linux/seccomp.h>, which musl does not bring. */
#define CAPABILITY_VERSION_3 0x20080522
#define CAPABILITY_LAST 63
#define MODE_FILTER 2
#define LOAD_WORD 0x20
#define JUMP_IF_EQUAL 0x15
#define RETURN 0x06
#define ALLOW 0x7fff0000u
#define FAIL_WITH 0x00050000u

enum {
    CHOWN = 0,
    DAC_OVERRIDE = 1,
    FOWNER = 3,
    KILL = 5,
    SETGID = 6,
    SETUID = 7,
    SETPCAP = 8,
    SYS_RESOURCE = 24,
};

#define BIT(capability) (1u << (capability))

static bool set_capabilities(uint32_t kept)
{
    struct {
        uint32_t version;
        int pid;
    } header = {.version = CAPABILITY_VERSION_3};
    struct {
        uint32_t effective, permitted, inheritable;
    } sets[2] = {{.effective = kept, .permitted = kept}};
    return syscall(SYS_capset, &header, sets) == 0;
}

void privileges_settle(void)
{
    set_capabilities(BIT(CHOWN) | BIT(DAC_OVERRIDE) | BIT(FOWNER) | BIT(KILL) | BIT(SETGID) |
                     BIT(SETUID) | BIT(SETPCAP) | BIT(SYS_RESOURCE));
}

bool privileges_prepare_drop(void)
{
    for (unsigned long i = 0; i <= CAPABILITY_LAST; i++) {
        if (prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0)
            return errno == EINVAL; /* more than this kernel has */
    }
    return true;
}

/*
 * clone3 hides its flags from filters, so programs must do with clone, which all of them can. The
 * agent itself needs it, which is why the jail's own filter lets it pass.
 */
static bool forbid_clone3(void)
{
    static struct instruction {
        uint16_t code;
        uint8_t if_true, if_false;
        uint32_t value;
    } program[] = {
        {LOAD_WORD, 0, 0, 0}, /* the call's number */
        {JUMP_IF_EQUAL, 0, 1, SYS_clone3},
        {RETURN, 0, 0, FAIL_WITH | ENOSYS},
        {RETURN, 0, 0, ALLOW},
    };
    struct {
        unsigned short length;
        struct instruction *program;
    } filter = {sizeof program / sizeof program[0], program};
    return prctl(PR_SET_SECCOMP, MODE_FILTER, &filter) == 0;
}

bool privileges_drop(void)
{
    return set_capabilities(0) && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && forbid_clone3();
}
