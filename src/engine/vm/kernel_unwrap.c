#include "engine/vm/kernel_unwrap.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cancel.h"
#include "base/file.h"
#include "base/mem.h"
#include "base/progress.h"

/* Fields of the x86 boot protocol (Documentation/arch/x86/boot.rst of the kernel). */
#define SETUP_SECTORS 0x1f1
#define BOOT_FLAG 0x1fe
#define HEADER_MAGIC 0x202
#define PROTOCOL_VERSION 0x206
#define PAYLOAD_OFFSET 0x248
#define PAYLOAD_LENGTH 0x24c
#define HEADER_END 0x250

#define WRAPPED_LIMIT ((size_t)256 << 20)
#define UNPACKED_LIMIT ((uint64_t)1 << 30)

static uint32_t little_endian(const uint8_t *bytes, int count)
{
    uint32_t value = 0;
    for (int i = 0; i < count; i++)
        value |= (uint32_t)bytes[i] << (8 * i);
    return value;
}

int bzimage_locate(const uint8_t *bytes, size_t size, struct bzimage_payload *payload,
                   struct error *err)
{
    if (size < HEADER_END || little_endian(bytes + BOOT_FLAG, 2) != 0xaa55 ||
        memcmp(bytes + HEADER_MAGIC, "HdrS", 4) != 0)
        return error_set(err, ERROR_INVALID, "not a kernel: neither ELF nor bzImage");
    if (little_endian(bytes + PROTOCOL_VERSION, 2) < 0x208)
        return error_set(err, ERROR_INVALID, "the boot protocol of this bzImage is too old");

    size_t sectors = bytes[SETUP_SECTORS] ? bytes[SETUP_SECTORS] : 4;
    size_t offset = (sectors + 1) * 512 + (size_t)little_endian(bytes + PAYLOAD_OFFSET, 4);
    size_t length = little_endian(bytes + PAYLOAD_LENGTH, 4);
    if (length < 8 || offset > size || length > size - offset)
        return error_set(err, ERROR_INVALID, "this bzImage is damaged or cut short");

    /* gzip ends in the unpacked size by itself; after all others the kernel's build adds it. */
    bool gzip = bytes[offset] == 0x1f && bytes[offset + 1] == 0x8b;
    payload->offset = offset;
    payload->unpacked_size = little_endian(bytes + offset + length - 4, 4);
    payload->length = gzip ? length : length - 4;
    return 0;
}

/* Only those of libarchive's filters that are code in the library: others run programs. */
static struct archive *open_compressed(const void *bytes, size_t size)
{
    struct archive *reader = archive_read_new();
    archive_read_support_filter_gzip(reader);
    archive_read_support_filter_xz(reader);
    archive_read_support_filter_lzma(reader);
    archive_read_support_filter_lz4(reader);
    archive_read_support_filter_zstd(reader);
    archive_read_support_filter_bzip2(reader);
    archive_read_support_format_raw(reader);
    archive_read_open_memory(reader, bytes, size);
    return reader;
}

static int copy_unpacked(struct archive *reader, uint64_t limit, int fd, struct error *err)
{
    uint64_t total = 0;
    for (;;) {
        const void *block;
        size_t length;
        la_int64_t offset;
        int status = archive_read_data_block(reader, &block, &length, &offset);
        if (status == ARCHIVE_EOF)
            return 0;
        if (status != ARCHIVE_OK)
            return error_set(err, ERROR_INVALID, "the compressed bytes are damaged: %s",
                             archive_error_string(reader));
        total += length;
        if (total > limit)
            return error_set(err, ERROR_LIMIT, "more than %llu bytes come out",
                             (unsigned long long)limit);
        if (file_write_all(fd, block, length) < 0)
            return error_errno(err, errno, "cannot write");
        if (cancel_requested())
            return cancel_error(err);
        progress_tick();
    }
}

int kernel_decompress(const void *bytes, size_t size, uint64_t limit, const char *to,
                      struct error *err)
{
    cleanup_fd int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (fd < 0)
        return error_errno(err, errno, "cannot create %s", to);
    struct archive *reader = open_compressed(bytes, size);
    struct archive_entry *entry;
    int result;
    if (archive_read_next_header(reader, &entry) == ARCHIVE_OK)
        result = copy_unpacked(reader, limit, fd, err);
    else
        result = error_set(err, ERROR_INVALID, "unknown compression");
    archive_read_free(reader);
    if (result < 0)
        unlink(to);
    return result;
}

static bool has_bootable_magic(const uint8_t *bytes, size_t size)
{
    return (size >= 64 && memcmp(bytes, "\177ELF", 4) == 0) ||
           (size >= 64 && memcmp(bytes + 56, "ARM\x64", 4) == 0);
}

bool kernel_is_bootable(const char *path)
{
    uint8_t head[64];
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd >= 0 && read(fd, head, sizeof head) == sizeof head &&
           has_bootable_magic(head, sizeof head);
}

static int unwrap_bzimage(const struct buf *wrapped, const char *to, struct error *err)
{
    struct bzimage_payload payload;
    int result = bzimage_locate(buf_data(wrapped), buf_length(wrapped), &payload, err);
    if (result < 0)
        return result;
    if (payload.unpacked_size > UNPACKED_LIMIT)
        return error_set(err, ERROR_LIMIT, "this bzImage claims to unpack to %u bytes",
                         payload.unpacked_size);
    result = kernel_decompress(buf_data(wrapped) + payload.offset, payload.length,
                               payload.unpacked_size, to, err);
    if (result < 0)
        return result;
    struct stat status;
    if (stat(to, &status) == 0 && status.st_size == payload.unpacked_size && kernel_is_bootable(to))
        return 0;
    unlink(to);
    return error_set(err, ERROR_INVALID, "what this bzImage holds is not a whole ELF kernel");
}

int kernel_unwrap(const char *from, const char *to, struct error *err)
{
    cleanup_buf struct buf wrapped = {0};
    if (kernel_is_bootable(from))
        return file_copy(from, to, 0644, err);
    int result = file_read(from, WRAPPED_LIMIT, &wrapped, err);
    if (result == 0)
        result = unwrap_bzimage(&wrapped, to, err);
    return result < 0 ? error_wrap(err, "cannot unwrap the kernel %s", from) : 0;
}
