#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "offload/memory/memory_internal.h"
#include "test/unit/cases.h"

/* What the mechanism under test asks: a device on which an operation takes 10 us, and a follower that
 * says what each test wants. */

typedef struct device {
    double now_us, begun_us[200], ended_us[200];
    enum { UNUSED, BEGUN, ENDED, READ } states[200];
    uint64_t tokens;
    unsigned busy; /* reads that come too early */
} device_t;

static mdnn_follower_report_t follower;

mdnn_follower_report_t mdnn_follower_report(const mdnn_follower_t *unused)
{
    (void)unused;
    return follower;
}

static uint64_t sequence;

uint64_t mdnn_follower_sequence(const mdnn_follower_t *unused)
{
    (void)unused;
    return sequence;
}

static uint64_t followed_plan = 1;
static unsigned rounds_told;
static double told_us;

uint64_t mdnn_follower_followed_plan(const mdnn_follower_t *unused)
{
    (void)unused;
    return followed_plan;
}

void mdnn_follower_iteration_took(mdnn_follower_t *unused, uint64_t plan, double time_us)
{
    (void)unused;
    assert_int_equal(plan, 1);
    rounds_told++;
    told_us = time_us;
}

static uint64_t time_begin(void *context, uint64_t stream, bool operation)
{
    device_t *const device = context;
    assert_false(operation);
    assert_int_equal(stream, 7);
    device->begun_us[++device->tokens] = device->now_us;
    device->states[device->tokens] = BEGUN;
    return device->tokens;
}

static void time_end(void *context, uint64_t stream, uint64_t token)
{
    device_t *const device = context;
    assert_int_equal(stream, 7);
    assert_int_equal(device->states[token], BEGUN);
    device->states[token] = ENDED;
    device->ended_us[token] = device->now_us;
}

static mdnn_status_t time_read(void *context, uint64_t token, double *time_us)
{
    device_t *const device = context;
    assert_int_equal(device->states[token], ENDED);
    if (device->busy > 0) {
        device->busy--;
        return MDNN_STATUS_BUSY;
    }
    device->states[token] = READ;
    *time_us = device->ended_us[token] - device->begun_us[token];
    return MDNN_STATUS_OK;
}

/* The program is in that period; 0: in none. */
static void be_in(uint64_t period, uint32_t operations)
{
    follower.place_period = period;
    follower.place_operations = operations;
    follower.in_step = 0;
}

static mdnn_memory_t fresh(device_t *device)
{
    *device = (device_t){0};
    sequence = 0;
    follower = (mdnn_follower_report_t){0};
    be_in(1, 100);
    follower.period = 1;
    return (mdnn_memory_t){
        .device = {.time_begin = time_begin, .time_end = time_end, .time_read = time_read},
        .context = device};
}

static void run(mdnn_memory_t *memory, device_t *device, unsigned operations)
{
    for (unsigned i = 0; i < operations; i++) {
        device->now_us += 10;
        sequence++;
        follower.in_step++;
        mdnn_memory_watch_iteration(memory, 7);
    }
}

/* So many iterations of the period were timed. */
static uint64_t taken(const mdnn_memory_t *memory, uint64_t period)
{
    for (int i = 0; i < MDNN_WATCHED_PERIODS; i++)
        if (memory->watch.periods[i].number == period)
            return memory->watch.periods[i].taken;
    return 0;
}

CASE(rounds_that_are_followed_are_timed_one_after_the_other)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    run(&memory, &device, 1001);
    assert_int_equal(taken(&memory, 1), 9); /* the tenth has just ended */
    assert_true(mdnn_memory_iteration_us(&memory) == 1000);
    assert_int_equal(device.tokens, 11);
}

CASE(time_of_the_host_is_that_of_counted_rounds)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    memory.report.host_time.us[MDNN_HOST_TIME_copies] = 1e6; /* before */
    for (unsigned i = 0; i < 1001; i++) {
        memory.report.host_time.us[MDNN_HOST_TIME_copies] += 2;
        run(&memory, &device, 1);
    }
    assert_int_equal(taken(&memory, 1), 9);
    assert_float_equal(mdnn_memory_iteration_host_time(&memory).us[MDNN_HOST_TIME_copies], 100 * 2,
                       1e-6);
    assert_true(mdnn_memory_iteration_host_time(&memory).us[MDNN_HOST_TIME_library] == 0);
}

/* Before there is a plan rounds take longer, and a single one may take long at any time. */
CASE(the_last_rounds_say_how_long_one_takes)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    assert_true(mdnn_memory_iteration_us(&memory) == 0);
    for (unsigned i = 0; i < 5 + MDNN_WATCHED + 2; i++) {
        const bool slow = i < 5 || i == 8;
        device.now_us += slow ? 1e6 : 0;
        memory.report.host_time.us[MDNN_HOST_TIME_mapping] += i < 5 ? 1e5 : 160;
        run(&memory, &device, 100);
    }
    run(&memory, &device, 1);
    assert_true(mdnn_memory_iteration_us(&memory) == 1000);
    assert_float_equal(mdnn_memory_iteration_host_time(&memory).us[MDNN_HOST_TIME_mapping], 160,
                       1e-6);
}

CASE(short_rounds_are_timed_together)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    be_in(1, 3);
    run(&memory, &device, 66 * 20 + 1);
    assert_true(mdnn_memory_iteration_us(&memory) == 30);
    assert_int_equal(taken(&memory, 1), 19);
    assert_int_equal(device.tokens, 21);
}

CASE(nothing_is_timed_while_nothing_is_followed)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    be_in(0, 100);
    run(&memory, &device, 1000);
    assert_int_equal(device.tokens, 0);
    be_in(1, 100);
    run(&memory, &device, 1000);
    assert_true(taken(&memory, 1) >= 8 && mdnn_memory_iteration_us(&memory) == 1000);
}

CASE(a_round_with_a_deviation_does_not_count)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    run(&memory, &device, 201);
    const uint64_t rounds = taken(&memory, 1);
    run(&memory, &device, 50);
    be_in(0, 100);
    run(&memory, &device, 500);
    assert_int_equal(taken(&memory, 1), rounds + 1); /* the one before */
    for (uint64_t token = 1; token + 1 < device.tokens; token++)
        assert_int_equal(device.states[token], READ);
}

/* An iteration with a deviation takes longer, though the program is in the same period when it ends. */
CASE(a_round_in_which_the_program_was_lost_does_not_count)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    run(&memory, &device, 250);
    const uint64_t rounds = taken(&memory, 1);
    follower.in_step = 0;
    run(&memory, &device, 52); /* reads the one before */
    assert_int_equal(taken(&memory, 1), rounds + 1);
    run(&memory, &device, 101);
    assert_int_equal(taken(&memory, 1), rounds + 1);
    run(&memory, &device, 101);
    assert_int_equal(taken(&memory, 1), rounds + 2);
}

/* The time is that of the period that the report is about, whichever the program is in. */
CASE(each_period_has_its_rounds)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    run(&memory, &device, 1001);
    be_in(2, 300);
    run(&memory, &device, 1300);
    assert_int_equal(taken(&memory, 1), 10);
    assert_true(taken(&memory, 2) > 0 && mdnn_memory_iteration_us(&memory) == 1000);
    follower.period = 2;
    assert_true(mdnn_memory_iteration_us(&memory) == 3000);
    follower.period = 3;
    assert_true(mdnn_memory_iteration_us(&memory) == 0);
    follower.period = 1;
    for (uint64_t other = 3; other <= 9; other++) { /* more than are kept */
        be_in(other, 100);
        run(&memory, &device, 301);
    }
    assert_true(mdnn_memory_iteration_us(&memory) == 1000 && taken(&memory, 2) > 0);
    be_in(1, 100);
    run(&memory, &device, 501);
    assert_true(taken(&memory, 1) > 10);
}

CASE(iterations_before_a_plan_do_not_count_beside_those_under_it)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    followed_plan = 0;
    for (int i = 0; i < 5; i++) {
        device.now_us += 1e5;
        run(&memory, &device, 100);
    }
    assert_true(mdnn_memory_iteration_us(&memory) > 1e5);
    followed_plan = 1;
    run(&memory, &device, 301);
    assert_true(mdnn_memory_iteration_us(&memory) == 1000);
}

CASE(a_device_that_is_behind_loses_a_round_and_no_stopwatch)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    run(&memory, &device, 101);
    device.busy = 30;
    run(&memory, &device, 1000);
    assert_true(taken(&memory, 1) >= 7 && mdnn_memory_iteration_us(&memory) == 1000);
    for (uint64_t token = 1; token + 1 < device.tokens; token++)
        assert_int_equal(device.states[token], READ);
}

CASE(the_follower_is_told_of_rounds_under_one_plan)
{
    device_t device;
    mdnn_memory_t memory = fresh(&device);
    rounds_told = 0;
    run(&memory, &device, 501);
    assert_int_equal(rounds_told, 4);
    assert_true(told_us == 1000);
    followed_plan = 0; /* in the middle of the next one */
    run(&memory, &device, 300);
    assert_int_equal(rounds_told, 5);
    followed_plan = 1;
    run(&memory, &device, 99);
    assert_int_equal(rounds_told, 5); /* it began without */
    run(&memory, &device, 201);
    assert_int_equal(rounds_told, 6);
    be_in(1, 3); /* several together */
    run(&memory, &device, 500);
    assert_true(rounds_told > 6 && told_us == 30);
}

int main(void)
{
    return run_cases("memory rounds");
}
