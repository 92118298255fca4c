#include "engine/vm/kernel_package.h"

#include <archive.h>
#include <archive_entry.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/progress.h"
#include "engine/vm/kernel_modules.h"

#define PACKAGE_PREFIX "linux-image-"

static int find_architecture(const char **name, struct error *err)
{
    struct utsname host;
    uname(&host);
    if (strcmp(host.machine, "x86_64") == 0)
        *name = "amd64";
    else if (strcmp(host.machine, "aarch64") == 0)
        *name = "arm64";
    else {
        error_set(err, ERROR_MISSING, "msb knows no kernel for %s processors", host.machine);
        return error_hint(err, "use an amd64 host, or choose a kernel with --kernel FILE");
    }
    return 0;
}

static bool is_version(const char *text)
{
    if (!isdigit((unsigned char)*text) || strlen(text) > 64)
        return false;
    for (; *text; text++) {
        if (!isalnum((unsigned char)*text) && !strchr(".-+", *text))
            return false;
    }
    return true;
}

bool kernel_package_is_meta(const char *name, const char *architecture)
{
    static const char prefix[] = PACKAGE_PREFIX;
    if (strncmp(name, prefix, sizeof prefix - 1) != 0)
        return false;
    const char *rest = name + sizeof prefix - 1;
    size_t series = strspn(rest, "0123456789.");
    if (series && rest[series] == '-')
        rest += series + 1;
    return strcmp(rest, architecture) == 0;
}

static int newer_first(const void *a, const void *b)
{
    return strverscmp(*(char *const *)b, *(char *const *)a);
}

void kernel_package_sort(char **versions)
{
    size_t count = 0;
    while (versions && versions[count])
        count++;
    if (count)
        qsort(versions, count, sizeof *versions, newer_first);
}

/* Field names are not translated in this output, unlike in that of `apt-cache depends`. */
char **kernel_package_parse(const char *text)
{
    static const char field[] = "Depends:";
    char **versions = NULL;
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        const char *name =
            strncmp(line, field, sizeof field - 1) == 0 ? strstr(line, PACKAGE_PREFIX) : NULL;
        if (!name || name > line + strcspn(line, "\n"))
            continue;
        name += sizeof PACKAGE_PREFIX - 1;
        cleanup_free char *version = xstrndup(name, strcspn(name, " ,|\n"));
        if (is_version(version))
            strv_append(&versions, steal_pointer(&version));
    }
    kernel_package_sort(versions);
    return versions;
}

static int check_apt(struct error *err)
{
    cleanup_free char *get = process_find("apt-get");
    cleanup_free char *cache = process_find("apt-cache");
    if (get && cache)
        return 0;
    error_set(err, ERROR_MISSING, "apt-get is not installed, and the kernel comes from Debian");
    return error_hint(err, "on another distribution choose a kernel with --kernel FILE");
}

/* The names of all metapackages that apt knows, behind the arguments in `argv`. */
static int list_metapackages(const char *architecture, char ***argv, struct error *err)
{
    char *list[] = {"apt-cache", "pkgnames", PACKAGE_PREFIX, NULL};
    cleanup_buf struct buf output = {0};
    int result = process_run(list, &(struct process_options){.output = &output}, err);
    if (result < 0)
        return result;
    cleanup_free char *names = xstrdup(buf_text(&output));
    char *rest = names;
    for (const char *name; (name = strsep(&rest, "\n"));) {
        if (kernel_package_is_meta(name, architecture))
            strv_append(argv, xstrdup(name));
    }
    return 0;
}

int kernel_package_resolve(char ***versions, struct error *err)
{
    const char *architecture = NULL;
    int result = find_architecture(&architecture, err);
    if (result == 0)
        result = check_apt(err);
    if (result < 0)
        return result;

    static const char *const show[] = {"apt-cache", "show", "--no-all-versions"};
    cleanup_strv char **argv = NULL;
    for (size_t i = 0; i < sizeof show / sizeof *show; i++)
        strv_append(&argv, xstrdup(show[i]));
    cleanup_buf struct buf output = {0};
    result = list_metapackages(architecture, &argv, err);
    if (result == 0)
        result = process_run(argv, &(struct process_options){.output = &output}, err);
    if (result < 0 && err->code == ERROR_CANCELLED)
        return result;
    *versions = result == 0 ? kernel_package_parse(buf_text(&output)) : NULL;
    if (*versions)
        return 0;
    error_set(err, ERROR_MISSING, "apt knows no package " PACKAGE_PREFIX "%s", architecture);
    return error_hint(err, "run `apt-get update` as root and try again; on another distribution "
                           "than Debian choose a kernel with --kernel FILE");
}

static int download(const char *version, const char *workspace, struct error *err)
{
    cleanup_free char *package = xasprintf(PACKAGE_PREFIX "%s", version);
    /* Without that option root's apt wants the folder to belong to its user _apt. */
    char *argv[] = {"apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", package, NULL};
    struct process_options options = {.folder = workspace, .show_lines = true};
    int result = process_run(argv, &options, err);
    if (result == 0 || err->code == ERROR_CANCELLED)
        return result;
    error_wrap(err, "cannot download the kernel package");
    if (err->code == ERROR_NO_SPACE)
        return error_hint(err, "free some space, or set MSB_HOME to a folder on another disk");
    return error_hint(err, "check the network; if the package is gone, run `apt-get update`");
}

static char *find_download(const char *workspace)
{
    char *found = NULL;
    DIR *folder = opendir(workspace);
    const struct dirent *entry;
    while (folder && !found && (entry = readdir(folder))) {
        size_t length = strlen(entry->d_name);
        if (length > 4 && strcmp(entry->d_name + length - 4, ".deb") == 0)
            found = xasprintf("%s/%s", workspace, entry->d_name);
    }
    if (folder)
        closedir(folder);
    return found;
}

/* The name under which a file of the package is kept; NULL when it is of no use. */
static char *kept_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash ? slash + 1 : path;
    if (strstr(path, "boot/vmlinuz-"))
        return xstrdup("vmlinuz");
    if (strcmp(base, "modules.builtin") == 0)
        return xstrdup(base);
    cleanup_free char *name = modules_name_of(base);
    const char *suffix = name ? strstr(base, ".ko") : NULL;
    return suffix ? xasprintf("%s%s", name, suffix) : NULL;
}

static int keep_file(struct archive *files, struct archive_entry *entry, const char *contents,
                     struct error *err)
{
    const char *path = archive_entry_pathname(entry);
    cleanup_free char *name = path ? kept_name(path) : NULL;
    if (!name || archive_entry_filetype(entry) != AE_IFREG)
        return 0;
    cleanup_free char *to = xasprintf("%s/%s", contents, name);
    cleanup_fd int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_errno(err, errno, "cannot create %s", to);
    if (archive_read_data_into_fd(files, fd) != ARCHIVE_OK)
        return error_errno(err, archive_errno(files), "cannot unpack %s: %s", name,
                           archive_error_string(files));
    return 0;
}

static int keep_files(struct archive *files, const char *contents, struct error *err)
{
    for (;;) {
        struct archive_entry *entry;
        int status = archive_read_next_header(files, &entry);
        if (status == ARCHIVE_EOF)
            return 0;
        if (status != ARCHIVE_OK)
            return error_set(err, ERROR_INVALID, "the kernel package is damaged: %s",
                             archive_error_string(files));
        int result = keep_file(files, entry, contents, err);
        if (result < 0)
            return result;
        if (cancel_requested())
            return cancel_error(err);
        progress_tick();
    }
}

/* Hands the bytes of the outer archive's current member to the inner archive. */
static la_ssize_t read_member(struct archive *inner, void *outer, const void **block)
{
    size_t length = 0;
    la_int64_t offset;
    int status = archive_read_data_block(outer, block, &length, &offset);
    if (status == ARCHIVE_EOF)
        return 0;
    if (status != ARCHIVE_OK) {
        archive_set_error(inner, archive_errno(outer), "%s", archive_error_string(outer));
        return -1;
    }
    return (la_ssize_t)length;
}

static int unpack_data(struct archive *package, const char *contents, struct error *err)
{
    struct archive *files = archive_read_new();
    archive_read_support_filter_xz(files);
    archive_read_support_filter_gzip(files);
    archive_read_support_filter_zstd(files);
    archive_read_support_format_tar(files);
    int result;
    if (archive_read_open(files, package, NULL, read_member, NULL) == ARCHIVE_OK)
        result = keep_files(files, contents, err);
    else
        result = error_set(err, ERROR_INVALID, "the kernel package is damaged: %s",
                           archive_error_string(files));
    archive_read_free(files);
    return result;
}

/* A .deb is an ar archive whose member data.tar.* holds the files. */
static int unpack(const char *deb, const char *contents, struct error *err)
{
    struct archive *package = archive_read_new();
    archive_read_support_format_ar(package);
    int result = error_set(err, ERROR_INVALID, "%s is not a Debian package", deb);
    struct archive_entry *entry;
    if (archive_read_open_filename(package, deb, 65536) == ARCHIVE_OK) {
        while (archive_read_next_header(package, &entry) == ARCHIVE_OK) {
            const char *name = archive_entry_pathname(entry);
            if (name && strncmp(name, "data.tar", 8) == 0) {
                result = unpack_data(package, contents, err);
                break;
            }
        }
    }
    archive_read_free(package);
    return result;
}

int kernel_package_fetch(const char *version, const char *workspace, const char *contents,
                         struct error *err)
{
    int result = download(version, workspace, err);
    if (result < 0)
        return result;
    cleanup_free char *deb = find_download(workspace);
    if (!deb)
        return error_set(err, ERROR_IO, "apt-get downloaded no package into %s", workspace);
    progress_detail("unpacking");
    result = folder_make(contents, 0700, err);
    return result < 0 ? result : unpack(deb, contents, err);
}
