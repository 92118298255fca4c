/*
 * Templates: a machine that was booted once, warmed, and written down. A folder
 * $MSB_HOME/templates/KEY holds
 *
 *   ram            the machine's memory; clones map it privately
 *   state          its processors and devices, as QEMU's migration stream
 *   disk           its writable disk (ext4); clones put an overlay on it
 *   overlay        an empty overlay, copied for each clone
 *   frozen         a QEMU that has such a clone, warm, see frozen.h; where processors are emulated
 *   frozen-disk    the overlay it had
 *   frozen-settled, frozen-settled-disk: the same of one that was left alone until the kernel
 *                  inside had done all that it does every few seconds
 *   template.json  what it is, and the sizes by which a damaged one is recognised
 *
 * KEY is a hash of everything that shaped it, so a change of any part makes another template.
 */
#pragma once

#include "base/error.h"
#include "engine/engine.h"

#define TEMPLATE_FROZEN "frozen"
#define TEMPLATE_SETTLED "frozen-settled"
#define TEMPLATE_DISK_OF "%s-disk"

struct template
{
    char *folder;
    char key[40];
    char kernel[96]; /* release of the kernel inside */
    const char *accelerator;
    const char *frozen; /* what a machine of it can be thawed from here and now; NULL: nothing */
    bool may_freeze;    /* nobody has tried yet */
    bool may_settle;    /* the same for TEMPLATE_SETTLED */
};

/* ERROR_NOT_FOUND when there is none, or only a damaged one. */
int template_find(const struct machine_spec *spec, struct template *template, struct error *err);
/* Builds it when template_find would not find it. */
int template_ensure(const struct machine_spec *spec, struct error *err);
/* Adds TEMPLATE_SETTLED to it; not when somebody else does that already. */
int template_settle(const struct machine_spec *spec, struct error *err);
/* Its clones never answer: it is made anew with the next start. False: it was once already. */
bool template_distrust(const char *key);
void template_release(struct template *template);
