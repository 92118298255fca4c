#include "session/settings.h"

#include <ctype.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/variables.h"
#include "sandbox/config.h"
#include "session/volumes.h"

static const struct session_flavor flavors[] = {
    {"small", 1, 1024}, {"medium", 2, 2048}, {"large", 4, 4096}, {0}};

static const struct session_template templates[] = {
    {"python", "microsandbox/python", "python"}, {"node", "microsandbox/node", "node"}, {0}};

const struct session_flavor *session_flavor_find(const char *name)
{
    for (const struct session_flavor *at = flavors; at->name; at++) {
        if (strcasecmp(at->name, name) == 0)
            return at;
    }
    return NULL;
}

const struct session_template *session_template_find(const char *name)
{
    if (strcasecmp(name, "nodejs") == 0 || strcasecmp(name, "javascript") == 0)
        name = "node";
    for (const struct session_template *at = templates; at->name; at++) {
        if (strcasecmp(at->name, name) == 0)
            return at;
    }
    return NULL;
}

/* ---- numbers ------------------------------------------------------------------------------- */

#define FOR_YEARS (10ull * 365 * 24 * 3600)

static const struct number {
    const char *variable;
    size_t offset;
    uint64_t fallback, low, high;
    const char *unit;
} numbers[] = {
    {"MSB_SESSION_TIMEOUT", offsetof(struct session_settings, idle_s), 1800, 1, FOR_YEARS,
     "seconds"},
    {"MSB_SESSION_LIFETIME", offsetof(struct session_settings, lifetime_s), 0, 0, FOR_YEARS,
     "seconds (0: without end)"},
    {"MSB_CLEANUP_INTERVAL", offsetof(struct session_settings, cleanup_s), 60, 1, FOR_YEARS,
     "seconds"},
    {"MSB_ORPHAN_CLEANUP_INTERVAL", offsetof(struct session_settings, orphan_s), 600, 1, FOR_YEARS,
     "seconds"},
    {"MSB_EXECUTION_TIMEOUT", offsetof(struct session_settings, execution_s), 300, 1, FOR_YEARS,
     "seconds"},
    {"MSB_MCP_ANSWER_WITHIN", offsetof(struct session_settings, answer_s), 50, 1, FOR_YEARS,
     "seconds"},
    {"MSB_MAX_SESSIONS", offsetof(struct session_settings, max_sessions), 10, 1, 100000,
     "sessions"},
    {"MSB_MAX_TOTAL_MEMORY_MB", offsetof(struct session_settings, max_memory_mb), 0, 1, 1ull << 30,
     "MB"},
    {"MSB_MAX_UPLOAD_BYTES", offsetof(struct session_settings, max_upload), 50ull << 20, 1,
     1ull << 40, "bytes"},
    {"MSB_MAX_DOWNLOAD_BYTES", offsetof(struct session_settings, max_download), 1ull << 30, 1,
     1ull << 40, "bytes"},
    {"MSB_ARTIFACT_URL_LIFETIME", offsetof(struct session_settings, url_s), 3600, 1, FOR_YEARS,
     "seconds"},
};

static int read_number(struct session_settings *settings, const struct number *number,
                       struct error *err)
{
    uint64_t *place = (uint64_t *)((char *)settings + number->offset);
    return variable_number(number->variable, number->unit, number->fallback, number->low,
                           number->high, place, err);
}

static int read_start_timeout(struct session_settings *settings, struct error *err)
{
    static const char variable[] = "MSB_SANDBOX_START_TIMEOUT";
    const char *text = variable_value(variable);
    char *end;
    double seconds = text ? strtod(text, &end) : 180;
    if (text && (end == text || *end || !isfinite(seconds) || seconds <= 0 || seconds > 86400))
        return variable_wrong(variable, "a number of seconds above 0, such as 180.0", err);
    settings->start_ms = (uint64_t)(seconds * 1000 + 0.999);
    return 0;
}

/* ---- words --------------------------------------------------------------------------------- */

static int read_names(struct session_settings *settings, struct error *err)
{
    const char *flavor = variable_value("MSB_DEFAULT_FLAVOR");
    const char *template = variable_value("MSB_DEFAULT_TEMPLATE");
    settings->flavor = session_flavor_find(flavor ? flavor : "small");
    settings->template = session_template_find(template ? template : "python");
    if (!settings->flavor)
        return variable_wrong("MSB_DEFAULT_FLAVOR", "small, medium or large", err);
    return settings->template ? 0 : variable_wrong("MSB_DEFAULT_TEMPLATE", "python or node", err);
}

static int read_url(struct session_settings *settings, struct error *err)
{
    const char *url = variable_value("MSB_SERVER_URL");
    if (!url)
        return 0;
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return variable_wrong("MSB_SERVER_URL", "an address that begins with http:// or https://",
                              err);
    for (const char *at = url; *at; at++) {
        if (!isgraph((unsigned char)*at))
            return variable_wrong("MSB_SERVER_URL", "an address without blanks", err);
    }
    size_t length = strlen(url);
    while (length > 0 && url[length - 1] == '/')
        length--;
    settings->server_url = xstrndup(url, length);
    return 0;
}

static int read_network(struct session_settings *settings, struct error *err)
{
    const char *text = variable_value("MSB_SESSION_NETWORK");
    struct sandbox_config config;
    if (!text)
        return 0;
    sandbox_config_init(&config);
    int result = sandbox_config_set_egress(&config, text, err);
    sandbox_config_free(&config);
    if (result < 0)
        return error_wrap(err, "MSB_SESSION_NETWORK");
    settings->network = xstrdup(text);
    return 0;
}

/* ---- what must fit together ---------------------------------------------------------------- */

static int check_together(const struct session_settings *settings, struct error *err)
{
    if (settings->cleanup_s >= settings->idle_s) {
        error_set(err, ERROR_INVALID,
                  "MSB_CLEANUP_INTERVAL is %llu seconds, not less than MSB_SESSION_TIMEOUT, %llu",
                  (unsigned long long)settings->cleanup_s, (unsigned long long)settings->idle_s);
        return error_hint(err, "look for idle sessions more often: set MSB_CLEANUP_INTERVAL lower, "
                               "or MSB_SESSION_TIMEOUT higher");
    }
    if (settings->max_memory_mb && settings->max_memory_mb < settings->flavor->memory_mb) {
        error_set(err, ERROR_INVALID,
                  "MSB_MAX_TOTAL_MEMORY_MB is %llu, too little for one session of flavor %s",
                  (unsigned long long)settings->max_memory_mb, settings->flavor->name);
        return error_hint(err,
                          "set MSB_MAX_TOTAL_MEMORY_MB to %u at least, or "
                          "MSB_DEFAULT_FLAVOR to a smaller one",
                          settings->flavor->memory_mb);
    }
    return 0;
}

int session_settings_read(struct session_settings *settings, struct error *err)
{
    *settings = (struct session_settings){.evict = true};
    int result = 0;
    for (size_t i = 0; result == 0 && i < sizeof numbers / sizeof numbers[0]; i++)
        result = read_number(settings, &numbers[i], err);
    if (result < 0 || read_start_timeout(settings, err) < 0 ||
        variable_flag("MSB_ENABLE_LRU_EVICTION", &settings->evict, err) < 0 ||
        read_names(settings, err) < 0 || read_url(settings, err) < 0 ||
        read_network(settings, err) < 0 ||
        volumes_read("MSB_SHARED_VOLUME_PATH", variable_value("MSB_SHARED_VOLUME_PATH"),
                     &settings->volumes, err) < 0 ||
        volumes_read_roots("MSB_SESSION_VOLUME_ROOTS", variable_value("MSB_SESSION_VOLUME_ROOTS"),
                           &settings->volume_roots, err) < 0)
        return -1;
    return check_together(settings, err);
}

void session_settings_free(struct session_settings *settings)
{
    free(settings->server_url);
    free(settings->network);
    strv_free(settings->volumes);
    strv_free(settings->volume_roots);
    *settings = (struct session_settings){0};
}
