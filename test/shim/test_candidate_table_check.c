/* What must hold of a table of candidates: each rule is broken by hand, and the check names it. */
#include "test/unit/broken_rule.h"

#include "shim/candidates/candidate_table_check.c"

enum { WHOLE = 64, HALF = 32, ENGINE = MDNN_CANDIDATE_LEGACY, ALGO = 3 };

static mdnn_engine_offer_t offer_of(int id)
{
    mdnn_engine_offer_t offer = {.deterministic = true};
    offer.engine.id = id;
    return offer;
}

/* Two engines; the whole batch has the first of them timed, and one algorithm left out; half of it nothing. */
static mdnn_candidate_table_t *new_table(void)
{
    mdnn_candidate_table_t *table;
    const mdnn_engine_offer_t offers[] = {offer_of(5), offer_of(7)};
    assert_int_equal(mdnn_candidate_table_create(&table), MDNN_STATUS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mdnn_candidate_table_engine(table, &offers[i]), ENGINE + i);
    assert_non_null(mdnn_candidate_table_row(table, HALF, MDNN_PART_FIRST));
    mdnn_cost_row_t *const row = mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
    assert_non_null(row);
    mdnn_candidate_t *candidate = mdnn_cost_row_candidate(row, ENGINE);
    assert_non_null(candidate);
    *candidate = (mdnn_candidate_t){MDNN_CANDIDATE_TIMED,
                                    {.algo = MDNN_ALGO_ENGINE + 5,
                                     .engine = offers[0].engine,
                                     .workspace_bytes = 100,
                                     .time_ms = 2}};
    row->offered[0] = true;
    candidate = mdnn_cost_row_candidate(row, ALGO);
    *candidate =
        (mdnn_candidate_t){MDNN_CANDIDATE_EXCLUDED, {.algo = ALGO, .workspace_bytes = 1000}};
    return table;
}

static const char *first_broken(const void *table)
{
    const char *broken = "nothing is said";
    uint64_t looks;
    return mdnn_candidate_table_is_valid(table, &broken, &looks) ? NULL : broken;
}

static mdnn_cost_row_t *whole(void *table)
{
    return mdnn_candidate_table_row(table, WHOLE, MDNN_PART_FIRST);
}

static mdnn_candidate_t *timed(void *table)
{
    return &whole(table)->candidates[ENGINE];
}

static void too_many_engines(void *table)
{
    ((mdnn_candidate_table_t *)table)->engine_count = MDNN_CANDIDATE_ENGINES + 1;
}
static void an_engine_twice(void *table)
{
    mdnn_candidate_table_t *const all = table;
    all->engines[1] = all->engines[0];
}
static void no_images(void *table)
{
    whole(table)->images = 0;
}
static void no_such_role(void *table)
{
    whole(table)->role = MDNN_PART_ROLE_COUNT;
}
static void a_row_twice(void *table)
{
    whole(table)->images = HALF;
}
static void half_a_group(void *table)
{
    whole(table)->capacity--;
}
static void room_for_nothing(void *table)
{
    whole(table)->capacity = 0;
}
static void unknown_engine_offered(void *table)
{
    whole(table)->offered[2] = true;
}
static void no_such_state(void *table)
{
    timed(table)->state = MDNN_CANDIDATE_TIMED + 1;
}
static void another_algorithm(void *table)
{
    whole(table)->candidates[ALGO].cost.algo++;
}
static void not_offered(void *table)
{
    whole(table)->offered[0] = false;
}
static void unknown_engine(void *table)
{
    whole(table)->candidates[ENGINE + 2].state = MDNN_CANDIDATE_DEFERRED;
}
static void another_number(void *table)
{
    timed(table)->cost.algo++;
}
static void other_knobs(void *table)
{
    timed(table)->cost.engine.knob_count = 1;
}
static void deferred_by_its_cost(void *table)
{
    timed(table)->cost.deferred = true;
}
static void negative_time(void *table)
{
    timed(table)->cost.time_ms = -1;
}
static void no_number(void *table)
{
    timed(table)->cost.time_ms = strtod("nan", NULL);
}
static void timed_and_not(void *table)
{
    timed(table)->cost.untimed = true;
}

static const broken_rule_t rules[] = {
    {"engine_count <=", too_many_engines},
    {"table->engines[other].engine", an_engine_twice},
    {"row->images > 0", no_images},
    {"row->role <", no_such_role},
    {"row->images != other->images", a_row_twice},
    {"row->capacity % ", half_a_group},
    {"== !row->candidates", room_for_nothing},
    {"!row->offered[i]", unknown_engine_offered},
    {"candidate->state <=", no_such_state},
    {"cost->algo == index %", another_algorithm},
    {"row->offered[engine]", not_offered},
    {"engine < table->engine_count", unknown_engine},
    {"cost->algo == MDNN_ALGO_ENGINE +", another_number},
    {"&cost->engine", other_knobs},
    {"!cost->deferred", deferred_by_its_cost},
    {"cost->time_ms >= 0", negative_time},
    {"cost->time_ms >= 0", no_number},
    {"!cost->untimed", timed_and_not},
};

static void each_broken_rule_is_named(void **state)
{
    size_t missed = 0;
    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++) {
        mdnn_candidate_table_t *const table = new_table();
        /* room for the group behind, so that a rule can be broken there */
        assert_non_null(mdnn_cost_row_candidate(whole(table), ENGINE + 2));
        missed += !finds(first_broken, table, &rules[i]);
        mdnn_candidate_table_destroy(table);
    }
    assert_int_equal(missed, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(each_broken_rule_is_named)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
