#include <stdio.h>

#include "base/cancel.h"
#include "base/mem.h"
#include "cli/command.h"
#include "engine/vm/kernel.h"
#include "image/image.h"
#include "sandbox/launch.h"

static struct {
    unsigned cpus, memory, disk, files;
    const char *kernel, *accelerator, *engine;
    bool update;
} options = {
    .cpus = SANDBOX_DEFAULT_CPUS,
    .memory = SANDBOX_DEFAULT_MEMORY_MB,
    .disk = SANDBOX_DEFAULT_DISK_MB,
};

static int prepare(const char *reference, struct error *err)
{
    struct image image;
    int result = image_ensure(reference, &image, err);
    if (result < 0)
        return result;
    struct sandbox_config config;
    sandbox_config_init(&config);
    const char *kernel = options.kernel ? options.kernel : getenv("MSB_KERNEL");
    config.name = xstrdup("template");
    config.kernel = kernel && kernel[0] ? xstrdup(kernel) : NULL;
    config.accelerator = options.accelerator ? xstrdup(options.accelerator) : NULL;
    sandbox_config_choose_engine(&config, options.engine);
    config.cpus = options.cpus;
    config.memory_mb = options.memory;
    config.disk_mb = options.disk;
    config.files = options.files;
    launch_apply_image(&config, &image);
    result = sandbox_config_check(&config, err);
    if (result == 0)
        result = launch_prepare(&config, err);
    if (result == 0)
        printf("%s is ready: %.0f MB, %s\n", image.reference, (double)image.size / 1e6,
               image.digest);
    sandbox_config_free(&config);
    image_release(&image);
    return result;
}

static int update_kernel(struct error *err)
{
    struct kernel kernel;
    int result = kernel_update(&kernel, err);
    if (result < 0)
        return result;
    printf("kernel %s has been fetched\n", kernel.version);
    kernel_release(&kernel);
    return 0;
}

static int run(const struct arguments *arguments)
{
    static char *both[] = {"microsandbox/python", "microsandbox/node"};
    char **references = arguments->count ? arguments->words : both;
    size_t count = arguments->count ? arguments->count : 2;
    struct error err;
    cancel_install();
    int result = options.update ? update_kernel(&err) : 0;
    for (size_t i = 0; result == 0 && i < count; i++)
        result = prepare(references[i], &err);
    if (result < 0)
        return report_error(&err, cancel_signal() ? 128 + cancel_signal() : EXIT_SANDBOX);
    return 0;
}

static const struct option option_table[] = {
    {'m', "memory", OPTION_MEGABYTE, &options.memory, "MB", "memory of the template (1024)"},
    {0, "cpus", OPTION_COUNT, &options.cpus, "N", "processors of the template (1)"},
    {0, "disk", OPTION_MEGABYTE, &options.disk, "MB", "its disk (8192)"},
    {0, "files", OPTION_COUNT, &options.files, "N", "how many files it holds (one for each 16 KB)"},
    {0, "engine", OPTION_TEXT, &options.engine, "NAME", "vm or jail (vm; MSB_ENGINE)"},
    {0, "kernel", OPTION_TEXT, &options.kernel, "FILE",
     "another kernel than Debian's (MSB_KERNEL)"},
    {0, "accel", OPTION_TEXT, &options.accelerator, "NAME", "kvm or tcg (the best that works)"},
    {0, "update", OPTION_FLAG, &options.update, NULL, "fetch Debian's newest kernel first"},
    {0},
};

const struct command prepare_command = {
    .name = "prepare",
    .summary = "make kernel, image and template ahead of time",
    .usage = "prepare [IMAGE…] [OPTIONS]",
    .description =
        "Fetches the kernel, builds the images and boots the templates from which sandboxes are\n"
        "cloned: all that the first msb exe of an image would do. Without IMAGE: python and node.\n"
        "What exists already is left alone.",
    .examples = "  msb prepare\n"
                "  msb prepare python --memory 2G --cpus 2\n",
    .options = option_table,
    .run = run,
};
