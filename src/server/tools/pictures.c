#include "server/tools/pictures.h"

#include <string.h>

#include "base/embed.h"
#include "base/mem.h"
#include "server/base64.h"
#include "server/content_type.h"

EMBED(shrink, "src/server/tools/shrink.py");

/* An emulated machine may take long to start Python. */
#define SHRINK_S 30
/* In base64 it must fit into the output of a command. */
#define SMALLER_MAX (700u << 10)
/* Smaller than this, nobody sees anything. */
#define SMALLER_MIN (16u << 10)

static void show_next(struct pictures *pictures);

static const char *path_of(const struct pictures *pictures)
{
    const json_t *picture = json_array_get(pictures->wanted, pictures->next);
    return json_string_value(json_object_get(picture, "path"));
}

static json_int_t size_of(const struct pictures *pictures)
{
    const json_t *picture = json_array_get(pictures->wanted, pictures->next);
    return json_integer_value(json_object_get(picture, "size"));
}

static void note(struct pictures *pictures, const char *what)
{
    cleanup_free char *line = xasprintf("[%s %s]", path_of(pictures), what);
    answer_note(pictures->answer, line);
}

static void go_on(struct pictures *pictures)
{
    pictures->next++;
    show_next(pictures);
}

static void on_answered(struct rpc_asker *asker, json_t *message)
{
    struct pictures *pictures =
        (struct pictures *)((char *)asker - offsetof(struct pictures, asker));
    pictures->told(pictures, json_object_get(message, "result"));
    json_decref(message);
}

/* Takes the parameters. `told` gets the result, NULL for an error. */
static void ask(struct pictures *pictures, const char *method, json_t *params,
                void (*told)(struct pictures *pictures, const json_t *result))
{
    pictures->told = told;
    pictures->asker = (struct rpc_asker){.answered = on_answered};
    json_object_set_new(params, "sandbox", json_string(pictures->sandbox));
    json_object_set_new(params, "namespace", json_string(pictures->namespace));
    rpc_run_within(pictures->server, pictures->scope, method, params, &pictures->asker);
    json_decref(params);
}

/* ---- one that is too large ------------------------------------------------------------------ */

/* What the program printed, if it is a picture. */
static bool take_smaller(struct buf *bytes, const json_t *result)
{
    const json_t *lines = json_object_get(result, "output");
    const json_t *text = json_object_get(json_array_get(lines, 0), "text");
    return json_integer_value(json_object_get(result, "exit_code")) == 0 &&
           json_string_length(text) > 0 &&
           base64_take(bytes, json_string_value(text), json_string_length(text)) == 0 &&
           strcmp(content_type_of("", buf_data(bytes), buf_length(bytes)), "image/png") == 0;
}

static void on_smaller(struct pictures *pictures, const json_t *result)
{
    cleanup_buf struct buf bytes = {0};
    if (take_smaller(&bytes, result) &&
        answer_add_picture(pictures->answer, "image/png", buf_data(&bytes), buf_length(&bytes)))
        note(pictures, "is shown smaller than it is");
    else
        note(pictures, "is not shown: it is larger than 1 MB and could not be made smaller in its "
                       "sandbox, which takes Python with Pillow; a lower dpi helps");
    go_on(pictures);
}

static void make_smaller(struct pictures *pictures)
{
    size_t room = answer_room(pictures->answer) / 4 * 3;
    json_int_t most = room < SMALLER_MAX ? (json_int_t)room : SMALLER_MAX;
    if (most < SMALLER_MIN) {
        note(pictures, "is not shown: the answer is full");
        go_on(pictures);
        return;
    }
    cleanup_free char *limit = xasprintf("%lld", (long long)most);
    ask(pictures, "sandbox.command.run",
        json_pack("{s:s, s:[s, s, s, s, s], s:i}", "command", "python3", "args", "-I", "-c",
                  (const char *)shrink_begin, path_of(pictures), limit, "timeout", SHRINK_S),
        on_smaller);
}

/* ---- a figure that is no file --------------------------------------------------------------- */

static void on_saved(struct pictures *pictures, const json_t *result)
{
    if (!result) {
        cleanup_free char *line =
            xasprintf("[a figure of %lld bytes is not shown and could not be kept; a lower dpi "
                      "helps]",
                      (long long)size_of(pictures));
        answer_note(pictures->answer, line);
        go_on(pictures);
        return;
    }
    answer_add_link(pictures->answer, &pictures->place, "Figure in full: ", path_of(pictures),
                    size_of(pictures));
    make_smaller(pictures);
}

/* ---- one that is not too large -------------------------------------------------------------- */

static void on_read(struct pictures *pictures, const json_t *result)
{
    const json_t *data = json_object_get(result, "content");
    const char *type = content_type(path_of(pictures));
    if (data && !answer_add_base64(pictures->answer, type, json_string_value(data),
                                   json_string_length(data)))
        note(pictures, "is not shown: the answer is full");
    go_on(pictures);
}

/* ---- all of them ---------------------------------------------------------------------------- */

static void show_next(struct pictures *pictures)
{
    const json_t *picture = json_array_get(pictures->wanted, pictures->next);
    const json_t *data = json_object_get(picture, "data");
    if (!picture) {
        free(steal_pointer(&pictures->sandbox));
        pictures->shown(pictures);
    } else if (data) {
        ask(pictures, "sandbox.file.write",
            json_pack("{s:s, s:O, s:s}", "path", path_of(pictures), "content", data, "encoding",
                      "base64"),
            on_saved);
    } else if (size_of(pictures) > PICTURE_MAX) {
        make_smaller(pictures);
    } else {
        ask(pictures, "sandbox.file.read",
            json_pack("{s:s, s:s}", "path", path_of(pictures), "encoding", "base64"), on_read);
    }
}

void pictures_show(struct pictures *pictures)
{
    show_next(pictures);
}

void pictures_abandon(struct pictures *pictures)
{
    rpc_abandon(&pictures->asker);
    free(steal_pointer(&pictures->sandbox));
}
