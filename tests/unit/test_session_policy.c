/* Expiry, limits and eviction, with a clock that the tests set. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "session/policy.h"

#define MINUTE 60000u
#define NOW (1000 * MINUTE)

static struct session_facts idle_since(uint64_t accessed)
{
    return (struct session_facts){.namespace = "default",
                                  .group = "",
                                  .state = SESSION_READY,
                                  .memory_mb = 1024,
                                  .created = NOW - 500 * MINUTE,
                                  .accessed = accessed,
                                  .idle = 30 * MINUTE};
}

static void idle_sessions_expire(void **state)
{
    (void)state;
    struct session_facts facts = idle_since(NOW);
    assert_false(policy_is_expired(&facts, NOW));
    assert_false(policy_is_expired(&facts, NOW + 30 * MINUTE - 1));
    assert_true(policy_is_expired(&facts, NOW + 30 * MINUTE));
    facts.idle = 0;
    assert_false(policy_is_expired(&facts, NOW + 100000 * MINUTE));
}

static void used_sessions_are_not_idle(void **state)
{
    (void)state;
    struct session_facts facts = idle_since(NOW);
    facts.users = 1;
    facts.state = SESSION_PROCESSING;
    assert_false(policy_is_expired(&facts, NOW + 60 * MINUTE));
}

static void lifetime_ends_even_used_sessions(void **state)
{
    (void)state;
    struct session_facts facts = idle_since(NOW);
    facts.created = NOW;
    facts.lifetime = 120 * MINUTE;
    facts.users = 1;
    facts.state = SESSION_PROCESSING;
    assert_false(policy_is_expired(&facts, NOW + 120 * MINUTE - 1));
    assert_true(policy_is_expired(&facts, NOW + 120 * MINUTE));
}

static void what_is_made_or_over_does_not_expire(void **state)
{
    (void)state;
    struct session_facts facts = idle_since(NOW);
    facts.state = SESSION_CREATING;
    assert_false(policy_is_expired(&facts, NOW + 60 * MINUTE));
    facts.state = SESSION_STOPPED;
    assert_false(policy_is_expired(&facts, NOW + 60 * MINUTE));
    facts.state = SESSION_ERROR;
    assert_true(policy_is_expired(&facts, NOW + 60 * MINUTE));
}

/* ---- room ---------------------------------------------------------------------------------- */

#define MANY 8

struct scene {
    struct session_facts facts[MANY];
    const struct session_facts *all[MANY], *victims[MANY];
    size_t count;
    struct policy_wish wish;
};

/* Sessions that were last used one minute after the other. */
static struct scene scene_of(size_t count, uint64_t max_sessions)
{
    struct scene scene = {.count = count,
                          .wish = {.namespace = "default",
                                   .group = "",
                                   .memory_mb = 1024,
                                   .all = {.sessions = max_sessions, .evict = true}}};
    for (size_t i = 0; i < count; i++)
        scene.facts[i] = idle_since(NOW + i * MINUTE);
    return scene;
}

static struct policy_answer decide(struct scene *scene)
{
    for (size_t i = 0; i < scene->count; i++)
        scene->all[i] = &scene->facts[i];
    return policy_make_room(scene->all, scene->count, &scene->wish, scene->victims);
}

static void below_the_limit_nobody_goes(void **state)
{
    (void)state;
    struct scene scene = scene_of(3, 4);
    struct policy_answer answer = decide(&scene);
    assert_null(answer.lacking);
    assert_int_equal(answer.victims, 0);
}

static void least_recently_used_goes(void **state)
{
    (void)state;
    struct scene scene = scene_of(4, 4);
    scene.facts[2].accessed = NOW - MINUTE;
    struct policy_answer answer = decide(&scene);
    assert_null(answer.lacking);
    assert_int_equal(answer.victims, 1);
    assert_ptr_equal(scene.victims[0], &scene.facts[2]);
}

static void as_many_go_as_must(void **state)
{
    (void)state;
    struct scene scene = scene_of(5, 3);
    struct policy_answer answer = decide(&scene);
    assert_null(answer.lacking);
    assert_int_equal(answer.victims, 3);
    for (size_t i = 0; i < 3; i++)
        assert_ptr_equal(scene.victims[i], &scene.facts[i]);
}

static void working_sessions_stay(void **state)
{
    (void)state;
    struct scene scene = scene_of(4, 4);
    scene.facts[0].state = SESSION_PROCESSING;
    scene.facts[1].state = SESSION_CREATING;
    scene.facts[2].users = 1;
    struct policy_answer answer = decide(&scene);
    assert_null(answer.lacking);
    assert_ptr_equal(scene.victims[0], &scene.facts[3]);
    scene.facts[3].state = SESSION_PROCESSING;
    answer = decide(&scene);
    assert_string_equal(answer.lacking, "sessions");
    assert_int_equal(answer.current, 4);
    assert_int_equal(answer.limit, 4);
}

static void failed_sessions_can_go(void **state)
{
    (void)state;
    struct scene scene = scene_of(2, 2);
    scene.facts[0].state = SESSION_ERROR;
    struct policy_answer answer = decide(&scene);
    assert_null(answer.lacking);
    assert_ptr_equal(scene.victims[0], &scene.facts[0]);
}

static void stopped_sessions_do_not_count(void **state)
{
    (void)state;
    struct scene scene = scene_of(4, 4);
    scene.facts[3].state = SESSION_STOPPED;
    assert_int_equal(decide(&scene).victims, 0);
}

static void without_eviction_the_limit_holds(void **state)
{
    (void)state;
    struct scene scene = scene_of(4, 4);
    scene.wish.all.evict = false;
    struct policy_answer answer = decide(&scene);
    assert_string_equal(answer.lacking, "sessions");
    assert_int_equal(answer.victims, 0);
}

static void memory_is_freed_until_it_fits(void **state)
{
    (void)state;
    struct scene scene = scene_of(4, 0);
    scene.wish.all.memory_mb = 5 * 1024;
    scene.wish.memory_mb = 4096;
    struct policy_answer answer = decide(&scene);
    assert_null(answer.lacking);
    assert_int_equal(answer.victims, 3);
    scene.wish.memory_mb = 6 * 1024;
    answer = decide(&scene);
    assert_string_equal(answer.lacking, "memory");
    assert_int_equal(answer.limit, 5 * 1024);
}

static void other_namespaces_count_but_stay(void **state)
{
    (void)state;
    struct scene scene = scene_of(3, 3);
    scene.facts[0].namespace = "other";
    struct policy_answer answer = decide(&scene);
    assert_ptr_equal(scene.victims[0], &scene.facts[1]);
    scene.facts[1].namespace = scene.facts[2].namespace = "other";
    answer = decide(&scene);
    assert_string_equal(answer.lacking, "sessions");
}

static void groups_have_limits_of_their_own(void **state)
{
    (void)state;
    struct scene scene = scene_of(4, 10);
    scene.wish.group = "mine";
    scene.wish.own = (struct policy_limits){.sessions = 2, .evict = false};
    assert_null(decide(&scene).lacking);
    scene.facts[2].group = scene.facts[3].group = "mine";
    struct policy_answer answer = decide(&scene);
    assert_string_equal(answer.lacking, "sessions");
    assert_int_equal(answer.current, 2);
    scene.wish.own.evict = true;
    answer = decide(&scene);
    assert_null(answer.lacking);
    assert_int_equal(answer.victims, 1);
    assert_ptr_equal(scene.victims[0], &scene.facts[2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idle_sessions_expire),
        cmocka_unit_test(used_sessions_are_not_idle),
        cmocka_unit_test(lifetime_ends_even_used_sessions),
        cmocka_unit_test(what_is_made_or_over_does_not_expire),
        cmocka_unit_test(below_the_limit_nobody_goes),
        cmocka_unit_test(least_recently_used_goes),
        cmocka_unit_test(as_many_go_as_must),
        cmocka_unit_test(working_sessions_stay),
        cmocka_unit_test(failed_sessions_can_go),
        cmocka_unit_test(stopped_sessions_do_not_count),
        cmocka_unit_test(without_eviction_the_limit_holds),
        cmocka_unit_test(memory_is_freed_until_it_fits),
        cmocka_unit_test(other_namespaces_count_but_stay),
        cmocka_unit_test(groups_have_limits_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
