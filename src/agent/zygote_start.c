#include "agent/zygote_start.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "agent/account.h"
#include "agent/driver.h"
#include "agent/language.h"
#include "agent/settings.h"
#include "base/mem.h"

#define HIGH_FD 20
/* The first of those that the driver expects: commands, messages, link. */
#define FIRST_FD 3

static void append_command(struct buf *commands, char kind, const struct buf *payload)
{
    buf_append(commands, &kind, 1);
    driver_put_number(commands, (uint32_t)buf_length(payload));
    buf_append(commands, buf_data(payload), buf_length(payload));
}

static void append_call(struct buf *payload, const struct language *language)
{
    driver_put_number(payload, 0);
    buf_append_text(payload, language->rehearsal);
}

static void append_account(struct buf *payload, const struct account *account)
{
    buf_printf(payload, "%u %u", account->uid, account->gid);
    for (size_t i = 0; i < account->group_count; i++)
        buf_printf(payload, " %u", account->groups[i]);
    buf_append(payload, "", 1);
}

/* All that is ever said to it in this way: get warm, then wait for jails. */
static void write_commands(struct buf *commands, const struct language *language,
                           const struct account *account)
{
    static const uint8_t entropy[DRIVER_ENTROPY];
    cleanup_buf struct buf adoption = {0}, call = {0}, jails = {0};
    driver_put_entropy(&adoption, entropy);
    buf_append(&adoption, "", 1);
    append_command(commands, 'a', &adoption);
    append_call(&call, language);
    append_command(commands, 'w', &call);
    append_account(&jails, account);
    append_call(&jails, language);
    append_command(commands, 'j', &jails);
}

static bool arrange_descriptors(int commands, int link)
{
    int wanted[] = {commands, open("/dev/null", O_WRONLY | O_CLOEXEC), link};
    for (int i = 0; i < 3; i++)
        wanted[i] = fcntl(wanted[i], F_DUPFD_CLOEXEC, HIGH_FD);
    for (int i = 0; i < 3; i++) {
        if (wanted[i] < 0 || dup2(wanted[i], FIRST_FD + i) < 0)
            return false;
    }
    return true;
}

int zygote_start(const char *user, char *const *env, int link)
{
    char kind;
    struct error err;
    struct account account;
    int pipes[2];
    cleanup_buf struct buf commands = {0};
    const struct language *language = language_find("python", &kind, &err);
    if (!language || language_install(&err) < 0 || account_find(user, &account, &err) < 0) {
        fprintf(stderr, "msb-agent: %s\n", err.message);
        return 1;
    }
    char **all = environment_build(&account, env);
    environment_set(&all, "MSB_WARM=1");
    write_commands(&commands, language, &account);
    ssize_t length = (ssize_t)buf_length(&commands);
    if (pipe2(pipes, O_CLOEXEC) < 0 || write(pipes[1], buf_data(&commands), length) != length ||
        !arrange_descriptors(pipes[0], link)) {
        perror("msb-agent");
        return 1;
    }
    environ = all;
    execvp(language->argv[0], language->argv);
    perror(language->argv[0]);
    return 1;
}
