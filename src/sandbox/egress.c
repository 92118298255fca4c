/* Keeps some visits waiting inside, and the log of refusals short. */
#include "sandbox/egress.h"

#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "proto/fields.h"
#include "sandbox/egress_internal.h"

#define PARKED 4
#define VISITS_MAX 256
#define RETRY_MS 1000
/* Refusals told in the log: so many at once, and one more after each pause. */
#define LOG_BURST 100
#define LOG_PAUSE_MS 10000

/* The sandbox decides how often it is refused, so that must not fill the disk. */
void egress_log_refusal(struct egress *egress, int status, const struct error *err)
{
    uint64_t pauses = (clock_monotonic_ms() - egress->told_ms) / LOG_PAUSE_MS;
    egress->told_ms += pauses * LOG_PAUSE_MS;
    egress->told -= pauses < egress->told ? (unsigned)pauses : egress->told;
    if (egress->told >= LOG_BURST) {
        egress->untold++;
        return;
    }
    egress->told++;
    log_warn("egress refused: status=%d code=%s untold=%u reason=\"%s\"", status,
             error_code_name(err->code), egress->untold, err->message);
    egress->untold = 0;
}

static void on_retry(uv_timer_t *timer)
{
    egress_refill(timer->data);
}

void egress_retry(struct egress *egress)
{
    uv_timer_start(&egress->retry, on_retry, RETRY_MS, 0);
}

void egress_refill(struct egress *egress)
{
    while (!egress->keeper->ending && egress->parked < PARKED &&
           egress->parked + egress->live < VISITS_MAX) {
        if (egress_park(egress))
            continue;
        egress_retry(egress);
        return;
    }
}

void egress_add_environment(const struct keeper *keeper, struct buf *fields)
{
    static const char *const names[] = {"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"};
    if (!keeper->config.egress)
        return;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        cleanup_free char *text = xasprintf("%s=http://127.0.0.1:%d", names[i], EGRESS_PORT);
        fields_add_text(fields, TAG_ENV, text);
    }
    cleanup_buf struct buf exempt = {0};
    buf_append_text(&exempt, "no_proxy=localhost,127.0.0.1,::1");
    for (char *const *at = keeper->config.peers; at && *at; at++)
        buf_printf(&exempt, ",%.*s", (int)strcspn(*at, ":"), *at);
    fields_add_text(fields, TAG_ENV, buf_text(&exempt));
    memcpy(buf_data(&exempt), "NO_PROXY", strlen("NO_PROXY"));
    fields_add_text(fields, TAG_ENV, buf_text(&exempt));
}

int egress_start(struct keeper *keeper, struct error *err)
{
    if (!keeper->config.egress)
        return 0;
    struct egress *egress = xcalloc(1, sizeof *egress);
    egress->keeper = keeper;
    egress->told_ms = clock_monotonic_ms();
    keeper->network.egress = egress;
    uv_timer_init(&keeper->loop, &egress->retry);
    egress->retry.data = egress;
    if (egress_policy_parse(&egress->policy, keeper->config.egress, err) < 0)
        return -1;
    egress_refill(egress);
    return 0;
}
