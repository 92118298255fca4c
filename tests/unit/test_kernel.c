/* Unwrapping kernels, picking modules, the kernel store; no network. */
#include <archive.h>
#include <archive_entry.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "engine/vm/kernel.h"
#include "engine/vm/kernel_modules.h"
#include "engine/vm/kernel_package.h"
#include "engine/vm/kernel_unwrap.h"
#include "refusal.h"
#include "temporary_home.h"

#define KERNEL_SIZE 200000
#define SETUP_END (2 * 512)

static int empty_home(void **state)
{
    struct error err;
    (void)state;
    return folder_remove(home_folder(), &err) || folder_make(home_folder(), 0700, &err);
}

static void write_file(const char *path, const void *bytes, size_t size)
{
    struct error err;
    cleanup_free char *folder = xstrdup(path);
    *strrchr(folder, '/') = '\0';
    assert_int_equal(folder_make(folder, 0700, &err), 0);
    assert_int_equal(file_write_atomic(path, bytes, size, 0600, &err), 0);
}

static void write_text(const char *path, const char *text)
{
    write_file(path, text, strlen(text));
}

/* Looks like an ELF file from outside, and does not compress to nothing. */
static void make_kernel(uint8_t *kernel)
{
    for (size_t i = 0; i < KERNEL_SIZE; i++)
        kernel[i] = (uint8_t)(i * i >> 7);
    memcpy(kernel, "\177ELF", 4);
}

typedef int add_filter(struct archive *);

static size_t compress_bytes(add_filter *filter, const void *bytes, size_t size, uint8_t *out,
                             size_t capacity)
{
    size_t used = 0;
    struct archive *writer = archive_write_new();
    struct archive_entry *entry = archive_entry_new();
    archive_write_set_format_raw(writer);
    filter(writer);
    archive_write_set_bytes_per_block(writer, 0);
    archive_write_open_memory(writer, out, capacity, &used);
    archive_entry_set_filetype(entry, AE_IFREG);
    archive_write_header(writer, entry);
    assert_int_equal(archive_write_data(writer, bytes, size), (int)size);
    archive_write_close(writer);
    archive_entry_free(entry);
    archive_write_free(writer);
    return used;
}

static void put_little_endian(uint8_t *at, uint32_t value, int count)
{
    for (int i = 0; i < count; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* The fields of a bzImage with one setup sector and the payload right behind. */
static void put_header(uint8_t *image, uint32_t payload_length)
{
    memset(image, 0, SETUP_END);
    image[0x1f1] = 1;
    put_little_endian(image + 0x1fe, 0xaa55, 2);
    memcpy(image + 0x202, "HdrS", 4);
    put_little_endian(image + 0x206, 0x20f, 2);
    put_little_endian(image + 0x248, 0, 4);
    put_little_endian(image + 0x24c, payload_length, 4);
}

static size_t make_bzimage(add_filter *filter, bool trailer, uint8_t *image, size_t capacity)
{
    cleanup_free uint8_t *kernel = xmalloc(KERNEL_SIZE);
    make_kernel(kernel);
    size_t packed =
        compress_bytes(filter, kernel, KERNEL_SIZE, image + SETUP_END, capacity - SETUP_END - 4);
    if (trailer) {
        put_little_endian(image + SETUP_END + packed, KERNEL_SIZE, 4);
        packed += 4;
    }
    put_header(image, (uint32_t)packed);
    return SETUP_END + packed;
}

static void assert_unwraps(add_filter *filter, bool trailer)
{
    struct error err;
    const size_t capacity = 2 * KERNEL_SIZE;
    cleanup_free uint8_t *image = xmalloc(capacity);
    cleanup_free uint8_t *kernel = xmalloc(KERNEL_SIZE);
    cleanup_free char *from = home_path("bzImage");
    cleanup_free char *to = home_path("vmlinux");
    cleanup_buf struct buf result = {0};
    make_kernel(kernel);
    write_file(from, image, make_bzimage(filter, trailer, image, capacity));
    assert_int_equal(kernel_unwrap(from, to, &err), 0);
    assert_int_equal(file_read(to, capacity, &result, &err), 0);
    assert_int_equal(buf_length(&result), KERNEL_SIZE);
    assert_memory_equal(buf_data(&result), kernel, KERNEL_SIZE);
}

static void bzimage_of_every_compression_unwraps(void **state)
{
    (void)state;
    assert_unwraps(archive_write_add_filter_gzip, false);
    assert_unwraps(archive_write_add_filter_xz, true);
    assert_unwraps(archive_write_add_filter_lz4, true);
    assert_unwraps(archive_write_add_filter_zstd, true);
    assert_unwraps(archive_write_add_filter_bzip2, true);
}

/* The form of lz4 that kernels use: a magic, then blocks with their size in front. */
static int store_as_legacy_lz4(const uint8_t *kernel, uint8_t *out, uint32_t size)
{
    uint32_t left = size - 15, at = 0;
    put_little_endian(out, 0x184c2102, 4);
    out[8 + at++] = 0xf0;
    for (; left >= 255; left -= 255)
        out[8 + at++] = 255;
    out[8 + at++] = (uint8_t)left;
    memcpy(out + 8 + at, kernel, size);
    put_little_endian(out + 4, at + size, 4);
    return (int)(8 + at + size);
}

static void bzimage_with_legacy_lz4_unwraps(void **state)
{
    struct error err;
    cleanup_free uint8_t *kernel = xmalloc(KERNEL_SIZE);
    cleanup_free uint8_t *image = xmalloc(2 * KERNEL_SIZE);
    cleanup_free char *from = home_path("bzImage");
    cleanup_free char *to = home_path("vmlinux");
    cleanup_buf struct buf result = {0};
    (void)state;
    make_kernel(kernel);
    uint32_t packed = (uint32_t)store_as_legacy_lz4(kernel, image + SETUP_END, KERNEL_SIZE);
    put_little_endian(image + SETUP_END + packed, KERNEL_SIZE, 4);
    put_header(image, packed + 4);
    write_file(from, image, SETUP_END + packed + 4);
    assert_int_equal(kernel_unwrap(from, to, &err), 0);
    assert_int_equal(file_read(to, KERNEL_SIZE, &result, &err), 0);
    assert_memory_equal(buf_data(&result), kernel, KERNEL_SIZE);
}

static void hostile_header_is_refused(void **state)
{
    static const struct {
        size_t at;
        uint32_t value;
        int count;
    } changes[] = {
        {0x1fe, 0, 2},          {0x202, 0, 4},          {0x206, 0x207, 2},
        {0x248, 0xffffffff, 4}, {0x24c, 0xffffffff, 4}, {0x24c, 0, 4},
        {0x24c, 7, 4},          {0x248, 17, 4},         {0x1f1, 255, 1},
    };
    struct bzimage_payload payload;
    struct error err;
    uint8_t image[SETUP_END + 16] = {0};
    (void)state;
    put_header(image, 16);
    assert_int_equal(bzimage_locate(image, sizeof image, &payload, &err), 0);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        put_header(image, 16);
        put_little_endian(image + changes[i].at, changes[i].value, changes[i].count);
        assert_refused(bzimage_locate(image, sizeof image, &payload, &err), ERROR_INVALID);
    }
}

static void header_cut_anywhere_is_refused(void **state)
{
    struct bzimage_payload payload;
    struct error err;
    uint8_t image[SETUP_END + 16] = {0};
    (void)state;
    put_header(image, 16);
    for (size_t size = 0; size < sizeof image; size++) {
        cleanup_free uint8_t *exact = xmalloc(size);
        memcpy(exact, image, size);
        assert_refused(bzimage_locate(exact, size, &payload, &err), ERROR_INVALID);
    }
}

static void payload_that_lies_about_its_size_is_refused(void **state)
{
    struct error err;
    const size_t capacity = 2 * KERNEL_SIZE;
    cleanup_free uint8_t *image = xmalloc(capacity);
    cleanup_free char *from = home_path("bzImage");
    cleanup_free char *to = home_path("vmlinux");
    static const uint32_t lies[] = {0, KERNEL_SIZE - 1, KERNEL_SIZE + 1, 0xffffffff};
    (void)state;
    size_t size = make_bzimage(archive_write_add_filter_xz, true, image, capacity);
    for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
        put_little_endian(image + size - 4, lies[i], 4);
        write_file(from, image, size);
        assert_true(kernel_unwrap(from, to, &err) < 0);
        assert_false(file_exists(to));
    }
}

static void payload_that_is_no_kernel_is_refused(void **state)
{
    struct error err;
    uint8_t image[4096];
    static const uint8_t zeros[1000];
    cleanup_free char *from = home_path("bzImage");
    cleanup_free char *to = home_path("vmlinux");
    (void)state;
    size_t packed = compress_bytes(archive_write_add_filter_gzip, zeros, sizeof zeros,
                                   image + SETUP_END, sizeof image - SETUP_END);
    put_header(image, (uint32_t)packed);
    write_file(from, image, SETUP_END + packed);
    assert_refused(kernel_unwrap(from, to, &err), ERROR_INVALID);
    assert_false(file_exists(to));
    write_text(from, "#!/bin/sh\n");
    assert_refused(kernel_unwrap(from, to, &err), ERROR_INVALID);
}

static void assert_depends(const void *bytes, size_t size, const char *expected)
{
    struct error err;
    cleanup_strv char **names = NULL;
    cleanup_buf struct buf joined = {0};
    cleanup_free uint8_t *exact = xmalloc(size);
    memcpy(exact, bytes, size);
    assert_int_equal(modules_read_depends(exact, size, &names, &err), 0);
    for (size_t i = 0; names && names[i]; i++)
        buf_printf(&joined, "%s ", names[i]);
    assert_string_equal(buf_text(&joined), expected);
}

static void modinfo_depends_are_read(void **state)
{
    static const char two[] = "xx\0license=GPL\0depends=jbd2,crc-16\0name=ext4";
    static const char none[] = "\0depends=\0name=x";
    static const char inside[] = "\0description=it depends=nothing\0";
    static const char unended[] = "\0depends=virtio";
    (void)state;
    assert_depends(two, sizeof two, "jbd2 crc_16 ");
    assert_depends(none, sizeof none, "");
    assert_depends(inside, sizeof inside, "");
    assert_depends(unended, sizeof unended - 1, "virtio ");
    assert_depends("", 0, "");
}

static void modinfo_with_paths_for_names_is_refused(void **state)
{
    static const char hostile[] = "\0depends=../../etc/passwd\0";
    struct error err;
    char **names = NULL;
    (void)state;
    assert_refused(modules_read_depends((const uint8_t *)hostile, sizeof hostile, &names, &err),
                   ERROR_INVALID);
    assert_null(names);
}

static void module_names_come_from_file_names(void **state)
{
    cleanup_free char *plain = modules_name_of("virtio.ko");
    cleanup_free char *packed = modules_name_of("crc32c-intel.ko.xz");
    (void)state;
    assert_string_equal(plain, "virtio");
    assert_string_equal(packed, "crc32c_intel");
    assert_null(modules_name_of("virtio.kov"));
    assert_null(modules_name_of(".ko"));
    assert_null(modules_name_of("modules.order"));
    assert_null(modules_name_of("a b.ko"));
}

/* All that a machine wants, in a package where some are built in and one is compressed. */
static void make_package(const char *package)
{
    static const struct {
        const char *name;
        const char *depends;
    } modules[] = {
        {"virtio", ""},
        {"virtio_ring", ""},
        {"virtio_mmio", "virtio"},
        {"virtio_blk", "virtio"},
        {"overlay", ""},
        {"ext4", "jbd2"},
        {"jbd2", ""},
        {"9p", "9pnet"},
        {"9pnet", ""},
        {"9pnet_virtio", "9pnet,virtio_ring,virtio"},
        {"unwanted", ""},
    };
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++) {
        cleanup_free char *path = xasprintf("%s/%s.ko", package, modules[i].name);
        cleanup_buf struct buf bytes = {0};
        buf_append(&bytes, "\177ELF\0depends=", 13);
        buf_append(&bytes, modules[i].depends, strlen(modules[i].depends) + 1);
        write_file(path, buf_data(&bytes), buf_length(&bytes));
    }
    static const char console[] = "\177ELF\0depends=virtio";
    uint8_t packed[1024];
    size_t size =
        compress_bytes(archive_write_add_filter_xz, console, sizeof console, packed, sizeof packed);
    cleanup_free char *path = xasprintf("%s/virtio_console.ko.xz", package);
    cleanup_free char *builtin = xasprintf("%s/modules.builtin", package);
    write_file(path, packed, size);
    write_text(builtin, "kernel/fs/erofs/erofs.ko\nkernel/lib/x.ko\n");
}

static void modules_are_ordered_by_dependency(void **state)
{
    struct error err;
    cleanup_free char *package = home_path("package");
    cleanup_free char *modules = home_path("modules");
    cleanup_free char *order = home_path("modules/order");
    cleanup_free char *unpacked = home_path("modules/virtio_console.ko");
    cleanup_buf struct buf text = {0};
    cleanup_buf struct buf module = {0};
    (void)state;
    make_package(package);
    assert_int_equal(modules_pick(package, modules, &err), 0);
    assert_int_equal(file_read(order, 4096, &text, &err), 0);
    assert_string_equal(buf_text(&text),
                        "virtio.ko\nvirtio_ring.ko\nvirtio_mmio.ko\nvirtio_blk.ko\n"
                        "virtio_console.ko\njbd2.ko\next4.ko\noverlay.ko\n9pnet.ko\n9p.ko\n"
                        "9pnet_virtio.ko\n");
    assert_int_equal(file_read(unpacked, 4096, &module, &err), 0);
    assert_memory_equal(buf_data(&module), "\177ELF", 4);
}

static void missing_module_is_named(void **state)
{
    struct error err;
    cleanup_free char *package = home_path("package");
    cleanup_free char *modules = home_path("modules");
    cleanup_free char *jbd2 = home_path("package/jbd2.ko");
    (void)state;
    make_package(package);
    assert_int_equal(unlink(jbd2), 0);
    assert_refused(modules_pick(package, modules, &err), ERROR_MISSING);
    assert_non_null(strstr(err.message, "jbd2"));
}

static void modules_that_depend_on_each_other_end(void **state)
{
    static const char circle[] = "\177ELF\0depends=ext4";
    struct error err;
    cleanup_free char *package = home_path("package");
    cleanup_free char *modules = home_path("modules");
    cleanup_free char *jbd2 = home_path("package/jbd2.ko");
    (void)state;
    make_package(package);
    write_file(jbd2, circle, sizeof circle);
    assert_refused(modules_pick(package, modules, &err), ERROR_INVALID);
}

static void package_version_is_parsed(void **state)
{
    cleanup_strv char **versions =
        kernel_package_parse("Package: linux-image-amd64\nProvides: linux-image-generic\n"
                             "Depends: linux-image-6.1.0-54-amd64 (= 6.1.190-1)\nDescription: x\n\n"
                             "Package: linux-image-6.12-amd64\n"
                             "Depends: linux-image-6.12.117+deb12-amd64 (= 6.12.117-1~deb12u1)\n");
    (void)state;
    assert_string_equal(versions[0], "6.12.117+deb12-amd64");
    assert_string_equal(versions[1], "6.1.0-54-amd64");
    assert_null(versions[2]);
    assert_null(kernel_package_parse(""));
    assert_null(kernel_package_parse("Depends: libc6\nReplaces: linux-image-1\n"));
    assert_null(kernel_package_parse("Depends: linux-image-../../x\n"));
    assert_null(kernel_package_parse("Depends: linux-image-\n"));
}

static void metapackages_are_told_from_others(void **state)
{
    (void)state;
    assert_true(kernel_package_is_meta("linux-image-amd64", "amd64"));
    assert_true(kernel_package_is_meta("linux-image-6.12-amd64", "amd64"));
    assert_false(kernel_package_is_meta("linux-image-6.1.0-54-amd64", "amd64"));
    assert_false(kernel_package_is_meta("linux-image-6.12.117+deb12-amd64", "amd64"));
    assert_false(kernel_package_is_meta("linux-image-cloud-amd64", "amd64"));
    assert_false(kernel_package_is_meta("linux-image-rt-amd64", "amd64"));
    assert_false(kernel_package_is_meta("linux-image-amd64-dbg", "amd64"));
    assert_false(kernel_package_is_meta("linux-image-arm64", "amd64"));
}

static void store_kernel(const char *version, const char *verdict)
{
    cleanup_free char *vmlinux = home_path("kernels/%s/vmlinux", version);
    cleanup_free char *judged = home_path("kernels/%s/verdict", version);
    write_text(vmlinux, "x");
    if (verdict)
        write_text(judged, verdict);
}

static void kernel_is_used_once_it_has_passed_its_trial(void **state)
{
    struct error err;
    struct kernel kernel;
    (void)state;
    store_kernel("6.1.0-54-amd64", "");
    store_kernel("6.1.0-55-amd64", "it crashed");
    store_kernel("6.1.0-56-amd64", NULL);
    assert_int_equal(kernel_find(NULL, &kernel, &err), 0);
    assert_string_equal(kernel.version, "6.1.0-54-amd64");
    kernel_release(&kernel);
    assert_int_equal(kernel_ensure(NULL, &kernel, &err), 0);
    assert_string_equal(kernel.version, "6.1.0-56-amd64");
    assert_false(kernel.is_tried);
    assert_int_equal(kernel_judge(&kernel, NULL, &err), 0);
    kernel_release(&kernel);
    assert_int_equal(kernel_find(NULL, &kernel, &err), 0);
    assert_string_equal(kernel.version, "6.1.0-56-amd64");
    assert_true(kernel.is_tried);
    kernel_release(&kernel);
}

static void kernel_that_failed_its_trial_is_passed_over_and_named(void **state)
{
    struct error err;
    struct kernel kernel;
    (void)state;
    store_kernel("6.1.0-54-amd64", "");
    store_kernel("6.1.0-55-amd64", NULL);
    assert_int_equal(kernel_ensure(NULL, &kernel, &err), 0);
    assert_int_equal(kernel_judge(&kernel, "it crashed", &err), 0);
    kernel_release(&kernel);
    assert_int_equal(kernel_ensure(NULL, &kernel, &err), 0);
    assert_string_equal(kernel.version, "6.1.0-54-amd64");
    kernel_release(&kernel);
    cleanup_strv char **failures = kernel_failures();
    assert_string_equal(failures[0], "6.1.0-55-amd64: it crashed");
    assert_null(failures[1]);
}

static void newest_version_in_the_store_is_found(void **state)
{
    static const char *const versions[] = {"6.1.0-9-amd64", "6.1.0-54-amd64", "6.1.0-50-amd64",
                                           "custom-ffffffffffff", ".9"};
    struct error err;
    struct kernel kernel;
    (void)state;
    assert_refused(kernel_find(NULL, &kernel, &err), ERROR_NOT_FOUND);
    assert_true(strlen(err.hint) > 0);
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++)
        store_kernel(versions[i], "");
    cleanup_free char *unfinished = home_path("kernels/9.9/modules/order");
    write_text(unfinished, "");
    assert_int_equal(kernel_find(NULL, &kernel, &err), 0);
    assert_string_equal(kernel.version, "6.1.0-54-amd64");
    assert_null(kernel.modules);
    kernel_release(&kernel);
}

static void chosen_elf_is_used_in_place(void **state)
{
    struct error err;
    struct kernel kernel;
    uint8_t elf[64] = "\177ELF";
    cleanup_free char *path = home_path("mine/vmlinux");
    cleanup_free char *order = home_path("mine/modules/order");
    (void)state;
    write_file(path, elf, sizeof elf);
    assert_int_equal(kernel_ensure(path, &kernel, &err), 0);
    assert_string_equal(kernel.vmlinux, path);
    assert_int_equal(strncmp(kernel.version, "custom-", 7), 0);
    assert_null(kernel.modules);
    kernel_release(&kernel);
    write_text(order, "");
    assert_int_equal(kernel_find(path, &kernel, &err), 0);
    assert_non_null(kernel.modules);
    kernel_release(&kernel);
}

static void chosen_bzimage_is_unwrapped_once(void **state)
{
    struct error err;
    struct kernel kernel;
    const size_t capacity = 2 * KERNEL_SIZE;
    cleanup_free uint8_t *image = xmalloc(capacity);
    cleanup_free char *path = home_path("mine/vmlinuz");
    (void)state;
    write_file(path, image, make_bzimage(archive_write_add_filter_xz, true, image, capacity));
    assert_refused(kernel_find(path, &kernel, &err), ERROR_NOT_FOUND);
    assert_int_equal(kernel_ensure(path, &kernel, &err), 0);
    assert_true(kernel_is_bootable(kernel.vmlinux));
    kernel_release(&kernel);
    assert_int_equal(kernel_find(path, &kernel, &err), 0);
    kernel_release(&kernel);
}

static void chosen_file_that_is_no_kernel_is_refused(void **state)
{
    struct error err;
    struct kernel kernel;
    cleanup_free char *path = home_path("text");
    (void)state;
    assert_refused(kernel_ensure(path, &kernel, &err), ERROR_NOT_FOUND);
    assert_refused(kernel_ensure(home_folder(), &kernel, &err), ERROR_INVALID);
    write_text(path, "not a kernel");
    assert_refused(kernel_ensure(path, &kernel, &err), ERROR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(bzimage_of_every_compression_unwraps, empty_home),
        cmocka_unit_test_setup(bzimage_with_legacy_lz4_unwraps, empty_home),
        cmocka_unit_test(hostile_header_is_refused),
        cmocka_unit_test(header_cut_anywhere_is_refused),
        cmocka_unit_test_setup(payload_that_lies_about_its_size_is_refused, empty_home),
        cmocka_unit_test_setup(payload_that_is_no_kernel_is_refused, empty_home),
        cmocka_unit_test(modinfo_depends_are_read),
        cmocka_unit_test(modinfo_with_paths_for_names_is_refused),
        cmocka_unit_test(module_names_come_from_file_names),
        cmocka_unit_test_setup(modules_are_ordered_by_dependency, empty_home),
        cmocka_unit_test_setup(missing_module_is_named, empty_home),
        cmocka_unit_test_setup(modules_that_depend_on_each_other_end, empty_home),
        cmocka_unit_test(package_version_is_parsed),
        cmocka_unit_test(metapackages_are_told_from_others),
        cmocka_unit_test_setup(kernel_is_used_once_it_has_passed_its_trial, empty_home),
        cmocka_unit_test_setup(kernel_that_failed_its_trial_is_passed_over_and_named, empty_home),
        cmocka_unit_test_setup(newest_version_in_the_store_is_found, empty_home),
        cmocka_unit_test_setup(chosen_elf_is_used_in_place, empty_home),
        cmocka_unit_test_setup(chosen_bzimage_is_unwrapped_once, empty_home),
        cmocka_unit_test_setup(chosen_file_that_is_no_kernel_is_refused, empty_home),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
