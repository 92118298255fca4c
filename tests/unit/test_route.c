/* Paths find their routes, and parts of them their names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/http/internal.h"

static const struct http_route routes[] = {
    {"GET", "/things/first", NULL, 1},   {"GET", "/things/{id}", NULL, 2},
    {"DELETE", "/things/{id}", NULL, 3}, {"GET", "/things/{id}/parts/{part}", NULL, 4},
    {NULL, "/files/{id}/*", NULL, 5},    {0},
};

struct found {
    int status;
    size_t route; /* by its body_max */
    struct http_request request;
};

static struct http_server server = {.routes = routes};

static struct found find(const char *method, const char *path)
{
    struct error err;
    struct found found = {.request = {.server = &server, .method = method, .path = path}};
    found.status = route_find(&found.request, &err);
    found.route = found.request.route ? found.request.route->body_max : 0;
    return found;
}

static void forget(struct found *found)
{
    for (size_t i = 0; i < found->request.parameter_count; i++)
        free(found->request.parameters[i].value);
    buf_free(&found->request.added);
}

static void expect(const char *path, size_t route, const char *name, const char *value)
{
    struct found found = find("GET", path);
    assert_int_equal(found.status, 0);
    assert_int_equal(found.route, route);
    if (name)
        assert_string_equal(http_parameter(&found.request, name), value);
    assert_null(http_parameter(&found.request, "i"));
    assert_null(http_parameter(&found.request, "other"));
    forget(&found);
}

static void parts_have_names(void **state)
{
    (void)state;
    expect("/things/first", 1, NULL, NULL);
    expect("/things/second", 2, "id", "second");
    expect("/things/a%20b%C3%a4", 2, "id", "a b\xc3\xa4");
    expect("/things/a/parts/b", 4, "id", "a");
    expect("/things/a/parts/b", 4, "part", "b");
    expect("/files/a/", 5, "*", "");
    expect("/files/a/b/c%2Fd", 5, "*", "b/c/d");
    expect("/files/a//b", 5, "*", "/b");
}

static void the_rest_is_also_there_as_sent(void **state)
{
    (void)state;
    struct found found = find("PUT", "/files/a/b%2fc/");
    assert_int_equal(found.status, 0);
    assert_string_equal(http_rest(&found.request), "b%2fc/");
    forget(&found);
}

static void refuse(const char *method, const char *path, int status)
{
    struct found found = find(method, path);
    assert_int_equal(found.status, status);
    assert_int_equal(found.request.parameter_count > 0, status == 400);
    forget(&found);
}

static void what_fits_nowhere_is_refused(void **state)
{
    (void)state;
    refuse("GET", "/things", 404);
    refuse("GET", "/things/", 404);
    refuse("GET", "/things/a/", 404);
    refuse("GET", "/things/a/parts/", 404);
    refuse("GET", "/things//parts/b", 404);
    refuse("GET", "/things/a/parts/b/c", 404);
    refuse("GET", "/files/a", 404);
    refuse("GET", "/files//b", 404);
}

static void broken_escapes_are_refused(void **state)
{
    (void)state;
    refuse("GET", "/things/%", 400);
    refuse("GET", "/things/%2", 400);
    refuse("GET", "/things/%zz", 400);
    refuse("GET", "/things/%00", 400);
    refuse("GET", "/things/a%2Fb", 400);
    refuse("GET", "/things/a/parts/%+1", 400);
    refuse("GET", "/files/a/%0", 400);
}

static void other_methods_are_told(void **state)
{
    (void)state;
    struct found found = find("PUT", "/things/a");
    assert_int_equal(found.status, 405);
    assert_string_equal(buf_text(&found.request.added), "Allow: GET\r\nAllow: DELETE\r\n");
    forget(&found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_have_names),
        cmocka_unit_test(the_rest_is_also_there_as_sent),
        cmocka_unit_test(what_fits_nowhere_is_refused),
        cmocka_unit_test(broken_escapes_are_refused),
        cmocka_unit_test(other_methods_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
