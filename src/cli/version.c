#include <stdio.h>

#include "cli/command.h"
#include "proto/protocol.h"

static struct {
    bool json;
} options;

static int run(const struct arguments *arguments)
{
    (void)arguments;
    if (options.json)
        printf("{\"version\": \"%s\", \"agent_protocol\": %d}\n", MSB_VERSION, PROTOCOL_VERSION);
    else
        printf("msb %s\n", MSB_VERSION);
    return 0;
}

static const struct option option_table[] = {
    {0, "json", OPTION_FLAG, &options.json, NULL, "as JSON"},
    {0},
};

const struct command version_command = {
    .name = "version",
    .summary = "print the version",
    .usage = "version [--json]",
    .description = "Prints the version of msb and, as JSON, of the protocol it speaks with agents.",
    .options = option_table,
    .run = run,
};
