#include "cli/commands.h"

/* clang-format off */
const struct command *const commands[] = {
    /* projects */
    &init_command, &add_command, &remove_command, &list_command,
    &up_command, &down_command, &apply_command, &status_command,
    &run_command, &shell_command, &log_command, &clean_command,
    &install_command, &uninstall_command,
    /* sandboxes */
    &exe_command, &exec_command, &ps_command, &stop_command,
    &contexts_command, &metrics_command, &packages_command,
    /* the host */
    &prepare_command, &doctor_command, &completion_command, &version_command,
    &server_start_command, &server_stop_command, &server_status_command, &server_keygen_command,
    NULL,
};
/* clang-format on */

const char overview_text[] =
    "Runs code that nobody trusts, in machines of its own that start in an instant.\n";

const char environment_text[] =
    "MSB_HOME    where kernels, images, templates and sandboxes are kept\n"
    "            (~/.microsandbox)\n"
    "MSB_ENGINE  vm or jail: what isolates sandboxes (vm)\n"
    "MSB_KERNEL  a kernel to use instead of Debian's\n"
    "MSB_QEMU    a QEMU to use instead of the one in PATH\n"
    "MSB_LOG     error, warn, info or debug: how much is told on stderr (warn)\n"
    "NO_COLOR    anything: no colours, also on terminals\n";
