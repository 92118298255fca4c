#include <string.h>

#include "agent/file_record.h"
#include "agent/file_watch_internal.h"
#include "base/mem.h"

/* How far back equal changes are looked for. */
#define LOOK_BACK 64

int watch_send(struct watch *watch, struct error *err)
{
    static const char *const names[] = {"ready",  "create", "write",   "remove",
                                        "rename", "chmod",  "overflow"};
    int result = 0;
    for (size_t i = 0; i < watch->batch_count; i++) {
        struct watch_change *change = &watch->batch[i];
        cleanup_buf struct buf record = {0};
        file_record_text(&record, "type", names[change->kind]);
        if (change->name)
            file_record_text(&record, "name", change->name);
        if (change->target)
            file_record_text(&record, "target", change->target);
        if (result == 0)
            result = file_record_add(&record, err);
        free(change->name);
        free(change->target);
    }
    watch->batch_count = 0;
    return result < 0 ? result : file_record_flush(err);
}

/* Whether the last thing said of this name was the same. */
static bool is_repeated(const struct watch *watch, enum watch_kind kind, const char *name)
{
    size_t oldest = watch->batch_count > LOOK_BACK ? watch->batch_count - LOOK_BACK : 0;
    for (size_t i = watch->batch_count; i-- > oldest;) {
        const struct watch_change *change = &watch->batch[i];
        if (change->kind == WATCH_RENAME || !change->name)
            return false;
        if (strcmp(change->name, name) == 0)
            return change->kind == kind;
    }
    return false;
}

int watch_tell(struct watch *watch, enum watch_kind kind, const char *name, const char *target,
               struct error *err)
{
    if (name && !target && is_repeated(watch, kind, name))
        return 0;
    if (watch->batch_count == WATCH_BATCH && watch_send(watch, err) < 0)
        return -1;
    watch->batch[watch->batch_count++] =
        (struct watch_change){.kind = kind,
                              .name = name ? xstrdup(name) : NULL,
                              .target = target ? xstrdup(target) : NULL};
    return 0;
}
