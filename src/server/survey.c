#include "server/survey.h"

#include <string.h>
#include <sys/stat.h>

#include "base/home.h"
#include "base/mem.h"
#include "sandbox/state.h"

#define ANSWER_MS 3000

struct question {
    struct survey *survey;
    struct survey_entry *entry;
    struct client_call operation;
    bool ended; /* the sandbox is gone */
};

static void survey_free(struct survey *survey)
{
    for (size_t i = 0; i < survey->count; i++) {
        free(survey->entries[i].namespace);
        free(survey->entries[i].name);
        json_decref(survey->entries[i].status);
    }
    free(survey->entries);
    free(survey->questions);
    free(survey->namespace);
    free(survey->name);
    free(survey);
}

static void settle(struct survey *survey)
{
    if (--survey->open == 0)
        survey_free(survey);
}

static void on_timer_closed(uv_handle_t *handle)
{
    settle(handle->data);
}

/* Those that ended meanwhile are no sandboxes any more. */
static void drop_ended(struct survey *survey)
{
    size_t kept = 0;
    for (size_t i = 0; i < survey->count; i++) {
        struct survey_entry entry = survey->entries[i];
        if (survey->questions[i].ended) {
            free(entry.namespace);
            free(entry.name);
        } else {
            survey->entries[kept++] = entry;
        }
    }
    survey->count = kept;
}

static void finish(struct survey *survey, const struct error *err)
{
    if (survey->done)
        survey->done(survey, err);
    survey->done = NULL;
    uv_close((uv_handle_t *)&survey->patience, on_timer_closed);
}

static void conclude(struct survey *survey)
{
    drop_ended(survey);
    finish(survey, survey->err.code == ERROR_NONE ? NULL : &survey->err);
}

static void on_impatient(uv_timer_t *timer)
{
    struct survey *survey = timer->data;
    struct error err;
    if (survey->questions) {
        conclude(survey);
        return;
    }
    /* The entries belong to the thread. */
    error_set(&err, ERROR_TIMEOUT, "the folder of the sandboxes cannot be read now");
    error_hint(&err, "is its disk slow, or a command that holds it stopped?");
    finish(survey, &err);
}

static bool is_last_question(const struct survey *survey)
{
    bool has_timer = !uv_is_closing((const uv_handle_t *)&survey->patience);
    return has_timer && survey->open == 2;
}

static void end_question(struct survey *survey)
{
    if (is_last_question(survey))
        conclude(survey);
    settle(survey);
}

static void on_answer(struct client_call *operation, const struct outcome *outcome)
{
    struct question *question = operation->context;
    struct survey *survey = question->survey;
    if (!uv_is_closing((uv_handle_t *)&survey->patience)) {
        if (outcome->status)
            question->entry->status = json_loads(outcome->status, 0, NULL);
        question->ended = !question->entry->status;
    }
    end_question(survey);
}

static void ask(struct survey *survey, size_t i)
{
    static const struct call_handlers handlers = {.end = on_answer};
    struct error err;
    struct survey_entry *entry = &survey->entries[i];
    struct question *question = &survey->questions[i];
    struct box *box = boxes_find(survey->boxes, entry->namespace, entry->name, &err);
    *question = (struct question){.survey = survey, .entry = entry};
    question->ended = !box && err.code != ERROR_TIMEOUT;
    if (!box)
        return;
    survey->open++;
    call_start(&box->client, &question->operation, OP_STATUS, NULL, &handlers, question);
}

static void on_listed(uv_work_t *work, int status)
{
    struct survey *survey = work->data;
    (void)status;
    survey->questions = xcalloc(survey->count + 1, sizeof *survey->questions);
    for (size_t i = 0; i < survey->count && survey->done; i++)
        ask(survey, i);
    end_question(survey);
}

static void take_entry(struct survey *survey, const struct state_entry *found)
{
    struct stat disk;
    cleanup_free char *path = home_path("sandboxes/%s/%s/disk", found->namespace, found->name);
    struct survey_entry *entry = &survey->entries[survey->count++];
    *entry =
        (struct survey_entry){.namespace = xstrdup(found->namespace), .name = xstrdup(found->name)};
    if (stat(path, &disk) == 0)
        entry->disk_bytes = (uint64_t)disk.st_blocks * 512;
}

/* In a thread of its own: the folders may be locked, and their disk slow. */
static void list(uv_work_t *work)
{
    struct survey *survey = work->data;
    struct state_entry *found;
    size_t count;
    if (state_list(survey->namespace, &found, &count, &survey->err) < 0)
        return;
    survey->entries = xcalloc(count + 1, sizeof *survey->entries);
    for (size_t i = 0; i < count; i++) {
        if (!survey->name || strcmp(found[i].name, survey->name) == 0)
            take_entry(survey, &found[i]);
    }
    state_list_free(found, count);
}

struct survey *survey_begin(struct boxes *boxes, const char *namespace, const char *name,
                            void (*done)(struct survey *survey, const struct error *err),
                            void *context)
{
    struct survey *survey = xcalloc(1, sizeof *survey);
    *survey = (struct survey){.done = done, .context = context, .boxes = boxes, .open = 2};
    survey->namespace = namespace ? xstrdup(namespace) : NULL;
    survey->name = name ? xstrdup(name) : NULL;
    uv_timer_init(boxes->loop, &survey->patience);
    survey->patience.data = survey->work.data = survey;
    uv_timer_start(&survey->patience, on_impatient, ANSWER_MS, 0);
    uv_queue_work(boxes->loop, &survey->work, list, on_listed);
    return survey;
}
