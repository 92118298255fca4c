#include "sandbox/packages.h"

#include <ctype.h>
#include <jansson.h>
#include <string.h>

#include "base/json_text.h"
#include "base/mem.h"

#define OUTPUT_MAX (1u << 20)

struct manager {
    const char *language;
    const char *const *command;
    char *(*name_of)(const char *asked);
    bool (*note)(struct packages *packages, bool is_stdout, const char *line);
    void (*conclude)(struct packages *packages, int exit_code);
    const char *version_folder; /* holds a package.json for each; NULL: the version is printed */
};

/* ---- what both share ------------------------------------------------------------------------- */

const char *package_state_name(enum package_state state)
{
    static const char *const names[] = {
        [PACKAGE_WANTED] = "unknown",  [PACKAGE_INSTALLED] = "installed",
        [PACKAGE_PRESENT] = "present", [PACKAGE_NOT_FOUND] = "not_found",
        [PACKAGE_OFFLINE] = "offline", [PACKAGE_FAILED] = "failed",
    };
    return names[state];
}

static bool starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

static void settle(struct package *package, enum package_state state, const char *message)
{
    package->state = state;
    free(package->message);
    package->message = message ? xstrdup(message) : NULL;
}

static void settle_rest(struct packages *packages, enum package_state state, const char *message)
{
    for (size_t i = 0; i < packages->count; i++) {
        if (packages->list[i].state == PACKAGE_WANTED)
            settle(&packages->list[i], state, message);
    }
}

static void replace(char **place, const char *text)
{
    free(*place);
    *place = xstrdup(text);
}

/* ---- pip ------------------------------------------------------------------------------------- */

/* Names of Python packages are equal when they differ in case or in - _ . only. */
static char *pip_name(const char *asked)
{
    char *name = xstrndup(asked, strcspn(asked, " [<>=!~;@("));
    for (char *at = name; *at; at++)
        *at = *at == '_' || *at == '.' ? '-' : (char)tolower((unsigned char)*at);
    return name;
}

static struct package *pip_find(const struct packages *packages, const char *text, size_t length)
{
    cleanup_free char *part = xstrndup(text, length);
    cleanup_free char *name = pip_name(part);
    for (size_t i = 0; i < packages->count; i++) {
        if (strcmp(packages->list[i].name, name) == 0)
            return &packages->list[i];
    }
    return NULL;
}

/* "numpy<2 in /usr/lib/python3/dist-packages (1.24.2)" */
static void pip_note_present(struct packages *packages, const char *rest)
{
    struct package *package = pip_find(packages, rest, strcspn(rest, " "));
    const char *version = strrchr(rest, '(');
    if (!package || package->state != PACKAGE_WANTED)
        return;
    settle(package, PACKAGE_PRESENT, NULL);
    if (version)
        package->version = xstrndup(version + 1, strcspn(version + 1, ")"));
}

/* "six-1.16.0 python-dateutil-2.9.0" */
static void pip_note_installed(struct packages *packages, const char *rest)
{
    cleanup_free char *copy = xstrdup(rest);
    char *left = copy;
    for (char *word; (word = strsep(&left, " "));) {
        const char *dash = strrchr(word, '-');
        struct package *package = dash ? pip_find(packages, word, (size_t)(dash - word)) : NULL;
        if (!package)
            continue;
        settle(package, PACKAGE_INSTALLED, NULL);
        free(package->version);
        package->version = xstrdup(dash + 1);
    }
}

/* pip tells "not found" also when it has not reached the index; the lines before tell that. */
static void pip_note_missing(struct packages *packages, const char *rest)
{
    struct package *package = pip_find(packages, rest, strlen(rest));
    if (!package)
        return;
    if (packages->outage)
        settle(package, PACKAGE_OFFLINE, packages->outage);
    else
        settle(package, PACKAGE_NOT_FOUND, packages->complaint);
}

static void pip_note_complaint(struct packages *packages, const char *rest)
{
    replace(&packages->complaint, rest);
}

/* What it tells about everything it does is needed for the reason why an index gave no answer. */
static bool pip_note(struct packages *packages, bool is_stdout, const char *line)
{
    static const struct {
        const char *start;
        void (*take)(struct packages *packages, const char *rest);
    } meanings[] = {
        {"Requirement already satisfied: ", pip_note_present},
        {"Successfully installed ", pip_note_installed},
        {"ERROR: No matching distribution found for ", pip_note_missing},
        {"ERROR: ", pip_note_complaint},
        {"Collecting ", NULL},
        {"Downloading ", NULL},
        {"Processing ", NULL},
        {"Building ", NULL},
        {"Installing ", NULL},
    };
    (void)is_stdout;
    const char *broken = strstr(line, "connection broken by ");
    if (!broken && starts_with(line, "Could not fetch URL ") && !strstr(line, ": 404 "))
        broken = line;
    if (broken)
        replace(&packages->outage, broken);
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (!starts_with(line + strspn(line, " "), meanings[i].start))
            continue;
        if (meanings[i].take)
            meanings[i].take(packages, line + strspn(line, " ") + strlen(meanings[i].start));
        return true;
    }
    return broken != NULL;
}

/* One package that cannot be had makes pip install none: those left are tried again without it. */
static void pip_conclude(struct packages *packages, int exit_code)
{
    if (exit_code == 0)
        settle_rest(packages, PACKAGE_INSTALLED, NULL);
    else if (packages->outage)
        settle_rest(packages, PACKAGE_OFFLINE, packages->outage);
}

/* ---- npm ------------------------------------------------------------------------------------- */

/* @scope/name@version */
static char *npm_name(const char *asked)
{
    const char *at = asked[0] ? strchr(asked + 1, '@') : NULL;
    return at ? xstrndup(asked, (size_t)(at - asked)) : xstrdup(asked);
}

static bool npm_note(struct packages *packages, bool is_stdout, const char *line)
{
    if (is_stdout && buf_length(&packages->out) + strlen(line) < OUTPUT_MAX)
        buf_printf(&packages->out, "%s\n", line);
    return !is_stdout && line[0];
}

static bool is_outage(const char *code)
{
    static const char *const codes[] = {"EAI_AGAIN",  "ENOTFOUND",    "ECONNREFUSED",
                                        "ECONNRESET", "EHOSTUNREACH", "ENETUNREACH",
                                        "ETIMEDOUT",  "E403",         "ERR_SOCKET_TIMEOUT"};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (strcmp(code, codes[i]) == 0)
            return true;
    }
    return false;
}

/* The package that the text speaks of: 'name@…' or name@… */
static struct package *npm_blamed(const struct packages *packages, const char *text)
{
    for (size_t i = 0; i < packages->count; i++) {
        cleanup_free char *mark = xasprintf("%s@", packages->list[i].name);
        if (packages->list[i].state == PACKAGE_WANTED && strstr(text, mark))
            return &packages->list[i];
    }
    return NULL;
}

static void npm_take_error(struct packages *packages, const json_t *error)
{
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *summary = json_string_value(json_object_get(error, "summary"));
    const char *detail = json_string_value(json_object_get(error, "detail"));
    cleanup_free char *text = xasprintf("%s %s", summary ? summary : "", detail ? detail : "");
    struct package *blamed = npm_blamed(packages, text);
    code = code ? code : "";
    json_text_clean(text);
    if (is_outage(code))
        settle_rest(packages, PACKAGE_OFFLINE, text);
    else if (blamed && (strcmp(code, "E404") == 0 || strcmp(code, "ETARGET") == 0))
        settle(blamed, PACKAGE_NOT_FOUND, text);
    else if (blamed)
        settle(blamed, PACKAGE_FAILED, text);
    else
        settle_rest(packages, PACKAGE_FAILED, text);
}

static void npm_conclude(struct packages *packages, int exit_code)
{
    json_t *json =
        json_loadb((const char *)buf_data(&packages->out), buf_length(&packages->out), 0, NULL);
    const json_t *error = json_object_get(json, "error");
    if (error)
        npm_take_error(packages, error);
    else if (exit_code == 0 && json_integer_value(json_object_get(json, "added")) == 0 &&
             json_integer_value(json_object_get(json, "changed")) == 0)
        settle_rest(packages, PACKAGE_PRESENT, NULL);
    else if (exit_code == 0)
        settle_rest(packages, PACKAGE_INSTALLED, NULL);
    json_decref(json);
}

/* ---- the interface --------------------------------------------------------------------------- */

static const char *const pip_command[] = {"python3",
                                          "-m",
                                          "pip",
                                          "install",
                                          "-vv",
                                          "--no-input",
                                          "--no-color",
                                          "--progress-bar",
                                          "off",
                                          "--disable-pip-version-check",
                                          "--no-warn-script-location",
                                          "--no-cache-dir",
                                          "--retries",
                                          "1",
                                          "--timeout",
                                          "15",
                                          "--",
                                          NULL};
static const char *const npm_command[] = {"npm",
                                          "install",
                                          "--json",
                                          "--no-fund",
                                          "--no-audit",
                                          "--no-progress",
                                          "--loglevel=http",
                                          "--fetch-retries=1",
                                          "--fetch-timeout=15000",
                                          "--",
                                          NULL};

/* pip installs for everybody, so that live interpreters, which know that folder, find it. In our
 * images it belongs to the user. */
static const struct manager managers[] = {
    {"python", pip_command, pip_name, pip_note, pip_conclude, NULL},
    {"node", npm_command, npm_name, npm_note, npm_conclude, "node_modules"},
};

static int check_name(const char *name, struct error *err)
{
    bool printable = true;
    for (const char *at = name; *at; at++)
        printable = printable && (unsigned char)*at > ' ' && *at != 0x7f;
    if (name[0] && name[0] != '-' && printable && strlen(name) <= PACKAGE_NAME_MAX)
        return 0;
    cleanup_free char *shown = xstrndup(name, 60);
    json_text_clean(shown);
    error_set(err, ERROR_INVALID, "this is no package: '%s'", shown);
    return error_hint(err, "give names such as requests or requests==2.31, without options");
}

int packages_init(struct packages *packages, const char *language, char *const *names,
                  struct error *err)
{
    *packages = (struct packages){0};
    for (size_t i = 0; i < sizeof managers / sizeof managers[0]; i++) {
        if (strcmp(managers[i].language, language) == 0)
            packages->manager = &managers[i];
    }
    if (!packages->manager) {
        error_set(err, ERROR_INVALID, "there are no packages for %.40s", language);
        return error_hint(err, "packages can be installed for python and node");
    }
    size_t count = strv_length(names);
    if (count == 0 || count > PACKAGES_MAX)
        return error_set(err, ERROR_INVALID, "1 to %d packages can be installed at once",
                         PACKAGES_MAX);
    packages->list = xcalloc(count, sizeof *packages->list);
    for (size_t i = 0; i < count; i++) {
        int result = check_name(names[i], err);
        if (result < 0)
            return result;
        packages->list[i].asked = xstrdup(names[i]);
        packages->list[i].name = packages->manager->name_of(names[i]);
        packages->count++;
    }
    return 0;
}

void packages_free(struct packages *packages)
{
    for (size_t i = 0; i < packages->count; i++) {
        free(packages->list[i].asked);
        free(packages->list[i].name);
        free(packages->list[i].version);
        free(packages->list[i].message);
    }
    free(packages->list);
    free(packages->complaint);
    free(packages->outage);
    buf_free(&packages->out);
}

static size_t count_wanted(const struct packages *packages)
{
    size_t wanted = 0;
    for (size_t i = 0; i < packages->count; i++)
        wanted += packages->list[i].state == PACKAGE_WANTED;
    return wanted;
}

char **packages_argv(struct packages *packages)
{
    char **argv = NULL;
    packages->tried = count_wanted(packages);
    for (const char *const *at = packages->manager->command; *at; at++)
        strv_append(&argv, xstrdup(*at));
    for (size_t i = 0; i < packages->count; i++) {
        if (packages->list[i].state == PACKAGE_WANTED)
            strv_append(&argv, xstrdup(packages->list[i].asked));
    }
    return argv;
}

bool packages_note(struct packages *packages, bool is_stdout, const char *line)
{
    return packages->manager->note(packages, is_stdout, line);
}

bool packages_conclude(struct packages *packages, int exit_code)
{
    packages->manager->conclude(packages, exit_code);
    /* Each attempt settles at least one, so that attempts come to an end. */
    if (count_wanted(packages) == packages->tried)
        settle_rest(packages, PACKAGE_FAILED,
                    packages->complaint ? packages->complaint : "no reason was given");
    buf_free(&packages->out);
    free(steal_pointer(&packages->complaint));
    free(steal_pointer(&packages->outage));
    return count_wanted(packages) > 0;
}

char *packages_version_path(const struct packages *packages, const struct package *package)
{
    const char *folder = packages->manager->version_folder;
    bool is_there = package->state == PACKAGE_INSTALLED || package->state == PACKAGE_PRESENT;
    if (!folder || package->version || !is_there)
        return NULL;
    return xasprintf("%s/%s/package.json", folder, package->name);
}

void packages_take_version(struct package *package, const char *text, size_t length)
{
    json_t *json = json_loadb(text, length, 0, NULL);
    const char *version = json_string_value(json_object_get(json, "version"));
    if (version && !package->version)
        package->version = xstrdup(version);
    json_decref(json);
}
