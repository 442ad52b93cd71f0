/* The plan follower on simulated programs, with a mechanism that does what it is advised and nothing else:
 * what is away when an operation names it comes back on demand, and is counted. The plan that the
 * follower should follow is made here a second time, from a history of our own.
 * MDNN_TEST_SEED repeats the program that a failure named. */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "offload/follow/follower_internal.h"
#include "offload/plan/certificate.h"
#include "test/unit/cases.h"
#include "test/unit/each_seed.h"
#include "test/unit/failing_allocator.h"
#include "test/unit/few.h"
#include "test/unit/random_period.h"
#include "test/unit/random_program.h"

/* What the seeds of a case have met. */
static struct {
    unsigned moved_rounds, sent_for_good, better_plans, given_up, demanded, planned_again,
        planned_back;
    uint64_t first_uses[2][2]; /* [it is the next operation's][the plan follower says so] */
    uint64_t nexts[2];  /* said: [more often than the next operation has such, or without room] */
    uint64_t births[2]; /* foretold: [and no more when they have begun] */
    uint64_t early[2];  /* said of later ones: [the plan has room until then] */
} seen;

static void check_seen(bool enough)
{
    print_message(
        "rounds that move %u, away for good %u, better plans %u, given up %u, demanded %u, "
        "planned again %u, taken back %u, first uses known: next %lu of %lu, later %lu of %lu; "
        "with "
        "room %lu, without %lu; too often %lu of %lu\n",
        seen.moved_rounds, seen.sent_for_good, seen.better_plans, seen.given_up, seen.demanded,
        seen.planned_again, seen.planned_back, seen.first_uses[1][1],
        seen.first_uses[1][0] + seen.first_uses[1][1], seen.first_uses[0][0],
        seen.first_uses[0][0] + seen.first_uses[0][1], seen.early[true], seen.early[false],
        seen.nexts[true], seen.nexts[false] + seen.nexts[true]);
    assert_true(seen.births[false] <= seen.births[true] / 100);
    assert_true(enough || !is_thorough() || getenv("MDNN_TEST_SEED"));
}

/* A case that runs with so many seeds, and has then seen enough to mean something. */
#define SEEDED_CASE(name, seeds, enough)                                                           \
    static void name##_drawn(void);                                                                \
    static void name##_once(uint64_t seed)                                                         \
    {                                                                                              \
        random_state = seed;                                                                       \
        name##_drawn();                                                                            \
    }                                                                                              \
    CASE(name)                                                                                     \
    {                                                                                              \
        memset(&seen, 0, sizeof seen);                                                             \
        each_seed(name##_once, few(1 + (seeds) / 4, seeds));                                       \
        check_seen(enough);                                                                        \
    }                                                                                              \
    static void name##_drawn(void)

/* ---- the mechanism ---- */

typedef struct object {
    uint64_t bytes;
    uint32_t handle, mirror; /* in the plan follower, in the history of our own */
    bool alive, resident, used;
} object_t;

enum { LATE = 8 };

typedef struct model {
    mdnn_follower_t *follower; /* may be NULL */
    mdnn_history_t *history;   /* is told the same; may be NULL */
    object_t objects[MOST_IDS];
    uint64_t held_bytes;
    bool time_next;
    struct {
        uint64_t sequence;
        double time_us;
    } late[LATE]; /* times that were measured and not told yet; time_us < 0: none */
    uint64_t advised, joins, times_asked;
    uint32_t operations, demand_at[MOST_EVENTS]; /* from here on by number of the operation */
    uint64_t held_at[MOST_EVENTS], out_at[MOST_EVENTS], in_at[MOST_EVENTS];
    mdnn_history_place_t place_at[MOST_EVENTS];
} model_t;

static model_t model;

static double time_of(uint64_t key)
{
    return (double)(1 + key % 7) / 4;
}

static void forget_late_times(void)
{
    for (uint32_t i = 0; i < LATE; i++)
        model.late[i].time_us = -1;
}

/* What is noted by number is set with each operation. */
static void clear_model(void)
{
    memset(&model, 0, offsetof(model_t, demand_at));
    forget_late_times();
}

static void start_model(const mdnn_follower_config_t *config)
{
    clear_model();
    model.follower = config ? mdnn_follower_create(config) : NULL;
    model.history = mdnn_history_create(NULL);
    CHECK(model.history && (!config || model.follower));
}

static void stop_model(void)
{
    mdnn_follower_destroy(model.follower);
    mdnn_history_destroy(model.history);
    model.follower = NULL;
    model.history = NULL;
}

/* Whether the next operation uses more of them for the first time than have begun. */
static bool has_one_more(const event_t *next, uint64_t bytes, uint32_t begun)
{
    uint32_t firsts = 0, waiting = 0;
    for (uint32_t u = 0; u < next->use_count; u++) {
        const object_t *const object = &model.objects[next->ids[u]];
        const bool is_begun = next->ids[u] < begun;
        firsts += !object->used && (!is_begun || object->bytes == bytes);
    }
    for (uint32_t id = begun > 64 ? begun - 64 : 0; id < begun; id++)
        waiting +=
            model.objects[id].alive && !model.objects[id].used && model.objects[id].bytes == bytes;
    return firsts > waiting;
}

/* Whether the plan leaves enough alone, for this and for all that has begun and was not used, until the operation that
 * uses it. */
static bool has_room_until_used(const event_t *event)
{
    const follower_plan_t *const plan = model.follower->active;
    uint64_t bytes = event->bytes;
    uint32_t position = model.follower->place.position;
    for (uint32_t id = event->id > 64 ? event->id - 64 : 0; id < event->id; id++)
        bytes += model.objects[id].alive && !model.objects[id].used ? model.objects[id].bytes : 0;
    for (const event_t *each = event; each < events + event_count; each++) {
        if (each->kind != OPERATION)
            continue;
        position = (position + 1) % plan->period.operation_count;
        for (uint32_t u = 0; u < each->use_count; u++)
            if (each->ids[u] == event->id)
                return true;
        if (plan->resident_bytes[position] + bytes > plan->budget_bytes)
            return false;
    }
    return true;
}

static void ask_for_first_use(const event_t *event)
{
    const mdnn_first_use_t said = mdnn_follower_first_use(model.follower, event->bytes);
    const event_t *next = event;
    bool named = false;
    while (next < events + event_count && next->kind != OPERATION)
        next++;
    if (next == events + event_count || said == MDNN_FIRST_USE_UNKNOWN)
        return;
    for (uint32_t u = 0; u < next->use_count; u++)
        named |= next->ids[u] == event->id;
    seen.first_uses[named][said == MDNN_FIRST_USE_NEXT]++;
    if (said != MDNN_FIRST_USE_NEXT)
        return;
    const bool has_room = has_room_until_used(event);
    seen.nexts[!has_room && !has_one_more(next, event->bytes, event->id)]++;
    if (!named)
        seen.early[has_room]++;
}

static unsigned small_beside; /* so many come and go at each beginning */

/* What the plan follower says is new soon; *all: of any size. */
static size_t births_of(uint64_t bytes, size_t *all)
{
    uint64_t sizes[MDNN_BIRTHS_AHEAD];
    size_t births = 0;
    *all = model.follower ? mdnn_follower_births(model.follower, sizes) : 0;
    for (size_t i = 0; i < *all; i++)
        births += sizes[i] == bytes;
    return births;
}

/* One has begun. The plan follower forgets one of many that are not used yet. */
static void check_births(uint64_t bytes, size_t births, size_t all)
{
    size_t now;
    if (births == 0 || all == MDNN_BIRTHS_AHEAD)
        return;
    const size_t left = births_of(bytes, &now);
    CHECK(left <= births);
    seen.births[left == births - 1]++;
}

static void begin_object(const event_t *event)
{
    size_t all;
    const size_t births = births_of(event->bytes, &all);
    object_t *const object = &model.objects[event->id];
    if (model.follower)
        ask_for_first_use(event);
    for (unsigned i = 0; model.follower && i < small_beside; i++)
        mdnn_follower_end_range(model.follower,
                                mdnn_follower_begin_range(model.follower, 1, true, &small_beside));
    *object = (object_t){.bytes = event->bytes, .alive = true, .resident = true};
    model.held_bytes += object->bytes;
    object->handle = MDNN_NO_POSITION;
    if (model.follower)
        object->handle = mdnn_follower_begin_range(model.follower, object->bytes, false, object);
    check_births(event->bytes, births, all);
    if (model.history)
        object->mirror = mdnn_history_begin_range(model.history, object->bytes, false);
}

static void end_object(const event_t *event)
{
    object_t *const object = &model.objects[event->id];
    object->alive = false;
    model.held_bytes -= object->resident ? object->bytes : 0;
    if (model.follower)
        mdnn_follower_end_range(model.follower, object->handle);
    if (model.history)
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
    model.out_at[number] += object->bytes;
}

static void obey(const mdnn_advice_t *advice, uint32_t number)
{
    for (size_t i = 0; i < advice->leave_count; i++) {
        object_t *const object = advice->leave[i].owner;
        CHECK(object && object->alive);
        send_away(object, number);
    }
    for (size_t i = 0; i < advice->back_count; i++) {
        object_t *const object = advice->back[i].owner;
        CHECK(object && object->alive);
        bring_back(object, number);
    }
    model.advised += advice->leave_count + advice->back_count;
    model.joins += advice->join;
    model.time_next = advice->time;
    model.times_asked += advice->time && mdnn_follower_report(model.follower).followed;
}

/* Times come up to LATE operations late, in any order. */
static void tell_times(uint64_t sequence, double time_us, bool measured)
{
    for (uint32_t i = 0; i < LATE; i++) {
        if (model.late[i].time_us < 0 ||
            (i != sequence % LATE && sequence - model.late[i].sequence < below(LATE)))
            continue;
        mdnn_follower_timed(model.follower, model.late[i].sequence, model.late[i].time_us);
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
        object->used = true;
        bring_back(object, number);
        uses[u] = (mdnn_use_t){object->handle, event->roles[u]};
        mirrored[u] = (mdnn_use_t){object->mirror, event->roles[u]};
    }
    model.held_at[number] = model.held_bytes;
    mdnn_history_operation_t operation = {
        .key = event->key, .time_us = -1, .uses = mirrored, .use_count = event->use_count};
    if (model.history) {
        mdnn_history_record(model.history, &operation);
        model.place_at[number] = mdnn_history_place(model.history);
    }
    if (!model.follower)
        return;
    const uint64_t sequence = mdnn_follower_sequence(model.follower);
    const bool measured = model.time_next;
    mdnn_advice_t advice;
    operation.uses = uses;
    mdnn_follower_record(model.follower, &operation, &advice);
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

/* One that trains a chain of layers, beside ranges that it never uses. Without `roles` any use may
 * be a write: that is what is known of kernels. */
static void fill_training(bool roles)
{
    static random_period_t random;
    random_period_training(&random, below(1 << 30), 1 + (uint32_t)below(8));
    const mdnn_period_t *const period = &random.period;
    assert_true(period->operation_count <= MOST_STEPS);
    const uint32_t unused = (uint32_t)below(4), used = period->range_count;
    assert_true(used + unused <= ROOM_SLOTS);
    program = (program_t){.step_count = period->operation_count, .slot_count = used + unused};
    for (uint32_t i = 0; i < unused; i++)
        program.slots[used + i] = (slot_t){1 + below(3), MOST_STEPS, MOST_STEPS, 0};
    for (uint32_t r = 0; r < period->range_count; r++) {
        program.slots[r] = (slot_t){period->ranges[r].bytes, MOST_STEPS, MOST_STEPS, 0};
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
    return 11 + 96 / program.step_count;
}

static uint64_t floor_bytes; /* of the program's period */

/* The program, in rounds that are enough for a plan to be followed, and a budget for it. */
static mdnn_follower_config_t random_config(mdnn_policy_t policy, double rate)
{
    static uint64_t live[MOST_STEPS];
    uint64_t peak = 0;
    start_program(&program);
    run_rounds(rounds_to_settle());
    start_model(NULL);
    play(0);
    const mdnn_history_place_t place = mdnn_history_place(model.history);
    const mdnn_period_t *const period = mdnn_history_period(model.history, place.period);
    CHECK(period != NULL && period->operation_count == program.step_count);
    CHECK(mdnn_period_floor(period, &floor_bytes) == MDNN_STATUS_OK);
    mdnn_period_live_bytes(period, live);
    for (uint32_t i = 0; i < period->operation_count; i++)
        peak = live[i] > peak ? live[i] : peak;
    stop_model();
    return (mdnn_follower_config_t){.policy = policy,
                                    .variants = MDNN_VARIANTS_RECORDED,
                                    .budget_bytes = floor_bytes + below(peak - floor_bytes + 2),
                                    .host_limit_bytes = UINT64_MAX,
                                    .link = {rate, rate, rate, rate, 0},
                                    .effort = 40};
}

static const double at_once = 1e12; /* bytes a microsecond: nothing is called off for lateness */

/* A follower that has seen none of the program's rounds yet. */
static mdnn_follower_config_t start_settled(void)
{
    const mdnn_follower_config_t config = random_config(MDNN_POLICY_AUTO, at_once);
    start_model(&config);
    return config;
}

/* And one that plans on a thread for as long as that is let. */
static void start_searching(void)
{
    mdnn_follower_config_t config = random_config(MDNN_POLICY_AUTO, 2);
    config.background = true;
    config.effort = UINT32_MAX;
    start_model(&config);
    play(0);
}

/* What the plan follower should have planned. */
static mdnn_move_plan_t plan_again(const mdnn_follower_config_t *config, mdnn_period_t *period)
{
    const mdnn_history_place_t place = mdnn_history_place(model.history);
    const mdnn_period_t *const found = mdnn_history_period(model.history, place.period);
    mdnn_move_plan_t plan;
    CHECK(found && mdnn_period_copy(found, period) == MDNN_STATUS_OK);
    for (uint32_t i = 0; i < period->operation_count; i++)
        period->variants[period->operations[i].first_variant].time_us =
            time_of(period->operations[i].key);
    const mdnn_move_plan_request_t request = {.period = period,
                                              .policy = config->policy,
                                              .variants = config->variants,
                                              .link = config->link,
                                              .budget_bytes = config->budget_bytes,
                                              .host_limit_bytes = config->host_limit_bytes,
                                              .effort = config->effort};
    CHECK(mdnn_move_plan(&request, &plan) == MDNN_STATUS_OK);
    return plan;
}

/* The last round kept to the plan that the followed period should have. */
static void check_last_round(const mdnn_follower_config_t *config, const mdnn_period_t *period,
                             const mdnn_move_plan_t *plan)
{
    uint64_t resident[MOST_STEPS], out_bytes = 0, in_bytes = 0;
    const uint32_t count = period->operation_count;
    CHECK(count == program.step_count && mdnn_follower_report(model.follower).followed);
    mdnn_schedule_resident_bytes(period, &plan->schedule, resident);
    for (uint32_t n = model.operations - count; n < model.operations; n++) {
        out_bytes += model.out_at[n];
        in_bytes += model.in_at[n];
        if (plan->verdict != MDNN_VERDICT_FITS)
            continue;
        CHECK(model.demand_at[n] == 0);
        CHECK(model.held_at[n] <= resident[model.place_at[n].position]);
        CHECK(model.held_at[n] <= config->budget_bytes);
    }
    if (config->link.out_bytes_per_us == at_once)
        CHECK(out_bytes == plan->predicted.out_bytes && in_bytes == plan->predicted.in_bytes);
    for (size_t m = 0; m < plan->schedule.move_count; m++)
        seen.sent_for_good += plan->schedule.moves[m].leave_after == MDNN_GAP_ALWAYS;
    seen.moved_rounds += in_bytes > 0;
}

static bool uses_slot(uint32_t slot)
{
    for (uint32_t i = 0; i < program.step_count; i++)
        for (uint32_t u = 0; u < program.steps[i].use_count; u++)
            if (program.steps[i].slots[u] == slot)
                return true;
    return false;
}

/* After a whole round that was followed. */
static void check_distances(void)
{
    for (uint32_t slot = 0; slot < program.slot_count; slot++) {
        if (!slot_is_there[slot])
            continue;
        const object_t *const object = &model.objects[living[slot]];
        const mdnn_next_use_t next = mdnn_history_next_use(model.history, object->mirror);
        CHECK((next.expectation != MDNN_EXPECT_UNKNOWN) == uses_slot(slot));
        CHECK(mdnn_follower_distance(model.follower, object->handle) ==
              (next.expectation == MDNN_EXPECT_USE ? next.operations : UINT32_MAX));
    }
    CHECK(mdnn_follower_distance(model.follower, MDNN_NO_POSITION) == 0);
}

static void check_report(const mdnn_follower_config_t *config, const mdnn_period_t *period,
                         const mdnn_move_plan_t *plan)
{
    const mdnn_follower_report_t report = mdnn_follower_report(model.follower);
    CHECK(report.period_operations == period->operation_count && report.periods > 0);
    CHECK(report.verdict == plan->verdict && report.policy == plan->policy);
    CHECK(report.floor_bytes == plan->floor_bytes);
    CHECK(report.compute_us == mdnn_period_compute_us(period, NULL));
    CHECK(report.predicted_us == plan->predicted.time_us);
    double bound_us;
    CHECK(mdnn_link_bound(period, &config->link, config->budget_bytes, config->chunk_bytes,
                          &bound_us) == MDNN_STATUS_OK);
    CHECK(report.link_bound_us == bound_us && bound_us <= plan->link_bound_us * (1 + 1e-9));
    CHECK(report.out_bytes == plan->predicted.out_bytes);
    CHECK(report.in_bytes == plan->predicted.in_bytes);
    /* A loop within the round may have been found, planned and followed before it. */
    if ((plan->verdict != MDNN_VERDICT_FITS && report.periods == 1) ||
        config->policy == MDNN_POLICY_NONE)
        CHECK(model.advised == 0);
    CHECK((model.joins > 0) == (plan->schedule.join_count > 0));
}

static void check_plan(const mdnn_follower_config_t *config, bool only_plan)
{
    mdnn_period_t period = {0};
    mdnn_move_plan_t plan = plan_again(config, &period);
    check_last_round(config, &period, &plan);
    check_distances();
    if (only_plan)
        check_report(config, &period, &plan);
    mdnn_move_plan_fini(&plan);
    mdnn_period_fini(&period);
}

/* What comes next, after what was played. */
static void continue_events(void)
{
    event_count = model.operations = 0;
}

static void run_more_rounds(uint32_t rounds)
{
    continue_events();
    run_rounds(rounds);
    play(0);
}

/* One that is not made again once each operation is timed. */
static bool has_last_plan(void)
{
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        if (model.follower->entries[i].plan && !model.follower->entries[i].is_early)
            return true;
    return false;
}

static void wait_for_plan(void)
{
    for (int i = 0; i < 300 && !has_last_plan(); i++) {
        run_more_rounds(1);
        nanosleep(&(struct timespec){.tv_nsec = (2 + i) * 1000000}, NULL);
    }
}

static void check_steady(mdnn_policy_t policy, double rate, bool background)
{
    mdnn_follower_config_t config = random_config(policy, rate);
    config.background = background;
    start_model(&config);
    play(0);
    if (background) {
        wait_for_plan();
        run_more_rounds(3);
    }
    check_plan(&config, true);
    stop_model();
}

/* ---- steady programs ---- */

static void check_random(uint64_t seed)
{
    random_state = seed;
    fill_program(&program, 1000);
    check_steady((mdnn_policy_t)below(MDNN_POLICY_COUNT), below(2) ? at_once : 2, false);
}

static void check_training(uint64_t seed)
{
    random_state = seed;
    fill_training(below(2));
    const mdnn_policy_t policy =
        below(2) ? MDNN_POLICY_AUTO : (mdnn_policy_t)below(MDNN_POLICY_COUNT);
    check_steady(policy, below(2) ? at_once : 2, false);
}

CASE(a_steady_program_moves_what_the_plan_says)
{
    memset(&seen, 0, sizeof seen);
    each_seed(check_random, few(150, 1000));
    each_seed(check_training, few(100, 600));
    check_seen(seen.moved_rounds > 300 && seen.sent_for_good > 20);
}

SEEDED_CASE(a_thread_plans_the_same, 30, seen.moved_rounds > 5)
{
    fill_training(below(2));
    check_steady(MDNN_POLICY_AUTO, below(2) ? at_once : 2, true);
}

/* As it is planned within record, and on a thread. */
SEEDED_CASE(a_thread_searches_for_longer, 40, seen.better_plans > 0)
{
    double predicted_us[2];
    fill_training(true);
    mdnn_follower_config_t config = random_config(MDNN_POLICY_AUTO, 2);
    config.effort = 0;
    for (int background = 0; background < 2; background++) {
        config.background = background;
        start_model(&config);
        play(0);
        wait_for_plan();
        predicted_us[background] = mdnn_follower_report(model.follower).predicted_us;
        stop_model();
        start_program(&program);
        run_rounds(rounds_to_settle());
    }
    CHECK(predicted_us[1] <= predicted_us[0]);
    seen.better_plans += predicted_us[1] < predicted_us[0];
}

/* How long the process has computed: other programs may keep it from doing so. */
static double cpu_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}

/* A search that would last for days is given up at once. */
SEEDED_CASE(the_thread_ends_with_the_follower, 10, seen.given_up > 0)
{
    const long before = live_allocations;
    fill_training(true);
    start_searching();
    program.steps[0].key = 2000; /* another, which has to wait for the thread */
    run_more_rounds((uint32_t)below(2 * rounds_to_settle()));
    seen.given_up += mdnn_follower_report(model.follower).period_operations == 0;
    const double begin_s = cpu_s();
    stop_model(); /* with a plan or without */
    CHECK(cpu_s() - begin_s < 1);
    CHECK(live_allocations == before);
}

/* The child has no such thread; its follower ends all the same. */
CASE(a_forked_child_does_not_wait_for_the_thread)
{
    int status = 0;
    random_state = 1;
    fill_training(true);
    start_searching();
    assert_int_not_equal(mdnn_follower_report(model.follower).period_operations,
                         program.step_count);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        run_more_rounds(2);
        stop_model();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    stop_model();
}

/* ---- programs that do not keep to it ---- */

/* After each deviation the program is followed again; at last as if nothing had been. */
SEEDED_CASE(deviations_are_survived_and_the_plan_resumes, 1000,
            seen.moved_rounds > 200 && seen.demanded > 200)
{
    const uint64_t kind = below(2);
    if (kind)
        fill_program(&program, 1000);
    else
        fill_training(below(2));
    const uint64_t choice = random_state++;
    fill_program(&other, 2000);
    const mdnn_follower_config_t config = random_config(
        (mdnn_policy_t)(choice % 3 ? (uint64_t)MDNN_POLICY_AUTO : choice % MDNN_POLICY_COUNT),
        choice % 2 ? at_once : 2);
    for (uint32_t i = 0; i < 6; i++) {
        deviate();
        run_rounds((uint32_t)below(4));
    }
    add_event((event_t){.kind = OPERATION, .key = 10000 + event_count});
    run_rounds(rounds_to_settle());
    start_model(&config);
    play(0);
    for (uint32_t n = 0; n < model.operations; n++)
        seen.demanded += model.demand_at[n];
    check_plan(&config, false);
    stop_model();
}

/* Ranges are exchanged for others of their size, which the history does not see: advice is about
 * those that live, and all is as planned once it has stopped. */
SEEDED_CASE(ranges_may_be_exchanged, 400, seen.moved_rounds > 200)
{
    fill_training(below(2));
    const mdnn_follower_config_t config = start_settled();
    play(0);
    check_plan(&config, true);
    continue_events();
    exchange_one_in = 2 + below(20);
    run_rounds(10);
    exchange_one_in = 0;
    run_rounds(3);
    play(0);
    check_plan(&config, true);
    stop_model();
}

static bool is_found(void)
{
    const mdnn_history_place_t place = mdnn_history_place(model.history);
    const mdnn_period_t *const period = mdnn_history_period(model.history, place.period);
    return period && period->operation_count == program.step_count;
}

/* More programs than periods are remembered, one after the other, and again. */
SEEDED_CASE(a_forgotten_period_is_planned_again, 30, seen.moved_rounds > 100)
{
    enum { MANY = 5 };
    static program_t first;
    fill_training(true);
    const mdnn_follower_config_t config = start_settled();
    play(0);
    first = program;
    for (uint32_t i = 0; i <= MANY; i++) {
        const uint64_t asked = model.times_asked;
        program.steps[0].key = 2000 + i % MANY;
        for (uint32_t step = 1; step < program.step_count; step++)
            program.steps[step].key = first.steps[step].key + 70 * (i % MANY);
        run_more_rounds(2);
        for (uint32_t round = 0; round < 300 && !is_found(); round++)
            run_more_rounds(1);
        run_more_rounds(rounds_to_settle());
        check_plan(&config, false);
        CHECK(model.times_asked > asked);
    }
    stop_model();
}

/* A feature map is away while something else needs its memory. A line of logging stands where its
 * copy back should begin: it begins as soon as the program is found again. */
CASE(a_return_that_was_missed_is_made_up_for)
{
    enum { COUNT = 40, KEPT = 0, OTHER = 1, WANTED_AT = 36, LOST_AT = 23 };
    const mdnn_follower_config_t config = {.policy = MDNN_POLICY_AUTO,
                                           .budget_bytes = 12,
                                           .host_limit_bytes = UINT64_MAX,
                                           .link = {4, 1, 4, 1, 0}};
    random_state = 1;
    program = (program_t){
        .step_count = COUNT, .slot_count = 2, .slots = {{8, MOST_STEPS, MOST_STEPS}, {8, 10, 20}}};
    for (uint32_t i = 0; i < COUNT; i++) {
        program.steps[i].key = 7 * (i + 1) + 3; /* each takes a microsecond */
        if (i == 0 || i == WANTED_AT)
            program.steps[i].slots[program.steps[i].use_count++] = KEPT;
        if (i >= 10 && i <= 20)
            program.steps[i].slots[program.steps[i].use_count++] = OTHER;
    }
    start_program(&program);
    run_rounds(rounds_to_settle());
    start_model(&config);
    play(0);
    check_plan(&config, true);
    for (int deviates = 0; deviates < 2; deviates++) {
        bool was_away = false;
        continue_events();
        run_rounds(1);
        uint32_t at = 0;
        for (uint32_t operations = 0; operations <= LOST_AT; at++)
            operations += events[at].kind == OPERATION;
        if (deviates) {
            memmove(&events[at + 1], &events[at], (event_count - at) * sizeof *events);
            events[at] = (event_t){.kind = OPERATION, .key = 9999};
            event_count++;
        }
        const uint32_t all = event_count;
        event_count = at;
        play(0);
        was_away = !model.objects[living[KEPT]].resident;
        event_count = all;
        play(at);
        assert_true(was_away);
        for (uint32_t n = 0; n < model.operations; n++)
            assert_int_equal(model.demand_at[n], 0);
    }
    stop_model();
}

/* Training and evaluation take turns: each has its plan, and keeps it. */
SEEDED_CASE(training_and_evaluation_keep_their_plans, 100, seen.moved_rounds > 100)
{
    uint64_t asked = 0;
    fill_training(true);
    other = program;
    other.steps[0].key = 2000;
    for (uint32_t i = 1; i < other.step_count; i++)
        other.steps[i].key += 70;
    const mdnn_follower_config_t config = start_settled();
    play(0);
    for (uint32_t turn = 0; turn < 6; turn++) {
        continue_events();
        const program_t *const now = turn % 2 ? &program : &other;
        /* Ever more, or two turns would be one long period. */
        for (uint32_t i = 0; i < (turn < 2 ? rounds_to_settle() : 4 + turn); i++)
            run_round(now, now->step_count, 1, true);
        play(0);
        asked = turn < 2 ? model.times_asked : asked;
        check_plan(&config, false);
    }
    CHECK(model.times_asked == asked);
    CHECK(mdnn_follower_report(model.follower).periods >= 2);
    stop_model();
}

/* Nothing repeats, or too much does; ranges end at any time, handles and times are wrong. */
SEEDED_CASE(noise_breaks_nothing, 200, true)
{
    enum { HELD = 40 };
    static object_t held[HELD];
    const mdnn_follower_config_t config = {.policy = (mdnn_policy_t)below(MDNN_POLICY_COUNT),
                                           .budget_bytes = below(40),
                                           .host_limit_bytes = below(2) ? UINT64_MAX : below(20),
                                           .link = {1, 1, 1, 1, below(2) ? 0 : -1}, /* no link */
                                           .effort = 5};
    mdnn_follower_t *const follower = mdnn_follower_create(&config);
    const uint64_t keys = 1 + below(4);
    for (uint32_t i = 0; i < HELD; i++)
        held[i] =
            (object_t){.handle = mdnn_follower_begin_range(follower, below(3), false, &held[i]),
                       .alive = true};
    for (uint32_t i = 0; i < 2000; i++) {
        mdnn_use_t uses[MOST_USES];
        mdnn_advice_t advice;
        object_t *const which = &held[below(HELD)];
        if (below(20) == 0) {
            mdnn_follower_end_range(follower, which->handle);
            mdnn_follower_end_range(follower, MDNN_NO_POSITION);
            which->handle = mdnn_follower_begin_range(follower, below(3), below(9) == 0, which);
        }
        const uint32_t count = (uint32_t)below(MOST_USES);
        for (uint32_t u = 0; u < count; u++)
            uses[u] = (mdnn_use_t){below(50) ? held[below(i % 3 ? 3 : HELD)].handle
                                             : (uint32_t)below(2000),
                                   (mdnn_use_role_t)below(3)};
        const mdnn_history_operation_t operation = {.key = below(keys),
                                                    .time_us = below(3) ? -1 : (double)below(9),
                                                    .uses = uses,
                                                    .use_count = below(2) ? count : 0};
        mdnn_follower_record(follower, &operation, &advice);
        for (size_t a = 0; a < advice.leave_count; a++)
            CHECK(((object_t *)advice.leave[a].owner)->alive);
        const double times[] = {1, -1, INFINITY, NAN, 0};
        mdnn_follower_timed(follower, below(3) ? i : below(UINT64_MAX), times[below(5)]);
        CHECK(mdnn_follower_distance(follower, (uint32_t)below(3000)) <= UINT32_MAX);
    }
    mdnn_follower_destroy(follower);
}

/* ---- times ---- */

enum { ROUND = 12 };
static const uint64_t round_keys[ROUND] = {1, 2, 3, 4, 1, 3, 2, 4, 1, 4, 2, 3};

/* Runs operation number `n` of the round above; times of those in `told` come with `late`. */
static void run_timed(mdnn_follower_t *follower, uint64_t n, const double *told, bool late,
                      bool *asked, uint64_t *times_asked)
{
    const double time_us = told[n % ROUND];
    const mdnn_history_operation_t operation = {.key = round_keys[n % ROUND],
                                                .time_us = *asked && !late ? time_us : -1};
    mdnn_advice_t advice;
    const bool was_asked = *asked;
    assert_int_equal(mdnn_follower_sequence(follower), n);
    mdnn_follower_record(follower, &operation, &advice);
    if (was_asked && late && time_us >= 0)
        mdnn_follower_timed(follower, n, time_us);
    *asked = advice.time;
    *times_asked += advice.time;
}

/* Twenty of the rounds above. */
static mdnn_follower_report_t report_of_timed(const double *told, bool late, uint64_t *times_asked)
{
    const mdnn_follower_config_t config = {.policy = MDNN_POLICY_NONE,
                                           .budget_bytes = 100,
                                           .host_limit_bytes = UINT64_MAX,
                                           .link = {1, 1, 1, 1, 0}};
    mdnn_follower_t *const follower = mdnn_follower_create(&config);
    bool asked = false;
    *times_asked = 0;
    for (uint64_t n = 0; n < 20 * ROUND; n++)
        run_timed(follower, n, told, late, &asked, times_asked);
    const mdnn_follower_report_t report = mdnn_follower_report(follower);
    mdnn_follower_destroy(follower);
    assert_int_equal(report.operations, 20 * ROUND);
    assert_int_equal(report.period_operations, ROUND);
    return report;
}

CASE(each_operation_is_timed_once)
{
    const double told[ROUND] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12.5};
    uint64_t times_asked;
    for (int late = 0; late < 2; late++) {
        const mdnn_follower_report_t report = report_of_timed(told, late, &times_asked);
        assert_true(report.compute_us == 78.5 && report.predicted_us == 78.5);
        /* In late answers the last one is still open when the next operation is asked for. */
        assert_true(times_asked >= ROUND && times_asked <= ROUND + 1);
    }
}

CASE(what_was_not_timed_is_guessed_from_its_key)
{
    const double told[ROUND] = {1, 5, -1, -1, 3, -1, 5, 7, -1, -1, 5, -1};
    uint64_t times_asked;
    const mdnn_follower_report_t report = report_of_timed(told, true, &times_asked);
    assert_true(fabs(report.compute_us - (6 + 15 + 3 * 26.0 / 6 + 21)) < 1e-9);
    assert_true(times_asked <= 2 * ROUND);
}

/* An iteration of KINDS kinds of operations, each of which runs SAME times in a row on other ranges: x is written in the
 * first half of it and read in the second one, so some of the ranges have to be away meanwhile. */
enum { KINDS = 8, SAME = 12, LAYERS = KINDS * SAME };

static void run_layer(mdnn_follower_t *follower, uint32_t *ranges, uint32_t position, bool *asked)
{
    static int owners[LAYERS];
    const bool back = position >= LAYERS;
    const uint32_t layer = back ? 2 * LAYERS - 1 - position : position;
    if (!back)
        ranges[layer] = mdnn_follower_begin_range(follower, 10, false, &owners[layer]);
    const mdnn_use_t use = {ranges[layer], back ? MDNN_USE_READ : MDNN_USE_WRITE};
    const mdnn_history_operation_t operation = {.key = 1 + layer / SAME + (back ? KINDS : 0),
                                                .time_us = *asked ? 10.0 + layer % 2 : -1,
                                                .uses = &use,
                                                .use_count = 1};
    mdnn_advice_t advice;
    mdnn_follower_record(follower, &operation, &advice);
    *asked = advice.time;
    if (back)
        mdnn_follower_end_range(follower, ranges[layer]);
}

static const follower_entry_t *entry_of(const mdnn_follower_t *follower, uint32_t count)
{
    for (int i = 0; i < FOLLOWER_PERIODS; i++)
        if (follower->entries[i].count == count)
            return &follower->entries[i];
    return NULL;
}

/* Two iterations tell the period, and operations with the same keys were timed meanwhile. */
CASE(a_plan_is_followed_from_the_third_iteration_on)
{
    const mdnn_follower_config_t config = {.policy = MDNN_POLICY_AUTO,
                                           .budget_bytes = 10 * LAYERS / 2,
                                           .host_limit_bytes = UINT64_MAX,
                                           .link = {1, 1, 1, 1, 0}};
    mdnn_follower_t *const follower = mdnn_follower_create(&config);
    const follower_entry_t *entry = NULL;
    uint32_t ranges[LAYERS], n = 0;
    bool asked = false;
    mdnn_follower_short(follower, 10);
    for (; n < 4 * 2 * LAYERS && !(entry && entry->plan); n++) {
        run_layer(follower, ranges, n % (2 * LAYERS), &asked);
        entry = entry_of(follower, 2 * LAYERS);
    }
    assert_true(n <= 2 * 2 * LAYERS + LAYERS);
    assert_true(entry->is_early && entry->plan->plan.schedule.move_count > 0);
    const double guessed_us = entry->plan->compute_us;
    for (uint32_t end = n + 3 * 2 * LAYERS; n < end; n++)
        run_layer(follower, ranges, n % (2 * LAYERS), &asked);
    assert_ptr_equal(entry, entry_of(follower, 2 * LAYERS));
    assert_true(!entry->is_early && entry->plan && !entry->before);
    assert_true(entry->plan == follower->active);
    assert_true(fabs(guessed_us - 10.5 * 2 * LAYERS) < 0.05 * guessed_us);
    assert_true(fabs(entry->plan->compute_us - 10.5 * 2 * LAYERS) < 1e-6);
    mdnn_follower_destroy(follower);
}

typedef struct told {
    uint32_t planned, most_followed; /* operations of the last period of each kind */
} told_t;

static void tell(void *context, const mdnn_period_t *period, uint64_t budget_bytes,
                 bool most_followed)
{
    told_t *const told = context;
    assert_int_equal(budget_bytes, 10 * LAYERS / 2);
    *(most_followed ? &told->most_followed : &told->planned) = period->operation_count;
}

/* Of the layers above, a part: an iteration of half as many operations, and the like. */
static void run_iterations(mdnn_follower_t *follower, uint32_t layers, uint32_t iterations)
{
    uint32_t ranges[LAYERS];
    bool asked = false;
    for (uint32_t n = 0; n < 2 * layers * iterations; n++) {
        const uint32_t position = n % (2 * layers);
        run_layer(follower, ranges, position < layers ? position : position + 2 * (LAYERS - layers),
                  &asked);
    }
}

/* The whole iterations of a program, for example, may follow longer ones of its first minutes. */
CASE(the_period_that_is_followed_most_is_told_again)
{
    told_t told = {0};
    const mdnn_follower_config_t config = {.policy = MDNN_POLICY_AUTO,
                                           .budget_bytes = 10 * LAYERS / 2,
                                           .host_limit_bytes = UINT64_MAX,
                                           .link = {1, 1, 1, 1, 0},
                                           .planned = tell,
                                           .planned_context = &told};
    mdnn_follower_t *const follower = mdnn_follower_create(&config);
    run_iterations(follower, LAYERS, 5);
    assert_true(told.planned == 2 * LAYERS && told.most_followed < LAYERS); /* a loop in it */
    run_iterations(follower, LAYERS, 7);
    assert_int_equal(told.most_followed, 2 * LAYERS);
    run_iterations(follower, LAYERS * 3 / 4, 8);
    assert_true(told.planned == 2 * LAYERS * 3 / 4 && told.most_followed == 2 * LAYERS);
    run_iterations(follower, LAYERS * 3 / 4, 20);
    assert_int_equal(told.most_followed, 2 * LAYERS * 3 / 4);
    mdnn_follower_destroy(follower);
}

/* ---- less memory than there should be ---- */

static uint64_t most_held(void)
{
    uint64_t most = 0;
    for (uint32_t n = model.operations - program.step_count; n < model.operations; n++) {
        CHECK(model.demand_at[n] == 0);
        most = model.held_at[n] > most ? model.held_at[n] : most;
    }
    return most;
}

/* Rounds under the plan that is followed take so long; one of them, longer. */
static void rounds_took(double time_us)
{
    const uint64_t plan = mdnn_follower_followed_plan(model.follower);
    CHECK(plan != 0);
    for (int i = 0; i < 4; i++)
        mdnn_follower_iteration_took(model.follower, plan, i == 2 ? 2 * time_us : time_us);
    mdnn_follower_iteration_took(model.follower, plan + 1, 1); /* not of this one */
}

/* So many bytes, in the round that comes; more of them follow. */
static void lack(uint64_t bytes, uint32_t rounds)
{
    mdnn_follower_short(model.follower, bytes);
    run_more_rounds(rounds);
}

/* Some of the budget is not to be had: planned again with less, if that is possible. */
SEEDED_CASE(missing_memory_is_planned_without, 300,
            seen.planned_again > 100 && seen.planned_again < 300)
{
    fill_training(true);
    const mdnn_follower_config_t config = start_settled();
    mdnn_follower_short(model.follower, 1); /* without a plan, that says nothing */
    play(0);
    CHECK(mdnn_follower_report(model.follower).short_bytes == 0);
    const uint64_t before = most_held(), missing = 1 + below(6);
    const double slow_us = 100 * mdnn_follower_report(model.follower).predicted_us + 1;
    lack(missing + below(3), 1); /* only once so many */
    CHECK(mdnn_follower_report(model.follower).short_bytes == 0);
    mdnn_follower_short(model.follower, missing);
    lack(1 + below(missing), 4);                                  /* the same, once more */
    CHECK(mdnn_follower_report(model.follower).short_bytes == 0); /* who knows what that costs? */
    rounds_took(slow_us);
    lack(missing, 1);
    lack(missing, 4);
    const bool possible = config.budget_bytes >= floor_bytes + missing;
    const uint64_t now = most_held();
    CHECK(mdnn_follower_report(model.follower).short_bytes == (possible ? missing : 0));
    CHECK(mdnn_follower_report(model.follower).verdict == MDNN_VERDICT_FITS);
    CHECK(possible ? now <= config.budget_bytes - missing : now == before);
    continue_events(); /* lost, and found again not long ago: demands are no wonder */
    add_event((event_t){.kind = OPERATION, .key = 9999});
    play(0);
    lack(1, 1);
    lack(1, 4);
    lack(1, 2); /* now and then */
    lack(1, 2);
    CHECK(most_held() == now);
    CHECK(mdnn_follower_report(model.follower).short_bytes == (possible ? missing : 0));
    seen.planned_again += possible;
    stop_model();
}

/* Less memory makes the plan slower, which turns out when it is made, or when it is followed; or,
 * for all that was missing, faster. */
static enum { SLOWER_AS_MADE, SLOWER_AS_FOLLOWED, FASTER, LOSSES } loss;

static void check_loss(uint64_t seed)
{
    random_state = seed;
    const bool at_once_known = loss == SLOWER_AS_MADE, faster = loss == FASTER;
    fill_training(true);
    const mdnn_follower_config_t config = start_settled();
    play(0);
    const mdnn_follower_report_t first = mdnn_follower_report(model.follower);
    const uint64_t before = most_held();
    rounds_took(at_once_known ? first.predicted_us / 2 : 100 * first.predicted_us + 1);
    lack(1, 1);
    lack(1, 4);
    const bool possible = config.budget_bytes > floor_bytes;
    CHECK(mdnn_follower_report(model.follower).short_bytes == (possible && !at_once_known));
    if (mdnn_follower_report(model.follower).short_bytes > 0) {
        rounds_took((faster ? 90 : 110) * first.predicted_us + 2);
        run_more_rounds(2);
        (*(faster ? &seen.planned_again : &seen.planned_back))++;
    }
    if (faster) {
        CHECK(mdnn_follower_report(model.follower).short_bytes == possible);
        stop_model();
        return;
    }
    CHECK(mdnn_follower_report(model.follower).short_bytes == 0);
    CHECK(mdnn_follower_report(model.follower).predicted_us == first.predicted_us);
    run_more_rounds(1);
    CHECK(most_held() <= before); /* what nothing uses may be away since */
    stop_model();
}

CASE(a_plan_with_less_memory_must_be_as_fast)
{
    memset(&seen, 0, sizeof seen);
    for (loss = 0; loss < LOSSES; loss++)
        each_seed(check_loss, few(40, 300));
    check_seen(seen.planned_back > 100 && seen.planned_again > 100);
}

/* ---- memory that is allocated before it is used ---- */

static void allocate_ahead(void)
{
    for (uint32_t s = 0; s < program.slot_count; s++) {
        const uint32_t ahead = (uint32_t)below(4);
        program.slots[s].ahead =
            program.slots[s].birth < MOST_STEPS && program.slots[s].birth >= ahead ? ahead : 0;
    }
}

static mdnn_period_t period_of_program(void)
{
    mdnn_period_t copy;
    start_program(&program);
    run_rounds(rounds_to_settle());
    start_model(NULL);
    play(0);
    const mdnn_period_t *const period =
        mdnn_history_period(model.history, mdnn_history_place(model.history).period);
    CHECK(period != NULL && period->operation_count == program.step_count);
    CHECK(mdnn_period_copy(period, &copy) == MDNN_STATUS_OK);
    stop_model();
    return copy;
}

/* Lives begin with the first use, wherever the period begins, and nothing stays because of that. */
SEEDED_CASE(what_is_allocated_early_is_planned_from_its_first_use_on, 1000, true)
{
    fill_training(true);
    mdnn_period_t plain = period_of_program();
    allocate_ahead();
    mdnn_period_t ahead = period_of_program();
    uint64_t bytes[2] = {0}, stays = 0;
    CHECK(plain.range_count == ahead.range_count);
    for (uint32_t r = 0; r < plain.range_count; r++) {
        bytes[0] += mdnn_range_is_permanent(&plain.ranges[r]) ? 0 : plain.ranges[r].bytes;
        bytes[1] += mdnn_range_is_permanent(&ahead.ranges[r]) ? 0 : ahead.ranges[r].bytes;
        stays += ahead.ranges[r].stays;
    }
    CHECK(bytes[0] == bytes[1] && stays == 0);
    mdnn_period_fini(&plain);
    mdnn_period_fini(&ahead);
}

static void play_ahead(bool alike)
{
    fill_training(true);
    allocate_ahead();
    for (uint32_t s = 0; s < program.slot_count && !alike; s++)
        program.slots[s].bytes = program.slots[s].bytes * ROOM_SLOTS + s;
    (void)start_settled();
    run_rounds(rounds_to_settle());
    play(0);
    stop_model();
}

static bool knows_first_uses(void)
{
    const uint64_t *const next = seen.first_uses[true], *const later = seen.first_uses[false];
    return next[true] > 5000 && next[true] > 9 * next[false] && later[false] > 5000 &&
           later[true] > 5000 && seen.early[true] > 9 * seen.early[false];
}

SEEDED_CASE(a_first_use_is_known_when_memory_is_asked_for, 300, knows_first_uses())
{
    play_ahead(false); /* else one is taken for another */
}

/* Of those of a size as many take memory as the next operation uses. */
SEEDED_CASE(what_waits_for_its_first_use_counts, 300,
            seen.nexts[0] > 2000 && seen.nexts[0] > 50 * seen.nexts[1])
{
    small_beside = below(2) ? 20 : 0;
    play_ahead(true);
    small_beside = 0;
}

/* ---- failures ---- */

/* One allocation fails; nothing is lost for ever, and the program is planned all the same. */
SEEDED_CASE(a_failing_allocation_is_survived, 4, true)
{
    const long before = live_allocations;
    fill_training(true);
    const mdnn_follower_config_t config = random_config(MDNN_POLICY_AUTO, 2);
    run_rounds(2 * rounds_to_settle());
    for (long at = 1;; at += 1 + at / 16) {
        clear_model();
        fail_allocation_at = at;
        model.follower = mdnn_follower_create(&config);
        if (model.follower) {
            play(0);
            const bool failed = fail_allocation_at == 0;
            fail_allocation_at = 0;
            CHECK(mdnn_follower_report(model.follower).period_operations == program.step_count);
            for (uint32_t n = model.operations - program.step_count; n < model.operations; n++)
                CHECK(model.demand_at[n] == 0);
            stop_model();
            if (!failed)
                break;
        }
        CHECK(live_allocations == before);
    }
    CHECK(live_allocations == before);
}

/* ---- workspaces ---- */

enum { CHOSEN_STEPS = 10, CHOSEN_KEY = 700 };

/* Steps 2 to 4 are convolutions: 10 us with 6 bytes, or 11 us with one. */
static mdnn_history_operation_t chosen_step(uint32_t step, const mdnn_use_t *uses)
{
    static const mdnn_variant_t variants[2] = {{10, 6}, {11, 1}};
    const bool convolution = step >= 2 && step <= 4;
    return (mdnn_history_operation_t){.key = CHOSEN_KEY + step,
                                      .time_us = 10,
                                      .workspace_bytes = convolution ? 6 : 0,
                                      .variants = convolution ? variants : NULL,
                                      .variant_count = 2,
                                      .uses = uses,
                                      .use_count = step == 0 || step >= 8 ? 1 : 0};
}

/* *kept: the use of a range of 5 bytes. */
static mdnn_follower_t *choosing_follower(mdnn_use_t *kept)
{
    static int owner;
    const mdnn_follower_config_t config = {.policy = MDNN_POLICY_AUTO,
                                           .variants = MDNN_VARIANTS_FITTING,
                                           .budget_bytes = 8,
                                           .host_limit_bytes = UINT64_MAX,
                                           .link = {0.01, 0.01, 0.01, 0.01, 0}};
    mdnn_follower_t *const follower = mdnn_follower_create(&config);
    *kept = (mdnn_use_t){mdnn_follower_begin_range(follower, 5, false, &owner), MDNN_USE_READ};
    return follower;
}

/* A range of 5 bytes is used by the first and the last operations, so it leaves over a slow link, or convolutions
 * between them run in one byte of the 8 that there are. The plan's choices begin with an iteration, and each iteration
 * has the same. */
CASE(workspaces_change_between_iterations_only)
{
    mdnn_use_t kept;
    mdnn_follower_t *const follower = choosing_follower(&kept);
    unsigned limited = 0, rounds = 0;
    for (uint32_t i = 0; i < 20 * CHOSEN_STEPS; i++) {
        const uint32_t step = i % CHOSEN_STEPS;
        const mdnn_history_operation_t operation = chosen_step(step, &kept);
        mdnn_advice_t advice;
        const uint64_t bytes = mdnn_follower_workspace(follower, operation.key);
        assert_int_equal(mdnn_follower_workspace(follower, CHOSEN_KEY + CHOSEN_STEPS), UINT64_MAX);
        assert_true(bytes == UINT64_MAX || (bytes == 1 && operation.variants));
        limited = step == 0 ? 0 : limited + (bytes == 1);
        if (step == CHOSEN_STEPS - 1) {
            assert_true(limited == 0 || limited == 3);
            rounds += limited == 3;
        }
        mdnn_follower_record(follower, &operation, &advice);
        mdnn_follower_timed(follower, i, 10);
    }
    assert_true(rounds > 5);
    /* Lost: whatever comes next runs as the program asks. */
    for (uint32_t i = 0; i < 5; i++) {
        const mdnn_history_operation_t unknown = {.key = 9000 + i, .time_us = 1};
        mdnn_advice_t advice;
        mdnn_follower_record(follower, &unknown, &advice);
        assert_int_equal(mdnn_follower_workspace(follower, CHOSEN_KEY + 2), UINT64_MAX);
    }
    mdnn_follower_destroy(follower);
}

/* Or the times of other workspaces would be taken for those that the program asks for. */
CASE(an_early_plan_changes_no_workspace)
{
    mdnn_use_t kept;
    mdnn_follower_t *const follower = choosing_follower(&kept);
    unsigned early = 0;
    mdnn_follower_short(follower, 1);
    for (uint32_t i = 0; i < 20 * CHOSEN_STEPS; i++) {
        mdnn_history_operation_t operation = chosen_step(i % CHOSEN_STEPS, &kept);
        operation.time_us = -1;
        const follower_entry_t *entry = entry_of(follower, CHOSEN_STEPS);
        mdnn_advice_t advice;
        if (entry && entry->is_early && entry->plan->chooses) {
            early++;
            assert_int_equal(mdnn_follower_workspace(follower, operation.key), UINT64_MAX);
        }
        mdnn_follower_record(follower, &operation, &advice);
        entry = entry_of(follower, CHOSEN_STEPS);
        if (!entry) /* their keys have times then, and the positions of the period do not */
            mdnn_follower_timed(follower, i, 10);
    }
    assert_true(early > CHOSEN_STEPS);
    const follower_entry_t *const entry = entry_of(follower, CHOSEN_STEPS);
    assert_true(entry && entry->plan && !entry->is_early && entry->workspaces);
    mdnn_follower_destroy(follower);
}

int main(void)
{
    /* A history is large and hardly used: fresh pages cost less than clearing those of the one before. */
    (void)mallopt(M_MMAP_THRESHOLD, 128 << 10);
    return run_cases("follower");
}
