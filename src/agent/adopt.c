#include "agent/adopt.h"

#include <string.h>

#include "agent/context.h"
#include "agent/driver.h"
#include "agent/identity.h"
#include "agent/limits.h"
#include "agent/machine.h"
#include "agent/settings.h"
#include "base/mem.h"
#include "proto/fields.h"

struct adoption {
    struct stream *stream;
    const uint8_t *entropy; /* points into the request */
    size_t entropy_length;
    uint64_t realtime_us;
    char *name;
    char **env;
    char *cwd;
    char *user;
    char **volumes;
    struct limits limits;
    unsigned waiting; /* contexts that have not answered yet */
    struct error err; /* the first thing that failed */
};

struct notice {
    struct adoption *adoption;
    struct context_call call;
};

/* One at a time, and not from the heap: a structure of this size would cost the C library a trip
 * to the kernel, which is noticeable in a machine that has just been copied. */
static struct adoption the_adoption;
static bool under_way;

static void free_adoption(struct adoption *adoption)
{
    free(adoption->name);
    strv_free(adoption->env);
    free(adoption->cwd);
    free(adoption->user);
    strv_free(adoption->volumes);
    under_way = false;
}

static void finish(struct adoption *adoption)
{
    struct outcome done = {0};
    if (adoption->stream && adoption->err.code)
        stream_end_error(adoption->stream, &adoption->err);
    else if (adoption->stream)
        stream_end(adoption->stream, &done);
    free_adoption(adoption);
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
    case TAG_VOLUME:
        return field_append_text(field, &adoption->volumes, err);
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

static int change_machine(const struct adoption *adoption, struct error *err)
{
    int result = 0;
    machine_add_entropy(adoption->entropy, adoption->entropy_length);
    if (adoption->realtime_us)
        result = machine_set_clock(adoption->realtime_us, err);
    if (result == 0)
        result = identity_set(adoption->name, adoption->entropy, err);
    for (char **at = adoption->volumes; result == 0 && at && *at; at++)
        result = machine_mount_volume(*at, err);
    return result;
}

static void on_adopted(void *owner, const struct context_outcome *outcome)
{
    struct notice *notice = owner;
    struct adoption *adoption = notice->adoption;
    free(notice);
    if (outcome->err && !adoption->err.code)
        adoption->err = *outcome->err;
    else if (outcome->died && !adoption->err.code)
        error_set(&adoption->err, ERROR_UNAVAILABLE, "an interpreter died while it was adopted");
    if (--adoption->waiting == 0)
        finish(adoption);
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
    const char *cwd = adoption->cwd && strcmp(adoption->cwd, old_cwd) != 0 ? adoption->cwd : "";
    buf_append(changes, cwd, strlen(cwd) + 1);
    for (char *const *at = adoption->env; at && *at; at++) {
        if (!strv_contains(settings_env(), *at))
            buf_append(changes, *at, strlen(*at) + 1);
    }
}

static struct buf write_notice(const uint8_t *entropy, unsigned index, const struct buf *changes)
{
    struct buf payload = {0};
    uint8_t bytes[DRIVER_ENTROPY];
    mix_entropy(bytes, entropy, index);
    driver_put_entropy(&payload, bytes);
    buf_append(&payload, buf_data(changes), buf_length(changes));
    return payload;
}

static void tell_context(struct adoption *adoption, struct context *context, unsigned index,
                         const struct buf *changes)
{
    struct notice *notice = xcalloc(1, sizeof *notice);
    notice->adoption = adoption;
    notice->call = (struct context_call){.kind = 'a',
                                         .payload = write_notice(adoption->entropy, index, changes),
                                         .ended = on_adopted,
                                         .owner = notice};
    adoption->waiting++;
    context_submit(context, &notice->call);
}

void adopt_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    static const struct stream_events events;
    struct adoption *adoption = &the_adoption;
    if (under_way) {
        struct error busy;
        error_set(&busy, ERROR_BUSY, "an adoption is under way already");
        stream_end_error(stream, &busy);
        return;
    }
    under_way = true;
    *adoption = (struct adoption){.stream = stream};
    stream->events = &events;
    if (parse(adoption, fields, length, &adoption->err) < 0 ||
        (machine_is_ours() && change_machine(adoption, &adoption->err) < 0)) {
        finish(adoption);
        return;
    }
    limits_apply(&adoption->limits);
    cleanup_buf struct buf changes = {0};
    note_changes(&changes, adoption);
    settings_replace(steal_pointer(&adoption->env), steal_pointer(&adoption->cwd),
                     steal_pointer(&adoption->user));
    /* Held once by us, so that quick answers do not end it early. */
    adoption->waiting = 1;
    unsigned index = 0;
    for (struct context *at = NULL; (at = context_next(at)); index++) {
        if (context_is_running(at))
            tell_context(adoption, at, index, &changes);
    }
    if (--adoption->waiting == 0)
        finish(adoption);
}
