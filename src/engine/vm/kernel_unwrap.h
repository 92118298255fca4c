/* Takes the bootable kernel out of its compressed wrapping. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct bzimage_payload {
    size_t offset;
    size_t length;          /* of the compressed bytes alone */
    uint32_t unpacked_size; /* what must come out */
};

/* Where a bzImage keeps the compressed kernel; all of it is inside the `size` bytes. */
int bzimage_locate(const uint8_t *bytes, size_t size, struct bzimage_payload *payload,
                   struct error *err);

/* True when QEMU can load the file as it is: an ELF file, or an uncompressed arm64 kernel. */
bool kernel_is_bootable(const char *path);
/* Writes the bootable kernel that is in the file `from` (bzImage, or bootable already) to `to`. */
int kernel_unwrap(const char *from, const char *to, struct error *err);

/*
 * Unpacks gzip, xz, lzma, lz4, zstd or bzip2 into the new file `to`; ERROR_LIMIT when more than
 * `limit` bytes come out.
 */
int kernel_decompress(const void *bytes, size_t size, uint64_t limit, const char *to,
                      struct error *err);
