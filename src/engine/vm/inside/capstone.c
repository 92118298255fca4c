/*
 * Loaded into QEMU in the place of libcapstone, which takes instructions apart for people to read:
 * its tables are full of addresses, so every process that loads it gets 1.4 MiB of its own. QEMU
 * takes a failing cs_open as an instruction set that is not known.
 */
#define UNKNOWN_INSTRUCTION_SET 2

int cs_open(void);
int cs_option(void);
int cs_close(void);
void *cs_malloc(void);
_Bool cs_disasm_iter(void);

int cs_open(void)
{
    return UNKNOWN_INSTRUCTION_SET;
}

int cs_option(void)
{
    return UNKNOWN_INSTRUCTION_SET;
}

int cs_close(void)
{
    return 0;
}

void *cs_malloc(void)
{
    return (void *)0;
}

_Bool cs_disasm_iter(void)
{
    return 0;
}

/*
 * This one is of another library. QEMU makes an empty device tree with room for 1 MiB, in memory
 * that is zero already; the real fdt_create writes zeroes to all of it once more. Callers extend
 * the finished tree to its full size.
 */
#define EMPTY_TREE 4096

int fdt_create_with_flags(void *tree, int size, unsigned flags) __attribute__((weak));
int fdt_create(void *tree, int size);

int fdt_create(void *tree, int size)
{
    return fdt_create_with_flags(tree, size < EMPTY_TREE ? size : EMPTY_TREE, 0);
}
