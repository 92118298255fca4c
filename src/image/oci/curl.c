#include "image/oci/curl.h"

#include <dlfcn.h>
#include <stddef.h>

#define LIBRARY "libcurl.so.4"

#define FUNCTION(name)                                                                             \
    {                                                                                              \
        "curl_" #name, offsetof(struct curl_library, name)                                         \
    }

static const struct {
    const char *name;
    size_t offset;
} functions[] = {
    FUNCTION(global_init),      FUNCTION(easy_init),           FUNCTION(easy_setopt),
    FUNCTION(easy_getinfo),     FUNCTION(easy_header),         FUNCTION(easy_strerror),
    FUNCTION(easy_cleanup),     FUNCTION(multi_init),          FUNCTION(multi_setopt),
    FUNCTION(multi_add_handle), FUNCTION(multi_remove_handle), FUNCTION(multi_perform),
    FUNCTION(multi_poll),       FUNCTION(multi_info_read),     FUNCTION(multi_cleanup),
    FUNCTION(slist_append),     FUNCTION(slist_free_all),
};

static int missing(const char *why, struct error *err)
{
    error_set(err, ERROR_MISSING, "images from registries need libcurl: %s", why);
    return error_hint(err, "apt-get install libcurl4");
}

const struct curl_library *curl_load(struct error *err)
{
    static struct curl_library library;
    static bool loaded;
    if (loaded)
        return &library;
    void *file = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!file) {
        missing(dlerror(), err);
        return NULL;
    }
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *address = dlsym(file, functions[i].name);
        if (!address) {
            missing("it is too old", err);
            return NULL;
        }
        *(void **)((char *)&library + functions[i].offset) = address;
    }
    if (library.global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
        missing("it does not start", err);
        return NULL;
    }
    loaded = true;
    return &library;
}
