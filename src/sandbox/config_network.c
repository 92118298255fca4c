/* The part of a sandbox's settings that opens ways in and out of it. */
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#include "base/mem.h"
#include "sandbox/config.h"
#include "sandbox/egress_policy.h"

#define PORTS_MAX 64
#define DEFAULT_ADDRESS "127.0.0.1"

/* Reads digits up to `end` and moves behind it. */
static bool read_number(const char **at, char end, unsigned least, uint16_t *number)
{
    unsigned value = 0;
    const char *text = *at;
    for (; isdigit((unsigned char)*text) && value <= UINT16_MAX; text++)
        value = value * 10 + (unsigned)(*text - '0');
    if (text == *at || *text != end || value < least || value > UINT16_MAX)
        return false;
    *number = (uint16_t)value;
    *at = text + (end ? 1 : 0);
    return true;
}

/* Cuts an address off the front; a fresh string, or NULL when there is none that is good. */
static char *read_host_address(const char **text)
{
    struct in6_addr scratch;
    bool bracket = **text == '[';
    const char *end = bracket ? strstr(*text, "]:") : strchr(*text, ':');
    if (!end)
        return NULL;
    const char *start = *text + (bracket ? 1 : 0);
    cleanup_free char *address = xstrndup(start, (size_t)(end - start));
    if (inet_pton(bracket ? AF_INET6 : AF_INET, address, &scratch) != 1)
        return NULL;
    *text = end + (bracket ? 2 : 1);
    return steal_pointer(&address);
}

static bool has_address(const char *text)
{
    const char *colon = strchr(text, ':');
    return text[0] == '[' || (colon && strchr(colon + 1, ':'));
}

int sandbox_config_add_port(struct sandbox_config *config, const char *text, struct error *err)
{
    if (config->port_count >= PORTS_MAX)
        return error_set(err, ERROR_LIMIT, "at most %d ports can be published", PORTS_MAX);
    const char *at = text;
    struct sandbox_port port = {0};
    port.address = has_address(text) ? read_host_address(&at) : xstrdup(DEFAULT_ADDRESS);
    if (!port.address || !read_number(&at, ':', 0, &port.host) ||
        !read_number(&at, '\0', 1, &port.guest)) {
        free(port.address);
        error_set(err, ERROR_INVALID, "the port \"%.100s\" cannot be understood", text);
        return error_hint(err, "write HOST:GUEST, such as 8080:80, or ADDRESS:HOST:GUEST; host "
                               "port 0 stands for any free one");
    }
    config->ports = xrealloc(config->ports, (config->port_count + 1) * sizeof *config->ports);
    config->ports[config->port_count++] = port;
    return 0;
}

static int check_egress(const struct sandbox_config *config, struct error *err)
{
    struct egress_policy policy;
    int result = egress_policy_parse(&policy, config->egress, err);
    egress_policy_free(&policy);
    return result;
}

int sandbox_config_set_egress(struct sandbox_config *config, const char *text, struct error *err)
{
    strv_free(steal_pointer(&config->egress));
    if (strcmp(text, "none") == 0)
        return 0;
    for (const char *at = text;;) {
        size_t length = strcspn(at, ",");
        strv_append(&config->egress, xstrndup(at, length));
        if (at[length] == '\0')
            return check_egress(config, err);
        at += length + 1;
    }
}

void sandbox_config_free_network(struct sandbox_config *config)
{
    for (size_t i = 0; i < config->port_count; i++)
        free(config->ports[i].address);
    free(config->ports);
    strv_free(config->egress);
}

void sandbox_config_network_to_json(const struct sandbox_config *config, json_t *json)
{
    json_t *ports = json_array();
    for (size_t i = 0; i < config->port_count; i++) {
        const struct sandbox_port *port = &config->ports[i];
        json_array_append_new(ports, json_pack("{s:s, s:i, s:i}", "address", port->address, "host",
                                               port->host, "guest", port->guest));
    }
    json_object_set_new(json, "ports", ports);
    json_t *egress = json_array();
    for (size_t i = 0; config->egress && config->egress[i]; i++)
        json_array_append_new(egress, json_string(config->egress[i]));
    if (json_array_size(egress) == 0) {
        json_decref(egress);
        egress = json_string("none");
    }
    json_object_set_new(json, "egress", egress);
}

static int port_from_json(struct sandbox_config *config, const json_t *json, struct error *err)
{
    const char *address = json_string_value(json_object_get(json, "address"));
    bool bracket = address && strchr(address, ':');
    cleanup_free char *text =
        xasprintf("%s%s%s:%lld:%lld", bracket ? "[" : "", address ? address : DEFAULT_ADDRESS,
                  bracket ? "]" : "", json_integer_value(json_object_get(json, "host")),
                  json_integer_value(json_object_get(json, "guest")));
    return sandbox_config_add_port(config, text, err);
}

int sandbox_config_network_from_json(const json_t *json, struct sandbox_config *config,
                                     struct error *err)
{
    const json_t *ports = json_object_get(json, "ports");
    int result = 0;
    for (size_t i = 0; result == 0 && i < json_array_size(ports); i++)
        result = port_from_json(config, json_array_get(ports, i), err);
    const json_t *egress = json_object_get(json, "egress");
    if (result == 0 && json_is_string(egress))
        return sandbox_config_set_egress(config, json_string_value(egress), err);
    for (size_t i = 0; i < json_array_size(egress); i++) {
        const char *entry = json_string_value(json_array_get(egress, i));
        strv_append(&config->egress, xstrdup(entry ? entry : ""));
    }
    return result < 0 ? result : check_egress(config, err);
}
