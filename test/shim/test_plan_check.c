/* What must hold of the plan of a convolution, of its fronts and of the table of plans: each rule is broken by hand, and
 * the check names it. */
#include "test/unit/broken_rule.h"

#include "shim/convolution/plan_check.c"

enum { BATCH = 8, GRANULARITY = 2, ENGINE_ID = 3, POINTS = 3, SPLIT = 1, FASTEST = 2 };

int64_t mdnn_problem_batch(const mdnn_problem_t *problem)
{
    (void)problem;
    return BATCH;
}

int64_t mdnn_problem_granularity(const mdnn_problem_t *problem)
{
    (void)problem;
    return GRANULARITY;
}

uint32_t mdnn_plan_key_hash(const mdnn_plan_key_t *key)
{
    return (uint32_t)mdnn_problem_hash(&key->problem);
}

/* The whole batch in no workspace, or in 100 bytes by an engine; halves in 10 bytes. */
static mdnn_status_t find_costs(void *context, int64_t images, mdnn_part_role_t role,
                                mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    (void)context;
    (void)role;
    *count = 0;
    if (capacity < 2)
        return MDNN_STATUS_OK;
    if (images == BATCH) {
        costs[(*count)++] =
            (mdnn_cost_t){.time_ms = 10, .deterministic = true, .direct = true, .strict = true};
        costs[*count] = costs[0];
        costs[*count].algo = MDNN_ALGO_ENGINE + ENGINE_ID;
        costs[*count].engine.id = ENGINE_ID;
        costs[*count].workspace_bytes = 100;
        costs[(*count)++].time_ms = 4;
    } else if (images == BATCH / 2) {
        costs[(*count)++] = (mdnn_cost_t){.algo = 1,
                                          .workspace_bytes = 10,
                                          .time_ms = 3,
                                          .deterministic = true,
                                          .direct = true,
                                          .strict = true};
    }
    return MDNN_STATUS_OK;
}

static mdnn_front_t *new_front(void)
{
    const mdnn_wr_request_t request = {.batch = BATCH,
                                       .sizes = MDNN_SIZES_POWER_OF_TWO,
                                       .granularity = GRANULARITY,
                                       .workspace_limit_bytes = 1000};
    const mdnn_cost_source_t source = {NULL, find_costs};
    mdnn_front_t *front = NULL;
    assert_int_equal(mdnn_wr_optimize(&request, &source, &front), MDNN_STATUS_OK);
    assert_int_equal(mdnn_front_count(front), POINTS);
    return front;
}

static const mdnn_slice_descriptors_t whole = {.images = BATCH}, half = {.images = BATCH / 2};
static mdnn_engine_plan_t engine_plan;
static mdnn_ready_part_t parts[POINTS + 1][2];
static mdnn_ready_t ready[POINTS], rival;
static mdnn_front_set_t newest, older, oldest;
static mdnn_conv_plan_t plan, other;
static mdnn_conv_plan_t *table;

static mdnn_ready_t ready_of(const mdnn_configuration_t *configuration, mdnn_ready_part_t *its)
{
    int64_t first_image = 0;
    for (size_t i = 0; i < configuration->part_count; i++) {
        const mdnn_micro_config_t *const micro = &configuration->parts[i];
        its[i] = (mdnn_ready_part_t){
            .algo = micro->cost.algo,
            .first_image = first_image,
            .descriptors = micro->images == BATCH ? &whole : &half,
            .engine_plan = micro->cost.algo >= MDNN_ALGO_ENGINE ? &engine_plan : NULL};
        first_image += micro->images;
    }
    return (mdnn_ready_t){.configuration = configuration, .deterministic = true, .parts = its};
}

/* Three sets; the newest has all in the front without demands, where the split has a rival, and nothing is ready of the
 * one for every demand. Two plans are in the table. */
static void make_plan(void)
{
    memset(&plan, 0, sizeof plan);
    memset(&other, 0, sizeof other);
    memset(&newest, 0, sizeof newest);
    engine_plan = (mdnn_engine_plan_t){.workspace_bytes = 100, .kept = true};
    newest.limit_bytes = 1000;
    newest.fronts[0] = new_front();
    newest.fronts[MDNN_DEMAND_FLAGS - 1] = new_front();
    newest.ready[0] = ready;
    newest.counts[0] = POINTS;
    for (size_t i = 0; i < POINTS; i++)
        ready[i] = ready_of(mdnn_front_at(newest.fronts[0], i), parts[i]);
    rival = ready_of(mdnn_front_best_undivided(newest.fronts[0], 10), parts[POINTS]);
    ready[SPLIT].rival = &rival;
    older = (mdnn_front_set_t){.limit_bytes = 500};
    oldest = (mdnn_front_set_t){.limit_bytes = 0};
    newest.replaced = &older;
    older.replaced = &oldest;
    atomic_store(&plan.set, &newest);
    atomic_store(&plan.next_limit, 2000);
    plan.met_count = 2;
    plan.met[1].engine.id = 1;
    table = NULL;
    mdnn_plan_key_t *const key = &other.key;
    key->library = 1;
    key->problem.device = 1;
    HASH_ADD_BYHASHVALUE(hh, table, key, sizeof plan.key, mdnn_plan_key_hash(&plan.key), &plan);
    mdnn_conv_plan_t *const added = &other;
    HASH_ADD_BYHASHVALUE(hh, table, key, sizeof other.key, mdnn_plan_key_hash(&other.key), added);
}

static void drop_plan(void)
{
    HASH_CLEAR(hh, table);
    for (unsigned flags = 0; flags < MDNN_DEMAND_FLAGS; flags++)
        mdnn_front_destroy(newest.fronts[flags]);
}

static const char *first_broken(const void *structure)
{
    const char *broken = "nothing is said";
    uint64_t looks;
    (void)structure;
    return mdnn_conv_plan_is_valid(&plan, &broken) &&
                   mdnn_conv_plan_engines_are_valid(&plan, &broken) &&
                   mdnn_plan_table_is_valid(table, &broken, &looks)
               ? NULL
               : broken;
}

/* A configuration of the front without demands, to be written. */
static mdnn_configuration_t *at(size_t index)
{
    return (mdnn_configuration_t *)(uintptr_t)mdnn_front_at(newest.fronts[0], index);
}

static mdnn_cost_t *strict_cost(void)
{
    return &mdnn_front_at(newest.fronts[MDNN_DEMAND_FLAGS - 1], FASTEST)->parts[0].cost;
}

#define BREAK(name, statement)                                                                     \
    static void name(void *structure)                                                              \
    {                                                                                              \
        (void)structure;                                                                           \
        statement;                                                                                 \
    }

BREAK(unsorted_workspaces, at(FASTEST)->workspace_bytes = at(SPLIT)->workspace_bytes)
BREAK(unsorted_times, at(FASTEST)->time_ms = 7)
BREAK(no_parts, at(SPLIT)->part_count = 0)
BREAK(above_the_limit, newest.limit_bytes = 99)
BREAK(part_of_nothing, at(SPLIT)->parts[1].images = 0)
BREAK(part_not_aligned, at(SPLIT)->parts[0].images = 3)
BREAK(part_too_many, at(SPLIT)->parts[1].images = BATCH)
BREAK(workspace_too_small, at(SPLIT)->parts[1].cost.workspace_bytes = 11)
BREAK(time_too_short, at(SPLIT)->parts[1].cost.time_ms = 2)
BREAK(not_deterministic, strict_cost()->deterministic = false)
BREAK(not_direct, strict_cost()->direct = false)
BREAK(not_strict, strict_cost()->strict = false)
BREAK(ready_without_front, newest.counts[1] = 1)
BREAK(too_many_ready, newest.counts[0] = POINTS + 1)
BREAK(ready_of_another_front,
      ready[0].configuration = mdnn_front_at(newest.fronts[MDNN_DEMAND_FLAGS - 1], 0))
BREAK(ready_in_another_order, const mdnn_ready_t moved = ready[0]; ready[0] = ready[FASTEST];
      ready[FASTEST] = moved)
BREAK(part_begins_elsewhere, ready[SPLIT].parts[1].first_image = 0)
BREAK(part_of_another_size, ready[SPLIT].parts[1].descriptors = &whole)
BREAK(part_without_descriptors, ready[0].parts[0].descriptors = NULL)
BREAK(another_algorithm, ready[SPLIT].parts[0].algo = 2)
BREAK(no_engine_plan, ready[FASTEST].parts[0].engine_plan = NULL)
BREAK(needless_engine_plan, ready[0].parts[0].engine_plan = &engine_plan)
BREAK(engine_plan_not_kept, engine_plan.kept = false)
BREAK(engine_plan_too_large, engine_plan.workspace_bytes = 101)
BREAK(said_to_repeat, ready[SPLIT].configuration->parts[1].cost.deterministic = false)
BREAK(trial_without_rival, ready[SPLIT].rival = NULL; ready[SPLIT].trial = (mdnn_trial_t *)&rival)
BREAK(rival_of_the_undivided, ready[0].rival = &rival)
BREAK(rival_divided, rival.configuration = at(SPLIT))
BREAK(rival_too_large, rival.configuration = at(FASTEST))
BREAK(rival_of_a_rival, rival.rival = &rival)
BREAK(rival_of_another_algorithm, rival.parts[0].algo = 5)
BREAK(replaced_by_less, older.limit_bytes = 1001)
BREAK(circle_of_one, newest.replaced = &newest)
BREAK(circle_of_all, older.limit_bytes = oldest.limit_bytes = 1000; oldest.replaced = &newest)
BREAK(circle_behind, older.limit_bytes = oldest.limit_bytes = 1000; oldest.replaced = &older)
BREAK(next_limit_below, atomic_store(&plan.next_limit, 1000))
BREAK(too_many_met, plan.met_count = MDNN_MET_ENGINES + 1)
BREAK(met_less_than_never, plan.met[0].plans = -1)
BREAK(met_twice, plan.met[1].engine.id = 0)
BREAK(key_changed, other.key.problem.device = 2)
BREAK(plan_miscounted, table->hh.tbl->num_items++)

static const broken_rule_t rules[] = {
    {"before->workspace_bytes <", unsorted_workspaces},
    {"before->time_ms >", unsorted_times},
    {"configuration->part_count > 0", no_parts},
    {"<= set->limit_bytes", above_the_limit},
    {"part->images > 0", part_of_nothing},
    {"mdnn_problem_granularity", part_not_aligned},
    {"images == mdnn_problem_batch", part_too_many},
    {"== most_bytes", workspace_too_small},
    {"is_about", time_too_short},
    {"part->cost.deterministic", not_deterministic},
    {"part->cost.direct", not_direct},
    {"part->cost.strict", not_strict},
    {"set->counts[flags] == 0", ready_without_front},
    {"set->counts[flags] <=", too_many_ready},
    {"at < mdnn_front_count(front)", ready_of_another_front},
    {"at < mdnn_front_count(front)", ready_in_another_order},
    {"part->first_image ==", part_begins_elsewhere},
    {"part->descriptors->images ==", part_of_another_size},
    {"part->descriptors &&", part_without_descriptors},
    {"part->algo == micro->cost.algo", another_algorithm},
    {"(part->engine_plan != NULL) ==", no_engine_plan},
    {"(part->engine_plan != NULL) ==", needless_engine_plan},
    {"part->engine_plan->kept", engine_plan_not_kept},
    {"part->engine_plan->workspace_bytes <=", engine_plan_too_large},
    {"ready->deterministic ==", said_to_repeat},
    {"rival || !ready->trial", trial_without_rival},
    {"ready->configuration->part_count > 1", rival_of_the_undivided},
    {"rival->configuration->part_count == 1", rival_divided},
    {"rival->configuration->workspace_bytes <=", rival_too_large},
    {"!rival->rival", rival_of_a_rival},
    {"part->algo == micro->cost.algo", rival_of_another_algorithm},
    {"set->replaced->limit_bytes <=", replaced_by_less},
    {"set->replaced != follows", circle_of_one},
    {"set->replaced != follows", circle_of_all},
    {"set->replaced != follows", circle_behind},
    {"&plan->next_limit", next_limit_below},
    {"plan->met_count <=", too_many_met},
    {"plan->met[i].plans >= 0", met_less_than_never},
    {"plan->met[other].engine", met_twice},
    {"found == plan", key_changed},
    {"HASH_COUNT(first) ==", plan_miscounted},
};

static void each_broken_rule_is_named(void **state)
{
    size_t missed = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        make_plan();
        missed += !finds(first_broken, &plan, &rules[i]);
        drop_plan();
    }
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_broken_rule_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
