#include <string.h>
#include <unistd.h>

#include "agent/adopt.h"
#include "agent/context.h"
#include "agent/driver.h"
#include "agent/machine.h"
#include "agent/metrics.h"
#include "agent/zygote.h"
#include "base/clock.h"
#include "base/mem.h"
#include "proto/fields.h"

/*
 * Programs renew their random numbers from the kernel when their clock says it is time (OpenSSL
 * after an hour). Warmed a day in the past, they all find that it is when a copy gets the time.
 */
#define DAY_US (24ull * 3600 * 1000000)

struct quiesce {
    struct stream *stream;
    struct zygote_waiter waiter;
    unsigned waiting;
    struct error err;
};

struct rehearsal {
    struct quiesce *quiesce;
    struct context_call call;
};

static void finish(struct quiesce *quiesce)
{
    struct outcome done = {0};
    if (quiesce->err.code) {
        stream_end_error(quiesce->stream, &quiesce->err);
    } else {
        sync();
        metrics_begin();
        stream_end(quiesce->stream, &done);
    }
    free(quiesce);
}

static void on_ended(void *owner, const struct context_outcome *outcome)
{
    struct rehearsal *rehearsal = owner;
    struct quiesce *quiesce = rehearsal->quiesce;
    free(rehearsal);
    if (outcome->err && !quiesce->err.code)
        quiesce->err = *outcome->err;
    else if ((outcome->died || outcome->exit_code) && !quiesce->err.code)
        error_set(&quiesce->err, ERROR_UNAVAILABLE, "an interpreter failed its first call");
    if (--quiesce->waiting == 0)
        finish(quiesce);
}

static void rehearse(struct quiesce *quiesce, struct context *context, char kind,
                     struct buf payload)
{
    struct rehearsal *rehearsal = xcalloc(1, sizeof *rehearsal);
    rehearsal->quiesce = quiesce;
    rehearsal->call = (struct context_call){
        .kind = kind, .payload = payload, .ended = on_ended, .owner = rehearsal};
    quiesce->waiting++;
    context_submit(context, &rehearsal->call);
}

static struct buf write_call(const struct context *context)
{
    struct buf call = {0};
    driver_put_number(&call, 0);
    buf_append_text(&call, context_language(context)->rehearsal);
    return call;
}

/* An adoption and a first call, so that the code for exactly this way is in memory. */
static void rehearse_start(struct quiesce *quiesce, struct context *context)
{
    static const uint8_t entropy[DRIVER_ENTROPY];
    struct buf adoption = {0};
    driver_put_entropy(&adoption, entropy);
    buf_append(&adoption, "", 1);
    rehearse(quiesce, context, 'a', adoption);
    rehearse(quiesce, context, 'w', write_call(context));
}

static void on_spare(void *owner)
{
    struct quiesce *quiesce = owner;
    if (--quiesce->waiting == 0)
        finish(quiesce);
}

/*
 * The interpreter shares its memory with the zygote it leaves behind, and each page has to be
 * copied when it is first written to. The second rehearsal does that for all that a call writes to.
 */
static int warm(struct quiesce *quiesce, const char *name, struct error *err)
{
    char kind;
    const struct language *language = language_find(name, &kind, err);
    struct context *context = language ? context_default(language, err) : NULL;
    if (!context)
        return -1;
    bool leaves_zygote = context_warm(context) && language->copies;
    rehearse_start(quiesce, context);
    if (!leaves_zygote)
        return 0;
    rehearse(quiesce, context, 'z', write_call(context));
    rehearse_start(quiesce, context);
    quiesce->waiting++;
    zygote_wait(&quiesce->waiter, on_spare, quiesce);
    return 0;
}

static int take_field(void *owner, const struct field *field, struct error *err)
{
    cleanup_free char *language = NULL;
    if (field->tag != TAG_LANGUAGE)
        return 0;
    int result = field_text(field, &language, err);
    return result == 0 ? warm(owner, language, err) : result;
}

void quiesce_open(struct stream *stream, const uint8_t *fields, uint32_t length)
{
    static const struct stream_events events;
    struct quiesce *quiesce = xcalloc(1, sizeof *quiesce);
    quiesce->stream = stream;
    stream->events = &events;
    /* Held once by us, so that quick answers do not end it early. */
    quiesce->waiting = 1;
    int result = 0;
    uint64_t now = clock_realtime_us();
    if (machine_is_ours() && now > DAY_US)
        result = machine_set_clock(now - DAY_US, &quiesce->err);
    if (result == 0)
        fields_each(fields, length, take_field, quiesce, &quiesce->err);
    if (--quiesce->waiting == 0)
        finish(quiesce);
}
