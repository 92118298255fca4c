/* A sandbox's settings for tests that change something in them. */
#pragma once

#include <stdlib.h>

#include "base/mem.h"
#include "sandbox/config.h"

static int make_config(void **state)
{
    struct sandbox_config *config = xmalloc(sizeof *config);
    sandbox_config_init(config);
    config->name = xstrdup("box");
    config->image_path = xstrdup("/image");
    config->image_digest = xstrdup("sha256:0");
    *state = config;
    return 0;
}

static int free_config(void **state)
{
    sandbox_config_free(*state);
    free(*state);
    return 0;
}
