/* The pilot on simulated programs, with a mechanism that does what it is advised and nothing else:
 * what is away when an operation names it comes back on demand, and is counted. The plan that the
 * pilot should follow is made here a second time, from a history of our own.
 * MDNN_TEST_SEED=n repeats the program that a failure named. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "offload/pilot.h"
#include "test/unit/failing_allocator.h"
#include "test/unit/random_period.h"
#include "test/unit/random_program.h"

static uint64_t seed_now;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("%s (MDNN_TEST_SEED=%llu)", #condition, (unsigned long long)seed_now);        \
    } while (0)

static void each_seed(void (*check)(void), uint64_t count)
{
    const char *const seed = getenv("MDNN_TEST_SEED");
    for (uint64_t i = 1; i <= (seed ? 1 : count); i++) {
        random_state = seed_now = seed ? strtoull(seed, NULL, 10) : i;
        check();
    }
}

/* ---- the mechanism ---- */

typedef struct object {
    uint64_t bytes;
    uint32_t handle, mirror; /* in the pilot, in the history of our own */
    bool alive, resident, host_valid;
} object_t;

enum { LATE = 8 };

typedef struct model {
    mdnn_pilot_t *pilot;     /* may be NULL */
    mdnn_history_t *history; /* is told the same */
    object_t objects[MOST_IDS];
    uint64_t held_bytes;
    bool time_next;
    struct {
        uint64_t sequence;
        double time_us;
    } late[LATE]; /* times that were measured and not told yet; time_us < 0: none */
    /* Of the last operations, by number: */
    uint64_t held_at[MOST_EVENTS], out_at[MOST_EVENTS], in_at[MOST_EVENTS];
    mdnn_history_place_t place_at[MOST_EVENTS];
    uint32_t operations, demand_at[MOST_EVENTS];
    uint64_t advised, joins, times_asked;
} model_t;

static model_t model;

static double time_of(uint64_t key)
{
    return (double)(1 + key % 7) / 4;
}

static void start_model(const mdnn_pilot_config_t *config)
{
    memset(&model, 0, sizeof model);
    model.pilot = config ? mdnn_pilot_create(config) : NULL;
    model.history = mdnn_history_create(NULL);
    CHECK(model.history && (!config || model.pilot));
    for (uint32_t i = 0; i < LATE; i++)
        model.late[i].time_us = -1;
}

static void stop_model(void)
{
    mdnn_pilot_destroy(model.pilot);
    mdnn_history_destroy(model.history);
    model.pilot = NULL;
    model.history = NULL;
}

static void begin_object(const event_t *event)
{
    object_t *const object = &model.objects[event->id];
    *object = (object_t){.bytes = event->bytes, .alive = true, .resident = true};
    model.held_bytes += object->bytes;
    object->handle = MDNN_NO_POSITION;
    if (model.pilot)
        object->handle = mdnn_pilot_begin_range(model.pilot, object->bytes, false, object);
    object->mirror = mdnn_history_begin_range(model.history, object->bytes, false);
}

static void end_object(const event_t *event)
{
    object_t *const object = &model.objects[event->id];
    object->alive = false;
    model.held_bytes -= object->resident ? object->bytes : 0;
    if (model.pilot)
        mdnn_pilot_end_range(model.pilot, object->handle);
    mdnn_history_end_range(model.history, object->mirror);
}

static void bring_back(object_t *object, uint32_t number)
{
    if (object->resident)
        return;
    object->resident = true;
    model.held_bytes += object->bytes;
    model.in_at[number] += object->bytes;
}

static void send_away(object_t *object, uint32_t number)
{
    if (!object->resident)
        return;
    object->resident = false;
    model.held_bytes -= object->bytes;
    model.out_at[number] += object->host_valid ? 0 : object->bytes;
    object->host_valid = true;
}

static void obey(const mdnn_advice_t *advice, uint32_t number)
{
    for (size_t i = 0; i < advice->leave_count; i++) {
        object_t *const object = advice->leave[i];
        CHECK(object && object->alive);
        send_away(object, number);
    }
    for (size_t i = 0; i < advice->back_count; i++) {
        object_t *const object = advice->back[i];
        CHECK(object && object->alive);
        bring_back(object, number);
    }
    model.advised += advice->leave_count + advice->back_count;
    model.joins += advice->join;
    model.time_next = advice->time;
    model.times_asked += advice->time;
}

/* Times come up to LATE operations late, in any order. */
static void tell_times(uint64_t sequence, double time_us, bool measured)
{
    for (uint32_t i = 0; i < LATE; i++) {
        if (model.late[i].time_us < 0 ||
            (i != sequence % LATE && sequence - model.late[i].sequence < below(LATE)))
            continue;
        mdnn_pilot_timed(model.pilot, model.late[i].sequence, model.late[i].time_us);
        model.late[i].time_us = -1;
    }
    if (!measured)
        return;
    model.late[sequence % LATE].sequence = sequence;
    model.late[sequence % LATE].time_us = time_us;
}

static void run_operation(const event_t *event)
{
    const uint32_t number = model.operations++;
    mdnn_use_t uses[ROOM_USES], mirrored[ROOM_USES];
    model.out_at[number] = model.in_at[number] = model.demand_at[number] = 0;
    for (uint32_t u = 0; u < event->use_count; u++) {
        object_t *const object = &model.objects[event->ids[u]];
        model.demand_at[number] += !object->resident;
        bring_back(object, number);
        object->host_valid &= event->roles[u] == MDNN_USE_READ;
        uses[u] = (mdnn_use_t){object->handle, event->roles[u]};
        mirrored[u] = (mdnn_use_t){object->mirror, event->roles[u]};
    }
    model.held_at[number] = model.held_bytes;
    mdnn_history_operation_t operation = {
        .key = event->key, .time_us = -1, .uses = mirrored, .use_count = event->use_count};
    mdnn_history_record(model.history, &operation);
    model.place_at[number] = mdnn_history_place(model.history);
    if (!model.pilot)
        return;
    const uint64_t sequence = mdnn_pilot_sequence(model.pilot);
    const bool measured = model.time_next;
    mdnn_advice_t advice;
    operation.uses = uses;
    mdnn_pilot_record(model.pilot, &operation, &advice);
    obey(&advice, number);
    tell_times(sequence, time_of(event->key), measured);
}

static void play(uint32_t from)
{
    for (uint32_t at = from; at < event_count; at++)
        if (events[at].kind == BEGIN)
            begin_object(&events[at]);
        else if (events[at].kind == END)
            end_object(&events[at]);
        else
            run_operation(&events[at]);
}

/* ---- programs ---- */

/* One that trains a chain of layers; ranges are used as it is known in practice: not at all. */
static void fill_training(bool roles)
{
    static random_period_t random;
    random_period_training(&random, below(1 << 30), 1 + (uint32_t)below(8));
    const mdnn_period_t *const period = &random.period;
    assert_true(period->operation_count <= MOST_STEPS && period->range_count <= ROOM_SLOTS);
    program = (program_t){.step_count = period->operation_count, .slot_count = period->range_count};
    for (uint32_t r = 0; r < period->range_count; r++) {
        program.slots[r] = (slot_t){period->ranges[r].bytes, MOST_STEPS, MOST_STEPS};
        if (mdnn_range_is_permanent(&period->ranges[r]))
            continue;
        program.slots[r].birth = period->ranges[r].birth;
        program.slots[r].death = period->ranges[r].death;
    }
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const mdnn_operation_t *const operation = &period->operations[i];
        step_t *const step = &program.steps[i];
        step->key = i == 0 ? 1000 : 1 + below(5);
        for (uint32_t u = 0; u < operation->use_count; u++) {
            const mdnn_use_t *const use = &period->uses[operation->first_use + u];
            step->roles[step->use_count] = roles ? use->role : MDNN_USE_UNKNOWN;
            step->slots[step->use_count++] = use->range;
        }
    }
}

static void run_rounds(uint32_t rounds)
{
    for (uint32_t i = 0; i < rounds; i++)
        run_round(&program, program.step_count, 1, true);
}

/* Until the period is found, timed, planned, and followed for more than a round. */
static uint32_t rounds_to_settle(void)
{
    return 10 + 96 / program.step_count;
}

static mdnn_pilot_config_t random_config(mdnn_policy_t policy, double rate, uint64_t *floor_bytes)
{
    static uint64_t live[MOST_STEPS];
    uint64_t peak = 0;
    start_model(NULL);
    play(0);
    const mdnn_history_place_t place = mdnn_history_place(model.history);
    const mdnn_period_t *const period = mdnn_history_period(model.history, place.period);
    CHECK(period != NULL && period->operation_count == program.step_count);
    CHECK(mdnn_period_floor(period, floor_bytes) == MDNN_STATUS_OK);
    mdnn_period_live_bytes(period, live);
    for (uint32_t i = 0; i < period->operation_count; i++)
        peak = live[i] > peak ? live[i] : peak;
    stop_model();
    return (mdnn_pilot_config_t){.policy = policy,
                                 .variants = MDNN_VARIANTS_RECORDED,
                                 .budget_bytes = *floor_bytes + below(peak - *floor_bytes + 2),
                                 .host_limit_bytes = UINT64_MAX,
                                 .link = {rate, rate, rate, rate, 0},
                                 .effort = 40};
}

/* What the pilot should have planned. */
static mdnn_plan_t plan_again(const mdnn_pilot_config_t *config, mdnn_period_t *period)
{
    const mdnn_history_place_t place = mdnn_history_place(model.history);
    const mdnn_period_t *const found = mdnn_history_period(model.history, place.period);
    mdnn_plan_t plan;
    CHECK(found && mdnn_period_copy(found, period) == MDNN_STATUS_OK);
    for (uint32_t i = 0; i < period->operation_count; i++)
        period->variants[period->operations[i].first_variant].time_us =
            time_of(period->operations[i].key);
    const mdnn_plan_request_t request = {.period = period,
                                         .policy = config->policy,
                                         .variants = config->variants,
                                         .link = config->link,
                                         .budget_bytes = config->budget_bytes,
                                         .host_limit_bytes = config->host_limit_bytes,
                                         .effort = config->effort};
    CHECK(mdnn_plan(&request, &plan) == MDNN_STATUS_OK);
    return plan;
}

static unsigned moved_rounds;
static const double at_once = 1e12; /* bytes a microsecond: nothing is called off for lateness */

/* The last round kept to the plan. */
static void check_last_round(const mdnn_pilot_config_t *config)
{
    mdnn_period_t period = {0};
    uint64_t resident[MOST_STEPS], out_bytes = 0, in_bytes = 0;
    mdnn_plan_t plan = plan_again(config, &period);
    const mdnn_pilot_report_t report = mdnn_pilot_report(model.pilot);
    const uint32_t count = period.operation_count;
    CHECK(count == program.step_count && report.period_operations == count && report.followed);
    CHECK(report.verdict == plan.verdict && report.floor_bytes == plan.floor_bytes);
    CHECK(report.predicted_us == plan.predicted.time_us && report.policy == plan.policy);
    CHECK(report.compute_us == mdnn_period_compute_us(&period, NULL));
    mdnn_schedule_resident_bytes(&period, &plan.schedule, resident);
    for (uint32_t n = model.operations - count; n < model.operations; n++) {
        const uint32_t position = model.place_at[n].position;
        out_bytes += model.out_at[n];
        in_bytes += model.in_at[n];
        CHECK(model.demand_at[n] == 0);
        CHECK(model.held_at[n] <= resident[position]);
        CHECK(plan.verdict != MDNN_VERDICT_FITS || model.held_at[n] <= config->budget_bytes);
    }
    if (plan.verdict != MDNN_VERDICT_FITS || config->policy == MDNN_POLICY_NONE)
        CHECK(model.advised == 0 && model.joins == 0);
    else if (config->link.out_bytes_per_us == at_once)
        CHECK(out_bytes == plan.predicted.out_bytes && in_bytes == plan.predicted.in_bytes);
    CHECK((model.joins > 0) == (plan.schedule.join_count > 0));
    moved_rounds += in_bytes > 0;
    mdnn_plan_fini(&plan);
    mdnn_period_fini(&period);
}

static void check_steady(mdnn_policy_t policy, double rate, bool background)
{
    uint64_t floor_bytes;
    start_program(&program);
    run_rounds(rounds_to_settle());
    mdnn_pilot_config_t config = random_config(policy, rate, &floor_bytes);
    config.background = background;
    start_model(&config);
    play(0);
    for (uint32_t i = 0; background && i < 10000; i++) {
        if (mdnn_pilot_report(model.pilot).period_operations > 0)
            break;
        event_count = 0;
        run_rounds(1);
        play(0);
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
    if (background) {
        event_count = 0;
        model.operations = 0;
        run_rounds(3);
        play(0);
    }
    check_last_round(&config);
    stop_model();
}

/* ---- tests ---- */

static void check_random(void)
{
    fill_program(&program, 1000);
    check_steady((mdnn_policy_t)below(MDNN_POLICY_COUNT), below(2) ? at_once : 2, false);
}

static void check_training(void)
{
    fill_training(below(2));
    const mdnn_policy_t policy =
        below(2) ? MDNN_POLICY_AUTO : (mdnn_policy_t)below(MDNN_POLICY_COUNT);
    check_steady(policy, below(2) ? at_once : 2, false);
}

static void a_steady_program_moves_what_the_plan_says(void **state)
{
    (void)state;
    moved_rounds = 0;
    each_seed(check_random, 600);
    each_seed(check_training, 400);
    print_message("%u programs in which something moves\n", moved_rounds);
    if (!getenv("MDNN_TEST_SEED"))
        assert_true(moved_rounds > 200);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_program_moves_what_the_plan_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
