/* The history on random programs: what it expects against what really comes, with and without
 * deviations. MDNN_TEST_SEED=n repeats the program that a failure named. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "offload/follow/history.h"
#include "test/unit/cases.h"
#include "test/unit/few.h"
#include "test/unit/random_program.h"

static uint64_t seed_now;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s (MDNN_TEST_SEED=%llu)", #condition, (unsigned long long)seed_now);        \
    } while (0)

static uint32_t handles[MOST_IDS];

/* ---- the truth ---- */

static bool names(const event_t *event, uint32_t id)
{
    for (uint32_t u = 0; u < event->use_count; u++)
        if (event->ids[u] == id)
            return true;
    return false;
}

static double time_of(uint64_t key)
{
    return (double)(key % 7) / 4;
}

static mdnn_next_use_t truth(uint32_t now, uint32_t id)
{
    mdnn_next_use_t next = {.expectation = MDNN_EXPECT_UNKNOWN};
    for (uint32_t at = now + 1; at < event_count; at++) {
        if (events[at].kind == END && events[at].id == id) {
            next.expectation = MDNN_EXPECT_DEATH;
            return next;
        }
        if (events[at].kind != OPERATION)
            continue;
        next.operations++;
        if (names(&events[at], id)) {
            next.expectation = MDNN_EXPECT_USE;
            return next;
        }
        next.time_us += time_of(events[at].key);
    }
    return next;
}

static unsigned right_answers; /* where the program is regular */

static void compare_answers(const mdnn_history_t *history, uint32_t now)
{
    for (uint32_t id = 0; id < id_count; id++) {
        if (handles[id] == MDNN_NO_POSITION)
            continue;
        const mdnn_next_use_t is = truth(now, id);
        const mdnn_next_use_t said = mdnn_history_next_use(history, handles[id]);
        if (is.expectation == MDNN_EXPECT_UNKNOWN)
            continue; /* the end of the program */
        const bool right =
            said.expectation == is.expectation &&
            (said.expectation != MDNN_EXPECT_USE ||
             (said.operations == is.operations && fabs(said.time_us - is.time_us) < 1e-9));
        bool ever = false; /* a range that nothing uses in a round is not known */
        for (uint32_t at = 0; at <= now && !ever; at++)
            ever = events[at].kind == OPERATION && names(&events[at], id);
        if (!ever)
            continue;
        if (!events[now].regular)
            continue;
        right_answers += right;
        if (!right)
            fail_msg("event %u, range %u: said %d after %u, is %d after %u (MDNN_TEST_SEED=%llu)",
                     now, id, said.expectation, said.operations, is.expectation, is.operations,
                     (unsigned long long)seed_now);
    }
}

static void play(mdnn_history_t *history, uint32_t step_count, unsigned compare_every)
{
    for (uint32_t at = 0; at < event_count; at++) {
        const event_t *const event = &events[at];
        if (event->kind == BEGIN) {
            handles[event->id] = mdnn_history_begin_range(history, event->bytes, false);
        } else if (event->kind == END) {
            mdnn_history_end_range(history, handles[event->id]);
            handles[event->id] = MDNN_NO_POSITION;
        } else {
            mdnn_use_t uses[MOST_USES];
            for (uint32_t u = 0; u < event->use_count; u++)
                uses[u] = (mdnn_use_t){handles[event->ids[u]], event->roles[u]};
            const mdnn_history_operation_t operation = {.key = event->key,
                                                        .time_us = time_of(event->key),
                                                        .uses = uses,
                                                        .use_count = event->use_count};
            mdnn_history_record(history, &operation);
            if (event->regular) {
                const mdnn_history_place_t place = mdnn_history_place(history);
                const mdnn_period_t *const period = mdnn_history_period(history, place.period);
                CHECK(period != NULL);
                CHECK(period->operation_count == step_count);
                CHECK(period->operations[place.position].key == event->key);
            }
            if (below(compare_every) == 0)
                compare_answers(history, at);
        }
    }
}

static void each_seed(void (*check)(void), uint64_t count)
{
    const char *const seed = getenv("MDNN_TEST_SEED");
    for (uint64_t i = 1; i <= (seed ? 1 : count); i++) {
        random_state = seed_now = seed ? strtoull(seed, NULL, 10) : i;
        check();
    }
}

/* ---- tests ---- */

/* The sum of all ranges at each operation, from the events of one round and from the period. */
static void check_period(const mdnn_history_t *history)
{
    uint64_t expected = 0, live[MOST_STEPS], is = 0;
    const mdnn_history_place_t place = mdnn_history_place(history);
    const mdnn_period_t *const period = mdnn_history_period(history, place.period);
    CHECK(mdnn_period_check(period) == MDNN_STATUS_OK);
    mdnn_period_live_bytes(period, live);
    for (uint32_t i = 0; i < period->operation_count; i++)
        is += live[i];
    for (uint32_t s = 0; s < program.slot_count; s++) {
        const slot_t *const slot = &program.slots[s];
        bool used = slot->birth == MOST_STEPS;
        for (uint32_t i = 0; !used && i < program.step_count; i++)
            for (uint32_t u = 0; u < program.steps[i].use_count; u++)
                used |= program.steps[i].slots[u] == s;
        for (uint32_t i = 0; used && i < program.step_count; i++)
            expected += slot_lives(slot, i) ? slot->bytes : 0;
    }
    CHECK(is == expected);
}

static void check_regular(void)
{
    mdnn_history_t *const history = mdnn_history_create(NULL);
    fill_program(&program, 1000);
    start_program(&program);
    const uint32_t rounds = 6 + 96 / program.step_count;
    for (uint32_t round = 0; round < rounds + 3; round++)
        run_round(&program, program.step_count, 1, round >= rounds);
    play(history, program.step_count, 4);
    check_period(history);
    mdnn_history_destroy(history);
}

CASE(repetition_is_found_and_predicts_every_use)
{
    right_answers = 0;
    each_seed(check_regular, few(150, 1500));
    print_message("%u answers, all right\n", right_answers);
    assert_true(right_answers > 100);
}

static void check_deviations(void)
{
    mdnn_history_t *const history = mdnn_history_create(NULL);
    fill_program(&program, 1000);
    random_state++;
    fill_program(&other, 2000);
    start_program(&program);
    for (uint32_t round = 0; round < 6 + 96 / program.step_count; round++)
        run_round(&program, program.step_count, 1, false);
    for (uint32_t i = 0; i < 4; i++) {
        deviate();
        /* Two rounds to find back and to see every range once more, and one in which a longer period is left that parts
         * of an evaluation looked like by chance; then all must be right, as long as what is foretold comes before the
         * next deviation. */
        for (uint32_t round = 0; round < 5; round++)
            run_round(&program, program.step_count, 1, round == 3);
    }
    play(history, program.step_count, 8);
    mdnn_history_destroy(history);
}

CASE(deviations_are_survived)
{
    right_answers = 0;
    each_seed(check_deviations, few(80, 800));
    print_message("%u answers, all right\n", right_answers);
    assert_true(right_answers > 100);
}

static void record_key(mdnn_history_t *history, uint64_t key)
{
    const mdnn_history_operation_t operation = {.key = key, .time_us = 1};
    mdnn_history_record(history, &operation);
}

/* A line of logging within a stretch in which all operations look alike: eight of them fit in many
 * places, the one next to where it got lost is meant. */
CASE(the_way_back_is_the_shortest)
{
    enum { ROUND = 40 };
    mdnn_history_t *const history = mdnn_history_create(NULL);
    for (uint32_t i = 0; i < 6 * ROUND + 12; i++)
        record_key(history, i % ROUND == 0 ? 2 : 1);
    const mdnn_history_place_t before = mdnn_history_place(history);
    assert_int_equal(mdnn_history_period(history, before.period)->operation_count, ROUND);
    record_key(history, 3);
    assert_int_equal(mdnn_history_place(history).period, 0);
    for (uint32_t i = 0; i < 8; i++)
        record_key(history, 1);
    const mdnn_history_place_t after = mdnn_history_place(history);
    assert_int_equal(after.period, before.period);
    assert_int_equal(after.position, (before.position + 8) % ROUND);
    mdnn_history_destroy(history);
}

/* From some round on one operation is another: for eight operations of each round the program is
 * lost, until the new round is learned. */
CASE(a_round_that_changed_in_one_place_is_learned)
{
    enum { ROUND = 40, ROUNDS = 64 };
    for (uint32_t changed_at = 0; changed_at < ROUND; changed_at++) {
        mdnn_history_t *const history = mdnn_history_create(NULL);
        uint32_t unknown = 0;
        for (uint32_t i = 0; i < ROUNDS * ROUND; i++) {
            const bool changed = i > 10 * ROUND && i % ROUND == changed_at;
            record_key(history, changed ? 99 : 1 + i % ROUND);
            unknown += i >= (ROUNDS - 1) * ROUND && mdnn_history_place(history).period == 0;
        }
        assert_int_equal(unknown, 0);
        mdnn_history_destroy(history);
    }
}

/* Operations of a round: `loops` loops of four operations, each `times` times, with others between them. */
static uint64_t key_of_round(uint32_t position, uint32_t times)
{
    const uint32_t stretch = 10 + 4 * times, in_stretch = position % stretch;
    return in_stretch < 10 ? 1000 + position : 1 + (in_stretch - 10) % 4;
}

static uint32_t period_now(const mdnn_history_t *history)
{
    const mdnn_period_t *const period =
        mdnn_history_period(history, mdnn_history_place(history).period);
    return period ? period->operation_count : 0;
}

/* Of ranges that live from one quarter of a round to another. The first lives in the first half, so the round should begin
 * in the second one, where one of the others lives. */
enum { LIVES = 3 };
static const uint64_t life_bytes[LIVES] = {100, 10, 11};
static uint32_t life_begins(uint32_t life, uint32_t round)
{
    return round / 4 * (uint32_t[]){0, 3, 1}[life];
}
static uint32_t life_ends(uint32_t life, uint32_t round)
{
    return round / 4 * (uint32_t[]){2, 1, 3}[life];
}

static void record_round(mdnn_history_t *history, uint32_t *ranges, uint32_t position,
                         uint32_t round, uint32_t times)
{
    mdnn_use_t uses[LIVES];
    uint32_t count = 0;
    for (uint32_t life = 0; life < LIVES; life++) {
        const bool begins = position == life_begins(life, round);
        if (begins)
            ranges[life] = mdnn_history_begin_range(history, life_bytes[life], false);
        if (begins || position == life_ends(life, round))
            uses[count++] = (mdnn_use_t){ranges[life], MDNN_USE_UNKNOWN};
    }
    const mdnn_history_operation_t operation = {
        .key = key_of_round(position, times), .uses = uses, .use_count = count};
    mdnn_history_record(history, &operation);
    for (uint32_t life = 0; life < LIVES; life++)
        if (position == life_ends(life, round)) {
            mdnn_history_end_range(history, ranges[life]);
            ranges[life] = MDNN_NO_POSITION;
        }
}

static void check_lives(const mdnn_period_t *period)
{
    const uint32_t round = period->operation_count;
    assert_int_equal(period->range_count, LIVES);
    for (uint32_t r = 0; r < LIVES; r++) {
        const mdnn_period_range_t *const range = &period->ranges[r];
        uint32_t life = 0;
        while (life < LIVES && life_bytes[life] != range->bytes)
            life++;
        assert_true(life < LIVES);
        assert_false(range->stays);
        assert_int_equal((range->death + round - range->birth) % round,
                         (life_ends(life, round) + round - life_begins(life, round)) % round);
    }
}

static void check_round_after(uint32_t before, uint32_t loops, uint32_t times)
{
    const uint32_t round = loops * (10 + 4 * times), soon = 2 * round + round / 4 + 32;
    mdnn_history_t *const history = mdnn_history_create(NULL);
    uint32_t ranges[LIVES] = {MDNN_NO_POSITION, MDNN_NO_POSITION, MDNN_NO_POSITION};
    for (uint32_t i = 0; i < before; i++)
        record_key(history, UINT64_C(1) << 32 | i);
    for (uint32_t i = 0; i < soon + 2 * round; i++) {
        if (i >= soon)
            assert_int_equal(period_now(history), round);
        record_round(history, ranges, i % round, round, times);
    }
    const mdnn_history_place_t place = mdnn_history_place(history);
    const mdnn_period_t *const period = mdnn_history_period(history, place.period);
    assert_int_equal(period->operations[place.position].key,
                     key_of_round((soon + 2 * round - 1) % round, times));
    check_lives(period);
    mdnn_history_destroy(history);
}

/* However long the program has done something else before, though a round has loops in it, such as micro-batches, and
 * though the moment at which least lives is over when the round is found. */
CASE(a_round_is_followed_soon_after_the_second_one)
{
    static const uint32_t before[] = {0, 777, 20000};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        check_round_after(before[i], 1, 4);
        check_round_after(before[i], 3, 16);
        check_round_after(before[i], 13, 33);
        check_round_after(before[i], 40, 64);
    }
}

/* An evaluation, say, in which nothing repeats itself but neighbours that are alike by chance. */
CASE(a_round_is_remembered_through_what_repeats_by_chance)
{
    enum { ROUND = 10, ROUNDS = 20, OTHERS = 640, FAMILIAR = 8 };
    mdnn_history_t *const history = mdnn_history_create(NULL);
    for (uint32_t i = 0; i < ROUND * ROUNDS; i++)
        record_key(history, 1 + i % ROUND);
    assert_int_equal(period_now(history), ROUND);
    for (uint32_t i = 0; i < OTHERS; i++)
        record_key(history, 1000 + i / 2);
    for (uint32_t i = 0; i < FAMILIAR; i++)
        record_key(history, 1 + i);
    assert_int_equal(period_now(history), ROUND);
    mdnn_history_destroy(history);
}

/* Nothing repeats, rings are tiny, ranges end at any time, handles are wrong: nothing breaks. */
enum { LAYERS = 20 };
static uint64_t noise_state;

static uint32_t noise(uint32_t below)
{
    noise_state = noise_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(noise_state >> 33) % below;
}

/* An operation that names what it uses, and in one of three calls something else that lives. */
static void record_noisy(mdnn_history_t *history, uint64_t key, const uint32_t *ranges,
                         uint32_t count, const uint32_t *alive, uint32_t alive_count)
{
    mdnn_use_t uses[8];
    const uint32_t stray = noise(3) == 0 ? noise(count + 1) : UINT32_MAX;
    uint32_t used = 0;
    for (uint32_t u = 0; u <= count; u++) {
        if (u == stray)
            uses[used++] = (mdnn_use_t){alive[noise(alive_count)], MDNN_USE_UNKNOWN};
        if (u < count)
            uses[used++] = (mdnn_use_t){ranges[u], MDNN_USE_UNKNOWN};
    }
    const mdnn_history_operation_t operation = {
        .key = key, .time_us = 1, .uses = uses, .use_count = used};
    mdnn_history_record(history, &operation);
}

/* Activations live from their layer to its backward pass; `ahead`: from the layer before, and a word
 * may name them there, as its address was another one's before. */
static void noisy_round(mdnn_history_t *history, const uint32_t *weights, bool same_sizes,
                        uint32_t ahead)
{
    uint32_t alive[LAYERS + 1], begun = 0;
    for (uint32_t i = 0; i <= LAYERS; i++) {
        for (; begun <= LAYERS && begun <= i + ahead; begun++)
            alive[begun] =
                mdnn_history_begin_range(history, same_sizes ? 1000 : 1000 + begun, false);
        const uint32_t used[] = {alive[i], i > 0 ? alive[i - 1] : weights[0], weights[i]};
        record_noisy(history, 1 + i, used, 3, alive, begun);
    }
    for (uint32_t i = LAYERS + 1; i-- > 0;) {
        const uint32_t used[] = {alive[i], weights[i]};
        record_noisy(history, 100 + i, used, 2, alive, i + 1);
        mdnn_history_end_range(history, alive[i]);
    }
}

CASE(words_that_look_like_addresses_do_not_hide_the_round)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint32_t weights[LAYERS + 1];
        mdnn_history_t *const history = mdnn_history_create(&(mdnn_history_limits_t){0});
        assert_non_null(history);
        noise_state = seed_now = seed;
        for (uint32_t i = 0; i <= LAYERS; i++)
            weights[i] = mdnn_history_begin_range(history, 5000 + i, false);
        for (int round = 0; round < 6; round++)
            noisy_round(history, weights, false, 0);
        const mdnn_history_place_t place = mdnn_history_place(history);
        const mdnn_period_t *const period = mdnn_history_period(history, place.period);
        CHECK(period && period->operation_count == 2 * (LAYERS + 1));
        /* A stray word in front of the same range's own changes the order: a few are lost so. */
        CHECK(period->use_count >= 5 * (LAYERS + 1) - 8 && period->use_count <= 6 * (LAYERS + 1));
        uint32_t expected = 0;
        for (uint32_t i = 0; i <= LAYERS; i++)
            expected += mdnn_history_next_use(history, weights[i]).expectation == MDNN_EXPECT_USE;
        CHECK(expected >= LAYERS - 5);
        mdnn_history_destroy(history);
    }
}

/* Feature maps of one size, as VGG's: a stray word matches another's place, and still no life is in
 * doubt. */
CASE(stray_words_leave_no_life_in_doubt)
{
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint32_t weights[LAYERS + 1];
        mdnn_history_t *const history = mdnn_history_create(&(mdnn_history_limits_t){0});
        assert_non_null(history);
        noise_state = seed_now = seed;
        for (uint32_t i = 0; i <= LAYERS; i++)
            weights[i] = mdnn_history_begin_range(history, 500, false);
        for (int round = 0; round < 6; round++)
            noisy_round(history, weights, true, seed % 2);
        const mdnn_period_t *const period =
            mdnn_history_period(history, mdnn_history_place(history).period);
        CHECK(period && period->operation_count == 2 * (LAYERS + 1));
        uint32_t staying = 0;
        for (uint32_t r = 0; r < period->range_count; r++)
            staying += period->ranges[r].stays;
        CHECK(staying == 0);
        mdnn_history_destroy(history);
    }
}

static void check_noise(void)
{
    enum { HELD = 40 };
    const mdnn_history_limits_t limits = {1 + (uint32_t)below(200), 1 + (uint32_t)below(300)};
    mdnn_history_t *const history = mdnn_history_create(&limits);
    uint32_t held[HELD];
    const uint64_t keys = 1 + below(4);
    for (uint32_t i = 0; i < HELD; i++)
        held[i] = mdnn_history_begin_range(history, below(3), false);
    for (uint32_t i = 0; i < 3000; i++) {
        mdnn_use_t uses[MOST_USES];
        const uint32_t which = (uint32_t)below(HELD);
        if (below(3) == 0) {
            mdnn_history_end_range(history, held[which]);
            held[which] = mdnn_history_begin_range(history, below(3), below(9) == 0);
        }
        const uint32_t count = (uint32_t)below(MOST_USES);
        for (uint32_t u = 0; u < count; u++)
            uses[u] = (mdnn_use_t){below(50) ? held[below(HELD)] : (uint32_t)below(2000),
                                   (mdnn_use_role_t)below(3)};
        const mdnn_history_operation_t operation = {
            .key = below(keys), .time_us = -1, .uses = uses, .use_count = count};
        mdnn_history_record(history, &operation);
        const mdnn_history_place_t place = mdnn_history_place(history);
        const mdnn_period_t *const period = mdnn_history_period(history, place.period);
        CHECK((place.period != 0) == (period != NULL));
        if (period)
            CHECK(place.position < period->operation_count);
        const mdnn_next_use_t next = mdnn_history_next_use(history, held[which]);
        CHECK(next.expectation != MDNN_EXPECT_USE ||
              (next.operations >= 1 && next.operations <= period->operation_count));
    }
    mdnn_history_destroy(history);
}

CASE(noise_breaks_nothing)
{
    each_seed(check_noise, few(50, 200));
}

/* Each third operation has ways to run, which are the same for operations with the same key. */
CASE(variants_come_with_their_operations)
{
    enum { OPERATIONS = 12, ROUNDS = 8 };
    mdnn_history_t *const history = mdnn_history_create(NULL);
    for (uint32_t i = 0; i < ROUNDS * OPERATIONS; i++) {
        const uint32_t step = i % OPERATIONS, count = 1 + step / 3;
        mdnn_variant_t variants[OPERATIONS];
        for (uint32_t v = 0; v < count; v++)
            variants[v] = (mdnn_variant_t){step + v, 100 - v};
        const mdnn_history_operation_t operation = {.key = 50 + step,
                                                    .time_us = 7,
                                                    .workspace_bytes = 9,
                                                    .variants = step % 3 == 0 ? variants : NULL,
                                                    .variant_count = count};
        mdnn_history_record(history, &operation);
    }
    const mdnn_period_t *const period =
        mdnn_history_period(history, mdnn_history_place(history).period);
    assert_non_null(period);
    assert_int_equal(period->operation_count, OPERATIONS);
    for (uint32_t i = 0; i < OPERATIONS; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        const mdnn_variant_t *const variants = &period->variants[operation->first_variant];
        const uint32_t step = (uint32_t)operation->key - 50;
        const bool any = step % 3 == 0;
        assert_int_equal(operation->variant_count, any ? 1 + step / 3 : 1);
        for (uint32_t v = 0; v < operation->variant_count; v++) {
            assert_true(variants[v].time_us == (any ? step + v : 7));
            assert_int_equal(variants[v].workspace_bytes, any ? 100 - v : 9);
        }
    }
    mdnn_history_destroy(history);
}

/* More lists than are kept: the operations have none, and nothing else changes. */
CASE(too_many_lists_of_variants_are_forgotten)
{
    mdnn_history_t *const history = mdnn_history_create(NULL);
    for (uint32_t i = 0; i < 4000; i++) {
        const mdnn_variant_t variants[2] = {{i, 1}, {i + 1, 0}};
        const mdnn_history_operation_t operation = {
            .key = i % 10, .time_us = 1, .variants = variants, .variant_count = i % 2 ? 2 : 1000};
        mdnn_history_record(history, &operation);
    }
    const mdnn_period_t *const period =
        mdnn_history_period(history, mdnn_history_place(history).period);
    assert_non_null(period);
    assert_int_equal(mdnn_period_check(period), MDNN_STATUS_OK);
    mdnn_history_destroy(history);
}

int main(void)
{
    return run_cases("offload_history");
}
