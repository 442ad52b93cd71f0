/* What a database says of candidates restricts and never admits. What is known of algorithms and
 * engines is given here: cuDNN's part is test_engines's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "shim/candidates/candidate_table.h"
#include "shim/candidates/cost_cache_check.h"
#include "shim/candidates/slices.h"
#include "test/unit/cases.h"
#include "test/unit/random.h"

enum { BATCH = 16, ALGO_COUNT = 6, ENGINE_COUNT = 40 };

/* ---- what is so ---- */

bool mdnn_algo_is_deterministic(mdnn_direction_t direction, int algo)
{
    return direction != MDNN_BACKWARD_FILTER || algo % 2 != 0;
}

bool mdnn_algo_is_direct(mdnn_direction_t direction, int algo)
{
    (void)direction;
    return algo < 3;
}

int mdnn_algo_count(mdnn_direction_t direction)
{
    (void)direction;
    return ALGO_COUNT;
}

int64_t mdnn_problem_batch(const mdnn_problem_t *problem)
{
    return problem->x.dims[0];
}

bool mdnn_tensor_has_gaps(const mdnn_problem_tensor_t *tensor)
{
    return tensor->strides[0] == 12345;
}

/* Every third engine rounds, and is no candidate of a problem that forbids that. */
static bool engine_is_admissible(const mdnn_problem_t *problem, int32_t id)
{
    return id < ENGINE_COUNT && (id % 3 != 0 || problem->math_type != CUDNN_FMA_MATH);
}

static mdnn_engine_offer_t truth_of(int32_t id)
{
    return (mdnn_engine_offer_t){
        .deterministic = id % 2 == 0, .direct = id % 5 != 0, .strict = id % 3 != 0};
}

static const mdnn_problem_t *problem_now;

mdnn_status_t mdnn_engines_judge(mdnn_engines_t *engines, cudnnHandle_t handle, int64_t images,
                                 int32_t id, mdnn_engine_offer_t *offer)
{
    (void)engines;
    (void)handle;
    assert_in_range(images, 1, BATCH);
    *offer = truth_of(id);
    return engine_is_admissible(problem_now, id) ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED;
}

/* ---- any file ---- */

static int32_t any_algo(uint64_t *seed)
{
    return (int32_t)(random_next(seed) % 12) - 2;
}

static mdnn_cost_t any_cost(uint64_t *seed)
{
    const uint64_t bits = random_next(seed);
    mdnn_cost_t cost;
    memset(&cost, 0, sizeof cost);
    cost.algo = any_algo(seed);
    cost.math_type = (int32_t)(random_next(seed) % 5);
    if (bits & 1) {
        cost.engine.id = (int32_t)(random_next(seed) % (ENGINE_COUNT + 5));
        cost.algo = bits & 2 ? MDNN_ALGO_ENGINE + cost.engine.id : cost.algo;
    }
    cost.workspace_bytes = random_next(seed) % 4096;
    cost.deterministic = bits & 4;
    cost.direct = bits & 8;
    cost.strict = bits & 16;
    cost.untimed = (bits & 96) == 0;
    cost.time_ms = cost.untimed ? 0 : 1;
    return cost;
}

static void fill(mdnn_cost_memory_t *memory, uint64_t *seed)
{
    for (int i = 0; i < 8; i++) {
        mdnn_cost_t costs[8];
        const size_t count = random_next(seed) % 8;
        for (size_t j = 0; j < count; j++)
            costs[j] = any_cost(seed);
        assert_int_equal(
            mdnn_cost_memory_put(memory, (int64_t)(random_next(seed) % (2 * BATCH)) + 1,
                                 (mdnn_part_role_t)(random_next(seed) % 2), costs, count, false),
            MDNN_STATUS_OK);
    }
}

static mdnn_problem_t any_problem(uint64_t *seed)
{
    static const int32_t directions[] = {MDNN_FORWARD, MDNN_BACKWARD_DATA, MDNN_BACKWARD_FILTER};
    mdnn_problem_t problem;
    memset(&problem, 0, sizeof problem);
    problem.direction = directions[random_next(seed) % 3];
    problem.math_type = random_next(seed) % 2 ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
    problem.interfaces = (int32_t)(random_next(seed) % 4);
    problem.x.dims[0] = BATCH;
    problem.y.strides[0] = random_next(seed) % 4 ? 1 : 12345;
    return problem;
}

static void check_algorithm(const mdnn_problem_t *problem, const mdnn_cost_t *cost)
{
    const mdnn_direction_t direction = (mdnn_direction_t)problem->direction;
    assert_true(problem->interfaces & MDNN_INTERFACE_LEGACY);
    assert_in_range(cost->algo, 0, ALGO_COUNT - 1);
    assert_true(cost->math_type == problem->math_type || cost->math_type == CUDNN_FMA_MATH);
    assert_true(!cost->deterministic || mdnn_algo_is_deterministic(direction, cost->algo));
    assert_true(!cost->direct || mdnn_algo_is_direct(direction, cost->algo));
    assert_true(!cost->strict || cost->math_type == CUDNN_FMA_MATH);
}

static void check_engine(const mdnn_problem_t *problem, const mdnn_engines_t *engines,
                         const mdnn_cost_t *cost)
{
    const mdnn_engine_offer_t truth = truth_of(cost->engine.id);
    assert_non_null(engines);
    assert_int_equal(cost->algo, MDNN_ALGO_ENGINE + cost->engine.id);
    assert_true(engine_is_admissible(problem, cost->engine.id));
    assert_false(mdnn_tensor_has_gaps(mdnn_problem_output(problem)));
    assert_true(!cost->deterministic || truth.deterministic);
    assert_true(!cost->direct || truth.direct);
    assert_true(!cost->strict || truth.strict);
}

CASE(nothing_is_admitted_by_the_word_of_a_file)
{
    static const mdnn_call_t call;
    int kept = 0;
    for (uint64_t seed = 1, round = 0; round < 20000; round++) {
        const mdnn_problem_t problem = any_problem(&seed);
        mdnn_engines_t *const engines =
            problem.interfaces & MDNN_INTERFACE_GRAPH ? (mdnn_engines_t *)&seed : NULL;
        mdnn_cost_memory_t memory = {0};
        problem_now = &problem;
        fill(&memory, &seed);
        mdnn_cost_cache_restrict(&memory, &call, &problem, engines);
        for (size_t i = 0; i < memory.count; i++) {
            const mdnn_cost_entry_t *const entry = &memory.entries[i];
            assert_in_range(entry->images, 1, BATCH);
            for (size_t j = 0; j < entry->count; j++, kept++)
                if (entry->costs[j].algo < MDNN_ALGO_ENGINE)
                    check_algorithm(&problem, &entry->costs[j]);
                else
                    check_engine(&problem, engines, &entry->costs[j]);
        }
        mdnn_cost_memory_fini(&memory);
    }
    assert_true(kept > 20000); /* what is so stays */
}

CASE(what_is_so_stays_and_what_is_left_out_restricts)
{
    static const mdnn_call_t call;
    const mdnn_problem_t problem = {.x = {.dims = {BATCH}},
                                    .math_type = CUDNN_FMA_MATH,
                                    .interfaces = MDNN_INTERFACE_LEGACY | MDNN_INTERFACE_GRAPH};
    const mdnn_cost_t costs[] = {
        {.algo = 1,
         .math_type = CUDNN_FMA_MATH,
         .time_ms = 1,
         .deterministic = true,
         .direct = true},
        {.algo = MDNN_ALGO_ENGINE + 4, .engine = {.id = 4}, .time_ms = 2, .strict = true}};
    mdnn_cost_memory_t memory = {0};
    uint64_t some;
    problem_now = &problem;
    assert_int_equal(mdnn_cost_memory_put(&memory, BATCH, MDNN_PART_FIRST, costs, 2, false),
                     MDNN_STATUS_OK);
    assert_int_equal(mdnn_cost_memory_put(&memory, 1, MDNN_PART_FIRST, NULL, 0, false),
                     MDNN_STATUS_OK);
    mdnn_cost_cache_restrict(&memory, &call, &problem, (mdnn_engines_t *)&some);
    assert_int_equal(memory.count, 2);
    assert_int_equal(memory.entries[0].count, 2);
    assert_true(memory.entries[0].costs[0].deterministic && memory.entries[0].costs[0].direct &&
                !memory.entries[0].costs[0].strict);
    assert_true(memory.entries[0].costs[1].strict && !memory.entries[0].costs[1].deterministic);
    assert_int_equal(memory.entries[1].count, 0);
    mdnn_cost_memory_fini(&memory);
}

int main(void)
{
    return run_cases("cost cache check");
}
