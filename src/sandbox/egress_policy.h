/*
 * Where connections from inside a sandbox may go. Asked twice for each: for the name that was
 * named, and for every address the name turned out to have. Addresses that are not of the public
 * internet, or are this host's own, are refused unless an entry names that very address and port.
 *
 *   public              every name and public address, every port but 25
 *   example.com         that name, every port but 25
 *   *.example.com       every name below it
 *   example.com:443     that port only
 *   10.1.2.3:8080       an address; one that is not public needs a port
 *   localhost:8000      this host
 *   host.internal:8000  the same by a name that programs inside do not take for their own loopback
 */
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

#define EGRESS_NAME_MAX 253
#define EGRESS_HOST "host.internal"

struct egress_rule {
    char *host; /* lower case; of a wildcard what follows the star; NULL: public */
    bool is_wildcard;
    bool is_address;
    struct in6_addr address; /* IPv4 as ::ffff:… */
    uint16_t port;           /* 0: all but 25 */
};

struct egress_policy {
    struct egress_rule *rules;
    size_t count;
};

/* Reads a list of entries (NULL: none); free it also on failure. */
int egress_policy_parse(struct egress_policy *policy, char *const *entries, struct error *err);
/* ERROR_DENIED when an entry leads to this host or to addresses that are not public. */
int egress_policy_check_public(const struct egress_policy *policy, struct error *err);
void egress_policy_free(struct egress_policy *policy);

/* HOST:PORT, [V6]:PORT, or without :PORT, which leaves *port alone. The host comes back in lower
 * case, without brackets and final dot; it is a name of letters, digits, - . _ or an address. */
int egress_read_authority(const char *text, size_t length, char host[EGRESS_NAME_MAX + 1],
                          uint16_t *port, struct error *err);
/* True when the host is written as an address, or is EGRESS_HOST, and what that is. */
bool egress_host_address(const char *host, uint16_t port, struct sockaddr_storage *address);

/* Both fill err with a reason and what to allow. */
int egress_check_host(const struct egress_policy *policy, const char *host, uint16_t port,
                      struct error *err);
int egress_check_address(const struct egress_policy *policy, const char *host, uint16_t port,
                         const struct sockaddr *address, struct error *err);
