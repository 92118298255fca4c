/* Layers applied to a folder: whiteouts, replaced kinds, and archives that try to get out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "image/oci/layer.h"
#include "refusal.h"
#include "temporary_home.h"

struct file {
    const char *path;
    mode_t type;      /* 0: the end */
    const char *text; /* contents, or where a link leads */
};

#define HARD_LINK 1

static char *root_path;
static struct tree tree;
static int root = -1;

static int open_root(void **state)
{
    struct error err;
    (void)state;
    root_path = home_path("root");
    folder_remove(root_path, &err);
    assert_int_equal(folder_make(root_path, 0755, &err), 0);
    root = open(root_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    tree_open(&tree, root);
    return root < 0;
}

static int close_root(void **state)
{
    (void)state;
    tree_close(&tree);
    close(root);
    free(root_path);
    return 0;
}

static void add_entry(struct archive *archive, const struct file *file)
{
    struct archive_entry *entry = archive_entry_new();
    size_t length = file->type == AE_IFREG ? strlen(file->text) : 0;
    archive_entry_set_pathname(entry, file->path);
    archive_entry_set_filetype(entry, file->type == HARD_LINK ? AE_IFREG : file->type);
    archive_entry_set_perm(entry, 0755);
    archive_entry_set_uid(entry, getuid());
    archive_entry_set_gid(entry, getgid());
    archive_entry_set_mtime(entry, 1600000000, 0);
    archive_entry_set_size(entry, (la_int64_t)length);
    if (file->type == AE_IFLNK)
        archive_entry_set_symlink(entry, file->text);
    if (file->type == HARD_LINK)
        archive_entry_set_hardlink(entry, file->text);
    assert_int_equal(archive_write_header(archive, entry), ARCHIVE_OK);
    assert_int_equal(archive_write_data(archive, file->text, length), length);
    archive_entry_free(entry);
}

static int apply_with(const struct file *files, struct layer_budget budget, struct error *err)
{
    cleanup_free char *path = home_path("layer.tar");
    struct archive *archive = archive_write_new();
    archive_write_set_format_pax_restricted(archive);
    assert_int_equal(archive_write_open_filename(archive, path), ARCHIVE_OK);
    for (; files->type; files++)
        add_entry(archive, files);
    archive_write_close(archive);
    archive_write_free(archive);
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    return layer_apply(&tree, fd, &budget, err);
}

static int apply(const struct file *files, struct error *err)
{
    return apply_with(files, LAYER_BUDGET, err);
}

static void assert_applied(const struct file *files)
{
    struct error err = {0};
    if (apply(files, &err) < 0)
        fail_msg("%s", err.message);
}

static void assert_text(const char *name, const char *text)
{
    struct error err;
    cleanup_buf struct buf found = {0};
    cleanup_free char *path = xasprintf("%s/%s", root_path, name);
    assert_int_equal(file_read(path, 4096, &found, &err), 0);
    assert_string_equal(buf_text(&found), text);
}

static void assert_gone(const char *name)
{
    struct stat status;
    assert_int_equal(fstatat(root, name, &status, AT_SYMLINK_NOFOLLOW), -1);
    assert_int_equal(errno, ENOENT);
}

static void whiteout_hides_lower_layers_only(void **state)
{
    (void)state;
    assert_applied((struct file[]){{"a", AE_IFREG, "1"}, {"d/b", AE_IFREG, "1"}, {0}});
    assert_applied((struct file[]){{"a", AE_IFREG, "2"},
                                   {".wh.a", AE_IFREG, ""},
                                   {"d/.wh.b", AE_IFREG, ""},
                                   {".wh.nothing", AE_IFREG, ""},
                                   {0}});
    assert_text("a", "2");
    assert_gone("d/b");
    assert_gone(".wh.a");
}

static void whiteout_of_a_folder_keeps_what_the_layer_put_there(void **state)
{
    (void)state;
    assert_applied((struct file[]){{"d/old", AE_IFREG, "1"}, {"d/e/old", AE_IFREG, "1"}, {0}});
    assert_applied((struct file[]){{"d/e/new", AE_IFREG, "2"}, {".wh.d", AE_IFREG, ""}, {0}});
    assert_text("d/e/new", "2");
    assert_gone("d/old");
    assert_gone("d/e/old");
}

static void opaque_folder_hides_all_of_lower_layers(void **state)
{
    (void)state;
    assert_applied((struct file[]){
        {"d/old", AE_IFREG, "1"}, {"d/e/old", AE_IFREG, "1"}, {"d/f/old", AE_IFREG, "1"}, {0}});
    assert_applied((struct file[]){{"d", AE_IFDIR, ""},
                                   {"d/e", AE_IFDIR, ""},
                                   {"d/e/new", AE_IFREG, "2"},
                                   {"d/.wh..wh..opq", AE_IFREG, ""},
                                   {"d/last", AE_IFREG, "2"},
                                   {0}});
    assert_text("d/e/new", "2");
    assert_text("d/last", "2");
    assert_gone("d/old");
    assert_gone("d/e/old");
    assert_gone("d/f");
}

static void kinds_replace_each_other(void **state)
{
    (void)state;
    assert_applied((struct file[]){{"file", AE_IFREG, "1"},
                                   {"folder/x", AE_IFREG, "1"},
                                   {"link", AE_IFLNK, "folder"},
                                   {"other", AE_IFLNK, "folder"},
                                   {0}});
    assert_applied((struct file[]){{"file/y", AE_IFREG, "2"},
                                   {"folder", AE_IFREG, "2"},
                                   {"link", AE_IFDIR, ""},
                                   {"other", AE_IFREG, "2"},
                                   {0}});
    assert_text("file/y", "2");
    assert_text("folder", "2");
    assert_text("other", "2");
    struct stat status;
    assert_int_equal(fstatat(root, "link", &status, AT_SYMLINK_NOFOLLOW), 0);
    assert_true(S_ISDIR(status.st_mode));
}

static void times_of_folders_are_kept(void **state)
{
    struct stat status;
    (void)state;
    assert_applied((struct file[]){{"d", AE_IFDIR, ""}, {"d/x", AE_IFREG, "1"}, {0}});
    assert_int_equal(fstatat(root, "d", &status, 0), 0);
    assert_int_equal(status.st_mtime, 1600000000);
}

static void links_lead_no_further_than_the_root(void **state)
{
    struct error err;
    cleanup_free char *outside = home_path("outside");
    (void)state;
    assert_int_equal(folder_make(outside, 0755, &err), 0);
    cleanup_free char *up = xasprintf("../../../../../../../..%s", outside);
    assert_applied((struct file[]){{"straight", AE_IFLNK, outside},
                                   {"straight/x", AE_IFREG, "1"},
                                   {"up", AE_IFLNK, up},
                                   {"up/x", AE_IFREG, "1"},
                                   {"dots", AE_IFLNK, ".."},
                                   {"dots/y", AE_IFREG, "1"},
                                   {"/abs", AE_IFREG, "1"},
                                   {0}});
    assert_int_equal(rmdir(outside), 0);
    assert_text("y", "1");
    assert_text("abs", "1");
}

static void entries_that_cannot_be_are_refused(void **state)
{
    const struct file refused[][3] = {
        {{"../x", AE_IFREG, ""}, {0}},
        {{"a/../../x", AE_IFREG, ""}, {0}},
        {{"x", HARD_LINK, "../../etc/passwd"}, {0}},
        {{"x", HARD_LINK, "/etc/passwd"}, {0}},
        {{"e", AE_IFLNK, "/etc"}, {"x", HARD_LINK, "e/passwd"}, {0}},
        {{"x", HARD_LINK, "."}, {0}},
        {{".wh.", AE_IFREG, ""}, {0}},
        {{".wh..", AE_IFREG, ""}, {0}},
        {{".wh...", AE_IFREG, ""}, {0}},
        {{".", AE_IFLNK, "/"}, {0}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++) {
        struct error err;
        assert_refused(apply(refused[i], &err), ERROR_INVALID);
        assert_gone("x");
    }
}

static void budgets_are_kept(void **state)
{
    struct error err;
    const struct file files[] = {{"a", AE_IFREG, "12345"}, {"b", AE_IFREG, "12345"}, {0}};
    (void)state;
    assert_refused(apply_with(files, (struct layer_budget){.bytes = 9, .entries = 9}, &err),
                   ERROR_LIMIT);
    assert_refused(apply_with(files, (struct layer_budget){.bytes = 99, .entries = 1}, &err),
                   ERROR_LIMIT);
    assert_int_equal(apply_with(files, (struct layer_budget){.bytes = 10, .entries = 2}, &err), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, open_root, close_root)
    const struct CMUnitTest tests[] = {
        TEST(whiteout_hides_lower_layers_only),
        TEST(whiteout_of_a_folder_keeps_what_the_layer_put_there),
        TEST(opaque_folder_hides_all_of_lower_layers),
        TEST(kinds_replace_each_other),
        TEST(times_of_folders_are_kept),
        TEST(links_lead_no_further_than_the_root),
        TEST(entries_that_cannot_be_are_refused),
        TEST(budgets_are_kept),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
