/* A fresh MSB_HOME for a group of tests, as cmocka's group setup and teardown. */
#pragma once

#include <stdlib.h>

#include "base/file.h"
#include "base/home.h"

static int make_home(void **state)
{
    char folder[] = "/tmp/msb-test-XXXXXX";
    (void)state;
    return mkdtemp(folder) && setenv("MSB_HOME", folder, 1) == 0 ? 0 : -1;
}

static int remove_home(void **state)
{
    struct error err;
    (void)state;
    return folder_remove(home_folder(), &err);
}
