/* Files of sessions as resources: sandbox://SESSION/PATH. A page of their list is of one session.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "server/base64.h"
#include "server/content_type.h"
#include "server/tools/internal.h"
#include "session/session_file.h"

#define SCHEME "sandbox://"
/* On stdio; in base64 and beside all else it must fit into a line. */
#define RESOURCE_MAX (2900u << 10)

struct visit {
    struct mcp_call *call;
    struct session_file *file;
    char *uri, *session, *path, *next_session;
    size_t offset; /* of a page */
};

/* ---- addresses ------------------------------------------------------------------------------ */

char *resource_uri(const char *session, const char *path)
{
    static const char plain[] = "-_./~";
    cleanup_buf struct buf uri = {0};
    buf_printf(&uri, SCHEME "%s/", session);
    for (const char *at = path; *at; at++) {
        if (isalnum((unsigned char)*at) || strchr(plain, *at))
            buf_append(&uri, at, 1);
        else
            buf_printf(&uri, "%%%02X", (unsigned)(unsigned char)*at);
    }
    return xstrdup(buf_text(&uri));
}

/* For free(); NULL when an escape is none. */
static char *unescape(const char *text)
{
    char *plain = xmalloc(strlen(text) + 1), *end = plain;
    for (const char *at = text; *at; at++) {
        unsigned number;
        if (*at != '%') {
            *end++ = *at;
            continue;
        }
        if (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2]) ||
            sscanf(at + 1, "%2x", &number) != 1 || number == 0) {
            free(plain);
            return NULL;
        }
        *end++ = (char)number;
        at += 2;
    }
    *end = '\0';
    return plain;
}

static bool parse(const char *uri, char **session, char **path)
{
    struct session_failure ignored;
    const char *rest = strncmp(uri, SCHEME, strlen(SCHEME)) == 0 ? uri + strlen(SCHEME) : "";
    size_t length = strcspn(rest, "/");
    *session = *path = NULL;
    if (length == 0 || !rest[length] || !rest[length + 1])
        return false;
    *session = xstrndup(rest, length);
    *path = unescape(rest + length + 1);
    return *path && session_check_id(*session, &ignored) == 0;
}

static bool is_alive(const struct mcp_call *call, const char *session)
{
    struct server *server = tools_server(call);
    enum session_state state =
        server->sessions ? sessions_state(server->sessions, tools_namespace(call), session)
                         : SESSION_STOPPED;
    return state == SESSION_READY || state == SESSION_PROCESSING;
}

/* ---- visiting a session --------------------------------------------------------------------- */

static void visit_free(struct visit *visit)
{
    free(visit->uri);
    free(visit->session);
    free(visit->path);
    free(visit->next_session);
    free(visit);
}

/* The call is the caller's again. */
static struct mcp_call *leave(struct visit *visit)
{
    struct mcp_call *call = visit->call;
    call->cancelled = NULL;
    visit_free(visit);
    return call;
}

static void on_cancelled(struct mcp_call *call)
{
    struct visit *visit = call->context;
    session_file_abandon(visit->file);
    visit_free(visit);
}

/* False: there is no such session any more. */
static bool begin(struct visit *visit, enum operation operation, file_ended *ended)
{
    struct session_failure failure;
    struct server *server = tools_server(visit->call);
    bool is_read = operation == OP_FILE_READ;
    visit->call->context = visit;
    visit->call->cancelled = on_cancelled;
    visit->file = session_file_start(
        server->sessions,
        &(struct session_request){
            .namespace = tools_namespace(visit->call), .id = visit->session, .must_exist = true},
        &(struct file_work){.operation = operation,
                            .path = visit->path ? visit->path : "",
                            .beneath = true,
                            .depth = ARTIFACT_DEPTH,
                            .partial = true,
                            .max = is_read ? ARTIFACT_MAX : 0},
        ended, visit, &failure);
    return visit->file;
}

/* ---- reading -------------------------------------------------------------------------------- */

static void on_read(void *context, const struct file_result *result,
                    const struct session_failure *failure)
{
    struct visit *visit = context;
    cleanup_free char *uri = steal_pointer(&visit->uri);
    cleanup_free char *path = steal_pointer(&visit->path);
    struct mcp_call *call = leave(visit);
    bool fits = result && (call->base || result->length <= RESOURCE_MAX);
    if (result ? !fits : failure->kind == FAILURE_FILE_TOO_LARGE) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL,
                 "%s is too large to be had at once; sandbox_read_artifact reads parts of it", uri);
        return;
    }
    if (failure) {
        mcp_fail_resource(call, uri);
        return;
    }
    const char *type = content_type_of(path, result->content, result->length);
    json_t *content = json_pack("{s:s, s:s}", "uri", uri, "mimeType", type);
    json_t *text = json_stringn(result->length > 0 ? result->content : "", result->length);
    if (text) {
        json_object_set_new(content, "text", text);
    } else {
        cleanup_free char *data = base64_make(result->content, result->length);
        json_object_set_new(content, "blob", json_string(data));
    }
    mcp_succeed(call, json_pack("{s:[o]}", "contents", content));
}

void resources_read(struct mcp_call *call, const char *uri)
{
    struct visit *visit = xcalloc(1, sizeof *visit);
    visit->call = call;
    visit->uri = xstrdup(uri);
    if (parse(uri, &visit->session, &visit->path) && is_alive(call, visit->session) &&
        begin(visit, OP_FILE_READ, on_read))
        return;
    leave(visit);
    mcp_fail_resource(call, uri);
}

/* ---- listing -------------------------------------------------------------------------------- */

const char *artifact_path(const json_t *record)
{
    const char *type = json_string_value(json_object_get(record, "type"));
    const char *path = json_string_value(json_object_get(record, "path"));
    if (!type || !path || strcmp(type, "file") != 0)
        return NULL;
    path += strncmp(path, "./", 2) == 0 ? 2 : 0;
    for (const char *at = path; strchr(at, '/'); at = strchr(at, '/') + 1) {
        if (*at == '.')
            return NULL;
    }
    return path;
}

static json_t *describe(const struct visit *visit, const json_t *record)
{
    const char *path = artifact_path(record);
    if (!path)
        return NULL;
    cleanup_free char *uri = resource_uri(visit->session, path);
    return json_pack("{s:s, s:s, s:s, s:I}", "uri", uri, "name", path, "mimeType",
                     content_type(path), "size",
                     json_integer_value(json_object_get(record, "size")));
}

/* The cursor of the next session, for free(); NULL: there is none. */
static char *behind(const struct visit *visit)
{
    return visit->next_session ? xasprintf("%s:0", visit->next_session) : NULL;
}

static void on_listed(void *context, const struct file_result *result,
                      const struct session_failure *failure)
{
    struct visit *visit = context;
    json_t *page = json_array();
    size_t count = failure ? 0 : json_array_size(result->entries), at = visit->offset;
    for (; at < count && json_array_size(page) < ARTIFACT_PAGE; at++) {
        json_t *resource = describe(visit, json_array_get(result->entries, at));
        if (resource)
            json_array_append_new(page, resource);
    }
    cleanup_free char *next = at < count ? xasprintf("%s:%zu", visit->session, at) : behind(visit);
    mcp_succeed_page(leave(visit), "resources", page, next);
}

/* SESSION:OFFSET */
static bool is_cursor(const char *cursor)
{
    const char *offset = strchr(cursor, ':');
    return offset && offset[1] && offset[1 + strspn(offset + 1, "0123456789")] == '\0';
}

/* Keeps the first two of them, in the order of their names. */
static void consider(struct visit *visit, const char *id)
{
    if (!visit->session || strcmp(id, visit->session) < 0) {
        free(visit->next_session);
        visit->next_session = visit->session;
        visit->session = xstrdup(id);
    } else if (!visit->next_session || strcmp(id, visit->next_session) < 0) {
        free(visit->next_session);
        visit->next_session = xstrdup(id);
    }
}

/* The session that the cursor names, and the one behind it. If it has ended since, the list goes on
 * with what would come next. */
static void find_page(struct visit *visit, const char *cursor)
{
    json_t *list = sessions_list(tools_server(visit->call)->sessions, tools_namespace(visit->call));
    size_t index, length = cursor ? strcspn(cursor, ":") : 0;
    cleanup_free char *from = xstrndup(cursor ? cursor : "", length);
    json_t *session;
    json_array_foreach(list, index, session)
    {
        const char *id = json_string_value(json_object_get(session, "session_id"));
        if (is_alive(visit->call, id) && strcmp(id, from) >= 0)
            consider(visit, id);
    }
    if (cursor && visit->session && strcmp(visit->session, from) == 0)
        visit->offset = strtoul(cursor + length + 1, NULL, 10);
    json_decref(list);
}

void resources_list(struct mcp_call *call, const char *cursor)
{
    if (cursor && !is_cursor(cursor)) {
        mcp_fail(call, MCP_INVALID_PARAMS, NULL, "there is no such page");
        return;
    }
    struct visit *visit = xcalloc(1, sizeof *visit);
    visit->call = call;
    if (tools_server(call)->sessions)
        find_page(visit, cursor);
    if (visit->session && begin(visit, OP_FILE_LIST, on_listed))
        return;
    cleanup_free char *next = behind(visit);
    leave(visit);
    mcp_succeed_page(call, "resources", json_array(), next);
}

/* ---- watching ------------------------------------------------------------------------------- */

bool resources_can_watch(struct mcp_call *call, const char *uri)
{
    cleanup_free char *session = NULL, *path = NULL;
    return parse(uri, &session, &path) && is_alive(call, session);
}

void resources_tell(struct server *server, const char *namespace, const char *session,
                    const json_t *files)
{
    size_t index;
    json_t *record;
    for (size_t i = 0; i < sizeof server->mcp / sizeof server->mcp[0]; i++) {
        if (!server->mcp[i] || json_array_size(files) == 0)
            continue;
        mcp_resources_changed(server->mcp[i], namespace);
        json_array_foreach(files, index, record)
        {
            const char *path = json_string_value(json_object_get(record, "path"));
            cleanup_free char *uri = resource_uri(session, path);
            mcp_resource_changed(server->mcp[i], namespace, uri);
        }
    }
}
