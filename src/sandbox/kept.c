#include "sandbox/kept.h"

#include <string.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "engine/disk.h"

static json_t *describe(const struct sandbox_config *config)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:I}", "engine", config->engine, "image", config->image,
                     "image_digest", config->image_digest, "disk_mb", (json_int_t)config->disk_mb,
                     "files", (json_int_t)config->files);
}

static int make(const char *folder, const char *about, const struct sandbox_config *config,
                struct error *err)
{
    cleanup_free char *disk = xasprintf("%s/disk", folder);
    int result = folder_remove(folder, err);
    if (result == 0)
        result = folder_make(folder, 0700, err);
    if (result == 0)
        result = disk_make(disk, config->disk_mb, config->files, true, err);
    if (result < 0)
        return result;
    json_t *json = describe(config);
    cleanup_free char *text = json_dumps(json, JSON_INDENT(2));
    json_decref(json);
    return file_write_atomic(about, text, strlen(text), 0600, err);
}

static bool is_same(const json_t *kept, const json_t *wanted, const char *key)
{
    return json_equal(json_object_get(kept, key), json_object_get(wanted, key));
}

static int check(const json_t *kept, const struct sandbox_config *config, struct error *err)
{
    const char *engine = json_string_value(json_object_get(kept, "engine"));
    const char *image = json_string_value(json_object_get(kept, "image"));
    json_t *wanted = describe(config);
    int result = 0;
    if (!is_same(kept, wanted, "engine"))
        result = error_set(err, ERROR_INVALID, "the files of sandbox %s were kept by engine %s",
                           config->name, engine ? engine : "?");
    else if (!is_same(kept, wanted, "image_digest"))
        result =
            error_set(err, ERROR_INVALID,
                      "the files of sandbox %s were kept over another image: %s as it was then",
                      config->name, image ? image : "?");
    else if (!is_same(kept, wanted, "disk_mb") || !is_same(kept, wanted, "files"))
        result = error_set(err, ERROR_INVALID,
                           "the files of sandbox %s were kept on a disk of %lld MB", config->name,
                           (long long)json_integer_value(json_object_get(kept, "disk_mb")));
    json_decref(wanted);
    return result < 0 ? error_hint(err, "start it as it was, throw the files away with --fresh, or "
                                        "use another --name")
                      : 0;
}

int kept_check(const struct sandbox_config *config, struct error *err)
{
    if (!config->keep || config->fresh)
        return 0;
    cleanup_free char *about = home_path("disks/%s/%s/kept.json", config->namespace, config->name);
    json_t *kept = json_load_file(about, 0, NULL);
    int result = kept ? check(kept, config, err) : 0;
    json_decref(kept);
    return result;
}

int kept_open(const struct sandbox_config *config, char **disk, struct error *err)
{
    cleanup_free char *folder = home_path("disks/%s/%s", config->namespace, config->name);
    cleanup_free char *about = xasprintf("%s/kept.json", folder);
    *disk = NULL;
    int result = config->fresh ? folder_remove(folder, err) : 0;
    if (result < 0 || !config->keep)
        return result;
    json_t *kept = json_load_file(about, 0, NULL);
    result = kept ? check(kept, config, err) : make(folder, about, config, err);
    json_decref(kept);
    if (result == 0)
        *disk = xasprintf("%s/disk", folder);
    return result;
}
