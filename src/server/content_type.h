/* The media type of a file, by the end of its name. */
#pragma once

const char *content_type(const char *name);
