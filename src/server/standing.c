/* What the server is told to have made ahead from its start on: MSB_POOL_IMAGES, as python,node. */
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "sandbox/launch.h"
#include "server/context.h"
#include "server/rpc.h"

/* As sandbox.start would have it that gives the image alone. */
static void keep(struct server *server, const char *image)
{
    struct error err;
    struct sandbox_config config;
    const struct rpc_call call = {.server = server, .namespace = "default", .name = "ahead"};
    json_t *settings = json_object();
    json_object_set_new(settings, "image", json_string(image));
    sandbox_config_init(&config);
    if (start_config_fill(&config, &call, settings, &err) < 0 ||
        launch_find_image(&config, &err) < 0 || pools_keep(server->boxes.pools, &config, &err) < 0)
        log_warn("of %s nothing is made ahead: %s", image, err.message);
    sandbox_config_free(&config);
    json_decref(settings);
}

void standing_open(struct server *server)
{
    const char *list = server->boxes.pools ? getenv("MSB_POOL_IMAGES") : NULL;
    for (const char *at = list; at && *at; at += *at == ',') {
        size_t length = strcspn(at, ",");
        cleanup_free char *image = xstrndup(at, length);
        if (length)
            keep(server, image);
        at += length;
    }
}
