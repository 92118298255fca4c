/* Names of images. */
#pragma once

#include "base/error.h"

/*
 * The full form that the store uses: "python" and "microsandbox/python:latest" both become
 * "microsandbox/python". The result is safe as a relative path. ERROR_INVALID for anything else
 * than lower case letters, digits and single . _ - between them, separated by '/', with a tag.
 */
int reference_normalize(const char *text, char **reference, struct error *err);
