/* All methods: what runs them, what they take and what they give. The types are checked before a
 * method runs; rpc.discover shows the table to clients. */
#include "server/rpc.h"

static const struct rpc_param config_members[] = {
    {"image", RPC_TEXT, false, "the image, such as microsandbox/python; a new sandbox needs it",
     NULL},
    {"snapshot", RPC_TEXT, false, "a snapshot to start from, and nothing else", NULL},
    {"engine", RPC_TEXT, false, "what isolates it: vm or jail, if the server allows it", NULL},
    {"memory", RPC_NUMBER, false, "MB of memory (1024)", NULL},
    {"cpus", RPC_NUMBER, false, "processors (1)", NULL},
    {"cpu_limit", RPC_NUMBER, false, "percent of one processor of the host at most", NULL},
    {"disk", RPC_NUMBER, false, "MB of disk (8192)", NULL},
    {"processes", RPC_NUMBER, false, "processes and threads at once (1024)", NULL},
    {"open_files", RPC_NUMBER, false, "open files of each process (65536)", NULL},
    {"output_limit", RPC_NUMBER, false, "bytes of output of a call that says nothing itself", NULL},
    {"idle_timeout", RPC_NUMBER, false, "seconds without a call after which it ends", NULL},
    {"lifetime", RPC_NUMBER, false, "seconds after which it ends", NULL},
    {"envs", RPC_TEXTS, false, "environment, as NAME=value", NULL},
    {"ports", RPC_TEXTS, false, "ports of 127.0.0.1 that lead inside, as HOST:GUEST", NULL},
    {"volumes", RPC_TEXTS, false, "folders of the server that it allows, as HOST:GUEST[:ro]", NULL},
    {"network", RPC_TEXT, false, "where it may connect to: none, public, or names with commas",
     NULL},
    {"workdir", RPC_TEXT, false, "the folder that commands and code start in", NULL},
    {"user", RPC_TEXT, false, "who runs commands", NULL},
    {0},
};

static const struct rpc_param start_params[] = {
    {"config", RPC_OBJECT, false, "what the sandbox is to be", config_members},
    {0},
};

static const struct rpc_param fork_params[] = {
    {"name", RPC_TEXT, true, "the name of the copy", NULL},
    {0},
};

static const struct rpc_param code_params[] = {
    {"language", RPC_TEXT, true, "python, node or javascript, as the image has it", NULL},
    {"code", RPC_TEXT, true, "the code, of any length and shape", NULL},
    {"timeout", RPC_NUMBER, false, "seconds", NULL},
    {"context", RPC_TEXT, false, "a live interpreter other than the first one", NULL},
    {0},
};

static const struct rpc_param command_params[] = {
    {"command", RPC_TEXT, true, "the program", NULL},
    {"args", RPC_TEXTS, false, "its arguments", NULL},
    {"timeout", RPC_NUMBER, false, "seconds", NULL},
    {"cwd", RPC_TEXT, false, "the folder to start in", NULL},
    {0},
};

static const struct rpc_param read_params[] = {
    {"path", RPC_TEXT, true, "the file or folder", NULL},
    {"user", RPC_TEXT, false, "who acts", NULL},
    {"cwd", RPC_TEXT, false, "where a relative path begins", NULL},
    {"offset", RPC_NUMBER, false, "where to begin", NULL},
    {"length", RPC_NUMBER, false, "how many bytes at most", NULL},
    {"encoding", RPC_TEXT, false, "utf-8 or base64", NULL},
    {0},
};

static const struct rpc_param write_params[] = {
    {"path", RPC_TEXT, true, "the file or folder", NULL},
    {"user", RPC_TEXT, false, "who acts", NULL},
    {"cwd", RPC_TEXT, false, "where a relative path begins", NULL},
    {"content", RPC_TEXT, true, "what it is to hold", NULL},
    {"encoding", RPC_TEXT, false, "utf-8 or base64", NULL},
    {"append", RPC_FLAG, false, "keep what it holds already", NULL},
    {"mode", RPC_NUMBER, false, "permissions of a new file, as a number", NULL},
    {0},
};

static const struct rpc_param list_params[] = {
    {"path", RPC_TEXT, true, "the file or folder", NULL},
    {"user", RPC_TEXT, false, "who acts", NULL},
    {"cwd", RPC_TEXT, false, "where a relative path begins", NULL},
    {"depth", RPC_NUMBER, false, "how many folders deep (1)", NULL},
    {0},
};

static const struct rpc_param remove_params[] = {
    {"path", RPC_TEXT, true, "the file or folder", NULL},
    {"user", RPC_TEXT, false, "who acts", NULL},
    {"cwd", RPC_TEXT, false, "where a relative path begins", NULL},
    {"recursive", RPC_FLAG, false, "folders with all they hold", NULL},
    {0},
};

#define SESSION_PARAMS                                                                             \
    {"session_id", RPC_TEXT, false, "the session; a new one without it", NULL},                    \
        {"template", RPC_TEXT, false, "of a new session: python or node", NULL},                   \
        {"image", RPC_TEXT, false, "of a new session, instead of a template's", NULL},             \
        {"language", RPC_TEXT, false, "of the code, when it is not the session's", NULL},          \
        {"flavor", RPC_TEXT, false, "of a new session: small, medium or large", NULL},             \
        {"volumes", RPC_TEXTS, false, "folders the server allows, as HOST:GUEST[:ro]", NULL},      \
        {"session_timeout", RPC_NUMBER, false, "seconds without a call after which it ends",       \
         NULL},                                                                                    \
        {"lifetime", RPC_NUMBER, false, "seconds after which it ends", NULL},                      \
        {"must_exist", RPC_FLAG, false, "an unknown session is an error", NULL},                   \
        {"wait", RPC_FLAG, false, "for a call under way, instead of session_busy", NULL},          \
        {"group", RPC_TEXT, false, "sessions that the limits below count together", NULL},         \
        {"max_sessions", RPC_NUMBER, false, "of the group", NULL},                                 \
        {"max_total_memory_mb", RPC_NUMBER, false, "of the group", NULL},                          \
        {"evict", RPC_FLAG, false, "end the one used longest ago to make room", NULL},             \
        {"timeout", RPC_NUMBER, false, "seconds that the call may take", NULL},                    \
        {"max_output_bytes", RPC_NUMBER, false, "of stdout, and of stderr", NULL},                 \
        {"envs", RPC_TEXTS, false, "environment of the call, as NAME=value", NULL},                \
    {                                                                                              \
        "files", RPC_FLAG, false, "tell which files are new or changed", NULL                      \
    }

static const struct rpc_param session_start_params[] = {SESSION_PARAMS, {0}};

static const struct rpc_param session_code_params[] = {
    {"code", RPC_TEXT, true, "the code, of any length and shape", NULL},
    SESSION_PARAMS,
    {0},
};

static const struct rpc_param session_command_params[] = {
    {"command", RPC_TEXT, true, "the program, or a line for the shell", NULL},
    {"args", RPC_TEXTS, false, "its arguments; without any it is a line for the shell", NULL},
    SESSION_PARAMS,
    {0},
};

static const struct rpc_param session_id_params[] = {
    {"session_id", RPC_TEXT, true, "the session", NULL},
    {0},
};

static const struct rpc_param shutdown_params[] = {
    {"timeout", RPC_NUMBER, false, "seconds that it may take (30)", NULL},
    {0},
};

const struct rpc_method rpc_methods[] = {
    {"sandbox.start", method_start, RPC_ONE, start_params, "Start a sandbox.",
     "a sentence; also when it runs already with that image"},
    {"sandbox.stop", method_stop, RPC_ONE, NULL, "End a sandbox.",
     "a sentence, when the sandbox is gone"},
    {"sandbox.pause", method_pause, RPC_ONE, NULL, "Freeze a sandbox.", "a sentence"},
    {"sandbox.resume", method_resume, RPC_ONE, NULL, "Let a frozen sandbox go on.", "a sentence"},
    {"sandbox.fork", method_fork, RPC_ONE, fork_params, "Copy a running sandbox.",
     "sandbox, namespace, memory: whether what ran came along"},
    {"sandbox.list", method_list, RPC_MANY, NULL, "List running sandboxes.",
     "sandboxes: namespace, name, state, image, engine, cpus, memory_mb and more"},
    {"sandbox.metrics.get", method_metrics, RPC_MANY, NULL, "Tell what sandboxes use.",
     "sandboxes: namespace, name, running, cpu_usage (percent), memory_usage (MB), disk_usage "
     "(bytes), engine"},
    {"sandbox.repl.run", method_repl_run, RPC_ONE, code_params, "Run code in a live interpreter.",
     "status, output, results, error, verdict"},
    {"sandbox.repl.stream", method_repl_stream, RPC_ONE, code_params,
     "Run code and tell what it prints as it prints it.", "server-sent events"},
    {"sandbox.command.run", method_command_run, RPC_ONE, command_params, "Run a command.",
     "exit_code, success, output, verdict"},
    {"sandbox.file.read", method_file_read, RPC_ONE, read_params, "Read a file.",
     "content, encoding, size"},
    {"sandbox.file.write", method_file_write, RPC_ONE, write_params,
     "Write a file; folders on the way are made.", "success"},
    {"sandbox.file.list", method_file_list, RPC_ONE, list_params, "List a folder.", "entries"},
    {"sandbox.file.remove", method_file_remove, RPC_ONE, remove_params, "Remove a file or folder.",
     "success"},
    {"session.start", method_session_start, RPC_SPACE, session_start_params,
     "Make a session, or find it.", "session_id, session_created"},
    {"session.run_code", method_session_run_code, RPC_SPACE, session_code_params,
     "Run code in a session, which is made if need be.",
     "session_id, stdout, stderr, success, exit_code, execution_time_ms, results"},
    {"session.run_command", method_session_run_command, RPC_SPACE, session_command_params,
     "Run a command in a session, which is made if need be.",
     "session_id, stdout, stderr, success, exit_code, execution_time_ms"},
    {"session.stop", method_session_stop, RPC_SPACE, session_id_params, "End a session.",
     "success, when its sandbox is gone"},
    {"session.get", method_session_get, RPC_SPACE, session_id_params, "Describe a session.",
     "session_id, template, flavor, status, created_at, last_accessed and more"},
    {"session.touch", method_session_touch, RPC_SPACE, session_id_params,
     "Count as a call for the idle time of a session.", "success"},
    {"session.list", method_session_list, RPC_SPACES, NULL, "List sessions.", "sessions"},
    {"session.statistics", method_session_statistics, RPC_SPACES, NULL, "Count sessions.",
     "active_sessions, max_sessions, sessions_by_flavor, total_memory_mb, total_cpus and more"},
    {"session.volumes", method_session_volumes, RPC_SPACES, NULL,
     "List the folders that all sessions share.", "volumes: host_path, container_path"},
    {"session.tasks.pause", method_tasks_pause, RPC_ALL, NULL, "Pause the background tasks.",
     "tasks_paused, status"},
    {"session.tasks.resume", method_tasks_resume, RPC_ALL, NULL, "Resume the background tasks.",
     "tasks_resumed, status"},
    {"session.tasks.restart", method_tasks_restart, RPC_ALL, NULL,
     "Begin the background tasks anew.", "actions_taken, status"},
    {"session.tasks.status", method_tasks_status, RPC_ALL, NULL, "Describe the background tasks.",
     "components, overall_status"},
    {"session.tasks.health", method_tasks_health, RPC_ALL, NULL, "Tell whether all is well.",
     "status, components"},
    {"session.orphans.clean", method_orphans_clean, RPC_ALL, NULL,
     "End sandboxes of sessions that are no more.", "cleaned"},
    {"session.shutdown", method_session_shutdown, RPC_ALL, shutdown_params, "End all sessions.",
     "components_stopped, errors, duration_seconds"},
    {"rpc.discover", method_discover, RPC_NONE, NULL, "Describe all methods.",
     "an OpenRPC document"},
    {0},
};
_Static_assert(sizeof rpc_methods / sizeof rpc_methods[0] <= FIGURES_METHODS, "room to count them");
