#include "cli/commands.h"

const struct command *const commands[] = {
    &init_command,
    &add_command,
    &remove_command,
    &list_command,
    &exe_command,
    &exec_command,
    &ps_command,
    &stop_command,
    &contexts_command,
    &metrics_command,
    &packages_command,
    &prepare_command,
    &doctor_command,
    &version_command,
    &server_start_command,
    &server_stop_command,
    &server_status_command,
    &server_keygen_command,
    NULL,
};
