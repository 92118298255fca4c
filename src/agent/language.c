#include "agent/language.h"

#include <string.h>

#include "base/embed.h"
#include "base/file.h"
#include "base/mem.h"

EMBED(runtime_python, "src/agent/runtimes/python.py");
EMBED(runtime_python_copies, "src/agent/runtimes/python_copies.py");
EMBED(runtime_python_data, "src/agent/runtimes/python_data.py");
EMBED(runtime_python_display, "src/agent/runtimes/python_display.py");
EMBED(runtime_python_imports, "src/agent/runtimes/python_imports.py");
EMBED(runtime_python_ipython, "src/agent/runtimes/python_ipython.py");
EMBED(runtime_python_jails, "src/agent/runtimes/python_jails.py");
EMBED(runtime_python_magics, "src/agent/runtimes/python_magics.py");
EMBED(runtime_python_threads, "src/agent/runtimes/python_threads.py");
EMBED(runtime_hand_over, "hand_over.so");
EMBED(runtime_node, "src/agent/runtimes/node.js");
EMBED(runtime_node_display, "src/agent/runtimes/node_display.js");
EMBED(runtime_node_imports, "src/agent/runtimes/node_imports.js");
EMBED(runtime_bash, "src/agent/runtimes/bash.sh");

#define RUNTIME_FOLDER "/run/msb"

/* Code is evaluated outside of all functions and files, in the first line: so the shell's messages
 * name it `bash` and count its lines from one. */
#define BASH_LOOP                                                                                  \
    ". " RUNTIME_FOLDER "/bash.sh; eval \"$__msb_state\" 2>/dev/null; __msb_begin; "               \
    "while __msb_next; do eval \"$__msb_code\"; { __msb_end $? $-; } 2>/dev/null; done"

static const struct language languages[] = {
    {.name = "python",
     .image = "microsandbox/python",
     .argv = {"python3", RUNTIME_FOLDER "/python.py"},
     .rehearsal = "print(6*7)\n6*7",
     .copies = true},
    {.name = "node",
     .image = "microsandbox/node",
     .argv = {"node", RUNTIME_FOLDER "/node.js"},
     .rehearsal = "console.log(6*7);6*7"},
    {.name = "bash",
     .image = "microsandbox/python",
     .argv = {"bash", "-c", BASH_LOOP, "bash"},
     .rehearsal = "echo $((6*7))",
     .text = true},
};

static const struct {
    const char *name;
    const char *language;
    char kind;
} names[] = {
    {"python", "python", 'r'},   {"python3", "python", 'r'},  {"py", "python", 'r'},
    {"node", "node", 'r'},       {"nodejs", "node", 'r'},     {"js", "node", 'r'},
    {"javascript", "node", 'r'}, {"typescript", "node", 't'}, {"ts", "node", 't'},
    {"bash", "bash", 'r'},       {"sh", "bash", 'r'},
};

static const struct language *find_exactly(const char *name)
{
    const struct language *at = languages;
    while (strcmp(at->name, name) != 0)
        at++;
    return at;
}

const struct language *language_find(const char *name, char *kind, struct error *err)
{
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(names[i].name, name) != 0)
            continue;
        *kind = names[i].kind;
        return find_exactly(names[i].language);
    }
    error_set(err, ERROR_INVALID, "no such language: %.40s", name);
    error_hint(err, "use python, node, typescript or bash, or run a program of the image");
    return NULL;
}

int language_take(const struct field *field, const struct language **language, char *kind,
                  struct error *err)
{
    cleanup_free char *name = NULL;
    int result = field_text(field, &name, err);
    if (result < 0)
        return result;
    *language = language_find(name, kind, err);
    return *language ? 0 : -1;
}

#define RUNTIME(name, symbol)                                                                      \
    {                                                                                              \
        name, runtime_##symbol##_begin, &runtime_##symbol##_size                                   \
    }

static const struct {
    const char *name;
    const uint8_t *bytes;
    const uint64_t *size;
} runtimes[] = {
    RUNTIME("python.py", python),
    RUNTIME("python_copies.py", python_copies),
    RUNTIME("python_data.py", python_data),
    RUNTIME("python_display.py", python_display),
    RUNTIME("python_imports.py", python_imports),
    RUNTIME("python_ipython.py", python_ipython),
    RUNTIME("python_jails.py", python_jails),
    RUNTIME("python_magics.py", python_magics),
    RUNTIME("python_threads.py", python_threads),
    RUNTIME("hand_over.so", hand_over),
    RUNTIME("node.js", node),
    RUNTIME("node_display.js", node_display),
    RUNTIME("node_imports.js", node_imports),
    RUNTIME("bash.sh", bash),
};

int language_install(struct error *err)
{
    int result = folder_make(RUNTIME_FOLDER, 0755, err);
    for (size_t i = 0; result == 0 && i < sizeof runtimes / sizeof runtimes[0]; i++) {
        cleanup_free char *path = xasprintf("%s/%s", RUNTIME_FOLDER, runtimes[i].name);
        result = file_write_atomic(path, runtimes[i].bytes, *runtimes[i].size, 0644, err);
    }
    return result;
}
