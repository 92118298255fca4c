#include "sandbox/egress_policy.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <ifaddrs.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define RULES_MAX 256
#define PORT_MAIL 25

/* ---- addresses ----------------------------------------------------------------------------- */

static void map_v4(struct in6_addr *out, const struct in_addr *address)
{
    *out = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(&out->s6_addr[12], address, sizeof *address);
}

/* Every address in one form. False for families that are not of the internet. */
static bool normalize(struct in6_addr *out, const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        map_v4(out, &((const struct sockaddr_in *)address)->sin_addr);
    else if (address->sa_family == AF_INET6)
        *out = ((const struct sockaddr_in6 *)address)->sin6_addr;
    else
        return false;
    return true;
}

static bool same_address(const struct in6_addr *a, const struct in6_addr *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

struct range {
    const char *prefix;
    unsigned bits;
};

static bool in_range(const struct in6_addr *address, const struct range *range)
{
    struct in6_addr prefix;
    struct in_addr v4;
    unsigned bits = range->bits;
    if (inet_pton(AF_INET, range->prefix, &v4) == 1) {
        map_v4(&prefix, &v4);
        bits += 96;
    } else if (inet_pton(AF_INET6, range->prefix, &prefix) != 1) {
        return false;
    }
    unsigned whole = bits / 8, rest = bits % 8;
    return memcmp(address, &prefix, whole) == 0 &&
           (rest == 0 || (address->s6_addr[whole] ^ prefix.s6_addr[whole]) >> (8 - rest) == 0);
}

/* IANA's special-purpose registries: what is not a host of the public internet. */
static bool is_public(const struct in6_addr *address)
{
    static const struct range internet[] = {{"0.0.0.0", 0}, {"2000::", 3}};
    static const struct range special[] = {
        {"0.0.0.0", 8},      {"10.0.0.0", 8},     {"100.64.0.0", 10},     {"127.0.0.0", 8},
        {"169.254.0.0", 16}, {"172.16.0.0", 12},  {"192.0.0.0", 24},      {"192.0.2.0", 24},
        {"192.88.99.0", 24}, {"192.168.0.0", 16}, {"198.18.0.0", 15},     {"198.51.100.0", 24},
        {"203.0.113.0", 24}, {"224.0.0.0", 4},    {"240.0.0.0", 4},       {"2001::", 23},
        {"2001:db8::", 32},  {"2002::", 16},      {"2620:4f:8000::", 48}, {"3fff::", 20},
    };
    bool found = false;
    for (size_t i = 0; i < sizeof internet / sizeof *internet; i++)
        found = found || in_range(address, &internet[i]);
    for (size_t i = 0; found && i < sizeof special / sizeof *special; i++)
        found = !in_range(address, &special[i]);
    return found;
}

static bool is_loopback(const struct in6_addr *address)
{
    static const struct range v4 = {"127.0.0.0", 8}, v6 = {"::1", 128};
    return in_range(address, &v4) || in_range(address, &v6);
}

/* One of this host's own. When they cannot be told, every address counts as one. */
static bool is_own(const struct in6_addr *address)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) < 0)
        return true;
    bool found = false;
    for (const struct ifaddrs *at = list; at && !found; at = at->ifa_next) {
        struct in6_addr own;
        found = at->ifa_addr && normalize(&own, at->ifa_addr) && same_address(&own, address);
    }
    freeifaddrs(list);
    return found;
}

bool egress_host_address(const char *host, uint16_t port, struct sockaddr_storage *address)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    *address = (struct sockaddr_storage){0};
    if (strcmp(host, EGRESS_HOST) == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &v4.sin_addr) == 1)
        memcpy(address, &v4, sizeof v4);
    else if (inet_pton(AF_INET6, host, &v6.sin6_addr) == 1)
        memcpy(address, &v6, sizeof v6);
    else
        return false;
    return true;
}

/* ---- reading ------------------------------------------------------------------------------- */

static int read_port(const char *text, size_t length, uint16_t *port)
{
    unsigned number = 0;
    if (length == 0 || length > 5)
        return -1;
    for (size_t i = 0; i < length; i++) {
        if (!isdigit((unsigned char)text[i]))
            return -1;
        number = number * 10 + (unsigned)(text[i] - '0');
    }
    if (number == 0 || number > UINT16_MAX)
        return -1;
    *port = (uint16_t)number;
    return 0;
}

static bool is_name(const char *host, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        bool dot = host[i] == '.';
        if (!isalnum((unsigned char)host[i]) && !strchr("-_", host[i]) &&
            !(dot && i > 0 && host[i - 1] != '.'))
            return false;
    }
    return length > 0;
}

static int bad_authority(struct error *err)
{
    return error_set(err, ERROR_INVALID, "that is no host name or address with a port");
}

int egress_read_authority(const char *text, size_t length, char host[EGRESS_NAME_MAX + 1],
                          uint16_t *port, struct error *err)
{
    bool bracket = length > 0 && text[0] == '[';
    const char *end = memchr(text, bracket ? ']' : ':', length);
    const char *start = bracket ? text + 1 : text;
    if (bracket && !end)
        return bad_authority(err);
    size_t used = (size_t)((end ? end : text + length) - start);
    const char *rest = start + used + (bracket ? 1 : 0);
    size_t left = (size_t)(text + length - rest);
    if (left > 0 && (rest[0] != ':' || read_port(rest + 1, left - 1, port) < 0))
        return bad_authority(err);
    if (!bracket && used > 1 && start[used - 1] == '.')
        used--;
    if (used > EGRESS_NAME_MAX || (!bracket && !is_name(start, used)))
        return bad_authority(err);
    for (size_t i = 0; i < used; i++)
        host[i] = (char)tolower((unsigned char)start[i]);
    host[used] = '\0';
    struct in6_addr v6;
    if (bracket && (strlen(host) != used || inet_pton(AF_INET6, host, &v6) != 1))
        return bad_authority(err);
    return 0;
}

static int bad_entry(const char *entry, struct error *err)
{
    error_set(err, ERROR_INVALID, "\"%.100s\" is nothing that the network can be opened to", entry);
    return error_hint(err, "use none, public, or names and addresses such as example.com, "
                           "*.example.com, example.com:443, 10.1.2.3:8080");
}

static int parse_rule(struct egress_rule *rule, const char *entry, struct error *err)
{
    char host[EGRESS_NAME_MAX + 1];
    struct sockaddr_storage address;
    if (strcmp(entry, "public") == 0)
        return 0;
    if (strcmp(entry, "none") == 0)
        return bad_entry(entry, err);
    rule->is_wildcard = strncmp(entry, "*.", 2) == 0;
    const char *rest = entry + (rule->is_wildcard ? 2 : 0);
    if (egress_read_authority(rest, strlen(rest), host, &rule->port, err) < 0)
        return bad_entry(entry, err);
    rule->host = xstrdup(host);
    rule->is_address = egress_host_address(host, 0, &address) &&
                       normalize(&rule->address, (struct sockaddr *)&address);
    if (rule->is_address && rule->is_wildcard)
        return bad_entry(entry, err);
    bool needs_port =
        strcmp(host, "localhost") == 0 || (rule->is_address && !is_public(&rule->address));
    if (!needs_port || rule->port)
        return 0;
    error_set(err, ERROR_INVALID, "%s is not of the public internet", host);
    return error_hint(err, "say which port may be used: %s:PORT", entry);
}

int egress_policy_parse(struct egress_policy *policy, char *const *entries, struct error *err)
{
    size_t count = strv_length(entries);
    *policy = (struct egress_policy){0};
    if (count > RULES_MAX)
        return error_set(err, ERROR_LIMIT, "the network can be opened to at most %d places",
                         RULES_MAX);
    policy->rules = xcalloc(count, sizeof *policy->rules);
    for (policy->count = 0; policy->count < count; policy->count++) {
        int result = parse_rule(&policy->rules[policy->count], entries[policy->count], err);
        if (result < 0) {
            policy->count++;
            return result;
        }
    }
    return 0;
}

int egress_policy_check_public(const struct egress_policy *policy, struct error *err)
{
    for (size_t i = 0; i < policy->count; i++) {
        const struct egress_rule *rule = &policy->rules[i];
        bool is_private = rule->host && strcmp(rule->host, "localhost") == 0;
        if (rule->is_address)
            is_private = !is_public(&rule->address) || is_own(&rule->address);
        if (is_private)
            return error_set(err, ERROR_DENIED, "%s is not of the public internet", rule->host);
    }
    return 0;
}

void egress_policy_free(struct egress_policy *policy)
{
    for (size_t i = 0; i < policy->count; i++)
        free(policy->rules[i].host);
    free(policy->rules);
    *policy = (struct egress_policy){0};
}

/* ---- deciding ------------------------------------------------------------------------------ */

static bool host_fits(const struct egress_rule *rule, const char *host)
{
    struct sockaddr_storage storage;
    struct in6_addr address;
    if (!rule->host)
        return true;
    if (rule->is_address)
        return egress_host_address(host, 0, &storage) &&
               normalize(&address, (struct sockaddr *)&storage) &&
               same_address(&address, &rule->address);
    if (!rule->is_wildcard)
        return strcmp(host, rule->host) == 0;
    size_t length = strlen(host), tail = strlen(rule->host);
    return length > tail + 1 && host[length - tail - 1] == '.' &&
           strcmp(host + length - tail, rule->host) == 0;
}

static bool port_fits(const struct egress_rule *rule, uint16_t port)
{
    return rule->port ? rule->port == port : port != PORT_MAIL;
}

static const char *bracket(const char *host, const char *text)
{
    return strchr(host, ':') ? text : "";
}

int egress_check_host(const struct egress_policy *policy, const char *host, uint16_t port,
                      struct error *err)
{
    for (size_t i = 0; i < policy->count; i++) {
        if (port_fits(&policy->rules[i], port) && host_fits(&policy->rules[i], host))
            return 0;
    }
    error_set(err, ERROR_DENIED, "this sandbox may not connect to %s%s%s:%u", bracket(host, "["),
              host, bracket(host, "]"), port);
    return error_hint(err, "start it with --network %s%s%s:%u to allow that", bracket(host, "["),
                      host, bracket(host, "]"), port);
}

/* An entry that names this very address and port, or localhost for what localhost is. */
static bool names_exactly(const struct egress_rule *rule, const char *host, uint16_t port,
                          const struct in6_addr *address)
{
    if (!rule->host || rule->port != port)
        return false;
    if (rule->is_address)
        return same_address(&rule->address, address);
    return strcmp(rule->host, "localhost") == 0 && strcmp(host, "localhost") == 0 &&
           is_loopback(address);
}

int egress_check_address(const struct egress_policy *policy, const char *host, uint16_t port,
                         const struct sockaddr *address, struct error *err)
{
    struct in6_addr normal;
    if (!normalize(&normal, address))
        return error_set(err, ERROR_DENIED, "%s has no address of the internet", host);
    for (size_t i = 0; i < policy->count; i++) {
        if (names_exactly(&policy->rules[i], host, port, &normal))
            return 0;
    }
    bool own = is_own(&normal);
    if (is_public(&normal) && !own)
        return 0;
    char text[INET6_ADDRSTRLEN];
    bool v4 = IN6_IS_ADDR_V4MAPPED(&normal);
    inet_ntop(v4 ? AF_INET : AF_INET6, v4 ? &normal.s6_addr[12] : normal.s6_addr, text,
              sizeof text);
    error_set(err, ERROR_DENIED, "this sandbox may not connect to %s: %s is %s", host, text,
              own ? "an address of the host" : "not of the public internet");
    return error_hint(err, "start it with --network %s%s%s:%u to allow that", v4 ? "" : "[", text,
                      v4 ? "" : "]", port);
}
