#include "engine/vm/kernel_trial.h"

#include "base/home.h"
#include "base/mem.h"
#include "base/progress.h"
#include "engine/vm/first_boot.h"

#define MEMORY_MB 256
#define DISK_MB 128

int kernel_trial(const struct kernel *kernel, const struct machine_spec *spec,
                 const char *accelerator, struct error *err)
{
    cleanup_free char *workspace = NULL;
    int lock = home_workspace(&workspace, err);
    if (lock < 0)
        return lock;
    struct machine_spec small = *spec;
    small.cpus = 1;
    small.memory_mb = MEMORY_MB;
    small.disk_mb = DISK_MB;
    small.files = 0;
    const struct first_boot boot = {.spec = &small,
                                    .kernel = kernel,
                                    .accelerator = accelerator,
                                    .folder = workspace,
                                    .arguments = "--trial"};
    cleanup_fd int memory = -1;
    struct vm_machine *machine = NULL;
    progress_begin("Trying the kernel %s", kernel->version);
    int result = first_boot(&boot, &memory, &machine, err);
    progress_end(result == 0);
    if (result == 0)
        machine_free(&machine->base);
    home_workspace_end(workspace, lock);
    return result;
}
