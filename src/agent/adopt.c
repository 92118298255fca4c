#include "agent/adopt.h"

#include <string.h>

#include "agent/boot.h"
#include "agent/context.h"
#include "agent/driver.h"
#include "agent/identity.h"
#include "agent/limits.h"
#include "agent/machine.h"
#include "agent/metrics.h"
#include "agent/privileges.h"
#include "agent/settings.h"
#include "agent/zygote.h"
#include "base/mem.h"
#include "proto/fields.h"

struct adoption {
    const uint8_t *entropy; /* points into the request */
    size_t entropy_length;
    uint64_t realtime_us;
    char *name;
    char **env;
    char *cwd;
    char *user;
    char **volumes;
    bool keeps; /* what is written outlives the machine */
    uint64_t rehearsal;
    char **hosts;
    struct limits limits;
};

static bool failed; /* the last one */

static void free_adoption(struct adoption *adoption)
{
    free(adoption->name);
    strv_free(adoption->env);
    free(adoption->cwd);
    free(adoption->user);
    strv_free(adoption->volumes);
    strv_free(adoption->hosts);
}

static int take_field(void *owner, const struct field *field, struct error *err)
{
    struct adoption *adoption = owner;
    switch (field->tag) {
    case TAG_ENTROPY:
        adoption->entropy = field->bytes;
        adoption->entropy_length = field->length;
        return 0;
    case TAG_REALTIME_US:
        return field_number(field, &adoption->realtime_us, err);
    case TAG_NAME:
        return field_replace_text(field, &adoption->name, err);
    case TAG_CWD:
        return field_replace_text(field, &adoption->cwd, err);
    case TAG_USER:
        return field_replace_text(field, &adoption->user, err);
    case TAG_ENV:
        return field_append_text(field, &adoption->env, err);
    case TAG_KEEP:
        return field_flag(field, &adoption->keeps, err);
    case TAG_VOLUME:
        return field_append_text(field, &adoption->volumes, err);
    case TAG_REHEARSAL:
        return field_number(field, &adoption->rehearsal, err);
    case TAG_HOST:
        return field_append_text(field, &adoption->hosts, err);
    default:
        return limits_take(&adoption->limits, field, err);
    }
}

static int parse(struct adoption *adoption, const uint8_t *fields, uint32_t length,
                 struct error *err)
{
    int result = fields_each(fields, length, take_field, adoption, err);
    if (result == 0 && adoption->entropy_length < DRIVER_ENTROPY)
        return error_set(err, ERROR_INVALID, "at least %d bytes of entropy are needed",
                         DRIVER_ENTROPY);
    return result;
}

static int move_to_kept_disk(struct error *err)
{
    int result = boot_move_to_kept_disk(err);
    return result < 0 ? result : identity_link(err);
}

static int change_machine(const struct adoption *adoption, struct error *err)
{
    int result = 0;
    machine_add_entropy(adoption->entropy, adoption->entropy_length);
    if (adoption->realtime_us)
        result = machine_set_clock(adoption->realtime_us, err);
    if (result == 0 && adoption->keeps)
        result = adoption->rehearsal ? boot_rehearse_kept_disk(move_to_kept_disk, err)
                                     : move_to_kept_disk(err);
    if (result == 0)
        result = identity_set(adoption->name, adoption->hosts, adoption->entropy, err);
    machine_unmount_volumes();
    for (char **at = adoption->volumes; result == 0 && at && *at; at++)
        result = machine_mount_volume(*at, err);
    return result;
}

/* Whoever made the jail has mounted its volumes; its clock is the host's. */
static int settle_in_jail(const struct adoption *adoption, struct error *err)
{
    int result = identity_set(adoption->name, adoption->hosts, adoption->entropy, err);
    if (!adoption->rehearsal)
        privileges_settle();
    return result;
}

/* Every interpreter gets bytes of its own: none may continue another's random numbers. */
static void mix_entropy(uint8_t out[DRIVER_ENTROPY], const uint8_t *entropy, unsigned index)
{
    for (unsigned i = 0; i < DRIVER_ENTROPY; i++)
        out[i] = (uint8_t)(entropy[i] ^ (0x9d * (index + 1) + i));
}

/* What differs from the settings that the interpreters have already. A copy of a template usually
 * differs in nothing, and need not be made to run the code for it. */
static void note_changes(struct buf *changes, const struct adoption *adoption)
{
    const char *old_cwd = settings_cwd() ? settings_cwd() : "";
    const char *new_cwd = adoption->cwd ? adoption->cwd : old_cwd;
    bool moves = adoption->keeps || strcmp(new_cwd, old_cwd) != 0;
    const char *cwd = moves ? new_cwd : "";
    buf_append(changes, cwd, strlen(cwd) + 1);
    for (char *const *at = adoption->env; at && *at; at++) {
        if (!strv_contains(settings_env(), *at))
            buf_append(changes, *at, strlen(*at) + 1);
    }
}

static void tell_contexts(const struct adoption *adoption, const struct buf *changes)
{
    unsigned index = 0;
    for (struct context *at = NULL; (at = context_next(at)); index++) {
        cleanup_buf struct buf notice = {0};
        uint8_t bytes[DRIVER_ENTROPY];
        mix_entropy(bytes, adoption->entropy, index);
        driver_put_entropy(&notice, bytes);
        buf_append(&notice, buf_data(changes), buf_length(changes));
        context_tell(at, &notice);
    }
}

static int adopt(struct adoption *adoption, const uint8_t *fields, uint32_t length,
                 struct error *err)
{
    int result = parse(adoption, fields, length, err);
    if (result == 0 && machine_is_ours())
        result = change_machine(adoption, err);
    if (result == 0 && machine_is_jail())
        result = settle_in_jail(adoption, err);
    if (result < 0)
        return result;
    limits_apply(&adoption->limits);
    if (adoption->keeps)
        zygote_lose_cwd();
    cleanup_buf struct buf changes = {0};
    note_changes(&changes, adoption);
    settings_replace(steal_pointer(&adoption->env), steal_pointer(&adoption->cwd),
                     steal_pointer(&adoption->user));
    zygote_review();
    tell_contexts(adoption, &changes);
    if (adoption->rehearsal)
        metrics_begin();
    return 0;
}

int adopt_check(uint8_t operation, struct error *err)
{
    if (!failed || operation == OP_ADOPT)
        return 0;
    return error_set(err, ERROR_UNAVAILABLE, "the sandbox could not be set up");
}

void adopt_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    struct adoption adoption = {0};
    struct outcome done = {0};
    struct error err;
    failed = adopt(&adoption, fields, length, &err) < 0;
    if (failed)
        stream_end_error(stream, &err);
    else
        stream_end(stream, &done);
    free_adoption(&adoption);
}
