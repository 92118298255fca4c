#include "agent/settings.h"

#include <string.h>

#include "base/mem.h"

static char **sandbox_env;
static char *sandbox_cwd;
static char *sandbox_user;

void settings_replace(char **env, char *cwd, char *user)
{
    strv_free(sandbox_env);
    free(sandbox_cwd);
    sandbox_env = env;
    sandbox_cwd = cwd;
    free(sandbox_user);
    sandbox_user = user;
}

char *const *settings_env(void)
{
    return sandbox_env;
}

const char *settings_cwd(void)
{
    return sandbox_cwd;
}

const char *settings_user(void)
{
    return sandbox_user ? sandbox_user : "root";
}

static char **find_name(char **env, const char *assignment)
{
    size_t length = strcspn(assignment, "=");
    for (; env && *env; env++) {
        if (strncmp(*env, assignment, length) == 0 && (*env)[length] == '=')
            return env;
    }
    return NULL;
}

int environment_take(const struct field *field, char ***env, struct error *err)
{
    cleanup_free char *text = NULL;
    int result = field_text(field, &text, err);
    if (result < 0)
        return result;
    if (text[0] == '=' || !strchr(text, '=')) {
        error_set(err, ERROR_INVALID, "an environment variable has no name or no value");
        return error_hint(err, "write it as NAME=value");
    }
    strv_append(env, steal_pointer(&text));
    return 0;
}

void environment_set(char ***env, const char *assignment)
{
    char **place = find_name(*env, assignment);
    if (!strchr(assignment, '='))
        return;
    if (!place) {
        strv_append(env, xstrdup(assignment));
        return;
    }
    free(*place);
    *place = xstrdup(assignment);
}

void environment_default(char ***env, const char *name, const char *value)
{
    cleanup_free char *assignment = xasprintf("%s=%s", name, value);
    if (value[0] && !find_name(*env, assignment))
        strv_append(env, steal_pointer(&assignment));
}

char **environment_build(const struct account *account, char *const *extra)
{
    char **env = NULL;
    for (char *const *at = sandbox_env; at && *at; at++)
        environment_set(&env, *at);
    for (char *const *at = extra; at && *at; at++)
        environment_set(&env, *at);
    environment_default(&env, "PATH",
                        "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    environment_default(&env, "HOME", account->home);
    environment_default(&env, "USER", account->name);
    environment_default(&env, "LOGNAME", account->name);
    return env;
}
