#include "server/http/tls.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "server/http/internal.h"

#define HANDSHAKE 0x16

/* ---- certificate and key ------------------------------------------------------------------- */

/* Nobody is asked for a passphrase. */
static int no_passphrase(char *text, int size, int writing, void *context)
{
    (void)text, (void)size, (void)writing, (void)context;
    return -1;
}

static int choose_protocol(SSL *ssl, const unsigned char **chosen, unsigned char *length,
                           const unsigned char *offered, unsigned int offered_length, void *context)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *found;
    (void)ssl, (void)context;
    if (SSL_select_next_proto(&found, length, ours, sizeof ours - 1, offered, offered_length) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_ALERT_FATAL;
    *chosen = found;
    return SSL_TLSEXT_ERR_OK;
}

static int check_readable(const char *path, struct error *err)
{
    cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? error_errno(err, errno, "cannot read %.300s", path) : 0;
}

static int use_files(SSL_CTX *tls, const char *certificate, const char *key, struct error *err)
{
    if (check_readable(certificate, err) < 0 || check_readable(key, err) < 0)
        return -1;
    if (SSL_CTX_use_certificate_chain_file(tls, certificate) != 1) {
        error_set(err, ERROR_INVALID, "there is no certificate that can be used in %.300s",
                  certificate);
        return error_hint(err, "it must be in PEM form, the server's own certificate first");
    }
    /* Also refuses a key of another certificate. */
    if (SSL_CTX_use_PrivateKey_file(tls, key, SSL_FILETYPE_PEM) == 1)
        return 0;
    if (ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH) {
        error_set(err, ERROR_INVALID,
                  "the key in %.200s does not belong to the certificate in %.200s", key,
                  certificate);
        return error_hint(err, "give the key that the certificate was made with");
    }
    error_set(err, ERROR_INVALID, "there is no private key that can be used in %.300s", key);
    return error_hint(err, "it must be in PEM form and not protected by a passphrase");
}

SSL_CTX *tls_load(const char *certificate, const char *key, struct error *err)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_server_method());
    if (!tls) {
        error_set(err, ERROR_MISSING, "OpenSSL cannot be used");
        return NULL;
    }
    SSL_CTX_set_min_proto_version(tls, TLS1_2_VERSION);
    SSL_CTX_set_options(tls, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                 SSL_OP_CIPHER_SERVER_PREFERENCE | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(tls, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_default_passwd_cb(tls, no_passphrase);
    SSL_CTX_set_alpn_select_cb(tls, choose_protocol, NULL);
    ERR_clear_error();
    if (use_files(tls, certificate, key, err) == 0)
        return tls;
    ERR_clear_error();
    SSL_CTX_free(tls);
    return NULL;
}

/* ---- between OpenSSL and a connection's buffers -------------------------------------------- */

static int take_cipher(BIO *bio, char *room, int size)
{
    struct http_connection *connection = BIO_get_data(bio);
    size_t length = buf_length(&connection->cipher);
    BIO_clear_retry_flags(bio);
    if (length == 0) {
        BIO_set_retry_read(bio);
        return -1;
    }
    if (length > (size_t)size)
        length = (size_t)size;
    memcpy(room, buf_data(&connection->cipher), length);
    buf_consume(&connection->cipher, length);
    return (int)length;
}

static int put_cipher(BIO *bio, const char *bytes, int length)
{
    struct http_connection *connection = BIO_get_data(bio);
    buf_append(&connection->writer.out, bytes, (size_t)length);
    return length;
}

static long control(BIO *bio, int command, long number, void *context)
{
    (void)bio, (void)number, (void)context;
    return command == BIO_CTRL_FLUSH;
}

static BIO *new_bio(struct http_connection *connection)
{
    static BIO_METHOD *method;
    if (!method) {
        method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "connection");
        BIO_meth_set_read(method, take_cipher);
        BIO_meth_set_write(method, put_cipher);
        BIO_meth_set_ctrl(method, control);
    }
    BIO *bio = BIO_new(method);
    BIO_set_data(bio, connection);
    BIO_set_init(bio, 1);
    return bio;
}

bool tls_begin(struct http_connection *connection, uint8_t first)
{
    if (first != HANDSHAKE)
        return false;
    BIO *bio = new_bio(connection);
    connection->tls = SSL_new(connection->server->tls);
    SSL_set_bio(connection->tls, bio, bio);
    SSL_set_accept_state(connection->tls);
    return true;
}

void tls_take(struct http_connection *connection, const uint8_t *bytes, size_t length)
{
    /* Whoever gave us these bytes has no use for the buffer any more once they are copied. */
    struct http_server *server = connection->server;
    int got = 1;
    buf_append(&connection->cipher, bytes, length);
    ERR_clear_error();
    while (got > 0 && connection->phase < PHASE_LAST) {
        bool was_ready = SSL_is_init_finished(connection->tls);
        got = SSL_read(connection->tls, server->read_buffer, sizeof server->read_buffer);
        if (!was_ready && SSL_is_init_finished(connection->tls))
            connection->deadline = uv_now(server->loop) + server->limits.idle_ms;
        if (got > 0)
            feed_bytes(connection, (const uint8_t *)server->read_buffer, (size_t)got);
    }
    if (connection->phase >= PHASE_LAST)
        return;
    int problem = SSL_get_error(connection->tls, got);
    connection_flush(connection);
    if (problem == SSL_ERROR_SSL && !connection->request)
        connection_end(connection);
    else if (problem != SSL_ERROR_WANT_READ)
        connection_close(connection);
    buf_free(&connection->cipher);
}

void tls_encrypt(struct http_connection *connection)
{
    struct buf *plain = &connection->plain;
    if (buf_length(plain) == 0)
        return;
    ERR_clear_error();
    if (SSL_write(connection->tls, buf_data(plain), (int)buf_length(plain)) <= 0)
        connection->deadline = 1; /* the tick will close it */
    buf_free(plain);
}
