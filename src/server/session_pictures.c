#include "server/session_pictures.h"

#include <string.h>

#include "base/mem.h"
#include "server/base64.h"
#include "server/session_output.h"
#include "session/session_file.h"

#define FOLDER "pictures"

struct saving {
    struct rest *rest;
    json_t *answer;
    char *run_id, *path;
    size_t next; /* artifact to look at */
    struct session_file *writing;
};

static void save_next(struct saving *saving);

static void saving_free(struct saving *saving)
{
    json_decref(saving->answer);
    free(saving->run_id);
    free(saving->path);
    free(saving);
}

static void on_left(struct rest *rest)
{
    struct saving *saving = rest->context;
    session_file_abandon(saving->writing);
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

/* What could not be written stays as it is. */
static void on_written(void *context, const struct file_result *result,
                       const struct session_failure *failure)
{
    (void)failure;
    struct saving *saving = context;
    json_t *artifacts = json_object_get(saving->answer, "artifacts");
    if (result)
        tell_place(saving, json_array_get(artifacts, saving->next));
    saving->next++;
    save_next(saving);
}

/* False for what is no picture in base64. */
static bool take_content(struct buf *content, const json_t *artifact)
{
    const char *type = json_string_value(json_object_get(artifact, "type"));
    const char *url = json_string_value(json_object_get(artifact, "url"));
    const char *data = strstr(url, ";base64,");
    return strcmp(type, "image") == 0 && strncmp(url, "data:", 5) == 0 && data &&
           base64_take(content, data + strlen(";base64,"), strlen(data + strlen(";base64,"))) == 0;
}

static bool write_picture(struct saving *saving, const struct buf *content, const char *name)
{
    struct session_failure unwritten;
    const struct rest *rest = saving->rest;
    struct session_request request = {
        .namespace = rest->namespace, .id = rest->id, .must_exist = true};
    free(saving->path);
    saving->path = xasprintf(FOLDER "/%s-%s", saving->run_id, name);
    saving->writing = session_file_start(rest->server->sessions, &request,
                                         &(struct file_work){.operation = OP_FILE_WRITE,
                                                             .path = saving->path,
                                                             .content = buf_data(content),
                                                             .length = buf_length(content)},
                                         on_written, saving, &unwritten);
    return saving->writing;
}

static void save_next(struct saving *saving)
{
    const json_t *artifacts = json_object_get(saving->answer, "artifacts");
    for (; saving->next < json_array_size(artifacts); saving->next++) {
        cleanup_buf struct buf content = {0};
        const json_t *artifact = json_array_get(artifacts, saving->next);
        const char *name = json_string_value(json_object_get(artifact, "filename"));
        if (take_content(&content, artifact) && write_picture(saving, &content, name))
            return;
    }
    rest_answer(saving->rest, json_incref(saving->answer));
    saving_free(saving);
}

void pictures_save(struct rest *rest, json_t *answer, const char *run_id)
{
    struct saving *saving = xcalloc(1, sizeof *saving);
    saving->rest = rest;
    saving->answer = answer;
    saving->run_id = xstrdup(run_id);
    rest->context = saving;
    rest->left = on_left;
    save_next(saving);
}
