/* An image as JSON, for `msb images` and `msb image inspect`. */
#pragma once

#include <jansson.h>

#include "image/image.h"

json_t *image_to_json(const struct image *image);
