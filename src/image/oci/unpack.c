#include "image/oci/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file.h"
#include "base/json_text.h"
#include "base/mem.h"
#include "base/process.h"
#include "image/oci/confine.h"
#include "image/oci/layer.h"
#include "image/oci/manifest.h"
#include "image/pack.h"
#include "image/userns.h"

#define DEFAULT_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define WORDS_BEFORE_LAYERS 3

static const struct {
    const char *program, *language;
} interpreters[] = {{"python3", "python"}, {"node", "node"}};
#define INTERPRETERS (sizeof interpreters / sizeof interpreters[0])

/* ---- the process that reads the archives --------------------------------------------------- */

static bool has_program(const struct tree *tree, const char *folders, const char *program)
{
    cleanup_free char *copy = xstrdup(folders);
    char *rest = copy;
    for (const char *folder; (folder = strsep(&rest, ":"));) {
        struct stat status;
        cleanup_free char *path = xasprintf("%s/%s", folder, program);
        cleanup_fd int fd = folder[0] == '/' ? tree_look(tree, path, O_PATH) : -1;
        if (fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
            (status.st_mode & 0111))
            return true;
    }
    return false;
}

static int apply_all(struct tree *tree, const int *layers, size_t count, struct error *err)
{
    struct layer_budget budget = LAYER_BUDGET;
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "unpacking layer %zu of %zu\n", i + 1, count);
        int result = layer_apply(tree, layers[i], &budget, err);
        if (result < 0)
            return error_wrap(err, "layer %zu of %zu", i + 1, count);
    }
    return 0;
}

/* As elsewhere, the working folder is there even if no layer has it. */
static int make_workdir(struct tree *tree, const char *workdir, struct error *err)
{
    cleanup_free char *inside = xasprintf("%s/.", workdir);
    cleanup_fd int there = tree_look(tree, inside, O_PATH | O_DIRECTORY);
    if (there >= 0)
        return 0;
    cleanup_free char *below = xasprintf("%s/x", workdir);
    return tree_enter(tree, below, err) ? 0 : error_wrap(err, "its working folder");
}

static int unpack(const char *folder, char *const *words, const int *layers, size_t count,
                  struct error *err)
{
    int result = confine_to(folder, err);
    if (result < 0)
        return result;
    cleanup_fd int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (root < 0)
        return error_errno(err, errno, "cannot open the new root");
    struct tree tree;
    tree_open(&tree, root);
    result = apply_all(&tree, layers, count, err);
    if (result == 0)
        result = make_workdir(&tree, words[1], err);
    for (size_t i = 0; result == 0 && i < INTERPRETERS; i++) {
        if (has_program(&tree, words[2], interpreters[i].program))
            printf("%s\n", interpreters[i].language);
    }
    tree_close(&tree);
    return result;
}

static int open_layers(char *const *paths, size_t count, int *fds, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        fds[i] = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fds[i] < 0)
            return error_errno(err, errno, "cannot open %s", paths[i]);
    }
    return 0;
}

/* Ends without what a library might do at its exit. */
int unpack_main(char *const *words, size_t count)
{
    struct error err = {0};
    int layers[LAYERS_MAX];
    size_t layer_count = count - WORDS_BEFORE_LAYERS;
    if (count < WORDS_BEFORE_LAYERS || layer_count > LAYERS_MAX)
        return 2;
    umask(0);
    setlocale(LC_CTYPE, "C.UTF-8");
    int result = open_layers(words + WORDS_BEFORE_LAYERS, layer_count, layers, &err);
    if (result == 0)
        result = unpack(words[0], words, layers, layer_count, &err);
    if (result < 0)
        printf("error\n%s\n%s\n%s\n", error_code_name(err.code), err.message, err.hint);
    fflush(stdout);
    _exit(result < 0 ? 1 : 0);
}

/* ---- the side that starts it --------------------------------------------------------------- */

static int read_error(struct buf *output, struct error *err)
{
    char *rest = (buf_text(output), (char *)buf_data(output));
    const char *first = strsep(&rest, "\n");
    if (!first || strcmp(first, "error") != 0 || !rest)
        return -1;
    const char *code = strsep(&rest, "\n");
    const char *message = rest ? strsep(&rest, "\n") : NULL;
    char *hint = rest ? strsep(&rest, "\n") : NULL;
    if (!message)
        return -1;
    *err = (struct error){0};
    error_set(err, error_code_from_name(code), "%s", message);
    json_text_clean(err->message);
    return hint && *hint ? error_hint(err, "%s", hint) : -1;
}

static bool runs(char *const *command, const char *program)
{
    for (; command && *command; command++) {
        const char *slash = strrchr(*command, '/');
        const char *name = slash ? slash + 1 : *command;
        if (strncmp(name, program, strlen(program)) == 0)
            return true;
    }
    return false;
}

/* With several, the one that the image's own command names; otherwise the first. */
static char *choose_language(struct buf *found, char *const *command)
{
    const char *chosen = NULL;
    for (size_t i = 0; i < INTERPRETERS; i++) {
        const char *language = interpreters[i].language;
        if (!strstr(buf_text(found), language))
            continue;
        if (!chosen || (runs(command, language) && !runs(command, chosen)))
            chosen = language;
    }
    return chosen ? xstrdup(chosen) : NULL;
}

static const char *path_of(const struct image *image)
{
    for (char **variable = image->env; variable && *variable; variable++) {
        if (strncmp(*variable, "PATH=", 5) == 0 && (*variable)[5])
            return *variable + 5;
    }
    return DEFAULT_PATH;
}

static int own_program(char *path, size_t size, struct error *err)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length <= 0)
        return error_errno(err, errno, "cannot find our own program");
    path[length] = '\0';
    if (file_exists(path))
        return 0;
    error_set(err, ERROR_MISSING, "our own program is gone: %s", path);
    return error_hint(err, "it was replaced while it ran; run the command again");
}

static char **unpack_command(const char *root, char *const *layers, const struct image *image,
                             struct error *err)
{
    char program[4096];
    char **argv = NULL;
    if (own_program(program, sizeof program, err) < 0)
        return NULL;
    strv_append(&argv, xstrdup(program));
    strv_append(&argv, xstrdup("unpack-layers"));
    strv_append(&argv, xstrdup(root));
    strv_append(&argv, xstrdup(image->workdir));
    strv_append(&argv, xstrdup(path_of(image)));
    for (; layers && *layers; layers++)
        strv_append(&argv, xstrdup(*layers));
    return argv;
}

static int run(char *const *argv, struct image *image, struct error *err)
{
    cleanup_buf struct buf output = {0};
    int result =
        userns_run(argv, (struct process_options){.output = &output, .show_lines = true}, err);
    if (result < 0 && err->code != ERROR_CANCELLED)
        read_error(&output, err);
    if (result == 0)
        image->language = choose_language(&output, image->command);
    return result;
}

int unpack_layers(const char *root, char *const *layers, struct image *image, struct error *err)
{
    cleanup_strv char **argv = unpack_command(root, layers, image, err);
    return argv ? run(argv, image, err) : -1;
}

/* As one word of the shell. */
static void append_quoted(struct buf *script, const char *word)
{
    buf_append_text(script, " '");
    for (; *word; word++)
        buf_append_text(script, *word == '\'' ? "'\\''" : (char[]){*word, '\0'});
    buf_append_text(script, "'");
}

int unpack_in_memory(const char *root, uint64_t size, char *const *layers, const char *blob,
                     const char *emptied, struct image *image, struct error *err)
{
    cleanup_strv char **unpacking = unpack_command(root, layers, image, err);
    cleanup_strv char **packing = pack_command(root, blob, emptied);
    if (!unpacking)
        return -1;
    cleanup_buf struct buf script = {0};
    buf_printf(&script, "mount -t tmpfs -o mode=0755,size=%llu none", (unsigned long long)size);
    append_quoted(&script, root);
    buf_append_text(&script, " &&");
    for (char **word = unpacking; *word; word++)
        append_quoted(&script, *word);
    buf_append_text(&script, " && export " PACK_ENVIRONMENT " && exec");
    for (char **word = packing; *word; word++)
        append_quoted(&script, *word);
    cleanup_free char *text = xstrdup(buf_text(&script));
    char *argv[] = {"sh", "-c", text, NULL};
    return run(argv, image, err);
}
