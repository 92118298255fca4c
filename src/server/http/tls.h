/*
 * TLS for the server: what its connections are encrypted with. TLS 1.2 and later; clients that name
 * protocols must name http/1.1.
 */
#pragma once

#include <openssl/ssl.h>

#include "base/error.h"

/* From files in PEM form: the certificate with those that lead to it, and its key. For
 * SSL_CTX_free; NULL: see the error. Connections keep what they began with. */
SSL_CTX *tls_load(const char *certificate, const char *key, struct error *err);
