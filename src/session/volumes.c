#include "session/volumes.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/config.h"

#define FORMS "a JSON array such as [\"/srv/data:/data\"]"

static int wrong(const char *variable, const char *text, const char *why, struct error *err)
{
    error_set(err, ERROR_INVALID, "%s is \"%.200s\": %s", variable, text, why);
    return error_hint(err, "set %s to " FORMS ", or leave it unset", variable);
}

static char *trimmed(const char *text, size_t length)
{
    while (length > 0 && strchr(" \t", text[0])) {
        text++;
        length--;
    }
    while (length > 0 && strchr(" \t", text[length - 1]))
        length--;
    return xstrndup(text, length);
}

static int split_array(const char *variable, const char *text, char ***list, struct error *err)
{
    json_error_t problem;
    json_t *array = json_loads(text, 0, &problem);
    bool good = json_is_array(array);
    for (size_t i = 0; good && i < json_array_size(array); i++) {
        const json_t *entry = json_array_get(array, i);
        good = json_is_string(entry);
        if (good)
            strv_append(list, trimmed(json_string_value(entry), json_string_length(entry)));
    }
    json_decref(array);
    return good ? 0 : wrong(variable, text, "this is no JSON array of strings", err);
}

static int split(const char *variable, const char *text, char ***list, struct error *err)
{
    cleanup_free char *whole = trimmed(text, strlen(text));
    size_t length = strlen(whole);
    if (whole[0] == '[')
        return split_array(variable, whole, list, err);
    if (whole[0] == '{' || (length > 0 && strchr("]}", whole[length - 1])))
        return wrong(variable, text, "an array needs a bracket on either side", err);
    for (const char *at = whole; *at; at += *at == ',') {
        size_t part = strcspn(at, ",");
        strv_append(list, trimmed(at, part));
        at += part;
    }
    return 0;
}

static int check_volume(const char *volume, struct error *err)
{
    struct sandbox_config config;
    sandbox_config_init(&config);
    int result = volume[0] == '/' ? sandbox_config_add_volume(&config, volume, "/", err)
                                  : error_set(err, ERROR_INVALID,
                                              "the volume \"%.200s\" does not begin with the "
                                              "absolute path of a folder of the host",
                                              volume);
    sandbox_config_free(&config);
    return result;
}

int volumes_read(const char *variable, const char *text, char ***volumes, struct error *err)
{
    if (!text)
        return 0;
    if (split(variable, text, volumes, err) < 0)
        return -1;
    for (size_t i = 0; *volumes && (*volumes)[i]; i++) {
        if (check_volume((*volumes)[i], err) < 0)
            return error_wrap(err, "%s", variable);
    }
    return 0;
}

int volumes_read_roots(const char *variable, const char *text, char ***folders, struct error *err)
{
    cleanup_strv char **given = NULL;
    if (!text)
        return 0;
    if (split(variable, text, &given, err) < 0)
        return -1;
    for (size_t i = 0; given && given[i]; i++) {
        char *folder = given[i][0] == '/' ? realpath(given[i], NULL) : NULL;
        if (!folder) {
            error_set(err, ERROR_INVALID, "%s has \"%.200s\", which is no folder of this host",
                      variable, given[i]);
            return error_hint(err, "create it, or set %s to absolute paths of folders", variable);
        }
        strv_append(folders, folder);
    }
    return 0;
}

static bool is_below(const char *path, const char *root)
{
    size_t length = strlen(root);
    if (strcmp(root, "/") == 0)
        return true;
    return strncmp(path, root, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

int volumes_check(const char *volume, char *const *roots, struct error *err)
{
    if (check_volume(volume, err) < 0)
        return -1;
    cleanup_free char *given = xstrndup(volume, strcspn(volume, ":"));
    cleanup_free char *host = realpath(given, NULL);
    for (size_t i = 0; host && roots && roots[i]; i++) {
        if (is_below(host, roots[i]))
            return 0;
    }
    error_set(err, ERROR_DENIED, "this server does not share the folder %.300s of its host", given);
    return error_hint(err, "whoever runs the server can allow it with MSB_SESSION_VOLUME_ROOTS");
}

json_t *volumes_json(char *const *volumes)
{
    json_t *list = json_array();
    for (size_t i = 0; volumes && volumes[i]; i++) {
        const char *colon = strchr(volumes[i], ':');
        size_t host = (size_t)(colon - volumes[i]);
        size_t guest = strcspn(colon + 1, ":");
        json_array_append_new(list, json_pack("{s:s%, s:s%}", "host_path", volumes[i], host,
                                              "container_path", colon + 1, guest));
    }
    return list;
}
