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

#include "offload/history.h"
#include "test/unit/random.h"

enum { MOST_STEPS = 48, MOST_SLOTS = 24, MOST_USES = 6, MOST_EVENTS = 40000, MOST_IDS = 20000 };

static uint64_t seed_now, random_state;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s (MDNN_TEST_SEED=%llu)", #condition, (unsigned long long)seed_now);        \
    } while (0)

static uint64_t below(uint64_t end)
{
    return random_next(&random_state) % end;
}

/* ---- a program: one round of it ---- */

typedef struct slot {
    uint64_t bytes;
    uint32_t birth, death; /* steps; death < birth: in the next round; both MOST_STEPS: always */
} slot_t;

typedef struct step {
    uint64_t key;
    uint32_t use_count, slots[MOST_USES];
    mdnn_use_role_t roles[MOST_USES];
} step_t;

typedef struct program {
    uint32_t step_count, slot_count;
    slot_t slots[MOST_SLOTS];
    step_t steps[MOST_STEPS];
} program_t;

static bool slot_lives(const slot_t *slot, uint32_t step)
{
    if (slot->birth == MOST_STEPS)
        return true;
    if (slot->birth <= slot->death)
        return step >= slot->birth && step <= slot->death;
    return step >= slot->birth || step <= slot->death;
}

/* Few keys and sizes, and a stretch that repeats itself, so that much looks alike. The first step
 * is like no other: otherwise the round might be a shorter one several times. */
static void fill_program(program_t *program, uint64_t first_key)
{
    program->step_count = 9 + (uint32_t)below(MOST_STEPS - 9);
    program->slot_count = 1 + (uint32_t)below(MOST_SLOTS - 1);
    for (uint32_t s = 0; s < program->slot_count; s++) {
        slot_t *const slot = &program->slots[s];
        slot->bytes = 1 + below(3);
        slot->birth = slot->death = MOST_STEPS;
        if (below(3) == 0)
            continue;
        slot->birth = (uint32_t)below(program->step_count);
        slot->death = (uint32_t)below(program->step_count);
        if (slot->birth > slot->death && below(3)) {
            const uint32_t swap = slot->birth;
            slot->birth = slot->death;
            slot->death = swap;
        }
    }
    const uint32_t loop = 1 + (uint32_t)below(5), from = (uint32_t)below(program->step_count);
    for (uint32_t i = 0; i < program->step_count; i++) {
        step_t *const step = &program->steps[i];
        *step = (step_t){.key = i == 0 ? first_key : 1 + below(3)};
        if (i > from && i >= loop + 1)
            step->key = program->steps[i - loop].key;
        for (uint32_t s = 0; s < program->slot_count && step->use_count < MOST_USES; s++) {
            const bool born = program->slots[s].birth == i;
            if (!born && (!slot_lives(&program->slots[s], i) || below(4)))
                continue;
            step->roles[step->use_count] = (mdnn_use_role_t)below(3);
            step->slots[step->use_count++] = s;
        }
    }
    /* A birth that found no room for its use would be one that nobody sees. */
    for (uint32_t s = 0; s < program->slot_count; s++) {
        slot_t *const slot = &program->slots[s];
        bool seen = slot->birth == MOST_STEPS;
        for (uint32_t u = 0; !seen && u < program->steps[slot->birth].use_count; u++)
            seen = program->steps[slot->birth].slots[u] == s;
        for (uint32_t i = 0; !seen && i < program->step_count; i++)
            for (uint32_t u = 0; u < program->steps[i].use_count; u++)
                if (program->steps[i].slots[u] == s)
                    program->steps[i].slots[u--] =
                        program->steps[i].slots[--program->steps[i].use_count];
    }
}

/* ---- what happens: events of many rounds ---- */

typedef struct event {
    enum { BEGIN, END, OPERATION } kind;
    uint32_t id; /* BEGIN, END */
    uint64_t bytes, key;
    uint32_t use_count, ids[MOST_USES];
    mdnn_use_role_t roles[MOST_USES];
    bool regular; /* whether all predictions must be right here */
} event_t;

static event_t events[MOST_EVENTS];
static uint32_t event_count, id_count;
static uint32_t handles[MOST_IDS];
static uint32_t living[MOST_SLOTS];
static bool slot_is_there[MOST_SLOTS];

static event_t *add_event(event_t event)
{
    assert_true(event_count < MOST_EVENTS);
    events[event_count] = event;
    return &events[event_count++];
}

static void begin_slot(uint32_t s, uint64_t bytes)
{
    assert_true(id_count < MOST_IDS);
    living[s] = id_count++;
    slot_is_there[s] = true;
    add_event((event_t){.kind = BEGIN, .id = living[s], .bytes = bytes});
}

static void end_slot(uint32_t s)
{
    add_event((event_t){.kind = END, .id = living[s]});
    slot_is_there[s] = false;
}

/* Steps up to `end`; sizes are multiplied, as with a batch of another size. Slots that a short
 * round left alive are ended, those that are missing are begun. */
static void run_round(const program_t *program, uint32_t end, uint64_t factor, bool regular)
{
    for (uint32_t i = 0; i < end; i++) {
        const step_t *const step = &program->steps[i];
        event_t event = {.kind = OPERATION, .key = step->key, .regular = regular};
        for (uint32_t u = 0; u < step->use_count; u++) {
            const uint32_t s = step->slots[u];
            const bool anew = program->slots[s].birth == i;
            if (slot_is_there[s] && anew)
                end_slot(s);
            if (!slot_is_there[s])
                begin_slot(s, program->slots[s].bytes *
                                  (program->slots[s].birth == MOST_STEPS ? 1 : factor));
            event.ids[event.use_count] = living[s];
            event.roles[event.use_count++] = step->roles[u];
        }
        add_event(event);
        for (uint32_t s = 0; s < program->slot_count; s++)
            if (slot_is_there[s] && program->slots[s].death == i)
                end_slot(s);
    }
}

static void start_program(const program_t *program)
{
    event_count = id_count = 0;
    memset(slot_is_there, 0, sizeof slot_is_there);
    for (uint32_t s = 0; s < program->slot_count; s++)
        if (program->slots[s].birth == MOST_STEPS)
            begin_slot(s, program->slots[s].bytes);
}

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

static program_t program, other;

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
    const uint32_t rounds = 5 + 96 / program.step_count;
    for (uint32_t round = 0; round < rounds + 3; round++)
        run_round(&program, program.step_count, 1, round >= rounds);
    play(history, program.step_count, 4);
    check_period(history);
    mdnn_history_destroy(history);
}

static void repetition_is_found_and_predicts_every_use(void **state)
{
    (void)state;
    right_answers = 0;
    each_seed(check_regular, 1500);
    print_message("%u answers, all right\n", right_answers);
    assert_true(right_answers > 100);
}

/* Each begins with an operation that never came before: what deviates twice in the same way would
 * be a longer period. Alone it is a line of logging. */
static void deviate(void)
{
    add_event((event_t){.kind = OPERATION, .key = 10000 + event_count});
    switch (below(5)) {
    case 0:
        break;
    case 1: /* a short last batch */
        run_round(&program, program.step_count, 5, false);
        break;
    case 2: /* evaluation: only the first part, several times */
        for (uint64_t i = 1 + below(4); i-- > 0;)
            run_round(&program, 1 + (uint32_t)below(program.step_count - 1), 1, false);
        break;
    case 3: /* an exception: the round breaks off */
        run_round(&program, (uint32_t)below(program.step_count), 1, false);
        break;
    default: /* something else altogether, which has a period of its own */
        for (uint64_t i = below(9); i-- > 0;)
            for (uint32_t step = 0; step < other.step_count; step++)
                add_event((event_t){.kind = OPERATION, .key = 500 + other.steps[step].key});
        break;
    }
}

static void check_deviations(void)
{
    mdnn_history_t *const history = mdnn_history_create(NULL);
    fill_program(&program, 1000);
    random_state++;
    fill_program(&other, 2000);
    start_program(&program);
    for (uint32_t round = 0; round < 5 + 96 / program.step_count; round++)
        run_round(&program, program.step_count, 1, false);
    for (uint32_t i = 0; i < 4; i++) {
        deviate();
        /* Two rounds to find back and to see every range once more; then all must be right, as long
         * as what is foretold comes before the next deviation. */
        for (uint32_t round = 0; round < 4; round++)
            run_round(&program, program.step_count, 1, round == 2);
    }
    play(history, program.step_count, 8);
    mdnn_history_destroy(history);
}

static void deviations_are_survived(void **state)
{
    (void)state;
    right_answers = 0;
    each_seed(check_deviations, 800);
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
static void the_way_back_is_the_shortest(void **state)
{
    enum { ROUND = 40 };
    mdnn_history_t *const history = mdnn_history_create(NULL);
    (void)state;
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

/* Nothing repeats, rings are tiny, ranges end at any time, handles are wrong: nothing breaks. */
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

static void noise_breaks_nothing(void **state)
{
    (void)state;
    each_seed(check_noise, 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(repetition_is_found_and_predicts_every_use),
        cmocka_unit_test(deviations_are_survived),
        cmocka_unit_test(the_way_back_is_the_shortest),
        cmocka_unit_test(noise_breaks_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
