#include "engine/agent_program.h"

#include "base/embed.h"

EMBED(agent_binary, "msb-agent");

const uint8_t *agent_program(size_t *size)
{
    *size = EMBED_SIZE(agent_binary);
    return agent_binary_begin;
}
