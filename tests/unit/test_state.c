/* State folders, in a home of their own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/home.h"
#include "base/mem.h"
#include "sandbox/state.h"
#include "temporary_home.h"

static size_t count_of(const char *namespace)
{
    struct error err;
    struct state_entry *entries;
    size_t count;
    assert_int_equal(state_list(namespace, &entries, &count, &err), 0);
    state_list_free(entries, count);
    return count;
}

static void one_keeper_for_each_name(void **state)
{
    struct error err;
    cleanup_free char *folder = NULL, *second = NULL, *other = NULL;
    (void)state;
    int lock = state_create("default", "box", &folder, &err);
    assert_true(lock >= 0);
    assert_true(state_create("default", "box", &second, &err) < 0);
    assert_int_equal(err.code, ERROR_EXISTS);
    assert_null(second);
    int other_lock = state_create("team", "box", &other, &err);
    assert_true(other_lock >= 0);
    state_remove(folder, lock);
    state_remove(other, other_lock);
}

static void folder_is_its_owners_alone(void **state)
{
    struct error err;
    struct stat status;
    cleanup_free char *folder = NULL;
    (void)state;
    int lock = state_create("default", "box", &folder, &err);
    assert_int_equal(stat(folder, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    state_remove(folder, lock);
    assert_false(file_exists(folder));
}

static void list_is_sorted_and_by_namespace(void **state)
{
    static const char *const names[][2] = {{"b", "x"}, {"a", "z"}, {"a", "y"}};
    struct error err;
    struct state_entry *entries;
    char *folders[3];
    int locks[3];
    size_t count;
    (void)state;
    for (size_t i = 0; i < 3; i++)
        locks[i] = state_create(names[i][0], names[i][1], &folders[i], &err);
    assert_int_equal(state_list(NULL, &entries, &count, &err), 0);
    assert_int_equal(count, 3);
    assert_string_equal(entries[0].name, "y");
    assert_string_equal(entries[1].name, "z");
    assert_string_equal(entries[2].namespace, "b");
    state_list_free(entries, count);
    assert_int_equal(count_of("a"), 2);
    assert_int_equal(count_of("nobody"), 0);
    for (size_t i = 0; i < 3; i++) {
        state_remove(folders[i], locks[i]);
        free(folders[i]);
    }
    assert_int_equal(count_of(NULL), 0);
}

static void sweep_takes_what_has_no_keeper(void **state)
{
    struct error err;
    cleanup_free char *dead = NULL, *alive = NULL, *below = NULL;
    cleanup_free char *dead_namespace = home_path("sandboxes/dead");
    (void)state;
    int dead_lock = state_create("dead", "box", &dead, &err);
    int alive_lock = state_create("default", "box", &alive, &err);
    below = xasprintf("%s/mounts/deep", dead);
    assert_int_equal(folder_make(below, 0700, &err), 0);
    fd_close(dead_lock);
    assert_int_equal(count_of(NULL), 1);
    state_sweep();
    assert_false(file_exists(dead));
    assert_false(file_exists(dead_namespace));
    assert_true(file_exists(alive));
    state_remove(alive, alive_lock);
}

static void stale_folder_is_taken_over_clean(void **state)
{
    struct error err;
    cleanup_free char *folder = NULL, *again = NULL, *log = NULL;
    (void)state;
    int lock = state_create("default", "box", &folder, &err);
    log = xasprintf("%s/output.log", folder);
    assert_int_equal(file_write_atomic(log, "old", 3, 0600, &err), 0);
    fd_close(lock);
    lock = state_create("default", "box", &again, &err);
    assert_true(lock >= 0);
    assert_false(file_exists(log));
    state_remove(again, lock);
}

static void what_is_made_ahead_gets_its_name_later(void **state)
{
    struct error err;
    cleanup_free char *folder = NULL, *second = NULL, *ahead = home_path("sandboxes/.ahead");
    (void)state;
    int lock = state_create_ahead(&folder, &err);
    assert_true(lock >= 0);
    int listener = state_listen(folder, &err);
    assert_int_equal(count_of(NULL), 0);
    state_sweep();
    assert_int_equal(state_take_name("team", "box", &folder, &err), 0);
    assert_int_equal(count_of("team"), 1);
    int connection = state_connect("team", "box", &err);
    assert_true(connection >= 0);
    fd_close(connection);
    assert_true(state_create("team", "box", &second, &err) < 0);
    assert_int_equal(err.code, ERROR_EXISTS);
    fd_close(listener);
    state_remove(folder, lock);
    assert_int_equal(count_of(NULL), 0);
    assert_false(file_exists(ahead));
}

static void a_taken_name_is_left_alone(void **state)
{
    struct error err;
    cleanup_free char *taken = NULL, *folder = NULL, *file = NULL;
    (void)state;
    int taken_lock = state_create("default", "box", &taken, &err);
    int lock = state_create_ahead(&folder, &err);
    assert_true(state_take_name("default", "box", &folder, &err) < 0);
    assert_int_equal(err.code, ERROR_EXISTS);
    assert_true(file_exists(folder));
    file = xasprintf("%s/disk", taken);
    assert_int_equal(file_write_atomic(file, "old", 3, 0600, &err), 0);
    fd_close(taken_lock);
    assert_int_equal(state_take_name("default", "box", &folder, &err), 0);
    assert_false(file_exists(file));
    state_remove(folder, lock);
}

static void sweep_takes_what_was_made_ahead(void **state)
{
    struct error err;
    cleanup_free char *folder = NULL;
    (void)state;
    fd_close(state_create_ahead(&folder, &err));
    assert_true(file_exists(folder));
    state_sweep();
    assert_false(file_exists(folder));
}

static void only_listeners_are_reached(void **state)
{
    struct error err;
    struct stat status;
    cleanup_free char *folder = NULL, *path = NULL;
    (void)state;
    assert_true(state_connect("default", "box", &err) < 0);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    int lock = state_create("default", "box", &folder, &err);
    int listener = state_listen(folder, &err);
    assert_true(listener >= 0);
    path = xasprintf("%s/keeper.sock", folder);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    int connection = state_connect("default", "box", &err);
    assert_true(connection >= 0);
    fd_close(connection);
    fd_close(listener);
    assert_true(state_connect("default", "box", &err) < 0);
    assert_int_equal(err.code, ERROR_NOT_FOUND);
    state_remove(folder, lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_keeper_for_each_name),
        cmocka_unit_test(folder_is_its_owners_alone),
        cmocka_unit_test(list_is_sorted_and_by_namespace),
        cmocka_unit_test(sweep_takes_what_has_no_keeper),
        cmocka_unit_test(stale_folder_is_taken_over_clean),
        cmocka_unit_test(only_listeners_are_reached),
        cmocka_unit_test(what_is_made_ahead_gets_its_name_later),
        cmocka_unit_test(a_taken_name_is_left_alone),
        cmocka_unit_test(sweep_takes_what_was_made_ahead),
    };
    return cmocka_run_group_tests(tests, make_home, remove_home);
}
