#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "base/process.h"
#include "cli/command.h"
#include "engine/cgroup.h"
#include "engine/jail/jail.h"
#include "engine/jail/place.h"
#include "engine/vm/confine.h"
#include "engine/vm/host.h"
#include "engine/vm/kernel.h"
#include "image/image.h"

static struct {
    bool json;
} options;

enum verdict_of_check {
    CHECK_OK,
    CHECK_NOTE,    /* works without, but less well */
    CHECK_MISSING, /* no sandbox can start */
};

struct finding {
    enum verdict_of_check verdict;
    char detail[800]; /* what is there, or why it is not */
    char remedy[400]; /* what to do; "" when there is nothing to do */
};

typedef void check(struct finding *finding);

static void found(struct finding *finding, enum verdict_of_check verdict, const char *detail,
                  const char *remedy)
{
    finding->verdict = verdict;
    snprintf(finding->detail, sizeof finding->detail, "%s", detail);
    snprintf(finding->remedy, sizeof finding->remedy, "%s", remedy);
}

static void check_system(struct finding *finding)
{
    struct utsname name;
    uname(&name);
    bool good = strcmp(name.machine, "x86_64") == 0;
    cleanup_free char *detail = xasprintf("%s %s on %s", name.sysname, name.release, name.machine);
    found(finding, good ? CHECK_OK : CHECK_MISSING, detail,
          good ? "" : "only x86_64 is supported so far");
}

static void check_qemu(struct finding *finding)
{
    struct error err;
    cleanup_buf struct buf output = {0};
    cleanup_free char *path = host_qemu();
    char *argv[] = {path, "--version", NULL};
    if (!path) {
        found(finding, CHECK_MISSING, "QEMU is not installed", "apt-get install qemu-system-x86");
    } else if (process_run(argv, &(struct process_options){.output = &output}, &err) < 0) {
        found(finding, CHECK_MISSING, err.message, "apt-get install --reinstall qemu-system-x86");
    } else {
        cleanup_free char *text = xstrdup(buf_text(&output));
        text[strcspn(text, "\n")] = '\0';
        found(finding, CHECK_OK, text, "");
    }
}

static void check_acceleration(struct finding *finding)
{
    const char *why;
    if (host_kvm_usable(&why)) {
        found(finding, CHECK_OK, "kvm: machines run on the processor itself", "");
        return;
    }
    cleanup_free char *detail =
        xasprintf("tcg: machines run in an emulator, code is about ten times slower (%s)", why);
    found(finding, CHECK_NOTE, detail,
          "switch virtualisation on in the firmware or the hypervisor; join the group kvm");
}

static void check_wall(struct finding *finding)
{
    struct error why;
    cleanup_free char *program = host_qemu();
    enum confine_wall wall = confine_look(program ? program : "/bin/true", &why);
    if (wall == CONFINE_FULL) {
        found(finding, CHECK_OK, "QEMU can be walled in: namespaces, an empty root", "");
        return;
    }
    cleanup_free char *detail = xasprintf(
        wall == CONFINE_THIN
            ? "around QEMU stand Landlock and a list of system calls, but no namespaces; machines "
              "start more slowly and share one folder at most (%s)"
            : "QEMU cannot be walled in: %s",
        why.message);
    found(finding, wall == CONFINE_THIN ? CHECK_NOTE : CHECK_MISSING, detail, why.hint);
}

static void check_seccomp(struct finding *finding)
{
    struct error err;
    cleanup_buf struct buf actions = {0};
    if (file_read("/proc/sys/kernel/seccomp/actions_avail", 4096, &actions, &err) == 0 &&
        strstr(buf_text(&actions), "user_notif"))
        found(finding, CHECK_OK, "system calls can be filtered", "");
    else
        found(finding, CHECK_MISSING, "the kernel lacks seccomp with user notification",
              "use a kernel from 5.9 on with CONFIG_SECCOMP_FILTER");
}

static void check_cgroups(struct finding *finding)
{
    const char *why;
    if (cgroup_available(&why)) {
        cleanup_free char *detail = xasprintf("host memory of each sandbox is capped (%s)", why);
        found(finding, CHECK_OK, detail, "");
        return;
    }
    cleanup_free char *detail = xasprintf("host memory of a sandbox is not capped: %s", why);
    found(finding, CHECK_NOTE, detail,
          "run msb as root, or have groups delegated: systemd-run --user --scope -p Delegate=yes "
          "msb …");
}

static void check_jail(struct finding *finding)
{
    const char *missing = jail_missing();
    cleanup_free char *weaknesses = jail_weaknesses();
    struct error err;
    if (jail_place_check(&err) < 0) {
        cleanup_free char *detail = xasprintf("--engine jail does not work: %s", err.message);
        found(finding, CHECK_NOTE, detail, err.hint);
    } else if (missing) {
        cleanup_free char *detail = xasprintf("--engine jail does not work: %s", missing);
        found(finding, CHECK_NOTE, detail,
              "modprobe -a erofs overlay; enable the controllers memory and pids");
    } else if (weaknesses) {
        cleanup_free char *detail = xasprintf("--engine jail works, but: %s", weaknesses);
        found(finding, CHECK_NOTE, detail, jail_remedy());
    } else {
        found(finding, CHECK_OK, "--engine jail works: native speed, the host's kernel", "");
    }
}

static void check_home(struct finding *finding)
{
    struct error err;
    uint64_t available = 0;
    if (folder_make(home_folder(), 0700, &err) < 0 || access(home_folder(), W_OK) < 0) {
        cleanup_free char *detail = xasprintf("%s cannot be written to", home_folder());
        found(finding, CHECK_MISSING, detail, "set MSB_HOME to a folder you may write to");
        return;
    }
    folder_free_space(home_folder(), &available, &err);
    cleanup_free char *detail =
        xasprintf("%s, %" PRIu64 " GB free", home_folder(), available / 1000000000);
    bool tight = available < 4000000000;
    found(finding, tight ? CHECK_NOTE : CHECK_OK, detail,
          tight ? "an image build needs 4 GB; set MSB_HOME to a larger disk" : "");
}

/* The first of the programs that is not installed; NULL when all are. */
static const char *first_missing(const char *const *programs)
{
    for (; *programs; programs++) {
        cleanup_free char *path = process_find(*programs);
        if (!path)
            return *programs;
    }
    return NULL;
}

static void check_template_tools(struct finding *finding)
{
    static const char *const programs[] = {"mkfs.ext4", "qemu-img", NULL};
    const char *missing = first_missing(programs);
    if (!missing) {
        found(finding, CHECK_OK, "templates can be made", "");
        return;
    }
    cleanup_free char *detail = xasprintf("templates cannot be made without %s", missing);
    found(finding, CHECK_MISSING, detail, "apt-get install e2fsprogs qemu-utils");
}

static void check_kernel(struct finding *finding)
{
    static const char *const programs[] = {"apt-get", "apt-cache", NULL};
    struct error err;
    struct kernel kernel;
    if (kernel_find(getenv("MSB_KERNEL"), &kernel, &err) == 0) {
        cleanup_strv char **failures = kernel_failures();
        cleanup_free char *detail = failures && failures[0]
                                        ? xasprintf("%s; a kernel that failed its trial is not "
                                                    "used: %s",
                                                    kernel.version, failures[0])
                                        : xstrdup(kernel.version);
        found(finding, CHECK_OK, detail,
              failures && failures[0] ? "`msb prepare --update` gets a newer one when there is one"
                                      : "");
        kernel_release(&kernel);
        return;
    }
    const char *missing = first_missing(programs);
    if (!missing)
        found(finding, CHECK_NOTE, "not fetched yet; the first start does it", "msb prepare");
    else
        found(finding, CHECK_MISSING, "not fetched, and Debian's package tools are missing",
              "choose a kernel with --kernel FILE or MSB_KERNEL");
}

static void check_images(struct finding *finding)
{
    static const char *const programs[] = {"mkfs.erofs", "tar", NULL};
    struct error err;
    char **references = NULL;
    cleanup_buf struct buf text = {0};
    if (image_list(&references, &err) == 0) {
        for (size_t i = 0; references && references[i]; i++)
            buf_printf(&text, "%s%s", i ? ", " : "", references[i]);
    }
    bool some = references && references[0];
    strv_free(references);
    const char *missing = first_missing(programs);
    cleanup_free char *builder = process_find("mmdebstrap");
    if (some)
        found(finding, CHECK_OK, buf_text(&text), "");
    else if (missing)
        found(finding, CHECK_MISSING, "none, and the tools to make them are missing",
              "apt-get install erofs-utils tar");
    else if (!builder)
        found(finding, CHECK_NOTE,
              "none yet; without mmdebstrap python and node cannot be built, all others work",
              "msb pull IMAGE; apt-get install mmdebstrap");
    else
        found(finding, CHECK_NOTE, "none built yet; the first start does it", "msb prepare");
}

static const struct {
    const char *name;
    check *run;
} checks[] = {
    {"system", check_system},
    {"qemu", check_qemu},
    {"acceleration", check_acceleration},
    {"wall", check_wall},
    {"system calls", check_seccomp},
    {"memory caps", check_cgroups},
    {"jail", check_jail},
    {"home", check_home},
    {"template tools", check_template_tools},
    {"kernel", check_kernel},
    {"images", check_images},
};
#define CHECKS (sizeof checks / sizeof checks[0])

static void print_text(const struct finding *findings)
{
    static const char *const words[] = {"ok", "note", "missing"};
    for (size_t i = 0; i < CHECKS; i++) {
        printf("%-8s %-15s %s\n", words[findings[i].verdict], checks[i].name, findings[i].detail);
        if (findings[i].remedy[0])
            printf("%-8s %-15s → %s\n", "", "", findings[i].remedy);
    }
}

static void print_json(const struct finding *findings, bool ready)
{
    static const char *const words[] = {"ok", "note", "missing"};
    json_t *list = json_array();
    for (size_t i = 0; i < CHECKS; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "check", checks[i].name,
                                              "verdict", words[findings[i].verdict], "detail",
                                              findings[i].detail, "remedy", findings[i].remedy));
    json_t *json = json_pack("{s:b, s:o}", "ready", ready, "checks", list);
    json_dumpf(json, stdout, JSON_INDENT(2));
    printf("\n");
    json_decref(json);
}

static int run(const struct arguments *arguments)
{
    (void)arguments;
    struct finding findings[CHECKS];
    bool ready = true;
    for (size_t i = 0; i < CHECKS; i++) {
        checks[i].run(&findings[i]);
        ready = ready && findings[i].verdict != CHECK_MISSING;
    }
    if (options.json) {
        print_json(findings, ready);
    } else {
        print_text(findings);
        printf("\n%s\n", ready ? "Sandboxes can start here." : "No sandbox can start here yet.");
    }
    return ready ? 0 : 1;
}

static const struct option option_table[] = {
    {0, "json", OPTION_FLAG, &options.json, NULL, "as JSON"},
    {0},
};

const struct command doctor_command = {
    .name = "doctor",
    .summary = "tell what this host can do",
    .usage = "doctor [--json]",
    .description =
        "Checks everything a sandbox needs from the host. Each line says ok, note (works, but "
        "less\n"
        "well) or missing (no sandbox can start), what was found, and what to do about it. The\n"
        "exit code is 0 only when a sandbox can start.",
    .examples = "  msb doctor\n",
    .options = option_table,
    .run = run,
};
