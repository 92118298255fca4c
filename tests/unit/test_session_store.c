/* What is put into the store is there when it is opened again, also after damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/home.h"
#include "base/mem.h"
#include "session/store.h"
#include "temporary_home.h"

static struct store_row row_of(const char *sandbox)
{
    return (struct store_row){.namespace = "default",
                              .sandbox = sandbox,
                              .id = "some",
                              .group = "",
                              .template = "python",
                              .image = "microsandbox/python",
                              .language = "python",
                              .flavor = "small",
                              .volumes = "[]",
                              .state = SESSION_READY,
                              .cpus = 1,
                              .memory_mb = 1024,
                              .created_us = UINT64_C(1800000000000000),
                              .created = 5,
                              .accessed = 7,
                              .idle = 11,
                              .lifetime = 13};
}

struct seen {
    size_t count;
    struct store_row row;
    char sandbox[64], id[64];
};

static void see(void *context, const struct store_row *row)
{
    struct seen *seen = context;
    seen->count++;
    seen->row = *row;
    snprintf(seen->sandbox, sizeof seen->sandbox, "%s", row->sandbox);
    snprintf(seen->id, sizeof seen->id, "%s", row->id);
}

static struct seen look(struct store *store)
{
    struct seen seen = {0};
    store_each(store, see, &seen);
    return seen;
}

static struct store *open_store(const char *path)
{
    struct error err;
    struct store *store = store_open(path, &err);
    assert_non_null(store);
    return store;
}

static void rows_outlive_the_process(void **state)
{
    (void)state;
    cleanup_free char *path = home_path("rows.db");
    struct store *store = open_store(path);
    struct store_row row = row_of("session-1");
    store_put(store, &row);
    row.accessed = 99;
    row.state = SESSION_STOPPED;
    store_put(store, &row);
    store_close(store);
    store = open_store(path);
    struct seen seen = look(store);
    assert_int_equal(seen.count, 1);
    assert_string_equal(seen.sandbox, "session-1");
    assert_string_equal(seen.id, "some");
    assert_int_equal(seen.row.accessed, 99);
    assert_int_equal(seen.row.state, SESSION_STOPPED);
    assert_int_equal(seen.row.created_us, UINT64_C(1800000000000000));
    assert_int_equal(seen.row.lifetime, 13);
    store_forget(store, "other", "session-1");
    assert_int_equal(look(store).count, 1);
    store_forget(store, "default", "session-1");
    assert_int_equal(look(store).count, 0);
    store_close(store);
}

static void many_rows_in_one_step(void **state)
{
    (void)state;
    cleanup_free char *path = home_path("many.db");
    struct store *store = open_store(path);
    store_begin(store);
    for (int i = 0; i < 200; i++) {
        cleanup_free char *name = xasprintf("session-%d", i);
        struct store_row row = row_of(name);
        store_put(store, &row);
    }
    store_end(store);
    assert_int_equal(look(store).count, 200);
    store_close(store);
}

static void damage_is_begun_anew(void **state)
{
    (void)state;
    struct error err;
    cleanup_free char *path = home_path("damaged.db");
    assert_int_equal(file_write_atomic(path, "this is no database at all", 26, 0600, &err), 0);
    struct store *store = open_store(path);
    assert_int_equal(look(store).count, 0);
    struct store_row row = row_of("session-1");
    store_put(store, &row);
    assert_int_equal(look(store).count, 1);
    store_close(store);
}

static void no_place_is_an_error(void **state)
{
    (void)state;
    struct error err;
    assert_null(store_open("/nosuch/folder/x.db", &err));
    assert_non_null(strstr(err.message, "/nosuch/folder/x.db"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_outlive_the_process),
        cmocka_unit_test(many_rows_in_one_step),
        cmocka_unit_test(damage_is_begun_anew),
        cmocka_unit_test(no_place_is_an_error),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
