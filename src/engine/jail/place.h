/* Whether this place lets jails be made. A container often does not. */
#pragma once

#include "base/error.h"

/* Tries what a jail needs beyond control groups and file systems; the hint says what gives it. */
int jail_place_check(struct error *err);
