#include "server/session_pictures.h"

#include <string.h>

#include "base/mem.h"
#include "sandbox/requests.h"
#include "server/base64.h"
#include "server/session_output.h"

#define FOLDER "pictures"

struct saving {
    struct rest *rest; /* NULL: the client has left */
    struct session_lease lease;
    json_t *answer;
    char *run_id, *path;
    size_t next; /* artifact to look at */
    struct client_call call;
    bool is_writing;
    struct buf content;
};

static void save_next(struct saving *saving);

static void saving_free(struct saving *saving)
{
    json_decref(saving->answer);
    buf_free(&saving->content);
    free(saving->run_id);
    free(saving->path);
    free(saving);
}

/* What could not be written stays as it is. */
static void finish(struct saving *saving)
{
    session_release(&saving->lease, false);
    if (saving->rest)
        rest_answer(saving->rest, json_incref(saving->answer));
    saving_free(saving);
}

static void on_left(struct rest *rest)
{
    struct saving *saving = rest->context;
    saving->rest = NULL;
    if (saving->is_writing) {
        call_cancel(&saving->call);
        return;
    }
    session_abandon(&saving->lease);
    saving_free(saving);
}

static void tell_place(const struct saving *saving, json_t *artifact)
{
    const struct rest *rest = saving->rest;
    cleanup_free char *url = artifact_url(rest->request, rest->namespace, rest->id, saving->path);
    json_object_set_new(artifact, "path", json_string(saving->path));
    json_object_set_new(artifact, "filename", json_string(strrchr(saving->path, '/') + 1));
    json_object_set_new(artifact, "url", json_string(url));
    json_object_set_new(artifact, "download_url", json_string(url));
}

static void on_data(struct client_call *call, enum channel channel, const uint8_t *bytes,
                    size_t length)
{
    (void)channel, (void)bytes;
    call_consumed(call, length);
}

static void on_written(struct client_call *call, const struct outcome *outcome)
{
    struct saving *saving = call->context;
    json_t *artifacts = json_object_get(saving->answer, "artifacts");
    saving->is_writing = false;
    if (saving->rest && outcome->error.code == ERROR_NONE)
        tell_place(saving, json_array_get(artifacts, saving->next));
    saving->next++;
    if (saving->rest)
        save_next(saving);
    else
        finish(saving);
}

static void write_picture(struct saving *saving, struct sandbox_client *client, const char *name)
{
    static const struct call_handlers handlers = {.data = on_data, .end = on_written};
    cleanup_buf struct buf fields = {0};
    free(saving->path);
    saving->path = xasprintf(FOLDER "/%s-%s", saving->run_id, name);
    saving->is_writing = true;
    file_request_fields(&fields, &(struct file_request){.path = saving->path, .parents = true});
    call_start(client, &saving->call, OP_FILE_WRITE, &fields, &handlers, saving);
    call_give(&saving->call, buf_data(&saving->content), buf_length(&saving->content));
}

/* False for what is no picture in base64. */
static bool take_content(struct saving *saving, const json_t *artifact)
{
    const char *type = json_string_value(json_object_get(artifact, "type"));
    const char *url = json_string_value(json_object_get(artifact, "url"));
    const char *data = strstr(url, ";base64,");
    buf_free(&saving->content);
    return strcmp(type, "image") == 0 && strncmp(url, "data:", 5) == 0 && data &&
           base64_take(&saving->content, data + strlen(";base64,"), strlen(data) - 8) == 0;
}

static void save_next(struct saving *saving)
{
    const json_t *artifacts = json_object_get(saving->answer, "artifacts");
    struct sandbox_client *client = session_client(&saving->lease);
    for (; client && saving->next < json_array_size(artifacts); saving->next++) {
        const json_t *artifact = json_array_get(artifacts, saving->next);
        if (take_content(saving, artifact)) {
            write_picture(saving, client, json_string_value(json_object_get(artifact, "filename")));
            return;
        }
    }
    finish(saving);
}

static void on_ready(struct session_lease *lease, const struct session_failure *failure)
{
    struct saving *saving = lease->context;
    if (!failure) {
        save_next(saving);
        return;
    }
    rest_answer(saving->rest, json_incref(saving->answer));
    saving_free(saving);
}

void pictures_save(struct rest *rest, json_t *answer, const char *run_id)
{
    struct session_failure failure;
    struct saving *saving = xcalloc(1, sizeof *saving);
    saving->rest = rest;
    saving->answer = answer;
    saving->run_id = xstrdup(run_id);
    saving->lease.ready = on_ready;
    saving->lease.context = saving;
    rest->context = saving;
    rest->left = on_left;
    struct session_request request = {
        .namespace = rest->namespace, .id = rest->id, .must_exist = true, .shared = true};
    int granted = session_acquire(rest->server->sessions, &saving->lease, &request, &failure);
    if (granted < 0)
        on_ready(&saving->lease, &failure);
    else if (granted > 0)
        save_next(saving);
}
