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
    &pause_command, &resume_command, &fork_command, &snapshot_command, &snapshots_command,
    &restore_command, &kept_command, &contexts_command, &metrics_command, &packages_command,
    /* images */
    &prepare_command, &pull_command, &images_command, &rmi_command, &image_inspect_command,
    &image_import_command, &image_export_command, &login_command, &logout_command,
    /* the host */
    &doctor_command, &completion_command, &version_command,
    &server_start_command, &server_stop_command, &server_status_command, &server_log_command,
    &server_keygen_command, &mcp_command,
    NULL,
};

const struct command *const own_commands[] = {&server_launcher_command, &unpack_command, NULL};
/* clang-format on */

const char overview_text[] =
    "Runs code that nobody trusts, in machines of its own that start in an instant.\n";

const char environment_text[] =
    "  MSB_HOME        where kernels, images, templates and sandboxes are kept\n"
    "                  (~/.microsandbox)\n"
    "  MSB_ENGINE      vm or jail: what isolates sandboxes (vm)\n"
    "  MSB_KERNEL      a kernel to use instead of Debian's\n"
    "  MSB_QEMU        a QEMU to use instead of the one in PATH\n"
    "  MSB_INSECURE_REGISTRIES\n"
    "                  HOST:PORT,… of registries without TLS\n"
    "  MSB_LOG_LEVEL   error, warn, info or debug: how much is told (warn; info by the server)\n"
    "  MSB_LOG_FILE    a file for that, instead of stderr\n"
    "  MSB_LOG_FORMAT  json or console (json in files)\n"
    "  NO_COLOR        anything: no colours, also on terminals\n";
