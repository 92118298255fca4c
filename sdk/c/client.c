/* JSON-RPC over HTTP, with one curl handle for each call under way and a few kept for later. */
#include <curl/curl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define IDLE_MAX 8
#define DEFAULT_URL "http://127.0.0.1:5555"

struct msb_client {
    char *endpoint;
    struct curl_slist *headers;
    pthread_mutex_t lock;
    CURL *idle[IDLE_MAX];
    size_t idle_count;
};

struct answer {
    CURL *curl;
    char *text;
    size_t length;
    msb_piece *piece; /* of a stream; NULL: the answer is collected */
    void *context;
    bool ended_by_caller;
};

int msb_set_error(struct msb_error *err, const char *code, const char *message, const char *hint)
{
    snprintf(err->code, sizeof err->code, "%s", code);
    snprintf(err->message, sizeof err->message, "%s", message);
    snprintf(err->hint, sizeof err->hint, "%s", hint ? hint : "");
    return -1;
}

static const char *or_environment(const char *value, const char *name, const char *otherwise)
{
    if (!value)
        value = getenv(name);
    return value && value[0] ? value : otherwise;
}

static char *join(const char *first, const char *second)
{
    size_t length = strlen(first) + strlen(second) + 1;
    char *text = malloc(length);
    if (text)
        snprintf(text, length, "%s%s", first, second);
    return text;
}

static int add_header(struct msb_client *client, const char *text)
{
    struct curl_slist *longer = text ? curl_slist_append(client->headers, text) : NULL;
    if (!longer)
        return -1;
    client->headers = longer;
    return 0;
}

static int set_headers(struct msb_client *client, const char *key)
{
    char *bearer = key ? join("Authorization: Bearer ", key) : NULL;
    int result = add_header(client, "Content-Type: application/json");
    /* curl would wait for leave before it sends a long body. */
    if (result == 0)
        result = add_header(client, "Expect:");
    if (result == 0 && key)
        result = add_header(client, bearer);
    free(bearer);
    return result;
}

struct msb_client *msb_connect(const char *url, const char *key, struct msb_error *err)
{
    url = or_environment(url, "MSB_SERVER_URL", DEFAULT_URL);
    key = or_environment(key, "MSB_API_KEY", NULL);
    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0) {
        msb_set_error(err, "invalid", "the server's address must begin with http:// or https://",
                      "set MSB_SERVER_URL");
        return NULL;
    }
    struct msb_client *client = calloc(1, sizeof *client);
    if (!client) {
        msb_set_error(err, "no_space", "out of memory", NULL);
        return NULL;
    }
    pthread_mutex_init(&client->lock, NULL);
    client->endpoint = join(url, url[strlen(url) - 1] == '/' ? "api/v1/rpc" : "/api/v1/rpc");
    if (client->endpoint && set_headers(client, key) == 0)
        return client;
    msb_set_error(err, "no_space", "out of memory", NULL);
    msb_disconnect(client);
    return NULL;
}

void msb_disconnect(struct msb_client *client)
{
    if (!client)
        return;
    while (client->idle_count > 0)
        curl_easy_cleanup(client->idle[--client->idle_count]);
    curl_slist_free_all(client->headers);
    pthread_mutex_destroy(&client->lock);
    free(client->endpoint);
    free(client);
}

static CURL *take_handle(struct msb_client *client)
{
    pthread_mutex_lock(&client->lock);
    CURL *curl = client->idle_count > 0 ? client->idle[--client->idle_count] : NULL;
    pthread_mutex_unlock(&client->lock);
    return curl ? curl : curl_easy_init();
}

static void give_back(struct msb_client *client, CURL *curl)
{
    curl_easy_reset(curl);
    pthread_mutex_lock(&client->lock);
    if (client->idle_count < IDLE_MAX)
        client->idle[client->idle_count++] = curl;
    else
        curl_easy_cleanup(curl);
    pthread_mutex_unlock(&client->lock);
}

static bool is_stream(CURL *curl)
{
    const char *type = NULL;
    curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
    return type && strncmp(type, "text/event-stream", 17) == 0;
}

static size_t on_bytes(char *bytes, size_t size, size_t count, void *context)
{
    struct answer *answer = context;
    size_t length = size * count;
    if (answer->piece && is_stream(answer->curl)) {
        answer->ended_by_caller = answer->piece(answer->context, bytes, length) != 0;
        return answer->ended_by_caller ? 0 : length;
    }
    char *longer = realloc(answer->text, answer->length + length + 1);
    if (!longer)
        return 0;
    answer->text = longer;
    memcpy(longer + answer->length, bytes, length);
    answer->length += length;
    longer[answer->length] = '\0';
    return length;
}

/* Sends one request and takes its answer. */
static int post(struct msb_client *client, const char *body, struct answer *answer,
                struct msb_error *err)
{
    CURL *curl = take_handle(client);
    if (!curl)
        return msb_set_error(err, "no_space", "out of memory", NULL);
    answer->curl = curl;
    curl_easy_setopt(curl, CURLOPT_URL, client->endpoint);
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, client->headers);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)strlen(body));
    curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_easy_setopt(curl, CURLOPT_WRITEDATA, answer);
    curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(curl, CURLOPT_NOPROXY, "127.0.0.1,localhost,::1");
    CURLcode code = curl_easy_perform(curl);
    give_back(client, curl);
    if (code == CURLE_OK || answer->ended_by_caller)
        return 0;
    return msb_set_error(err, "unavailable", curl_easy_strerror(code),
                         "\"msb server start\" starts a server; MSB_SERVER_URL says where it is");
}

static void copy_error(const json_t *error, struct msb_error *err)
{
    const json_t *data = json_object_get(error, "data");
    const char *message = json_string_value(json_object_get(error, "message"));
    const json_t *details = data ? data : error;
    const char *code = json_string_value(json_object_get(details, "code"));
    msb_set_error(err, code ? code : "io", message ? message : "the server failed",
                  json_string_value(json_object_get(details, "hint")));
}

static json_t *read_answer(const struct answer *answer, struct msb_error *err)
{
    json_t *message = answer->text ? json_loads(answer->text, JSON_ALLOW_NUL, NULL) : NULL;
    json_t *result = json_object_get(message, "result");
    const json_t *error = json_object_get(message, "error");
    if (result)
        json_incref(result);
    else if (error)
        copy_error(error, err);
    else
        msb_set_error(err, "protocol", "the server answered what is no JSON-RPC",
                      "check that MSB_SERVER_URL leads to an msb server");
    json_decref(message);
    return result;
}

/* Takes the parameters; for free(). */
static char *make_request(const char *method, json_t *params)
{
    json_t *request = json_pack("{s:s, s:i, s:s, s:o}", "jsonrpc", "2.0", "id", 1, "method", method,
                                "params", params);
    char *text = request ? json_dumps(request, JSON_COMPACT) : NULL;
    json_decref(request);
    return text;
}

json_t *msb_call_json(struct msb_client *client, const char *method, json_t *params,
                      struct msb_error *err)
{
    struct answer answer = {0};
    char *body = make_request(method, params);
    if (!body) {
        msb_set_error(err, "invalid", "what is to be sent is no valid UTF-8", NULL);
        return NULL;
    }
    json_t *result = post(client, body, &answer, err) < 0 ? NULL : read_answer(&answer, err);
    free(answer.text);
    free(body);
    return result;
}

int msb_call_events(struct msb_client *client, const char *method, json_t *params, msb_piece *piece,
                    void *context, struct msb_error *err)
{
    struct answer answer = {.piece = piece, .context = context};
    char *body = make_request(method, params);
    if (!body)
        return msb_set_error(err, "invalid", "what is to be sent is no valid UTF-8", NULL);
    int result = post(client, body, &answer, err);
    if (result == 0 && answer.text) {
        json_decref(read_answer(&answer, err));
        result = -1;
    }
    free(answer.text);
    free(body);
    return result;
}

char *msb_call(struct msb_client *client, const char *method, const char *params,
               struct msb_error *err)
{
    json_t *object = json_loads(params ? params : "{}", JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(object)) {
        json_decref(object);
        msb_set_error(err, "invalid", "the parameters must be a JSON object", NULL);
        return NULL;
    }
    json_t *result = msb_call_json(client, method, object, err);
    char *text = result ? json_dumps(result, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    json_decref(result);
    return text;
}
