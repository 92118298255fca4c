#include "engine/vm/vm.h"

#include "base/mem.h"
#include "engine/vm/clone.h"
#include "engine/vm/confine.h"
#include "engine/vm/host.h"
#include "engine/vm/save.h"
#include "engine/vm/template.h"

static int vm_start(const struct machine_spec *spec, const char *folder, struct machine **machine,
                    struct error *err)
{
    struct template template;
    int result = spec->from ? vm_saved(spec, &template, err) : template_find(spec, &template, err);
    if (result < 0)
        return result;
    struct vm_machine *clone = NULL;
    result = clone_start(spec, &template, folder, &clone, err);
    if (result == 0)
        *machine = &clone->base;
    template_release(&template);
    return result;
}

/* Said of the second wall; the first one is the same everywhere. */
static char *vm_weaknesses(void)
{
    struct error why;
    cleanup_free char *program = host_qemu();
    if (!program || confine_look(program, &why) != CONFINE_THIN)
        return NULL;
    return xasprintf(
        "around QEMU stand Landlock and a list of system calls, but no namespaces (%s)",
        why.message);
}

const struct engine vm_engine = {
    .name = "vm",
    .saves_memory = true,
    .prepare = template_ensure,
    .settle = template_settle,
    .start = vm_start,
    .weaknesses = vm_weaknesses,
};
