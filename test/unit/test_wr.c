/* WR against an oracle that enumerates every composition of the batch with every algorithm.
 * MDNN_TEST_SEED=n repeats the instance that a failure named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "optimizer/wr.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/failing_allocator.h"
#include "test/unit/random.h"

static int64_t random_in(uint64_t *state, int64_t low, int64_t high)
{
    return low + (int64_t)(random_next(state) % (uint64_t)(high - low + 1));
}

enum { MAX_BATCH = 300, MAX_ALGOS = 4, WORKSPACES = 16 };

/* A random table. Times are multiples of 1/8, so that every sum is exact and ties are real. */
typedef struct instance {
    mdnn_wr_request_t request;
    mdnn_cost_t costs[MDNN_PART_ROLE_COUNT][MAX_BATCH + 1][MAX_ALGOS];
    size_t counts[MDNN_PART_ROLE_COUNT][MAX_BATCH + 1];
    bool asked[MDNN_PART_ROLE_COUNT][MAX_BATCH + 1];
    int64_t last_asked;
} instance_t;

static mdnn_status_t find_in_instance(void *context, int64_t images, mdnn_part_role_t role,
                                      mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    instance_t *const instance = context;

    CHECK(images >= 1 && images <= instance->request.batch);
    CHECK(!instance->asked[role][images]);
    CHECK(images <= instance->last_asked);
    CHECK(role == MDNN_PART_FIRST || instance->request.roles_differ);
    CHECK(capacity >= MAX_ALGOS);
    instance->asked[role][images] = true;
    instance->last_asked = images;
    *count = instance->counts[role][images];
    memcpy(costs, instance->costs[role][images], *count * sizeof *costs);
    return MDNN_STATUS_OK;
}

static mdnn_cost_t random_cost(uint64_t *state, int64_t images, int32_t algo)
{
    mdnn_cost_t cost = {.algo = algo, .math_type = (int32_t)random_in(state, 0, 1)};
    cost.time_ms = (double)(random_in(state, 0, 6) + images * random_in(state, 1, 5)) / 8;
    if (cost.time_ms > 0 && random_in(state, 0, 40) == 0)
        cost.time_ms = 0; /* inadmissible: not a time */
    cost.workspace_bytes = (uint64_t)random_in(state, 0, WORKSPACES - 1);
    cost.deterministic = random_in(state, 0, 3) > 0;
    cost.direct = random_in(state, 0, 3) > 0;
    cost.strict = random_in(state, 0, 3) > 0;
    return cost;
}

static void fill_instance(instance_t *instance, uint64_t seed, int64_t batch, int64_t algos)
{
    uint64_t state = seed * 2 + 1;
    static const mdnn_batch_sizes_t SIZES[] = {MDNN_SIZES_ALL,          MDNN_SIZES_ALL,
                                               MDNN_SIZES_ALL,          MDNN_SIZES_ALL,
                                               MDNN_SIZES_POWER_OF_TWO, MDNN_SIZES_POWER_OF_TWO,
                                               MDNN_SIZES_POWER_OF_TWO, MDNN_SIZES_UNDIVIDED};
    const int64_t hole = random_in(&state, 0, 1) ? random_in(&state, 2, 8) : 1000;

    memset(instance, 0, sizeof *instance);
    instance->last_asked = batch;
    instance->request = (mdnn_wr_request_t){
        .batch = batch,
        .sizes = SIZES[random_in(&state, 0, 7)],
        .granularity = random_in(&state, 0, 1) ? 1 : random_in(&state, 1, 4),
        .roles_differ = random_in(&state, 0, 1) != 0,
        .deterministic_only = random_in(&state, 0, 4) == 0,
        .direct_only = random_in(&state, 0, 4) == 0,
        .strict_only = random_in(&state, 0, 4) == 0,
        .workspace_limit_bytes =
            random_in(&state, 0, 1) ? UINT64_MAX : (uint64_t)random_in(&state, 0, WORKSPACES - 1),
        .part_overhead_ms = (double)random_in(&state, 0, 3) / 8,
        .adoption_margin = random_in(&state, 0, 1) ? 0 : (double)random_in(&state, 1, 4) / 8,
    };
    for (int role = 0; role < MDNN_PART_ROLE_COUNT; role++)
        for (int64_t images = 1; images <= batch; images++) {
            if (random_in(&state, 1, hole) == 2)
                continue;
            instance->counts[role][images] = (size_t)random_in(&state, 1, algos);
            for (size_t i = 0; i < instance->counts[role][images]; i++)
                instance->costs[role][images][i] = random_cost(&state, images, (int32_t)i);
        }
    if (!instance->request.roles_differ) {
        memcpy(instance->costs[MDNN_PART_REST], instance->costs[MDNN_PART_FIRST],
               sizeof instance->costs[MDNN_PART_REST]);
        memcpy(instance->counts[MDNN_PART_REST], instance->counts[MDNN_PART_FIRST],
               sizeof instance->counts[MDNN_PART_REST]);
    }
}

/* ---- the oracle ---- */

typedef struct best {
    double time_ms; /* < 0: none */
    int64_t parts;
} best_t;

/* The best configuration of each kind for every exact workspace. */
typedef struct oracle {
    best_t undivided[WORKSPACES], split[WORKSPACES];
    bool occurs[MDNN_PART_ROLE_COUNT][MAX_BATCH + 1];
} oracle_t;

static bool allowed_size(const mdnn_wr_request_t *request, int64_t images)
{
    if (images == request->batch || request->sizes == MDNN_SIZES_ALL)
        return true;
    return request->sizes == MDNN_SIZES_POWER_OF_TWO && (images & (images - 1)) == 0;
}

static bool allowed_cost(const mdnn_wr_request_t *request, const mdnn_cost_t *cost)
{
    if (cost->time_ms <= 0 || cost->workspace_bytes > request->workspace_limit_bytes)
        return false;
    if (request->deterministic_only && !cost->deterministic)
        return false;
    if (request->strict_only && !cost->strict)
        return false;
    return !request->direct_only || cost->direct;
}

static void record(best_t *best, double time_ms, int64_t parts)
{
    if (best->time_ms < 0 || time_ms < best->time_ms ||
        (time_ms == best->time_ms && parts < best->parts))
        *best = (best_t){time_ms, parts};
}

/* Extends a prefix of `done` images by every part with every cost. */
static void enumerate(const instance_t *instance, oracle_t *oracle, int64_t done, int64_t parts,
                      double time_ms, uint64_t workspace)
{
    const mdnn_wr_request_t *const request = &instance->request;
    const mdnn_part_role_t role = parts ? MDNN_PART_REST : MDNN_PART_FIRST;
    const int64_t left = request->batch - done;

    if (left == 0) {
        record(parts == 1 ? &oracle->undivided[workspace] : &oracle->split[workspace], time_ms,
               parts);
        return;
    }
    for (int64_t images = 1; images <= left; images++) {
        if (!allowed_size(request, images) || (images < left && images % request->granularity != 0))
            continue;
        for (size_t i = 0; i < instance->counts[role][images]; i++) {
            const mdnn_cost_t *const cost = &instance->costs[role][images][i];
            if (!allowed_cost(request, cost))
                continue;
            const uint64_t more = cost->workspace_bytes;
            enumerate(instance, oracle, done + images, parts + 1,
                      time_ms + cost->time_ms + (parts ? request->part_overhead_ms : 0),
                      more > workspace ? more : workspace);
        }
    }
}

/* Which sizes occur in which role in any composition at all. Returns whether `left` can be covered.
 */
static bool enumerate_sizes(const mdnn_wr_request_t *request, oracle_t *oracle, int64_t left,
                            mdnn_part_role_t role)
{
    bool covered = left == 0;
    for (int64_t images = 1; images <= left; images++) {
        if (!allowed_size(request, images) ||
            (images < left && images % request->granularity != 0) ||
            !enumerate_sizes(request, oracle, left - images, MDNN_PART_REST))
            continue;
        oracle->occurs[role][images] = true;
        covered = true;
    }
    return covered;
}

static oracle_t *consult_oracle(const instance_t *instance)
{
    static oracle_t oracle;
    memset(&oracle, 0, sizeof oracle);
    for (int w = 0; w < WORKSPACES; w++)
        oracle.undivided[w].time_ms = oracle.split[w].time_ms = -1;
    enumerate(instance, &oracle, 0, 0, 0, 0);
    return &oracle;
}

/* Fastest undivided time with workspace <= limit; < 0: none. */
static double undivided_within(const oracle_t *oracle, int limit)
{
    double time_ms = -1;
    for (int w = 0; w <= limit; w++) {
        const double here = oracle->undivided[w].time_ms;
        if (here >= 0 && (time_ms < 0 || here < time_ms))
            time_ms = here;
    }
    return time_ms;
}

static bool replaces(const instance_t *instance, double split_ms, double undivided_ms)
{
    return split_ms >= 0 &&
           (undivided_ms < 0 || split_ms < (1 - instance->request.adoption_margin) * undivided_ms);
}

/* The best of what the front may hold at exactly this workspace. */
static best_t admitted_at(const instance_t *instance, const oracle_t *oracle, int workspace)
{
    best_t best = oracle->undivided[workspace];
    const best_t *const split = &oracle->split[workspace];
    if (replaces(instance, split->time_ms, undivided_within(oracle, workspace)))
        record(&best, split->time_ms, split->parts);
    return best;
}

/* ---- what every result must satisfy ---- */

static bool is_same_cost(const mdnn_cost_t *a, const mdnn_cost_t *b)
{
    return a->algo == b->algo && a->math_type == b->math_type && a->time_ms == b->time_ms &&
           a->workspace_bytes == b->workspace_bytes && a->deterministic == b->deterministic &&
           a->direct == b->direct && a->extrapolated == b->extrapolated;
}

static bool is_in_table(const instance_t *instance, const mdnn_micro_config_t *part,
                        mdnn_part_role_t role)
{
    for (size_t i = 0; i < instance->counts[role][part->images]; i++)
        if (is_same_cost(&instance->costs[role][part->images][i], &part->cost))
            return allowed_cost(&instance->request, &part->cost);
    return false;
}

static void check_order(const instance_t *instance, const mdnn_configuration_t *configuration)
{
    const int64_t granularity = instance->request.granularity;
    const size_t count = configuration->part_count;
    for (size_t i = 0; i + 1 < count; i++)
        CHECK(configuration->parts[i].images % granularity == 0);
    const bool odd_end = configuration->parts[count - 1].images % granularity != 0;
    for (size_t i = instance->request.roles_differ; i + 1 + odd_end < count; i++)
        CHECK(configuration->parts[i].images >= configuration->parts[i + 1].images);
}

static void check_configuration(const instance_t *instance,
                                const mdnn_configuration_t *configuration)
{
    double time_ms = 0;
    uint64_t workspace = 0;
    int64_t images = 0;

    CHECK(configuration->part_count >= 1);
    for (size_t i = 0; i < configuration->part_count; i++) {
        const mdnn_micro_config_t *const part = &configuration->parts[i];
        const mdnn_part_role_t role = i ? MDNN_PART_REST : MDNN_PART_FIRST;
        CHECK(part->images >= 1 && part->images <= instance->request.batch);
        CHECK(allowed_size(&instance->request, part->images));
        CHECK(is_in_table(instance, part, role));
        images += part->images;
        time_ms += part->cost.time_ms + (i ? instance->request.part_overhead_ms : 0);
        if (part->cost.workspace_bytes > workspace)
            workspace = part->cost.workspace_bytes;
    }
    CHECK(images == instance->request.batch);
    CHECK(time_ms == configuration->time_ms);
    CHECK(workspace == configuration->workspace_bytes);
    check_order(instance, configuration);
}

/* Every point of the oracle's Pareto set is on the front, with the fewest parts, and no other is.
 */
static void check_front(const instance_t *instance, const oracle_t *oracle,
                        const mdnn_front_t *front)
{
    size_t point = 0;
    double best_ms = -1;
    for (int w = 0; w < WORKSPACES; w++) {
        const best_t here = admitted_at(instance, oracle, w);
        if (here.time_ms < 0 || (best_ms >= 0 && here.time_ms >= best_ms))
            continue;
        best_ms = here.time_ms;
        const mdnn_configuration_t *const found = mdnn_front_at(front, point++);
        CHECK(found != NULL);
        check_configuration(instance, found);
        CHECK(found->workspace_bytes == (uint64_t)w);
        CHECK(found->time_ms == here.time_ms);
        CHECK((int64_t)found->part_count == here.parts);
    }
    CHECK(point == mdnn_front_count(front));
    CHECK(mdnn_front_at(front, point) == NULL);
}

/* The answer for every limit, judged at that limit. */
static void check_best(const instance_t *instance, const oracle_t *oracle,
                       const mdnn_front_t *front)
{
    double split_ms = -1;
    for (int w = 0; w < WORKSPACES; w++) {
        const double here_ms = oracle->split[w].time_ms;
        if (here_ms >= 0 && (split_ms < 0 || here_ms < split_ms))
            split_ms = here_ms;
        const double whole_ms = undivided_within(oracle, w);
        const double expected_ms = replaces(instance, split_ms, whole_ms) ? split_ms : whole_ms;
        const mdnn_configuration_t *const best = mdnn_front_best(front, (uint64_t)w);
        const mdnn_configuration_t *const whole = mdnn_front_best_undivided(front, (uint64_t)w);

        CHECK((best != NULL) == (expected_ms >= 0));
        CHECK((whole != NULL) == (whole_ms >= 0));
        if (best) {
            check_configuration(instance, best);
            CHECK(best->time_ms == expected_ms);
            CHECK(best->workspace_bytes <= (uint64_t)w);
        }
        if (whole) {
            check_configuration(instance, whole);
            CHECK(whole->part_count == 1 && whole->time_ms == whole_ms);
        }
    }
}

static bool has_any(const instance_t *instance, const oracle_t *oracle)
{
    for (int w = 0; w < WORKSPACES; w++)
        if (admitted_at(instance, oracle, w).time_ms >= 0)
            return true;
    return false;
}

static void check_instance(instance_t *instance)
{
    const oracle_t *const oracle = consult_oracle(instance);
    const mdnn_cost_source_t source = {instance, find_in_instance};
    mdnn_front_t *const untouched = (mdnn_front_t *)(uintptr_t)1;
    mdnn_front_t *front = untouched;

    const mdnn_status_t status = mdnn_wr_optimize(&instance->request, &source, &front);
    CHECK(status == (has_any(instance, oracle) ? MDNN_STATUS_OK : MDNN_STATUS_NOT_FOUND));
    if (status == MDNN_STATUS_OK) {
        check_front(instance, oracle, front);
        check_best(instance, oracle, front);
        mdnn_front_destroy(front);
    } else {
        CHECK(front == untouched);
    }
    CHECK(live_allocations == 0);
}

static double enumeration_size(int64_t batch, int64_t algos)
{
    double sequences = (double)algos;
    for (int64_t i = 1; i < batch; i++)
        sequences *= (double)(algos + 1);
    return sequences;
}

/* Batch and number of algorithms come from the seed, so that the seed alone repeats an instance.
 * The oracle is exponential: most batches get fewer algorithms, a few instances are as large as
 * any. */
static void check_seed(uint64_t seed)
{
    static instance_t instance;
    uint64_t state = seed ^ 0x5bd1e995;
    const double most = seed % 1000 == 999 ? 1e9 : seed % 30 == 29 ? 2e6 : 2e5;
    const int64_t batch = random_in(&state, 1, 10);
    int64_t algos = random_in(&state, 1, MAX_ALGOS);

    while (algos > 1 && enumeration_size(batch, algos) > most)
        algos--;
    fill_instance(&instance, seed, batch, algos);
    check_instance(&instance);
}

CASE(front_equals_brute_force_on_random_instances)
{
    each_seed(check_seed, 12000);
}

static void check_sizes(uint64_t seed)
{
    static instance_t instance;
    uint64_t random = seed;
    fill_instance(&instance, seed, random_in(&random, 1, 14), 2);
    instance.request.granularity = random_in(&random, 1, 6);
    static oracle_t oracle;
    memset(&oracle, 0, sizeof oracle);
    enumerate_sizes(&instance.request, &oracle, instance.request.batch, MDNN_PART_FIRST);
    const mdnn_cost_source_t source = {&instance, find_in_instance};
    mdnn_front_t *front = NULL;
    mdnn_wr_optimize(&instance.request, &source, &front);
    mdnn_front_destroy(front);
    for (int64_t images = 1; images <= instance.request.batch; images++) {
        const bool first = oracle.occurs[MDNN_PART_FIRST][images];
        const bool rest = oracle.occurs[MDNN_PART_REST][images];
        const bool differ = instance.request.roles_differ;
        CHECK(instance.asked[MDNN_PART_FIRST][images] == (first || (rest && !differ)));
        CHECK(instance.asked[MDNN_PART_REST][images] == (rest && differ));
    }
}

CASE(only_sizes_that_can_occur_are_asked_for)
{
    each_seed(check_sizes, 3000);
}

static double best_time(instance_t *instance, mdnn_batch_sizes_t sizes, uint64_t limit)
{
    const mdnn_cost_source_t source = {instance, find_in_instance};
    mdnn_front_t *front;
    double time_ms = 1e30;

    instance->request.sizes = sizes;
    instance->last_asked = instance->request.batch;
    memset(instance->asked, 0, sizeof instance->asked);
    const mdnn_status_t status = mdnn_wr_optimize(&instance->request, &source, &front);
    if (status == MDNN_STATUS_NOT_FOUND)
        return time_ms;
    CHECK(status == MDNN_STATUS_OK);
    if (mdnn_front_best(front, limit))
        time_ms = mdnn_front_best(front, limit)->time_ms;
    mdnn_front_destroy(front);
    return time_ms;
}

CASE(more_sizes_are_never_slower)
{
    static instance_t instance;
    for (uint64_t seed = 1; seed <= 1500; seed++) {
        uint64_t random = seed;
        fill_instance(&instance, seed, random_in(&random, 1, 70), MAX_ALGOS);
        const uint64_t limit = (uint64_t)random_in(&random, 0, WORKSPACES);
        const double whole = best_time(&instance, MDNN_SIZES_UNDIVIDED, limit);
        const double power = best_time(&instance, MDNN_SIZES_POWER_OF_TWO, limit);
        const double all = best_time(&instance, MDNN_SIZES_ALL, limit);
        CHECK(all <= power && power <= whole);
    }
}

/* ---- named cases ---- */

typedef struct model {
    mdnn_status_t status;
    void (*costs)(int64_t images, mdnn_part_role_t role, mdnn_cost_t *costs, size_t *count);
} model_t;

static mdnn_status_t find_in_model(void *context, int64_t images, mdnn_part_role_t role,
                                   mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    const model_t *const model = context;
    (void)capacity;
    *count = 0;
    if (model->status == MDNN_STATUS_OK)
        model->costs(images, role, costs, count);
    return model->status;
}

static mdnn_cost_t cost(int32_t algo, double time_ms, uint64_t workspace_bytes)
{
    return (mdnn_cost_t){.algo = algo, .workspace_bytes = workspace_bytes, .time_ms = time_ms};
}

static const mdnn_wr_request_t PLAIN = {
    .batch = 256, .sizes = MDNN_SIZES_ALL, .granularity = 1, .workspace_limit_bytes = UINT64_MAX};

static mdnn_front_t *optimize_model(const mdnn_wr_request_t *request,
                                    void (*costs)(int64_t, mdnn_part_role_t, mdnn_cost_t *,
                                                  size_t *))
{
    model_t model = {MDNN_STATUS_OK, costs};
    const mdnn_cost_source_t source = {&model, find_in_model};
    mdnn_front_t *front = NULL;
    assert_int_equal(mdnn_wr_optimize(request, &source, &front), MDNN_STATUS_OK);
    return front;
}

static void assert_configuration(const mdnn_configuration_t *configuration, const char *expected)
{
    char text[160];
    assert_non_null(configuration);
    mdnn_configuration_format(configuration, text, sizeof text);
    assert_string_equal(text, expected);
}

/* Algorithm 4 works in blocks of 60 images and is twice as fast as 0 on a full block. */
static void blocks_of_sixty(int64_t images, mdnn_part_role_t role, mdnn_cost_t *costs,
                            size_t *count)
{
    (void)role;
    costs[0] = cost(0, (double)images, 0);
    costs[1] = cost(4, (double)((images + 59) / 60) * 30, (uint64_t)images);
    *count = 2;
}

CASE(figure_5_of_the_paper_is_found)
{
    mdnn_wr_request_t request = PLAIN;
    request.workspace_limit_bytes = 60;
    mdnn_front_t *const front = optimize_model(&request, blocks_of_sixty);
    assert_configuration(mdnn_front_best(front, 60), "4 x 60 @ 4 + 16 @ 0");
    assert_true(mdnn_front_best(front, 60)->time_ms == 136);
    assert_configuration(mdnn_front_best(front, 0), "256 @ 0");
    mdnn_front_destroy(front);
}

/* The whole batch is slow; 64 images want more workspace than 128 do, and 96 none at all. */
static void workspace_not_monotonic(int64_t images, mdnn_part_role_t role, mdnn_cost_t *costs,
                                    size_t *count)
{
    (void)role;
    *count = 1;
    if (images == 256)
        costs[0] = cost(1, 400, 0);
    else if (images == 128)
        costs[0] = cost(6, 100, 10);
    else if (images == 64)
        costs[0] = cost(4, 40, 900);
    else
        *count = 0;
}

CASE(workspace_may_fall_where_the_size_grows)
{
    mdnn_wr_request_t request = PLAIN;
    request.sizes = MDNN_SIZES_POWER_OF_TWO;
    mdnn_front_t *const front = optimize_model(&request, workspace_not_monotonic);
    assert_int_equal(mdnn_front_count(front), 3);
    assert_configuration(mdnn_front_at(front, 0), "256 @ 1");
    assert_configuration(mdnn_front_at(front, 1), "2 x 128 @ 6");
    assert_configuration(mdnn_front_at(front, 2), "4 x 64 @ 4");
    assert_configuration(mdnn_front_best(front, 899), "2 x 128 @ 6");
    mdnn_front_destroy(front);
}

static void one_image_at_a_time(int64_t images, mdnn_part_role_t role, mdnn_cost_t *costs,
                                size_t *count)
{
    (void)role;
    costs[0] = cost(2, images > 64 ? 1e6 : (double)images, 1);
    *count = 1;
}

CASE(batch_that_is_no_power_of_two_is_a_sum_of_them)
{
    mdnn_wr_request_t request = PLAIN;
    request.sizes = MDNN_SIZES_POWER_OF_TWO;
    request.batch = 255;
    request.part_overhead_ms = 0.5;
    mdnn_front_t *const front = optimize_model(&request, one_image_at_a_time);
    assert_configuration(mdnn_front_best(front, 1),
                         "3 x 64 @ 2 + 32 @ 2 + 16 @ 2 + 8 @ 2 + 4 @ 2 + 2 @ 2 + 1 @ 2");
    mdnn_front_destroy(front);
}

CASE(remainder_that_breaks_the_granularity_runs_last)
{
    mdnn_wr_request_t request = PLAIN;
    request.batch = 135;
    request.granularity = 4;
    request.part_overhead_ms = 0.5;
    mdnn_front_t *const front = optimize_model(&request, one_image_at_a_time);
    const mdnn_configuration_t *const best = mdnn_front_best(front, 1);
    assert_int_equal(best->part_count, 3);
    assert_true(best->parts[0].images >= best->parts[1].images);
    assert_int_equal(best->parts[0].images % 4, 0);
    assert_int_equal(best->parts[1].images % 4, 0);
    assert_int_equal(best->parts[2].images % 4, 3);
    mdnn_front_destroy(front);
}

/* As a first part 32 images are cheap; later the same algorithm costs more. */
static void first_part_cheaper(int64_t images, mdnn_part_role_t role, mdnn_cost_t *costs,
                               size_t *count)
{
    *count = images == 256 || images == 32 || images == 224;
    if (images == 256)
        costs[0] = cost(0, 100, 0);
    else
        costs[0] = cost(role == MDNN_PART_FIRST ? 3 : 5,
                        (images == 32) == (role == MDNN_PART_FIRST) ? 10 : 60, 0);
}

CASE(part_that_runs_first_has_the_first_cost)
{
    mdnn_wr_request_t request = PLAIN;
    request.roles_differ = true;
    mdnn_front_t *const front = optimize_model(&request, first_part_cheaper);
    assert_configuration(mdnn_front_best(front, 0), "32 @ 3 + 224 @ 5");
    assert_true(mdnn_front_best(front, 0)->time_ms == 20);
    mdnn_front_destroy(front);
}

/* Splits gain 5 % without workspace; whole with 100 bytes is 1 % slower than the split. */
static void small_gain(int64_t images, mdnn_part_role_t role, mdnn_cost_t *costs, size_t *count)
{
    (void)role;
    *count = images == 256 ? 2 : images == 128;
    costs[0] = images == 256 ? cost(0, 100, 0) : cost(1, 47.5, 0);
    costs[1] = cost(2, 96, 100);
}

CASE(margin_is_judged_at_the_limit_that_is_asked)
{
    mdnn_wr_request_t request = PLAIN;
    request.adoption_margin = 0.02;
    mdnn_front_t *front = optimize_model(&request, small_gain);
    assert_int_equal(mdnn_front_count(front), 1);
    assert_configuration(mdnn_front_best(front, 99), "2 x 128 @ 1");
    assert_configuration(mdnn_front_best(front, 100), "256 @ 2");
    assert_configuration(mdnn_front_best_undivided(front, 99), "256 @ 0");
    mdnn_front_destroy(front);

    request.adoption_margin = 0.06;
    front = optimize_model(&request, small_gain);
    assert_int_equal(mdnn_front_count(front), 2);
    assert_configuration(mdnn_front_best(front, 99), "256 @ 0");
    mdnn_front_destroy(front);
}

CASE(large_batches_are_covered)
{
    mdnn_wr_request_t request = PLAIN;
    request.sizes = MDNN_SIZES_POWER_OF_TWO;
    request.batch = 65536;
    mdnn_front_t *const front = optimize_model(&request, one_image_at_a_time);
    const mdnn_configuration_t *const best = mdnn_front_best(front, UINT64_MAX);
    assert_int_equal(best->part_count, 1024);
    assert_true(best->time_ms == 65536);
    mdnn_front_destroy(front);
}

CASE(error_of_the_source_ends_the_optimization)
{
    model_t model = {MDNN_STATUS_DEVICE, NULL};
    const mdnn_cost_source_t source = {&model, find_in_model};
    mdnn_front_t *front = NULL;
    assert_int_equal(mdnn_wr_optimize(&PLAIN, &source, &front), MDNN_STATUS_DEVICE);
    assert_null(front);
    assert_int_equal(live_allocations, 0);
}

CASE(requests_without_sense_are_refused)
{
    model_t model = {MDNN_STATUS_OK, blocks_of_sixty};
    const mdnn_cost_source_t source = {&model, find_in_model};
    for (int i = 0; i < 6; i++) {
        mdnn_wr_request_t request = PLAIN;
        mdnn_front_t *front = NULL;
        if (i == 0)
            request.batch = 0;
        else if (i == 1)
            request.batch = (int64_t)1 << 31;
        else if (i == 2)
            request.granularity = 0;
        else if (i == 3)
            request.part_overhead_ms = -1;
        else if (i == 4)
            request.adoption_margin = -0.5;
        else
            request.sizes = (mdnn_batch_sizes_t)3;
        assert_int_equal(mdnn_wr_optimize(&request, &source, &front), MDNN_STATUS_INVALID_ARGUMENT);
        assert_null(front);
    }
}

CASE(every_failed_allocation_is_reported_and_nothing_leaks)
{
    model_t model = {MDNN_STATUS_OK, workspace_not_monotonic};
    const mdnn_cost_source_t source = {&model, find_in_model};
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    long failures = 0;
    while (status == MDNN_STATUS_OUT_OF_MEMORY) {
        mdnn_front_t *front = NULL;
        fail_allocation_at = ++failures;
        status = mdnn_wr_optimize(&PLAIN, &source, &front);
        fail_allocation_at = 0;
        assert_true((front != NULL) == (status == MDNN_STATUS_OK));
        mdnn_front_destroy(front);
        assert_int_equal(live_allocations, 0);
    }
    assert_int_equal(status, MDNN_STATUS_OK);
    assert_true(failures > 8);
}

CASE(long_text_is_cut_and_terminated)
{
    mdnn_wr_request_t request = PLAIN;
    request.workspace_limit_bytes = 60;
    mdnn_front_t *const front = optimize_model(&request, blocks_of_sixty);
    const mdnn_configuration_t *const best = mdnn_front_best(front, 60);
    const char whole[] = "4 x 60 @ 4 + 16 @ 0";
    for (size_t bytes = 0; bytes <= sizeof whole; bytes++) {
        char text[sizeof whole + 1];
        memset(text, '#', sizeof text);
        mdnn_configuration_format(best, text, bytes);
        assert_int_equal(text[bytes], '#');
        if (bytes > 0) {
            assert_memory_equal(text, whole, bytes - 1);
            assert_int_equal(text[bytes - 1], '\0');
        }
    }
    mdnn_front_destroy(front);
}

int main(void)
{
    return run_cases("wr");
}
