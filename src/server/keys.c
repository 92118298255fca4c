#include "server/keys.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "sandbox/config.h"

#define PREFIX "msb_"
#define KEY_MAX 4096
#define SECRET_SAFE 16
#define SECRET_BYTES 32
#define SIGNATURE_BYTES 32
/* Clocks differ. */
#define LEEWAY_S 60

static void random_hex(char *text, size_t bytes)
{
    uint8_t raw[SECRET_BYTES];
    if (getrandom(raw, bytes, 0) != (ssize_t)bytes)
        abort();
    for (size_t i = 0; i < bytes; i++)
        snprintf(text + 2 * i, 3, "%02x", raw[i]);
}

/* ---- base64url, without padding ------------------------------------------------------------ */

static void base64_append(struct buf *out, const void *bytes, size_t length)
{
    unsigned char *at = buf_reserve(out, length / 3 * 4 + 5);
    size_t size = (size_t)EVP_EncodeBlock(at, bytes, (int)length);
    while (size > 0 && at[size - 1] == '=')
        size--;
    for (size_t i = 0; i < size; i++)
        at[i] = at[i] == '+' ? '-' : at[i] == '/' ? '_' : at[i];
    buf_commit(out, size);
}

static int base64_decode(struct buf *out, const char *text, size_t length)
{
    cleanup_buf struct buf padded = {0};
    for (size_t i = 0; i < length; i++) {
        char c = text[i];
        if (!isalnum((unsigned char)c) && c != '-' && c != '_')
            return -1;
        c = c == '-' ? '+' : c == '_' ? '/' : c;
        buf_append(&padded, &c, 1);
    }
    size_t padding = (4 - length % 4) % 4;
    if (length == 0 || padding == 3)
        return -1;
    buf_append(&padded, "==", padding);
    int size =
        EVP_DecodeBlock(buf_reserve(out, length + 3), buf_data(&padded), (int)buf_length(&padded));
    if (size < 0)
        return -1;
    buf_commit(out, (size_t)size - padding);
    return 0;
}

/* ---- the server's key ---------------------------------------------------------------------- */

int keys_check_secret(const char *secret, struct error *err)
{
    if (secret[0])
        return 0;
    error_set(err, ERROR_INVALID, "the server's key is empty");
    return error_hint(err, "leave it out to have one made");
}

char *keys_weakness(const char *secret)
{
    if (strlen(secret) >= SECRET_SAFE)
        return NULL;
    return xasprintf("the server's key has less than %d characters: whoever guesses it can make "
                     "API keys",
                     SECRET_SAFE);
}

static int make_secret(const char *path, struct error *err)
{
    char secret[2 * SECRET_BYTES + 1];
    if (folder_make(home_folder(), 0700, err) < 0)
        return -1;
    random_hex(secret, SECRET_BYTES);
    cleanup_fd int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 && errno == EEXIST)
        return 0;
    if (fd < 0 || file_write_all(fd, secret, strlen(secret)) < 0)
        return error_errno(err, errno, "cannot write %s", path);
    return 0;
}

char *keys_secret(struct error *err)
{
    struct stat about;
    cleanup_buf struct buf text = {0};
    cleanup_free char *path = home_path("server.key");
    if (!file_exists(path) && make_secret(path, err) < 0)
        return NULL;
    if (stat(path, &about) == 0 && (about.st_mode & 077) != 0) {
        error_set(err, ERROR_DENIED, "%s can be read by others", path);
        error_hint(err, "chmod 600 %s; if they may have read it, remove it and make new keys",
                   path);
        return NULL;
    }
    if (file_read(path, KEY_MAX, &text, err) < 0)
        return NULL;
    char *secret = xstrndup(buf_text(&text), strcspn(buf_text(&text), "\r\n"));
    if (keys_check_secret(secret, err) == 0)
        return secret;
    error_hint(err, "remove %s to have a new one made", path);
    free(secret);
    return NULL;
}

/* ---- tokens -------------------------------------------------------------------------------- */

static void sign(const char *secret, const void *bytes, size_t length,
                 uint8_t signature[SIGNATURE_BYTES])
{
    unsigned size = SIGNATURE_BYTES;
    HMAC(EVP_sha256(), secret, (int)strlen(secret), bytes, length, signature, &size);
}

static void append_json(struct buf *out, json_t *json)
{
    cleanup_free char *text = json_dumps(json, JSON_COMPACT);
    json_decref(json);
    base64_append(out, text, strlen(text));
}

char *keys_make(const char *secret, struct key_grant *grant)
{
    cleanup_buf struct buf token = {0};
    uint8_t signature[SIGNATURE_BYTES];
    random_hex(grant->id, 8);
    append_json(&token, json_pack("{s:s, s:s}", "typ", "JWT", "alg", "HS256"));
    buf_append(&token, ".", 1);
    append_json(&token,
                json_pack("{s:I, s:I, s:s, s:s}", "exp", (json_int_t)grant->expires, "iat",
                          (json_int_t)time(NULL), "namespace", grant->namespace, "jti", grant->id));
    sign(secret, buf_data(&token), buf_length(&token), signature);
    buf_append(&token, ".", 1);
    base64_append(&token, signature, sizeof signature);
    return xasprintf(PREFIX "%s", buf_text(&token));
}

static int refuse(struct error *err, const char *why)
{
    error_set(err, ERROR_DENIED, "%s", why);
    return error_hint(err, "msb server keygen makes a key; send it as Authorization: Bearer KEY");
}

static bool is_signed(const char *secret, const char *token, const char *dot)
{
    cleanup_buf struct buf given = {0};
    uint8_t right[SIGNATURE_BYTES];
    sign(secret, token, (size_t)(dot - token), right);
    return base64_decode(&given, dot + 1, strlen(dot + 1)) == 0 &&
           buf_length(&given) == sizeof right &&
           CRYPTO_memcmp(buf_data(&given), right, sizeof right) == 0;
}

static json_t *decode_part(const char *text, size_t length)
{
    cleanup_buf struct buf json = {0};
    if (base64_decode(&json, text, length) < 0)
        return NULL;
    return json_loadb((const char *)buf_data(&json), buf_length(&json), JSON_REJECT_DUPLICATES,
                      NULL);
}

static bool has_right_algorithm(const char *token, size_t length)
{
    json_t *header = decode_part(token, length);
    const char *algorithm = json_string_value(json_object_get(header, "alg"));
    bool right = algorithm && strcmp(algorithm, "HS256") == 0;
    json_decref(header);
    return right;
}

/* Keys of other makers may have no id and no namespace. */
static int read_claims(const json_t *claims, struct key_grant *grant)
{
    const json_t *expires = json_object_get(claims, "exp");
    const json_t *namespace = json_object_get(claims, "namespace");
    const json_t *id = json_object_get(claims, "jti");
    if (!json_is_integer(expires) || (namespace && !json_is_string(namespace)) ||
        json_string_length(namespace) >= sizeof grant->namespace)
        return -1;
    grant->expires = json_integer_value(expires);
    snprintf(grant->namespace, sizeof grant->namespace, "%s",
             namespace ? json_string_value(namespace) : KEY_ALL_NAMESPACES);
    snprintf(grant->id, sizeof grant->id, "%s", id ? json_string_value(id) : "");
    return 0;
}

static bool is_id(const char *id)
{
    return id[0] && strspn(id, "0123456789abcdef") == strlen(id) && strlen(id) <= 32;
}

static bool is_revoked(const char *id)
{
    cleanup_free char *path = home_path("server/revoked/%s", id);
    return is_id(id) && file_exists(path);
}

int keys_check(const char *secret, const char *header, struct key_grant *grant, struct error *err)
{
    if (strncasecmp(header, "Bearer ", 7) == 0)
        header += 7;
    if (strncmp(header, PREFIX, strlen(PREFIX)) != 0 || strlen(header) > KEY_MAX)
        return refuse(err, "this is no key of a server like this");
    const char *token = header + strlen(PREFIX);
    const char *first = strchr(token, '.'), *second = first ? strchr(first + 1, '.') : NULL;
    if (!second || strchr(second + 1, '.'))
        return refuse(err, "the key is malformed");
    if (!is_signed(secret, token, second) || !has_right_algorithm(token, (size_t)(first - token)))
        return refuse(err, "the key is not signed by this server");
    json_t *claims = decode_part(first + 1, (size_t)(second - first - 1));
    int result = read_claims(claims, grant);
    json_decref(claims);
    if (result < 0)
        return refuse(err, "the key is malformed");
    if (grant->expires + LEEWAY_S < time(NULL))
        return refuse(err, "the key has expired");
    return is_revoked(grant->id) ? refuse(err, "the key was revoked") : 0;
}

char *keys_sign(const char *secret, const char *text)
{
    cleanup_buf struct buf out = {0};
    uint8_t signature[SIGNATURE_BYTES];
    /* No token has a blank. */
    cleanup_free char *marked = xasprintf("signed %s", text);
    sign(secret, marked, strlen(marked), signature);
    base64_append(&out, signature, sizeof signature);
    return xstrdup(buf_text(&out));
}

bool keys_is_signature(const char *secret, const char *text, const char *signature)
{
    cleanup_free char *right = keys_sign(secret, text);
    size_t length = strlen(right);
    return strlen(signature) == length && CRYPTO_memcmp(signature, right, length) == 0;
}

int keys_revoke(const char *id, struct error *err)
{
    if (!is_id(id))
        return error_set(err, ERROR_INVALID, "\"%.60s\" is no id of a key", id);
    cleanup_free char *folder = home_path("server/revoked");
    cleanup_free char *path = home_path("server/revoked/%s", id);
    if (folder_make(folder, 0700, err) < 0)
        return -1;
    return file_write_atomic(path, "", 0, 0600, err);
}

int keys_parse_lifetime(const char *text, int64_t *seconds, struct error *err)
{
    static const struct {
        const char *unit;
        int64_t seconds;
    } units[] = {{"", 3600},   {"s", 1},      {"m", 60},          {"h", 3600},
                 {"d", 86400}, {"w", 604800}, {"mo", 30 * 86400}, {"y", 365 * 86400}};
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (!isdigit((unsigned char)text[0]) || errno || number < 1 || number > 1000000)
            break;
        if (strcmp(end, units[i].unit) == 0) {
            *seconds = number * units[i].seconds;
            return 0;
        }
    }
    error_set(err, ERROR_INVALID, "\"%.60s\" is no lifetime", text);
    return error_hint(err, "it wants a number with s, m, h, d, w, mo or y behind it, such as 24h");
}
