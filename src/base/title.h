/* What `ps` shows for this process. */
#pragma once

/* Remembers where the arguments lie; first thing in main. */
void title_init(int argc, char **argv);
/* Replaces the arguments, cut to the room they had. */
void title_set(const char *title);
