#include "cli/commands.h"

/* clang-format off */
const struct command *const commands[] = {
    /* projects */
    &init_command, &add_command, &remove_command, &list_command,
    &up_command, &down_command, &apply_command, &status_command,
    &run_command, &shell_command, &log_command,
    /* sandboxes */
    &exe_command, &exec_command, &ps_command, &stop_command,
    &contexts_command, &metrics_command, &packages_command,
    /* the host */
    &prepare_command, &doctor_command, &version_command,
    &server_start_command, &server_stop_command, &server_status_command, &server_keygen_command,
    NULL,
};
/* clang-format on */
