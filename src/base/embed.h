/* Puts a file's bytes into the program, so that msb is one file. Paths are searched by -Wa,-I. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define EMBED(name, path)                                                                          \
    __asm__(".pushsection .rodata\n"                                                               \
            ".balign 16\n" #name "_begin:\n"                                                       \
            ".incbin \"" path "\"\n" #name "_end:\n"                                               \
            ".byte 0\n"                                                                            \
            ".balign 8\n" #name "_size:\n"                                                         \
            ".quad " #name "_end - " #name "_begin\n"                                              \
            ".popsection\n");                                                                      \
    extern const uint8_t name##_begin[] __attribute__((visibility("hidden")));                     \
    extern const uint64_t name##_size __attribute__((visibility("hidden")))

#define EMBED_SIZE(name) ((size_t)name##_size)
