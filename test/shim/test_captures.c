/* What graphs hold, which captures are under way, which graphs are parts of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "offload/memory/captures.h"
#include "shim/vmem/capture_queries.h"
#include "shim/real/real.h"

mdnn_dlsym_function_t mdnn_real_dlsym(void)
{
    return NULL;
}

static mdnn_captures_t *captures;
static bool memory_is_out;

void *__real_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes);
void *__wrap_realloc(void *memory, size_t bytes)
{
    return memory_is_out ? NULL : __real_realloc(memory, bytes);
}

static int begin(void **state)
{
    (void)state;
    captures = mdnn_captures_create();
    return captures ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    mdnn_captures_destroy(captures);
    return 0;
}

static CUgraph graph(uintptr_t number)
{
    return (CUgraph)(number * 16);
}

static mdnn_status_t hold(uint64_t id, uint64_t address)
{
    return mdnn_captures_hold(captures, MDNN_HOLDER_GRAPH, id, (mdnn_held_t){.address = address});
}

static mdnn_status_t share(uint64_t from, uint64_t to)
{
    return mdnn_captures_share(captures, MDNN_HOLDER_GRAPH, from, MDNN_HOLDER_GRAPH, to);
}

static size_t release(uint64_t id)
{
    size_t count;
    free(mdnn_captures_release(captures, MDNN_HOLDER_GRAPH, id, &count));
    return count;
}

static void the_last_of_those_who_share_lets_go(void **state)
{
    (void)state;
    assert_int_equal(hold(1, 100), MDNN_STATUS_OK);
    assert_int_equal(hold(1, 100), MDNN_STATUS_BUSY);
    assert_int_equal(hold(1, 200), MDNN_STATUS_OK);
    assert_int_equal(share(1, 2), MDNN_STATUS_OK);
    assert_int_equal(share(2, 1), MDNN_STATUS_OK); /* they are one */
    assert_int_equal(release(1), 0);
    assert_int_equal(release(1), 0);
    assert_int_equal(release(2), 2);
    assert_int_equal(share(3, 4), MDNN_STATUS_OK); /* nothing to share */
    assert_int_equal(release(4), 0);
}

static void who_holds_something_else_cannot_share(void **state)
{
    (void)state;
    hold(1, 100);
    hold(2, 200);
    assert_int_equal(share(1, 2), MDNN_STATUS_BUSY);
    assert_int_equal(release(2), 1);
    assert_int_equal(release(1), 1);
}

static mdnn_status_t hold_by_hand(uint64_t id, uint64_t address)
{
    return mdnn_captures_hold(captures, MDNN_HOLDER_GRAPH, id,
                              (mdnn_held_t){.address = address, .by_hand = true});
}

static void what_is_held_by_hand_ends_with_the_free(void **state)
{
    (void)state;
    assert_int_equal(hold_by_hand(1, 100), MDNN_STATUS_OK);
    assert_int_equal(hold_by_hand(1, 200), MDNN_STATUS_OK);
    assert_int_equal(share(1, 2), MDNN_STATUS_OK); /* one for both */
    assert_int_equal(hold_by_hand(3, 100), MDNN_STATUS_OK);
    assert_int_equal(hold(4, 100), MDNN_STATUS_OK);
    assert_int_equal(mdnn_captures_freed(captures, 100), 2);
    assert_int_equal(mdnn_captures_freed(captures, 100), 0);
    assert_int_equal(release(3), 0);
    assert_int_equal(release(4), 1); /* what a capture named stays */
    assert_int_equal(hold_by_hand(1, 100), MDNN_STATUS_OK);
    assert_int_equal(hold(1, 100), MDNN_STATUS_BUSY);
    assert_int_equal(hold_by_hand(1, 100), MDNN_STATUS_BUSY);
    assert_int_equal(mdnn_captures_freed(captures, 100), 0);
    assert_int_equal(release(1), 0);
    assert_int_equal(release(2), 2);
}

static void what_a_graph_makes_is_held_until_it_ends(void **state)
{
    (void)state;
    const mdnn_held_t made = {.address = 100, .made = true};
    assert_int_equal(mdnn_captures_hold(captures, MDNN_HOLDER_EXECUTABLE, 1, made), MDNN_STATUS_OK);
    assert_int_equal(hold_by_hand(2, 100), MDNN_STATUS_OK);
    assert_true(mdnn_captures_is_made(captures, 100));
    assert_false(mdnn_captures_is_made(captures, 200));
    mdnn_held_t *const held = mdnn_captures_find(captures, MDNN_HOLDER_EXECUTABLE, 1, 100);
    assert_non_null(held);
    held->out = true;
    assert_int_equal(mdnn_captures_freed(captures, 100), 0); /* another launch makes it anew */
    assert_false(held->out);
    assert_null(mdnn_captures_find(captures, MDNN_HOLDER_EXECUTABLE, 1, 200));
    mdnn_captures_set_frees_on_launch(captures, 1, true);
    assert_true(mdnn_captures_frees_on_launch(captures, 1));
    assert_false(mdnn_captures_frees_on_launch(captures, 2));
    assert_int_equal(release(2), 1);
}

static void what_was_held_can_be_taken_back(void **state)
{
    (void)state;
    assert_int_equal(hold(1, 100), MDNN_STATUS_OK);
    assert_int_equal(hold(1, 200), MDNN_STATUS_OK);
    assert_true(mdnn_captures_unhold(captures, MDNN_HOLDER_GRAPH, 1, 100));
    assert_false(mdnn_captures_unhold(captures, MDNN_HOLDER_GRAPH, 1, 100));
    assert_false(mdnn_captures_unhold(captures, MDNN_HOLDER_GRAPH, 2, 200));
    assert_int_equal(release(1), 1);
}

static void what_is_kept_is_never_let_go(void **state)
{
    (void)state;
    size_t count;
    hold(1, 100);
    mdnn_captures_keep(captures, MDNN_HOLDER_GRAPH, 1);
    mdnn_captures_keep(captures, MDNN_HOLDER_GRAPH, 2);
    mdnn_captures_held(captures, MDNN_HOLDER_GRAPH, 1, &count);
    assert_int_equal(count, 1);
    mdnn_captures_keep(captures, MDNN_HOLDER_GRAPH, 1);
    assert_int_equal(release(1), 0);
}

static void a_holder_is_known_by_another_name(void **state)
{
    (void)state;
    hold(16, 100);
    assert_true(mdnn_captures_join(captures, graph(1), graph(2)));
    mdnn_captures_rename(captures, MDNN_HOLDER_GRAPH, 16, 3);
    assert_int_equal(release(16), 0);
    assert_true((uintptr_t)mdnn_captures_whole(captures, graph(2)) == 3);
    mdnn_captures_rename(captures, MDNN_HOLDER_GRAPH, 3, 16);
    assert_ptr_equal(mdnn_captures_whole(captures, graph(2)), graph(1));
    assert_int_equal(release(16), 1);
}

static void captures_are_found_by_stream_thread_and_graph(void **state)
{
    (void)state;
    CUstream const stream = (CUstream)(uintptr_t)0x1000;
    const pthread_t here = pthread_self(), there = here + 1;
    const mdnn_capture_t all[] = {{stream, false, here, 5, graph(1), false},
                                  {CU_STREAM_PER_THREAD, true, here, 6, graph(2), false},
                                  {CU_STREAM_PER_THREAD, true, there, 7, graph(3), true}};
    mdnn_capture_t found;
    assert_false(mdnn_captures_in(captures, stream, here, &found));
    for (int i = 0; i < 3; i++)
        assert_true(mdnn_captures_begin(captures, &all[i]));
    assert_true(mdnn_captures_in(captures, stream, there, &found));
    assert_int_equal(found.id, 5);
    assert_true(mdnn_captures_in(captures, CU_STREAM_PER_THREAD, there, &found));
    assert_int_equal(found.id, 7);
    assert_true(mdnn_captures_in(captures, CU_STREAM_PER_THREAD, here, &found));
    assert_int_equal(found.id, 6);
    assert_true(mdnn_captures_making(captures, graph(3), &found));
    assert_true(found.id == 7 && found.given);
    assert_false(mdnn_captures_making(captures, NULL, &found));
    assert_true(mdnn_captures_end(captures, 5));
    assert_false(mdnn_captures_end(captures, 5));
    assert_false(mdnn_captures_in(captures, stream, here, &found));
    assert_true(mdnn_captures_in(captures, CU_STREAM_PER_THREAD, there, &found));
}

static void parts_belong_to_the_whole_and_end_with_it(void **state)
{
    (void)state;
    assert_true(mdnn_captures_join(captures, graph(1), graph(2)));
    assert_true(mdnn_captures_join(captures, graph(2), graph(3)));
    assert_true(mdnn_captures_join(captures, graph(1), graph(4)));
    assert_true(mdnn_captures_join(captures, graph(5), graph(6)));
    assert_ptr_equal(mdnn_captures_whole(captures, graph(3)), graph(1));
    assert_ptr_equal(mdnn_captures_whole(captures, graph(1)), graph(1));
    mdnn_captures_part(captures, graph(1));
    for (uintptr_t i = 1; i < 6; i++)
        assert_ptr_equal(mdnn_captures_whole(captures, graph(i)), graph(i));
    assert_ptr_equal(mdnn_captures_whole(captures, graph(6)), graph(5));
}

/* Handles that are used again, of a graph whose end nobody saw. */
static void parts_in_a_circle_end_a_search_all_the_same(void **state)
{
    (void)state;
    assert_true(mdnn_captures_join(captures, graph(1), graph(2)));
    assert_true(mdnn_captures_join(captures, graph(2), graph(1)));
    assert_non_null(mdnn_captures_whole(captures, graph(1)));
    mdnn_captures_part(captures, graph(1));
    assert_ptr_equal(mdnn_captures_whole(captures, graph(1)), graph(1));
}

/* Their failing ends could not be told from others otherwise. */
static void a_few_captures_are_remembered_without_memory(void **state)
{
    enum { FEW = 8 };
    (void)state;
    memory_is_out = true;
    for (uintptr_t i = 1; i <= FEW; i++) {
        const mdnn_capture_t each = {.stream = (CUstream)(i * 16), .id = i};
        assert_true(mdnn_captures_begin(captures, &each));
    }
    const mdnn_capture_t another = {.id = FEW + 1};
    assert_false(mdnn_captures_begin(captures, &another));
    memory_is_out = false;
    for (uintptr_t i = 1; i <= FEW; i++)
        assert_true(mdnn_captures_end(captures, i));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_last_of_those_who_share_lets_go, begin, end),
        cmocka_unit_test_setup_teardown(who_holds_something_else_cannot_share, begin, end),
        cmocka_unit_test_setup_teardown(what_is_held_by_hand_ends_with_the_free, begin, end),
        cmocka_unit_test_setup_teardown(what_a_graph_makes_is_held_until_it_ends, begin, end),
        cmocka_unit_test_setup_teardown(what_was_held_can_be_taken_back, begin, end),
        cmocka_unit_test_setup_teardown(what_is_kept_is_never_let_go, begin, end),
        cmocka_unit_test_setup_teardown(a_holder_is_known_by_another_name, begin, end),
        cmocka_unit_test_setup_teardown(captures_are_found_by_stream_thread_and_graph, begin, end),
        cmocka_unit_test_setup_teardown(a_few_captures_are_remembered_without_memory, begin, end),
        cmocka_unit_test_setup_teardown(parts_belong_to_the_whole_and_end_with_it, begin, end),
        cmocka_unit_test_setup_teardown(parts_in_a_circle_end_a_search_all_the_same, begin, end),
    };
    return cmocka_run_group_tests_name("captures", tests, NULL, NULL);
}
