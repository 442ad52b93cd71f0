/* Operations, and when their bodies run: as late as possible. Nothing runs until something waits,
 * and then only what the wait needs, in seeded random order among what could run; one wait in four
 * also runs others that could, so that too early shows as well as too late. Order comes from lanes
 * and needs alone. */
#include "test/sim/engine.h"

#include <signal.h>
#include <stdlib.h>
#include <time.h>

enum { QUEUE_LIMIT = 1024, MOST_DENIALS = 3 };

/* As with the real driver, one thread makes the host calls of all streams, one after the other. So
 * a call that blocks holds up its stream and later calls, but nobody who does not wait for them. */
typedef struct host_call {
    sim_op_t *op; /* counted reference */
    struct host_call *next;
} host_call_t;

static host_call_t *first_call, **end_of_calls = &first_call;
static pthread_cond_t call_is_there = PTHREAD_COND_INITIALIZER;

/* Host time of a query, so that a polling loop gets on in timing mode. An assumption. */
static const double poll_us = 0.5;

sim_lane_t *sim_lane_create(CUcontext context)
{
    sim_lane_t *lane = sim_allocate(sizeof *lane);
    lane->refs = 1;
    lane->context = context;
    return lane;
}

void sim_lane_release(sim_lane_t *lane)
{
    if (--lane->refs > 0)
        return;
    sim_op_drop(lane->tail);
    free(lane);
}

sim_op_t *sim_op_hold(sim_op_t *op)
{
    if (op)
        op->refs++;
    return op;
}

void sim_op_drop(sim_op_t *op)
{
    if (op && --op->refs == 0)
        free(op);
}

bool sim_op_done(const sim_op_t *op)
{
    return op->timed && op->executed;
}

static void set_active(sim_lane_t *lane)
{
    lane->previous_active = NULL;
    lane->next_active = sim_engine.active;
    if (sim_engine.active)
        sim_engine.active->previous_active = lane;
    sim_engine.active = lane;
}

static void set_idle(sim_lane_t *lane)
{
    if (lane->previous_active)
        lane->previous_active->next_active = lane->next_active;
    else
        sim_engine.active = lane->next_active;
    if (lane->next_active)
        lane->next_active->previous_active = lane->previous_active;
}

static void append(sim_lane_t *lane, sim_op_t *op)
{
    if (!lane->first)
        set_active(lane);
    op->previous = lane->last;
    if (lane->last)
        lane->last->next = op;
    else
        lane->first = op;
    lane->last = op;
    if (!lane->time_head)
        lane->time_head = op;
    if (!lane->run_head)
        lane->run_head = op;
    lane->length++;
    lane->refs++;
    sim_op_drop(lane->tail);
    lane->tail = sim_op_hold(op);
}

sim_op_t *sim_lane_add(sim_lane_t *lane, sim_work_t *work, sim_op_t *const *needs, unsigned count)
{
    if (lane->length >= QUEUE_LIMIT)
        sim_wait(lane->first);
    sim_op_t *op = sim_allocate(sizeof *op);
    op->refs = 1; /* the lane's */
    op->lane = lane;
    op->sequence = ++sim_engine.sequence;
    op->work = *work;
    *work = (sim_work_t){0};
    op->enqueued_us = sim_engine.host_us;
    if (count > 0)
        op->needs = sim_allocate(count * sizeof *op->needs);
    for (unsigned i = 0; i < count; i++)
        if (needs[i] && !sim_op_done(needs[i]))
            op->needs[op->need_count++] = sim_op_hold(needs[i]);
    append(lane, op);
    return op;
}

static void forget_needs(sim_op_t *op)
{
    for (unsigned i = 0; i < op->need_count; i++)
        sim_op_drop(op->needs[i]);
    free(op->needs);
    op->needs = NULL;
    op->need_count = 0;
}

void sim_op_retire(sim_lane_t *lane)
{
    lane->refs++;
    while (lane->first && sim_op_done(lane->first)) {
        sim_op_t *op = lane->first;
        lane->first = op->next;
        if (op->next)
            op->next->previous = NULL;
        else
            lane->last = NULL;
        op->next = NULL;
        op->lane = NULL;
        lane->length--;
        lane->refs--;
        forget_needs(op);
        sim_work_clear(&op->work);
        sim_op_drop(op);
        if (!lane->first)
            set_idle(lane);
    }
    sim_lane_release(lane);
}

static bool has_turn(const sim_op_t *op)
{
    if (!op || op->executing)
        return false;
    for (unsigned i = 0; i < op->need_count; i++)
        if (!op->needs[i]->executed)
            return false;
    return true;
}

static bool can_run(const sim_op_t *op)
{
    return has_turn(op) &&
           (op->work.kind != SIM_WAIT_VALUE || op->lane->context->sticky != CUDA_SUCCESS ||
            sim_value_is_there(&op->work));
}

/* Whether some operation only lacks a value in memory, which another operation or the host's code
 * may write. */
static bool value_awaited(void)
{
    for (sim_lane_t *lane = sim_engine.active; lane; lane = lane->next_active)
        if (has_turn(lane->run_head) && lane->run_head->work.kind == SIM_WAIT_VALUE)
            return true;
    return false;
}

static void finish(sim_op_t *op)
{
    sim_lane_t *lane = op->lane;
    op->executed = true;
    lane->run_head = op->next;
    pthread_cond_broadcast(&sim_engine.changed);
    sim_op_retire(lane);
}

static void *make_host_calls(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&sim_engine.mutex);
    for (;;) {
        host_call_t *call = first_call;
        if (!call) {
            pthread_cond_wait(&call_is_there, &sim_engine.mutex);
            continue;
        }
        first_call = call->next;
        if (!first_call)
            end_of_calls = &first_call;
        pthread_mutex_unlock(&sim_engine.mutex);
        sim_work_call_host(&call->op->work);
        pthread_mutex_lock(&sim_engine.mutex);
        finish(call->op);
        if (sim_engine.mode == SIM_TIMING)
            sim_run_timed(); /* what is behind it */
        sim_op_drop(call->op);
        free(call);
    }
    return NULL;
}

static void ask_for_host_call(sim_op_t *op)
{
    static bool started;
    pthread_t thread;
    host_call_t *call = sim_allocate(sizeof *call);
    call->op = sim_op_hold(op);
    *end_of_calls = call;
    end_of_calls = &call->next;
    pthread_cond_signal(&call_is_there);
    if (!started &&
        (pthread_create(&thread, NULL, make_host_calls, NULL) != 0 || pthread_detach(thread) != 0))
        sim_panic("no thread for host calls");
    started = true;
}

static void run(sim_op_t *op)
{
    op->executing = true;
    if (op->work.kind == SIM_HOST_CALL) {
        ask_for_host_call(op);
        return;
    }
    sim_work_run(op->lane->context, &op->work);
    finish(op);
}

/* A random operation that can run and was marked since `generation`, or NULL. */
static sim_op_t *pick(uint64_t generation)
{
    sim_op_t *chosen = NULL;
    uint64_t seen = 0;
    for (sim_lane_t *lane = sim_engine.active; lane; lane = lane->next_active) {
        sim_op_t *op = lane->run_head;
        if (can_run(op) && op->mark >= generation && sim_random() % ++seen == 0)
            chosen = op;
    }
    return chosen;
}

/* Gives other threads of the program a moment to write the value. `executing`: one of them is at an
 * operation. */
static void wait_for_value(bool executing)
{
    enum { SHORT_MOMENTS = 1000, MOST_MOMENTS = 100000 }; /* in all two minutes */
    static const struct timespec moment = {0, 100000}, longer = {0, 1000000};
    static unsigned moments;
    static uint64_t operations;
    moments = operations == sim_engine.operations_run && !executing ? moments + 1 : 0;
    operations = sim_engine.operations_run;
    if (moments > MOST_MOMENTS)
        sim_panic("a stream waits for a value that nobody writes");
    const bool is_long = moments > SHORT_MOMENTS;
    pthread_mutex_unlock(&sim_engine.mutex);
    nanosleep(is_long ? &longer : &moment, NULL);
    pthread_mutex_lock(&sim_engine.mutex);
}

static bool try_to_run_some(uint64_t generation)
{
    sim_op_t *op = pick(generation);
    if (!op && value_awaited())
        op = pick(0);
    if (op)
        run(op);
    return op != NULL;
}

/* Runs one such operation; if another thread is at it, waits for that one. */
static void run_some(uint64_t generation)
{
    bool executing = false;
    if (try_to_run_some(generation))
        return;
    for (sim_lane_t *lane = sim_engine.active; lane; lane = lane->next_active)
        executing = executing || (lane->run_head && lane->run_head->executing);
    if (value_awaited())
        wait_for_value(executing); /* the host's own writes tell nobody */
    else if (executing)
        pthread_cond_wait(&sim_engine.changed, &sim_engine.mutex);
    else
        sim_panic("operations wait for one another");
    sim_work_forget_equal(); /* those that waited freed the lock */
}

static void mark_needed(sim_op_t *op, uint64_t generation)
{
    for (; op && !op->executed && op->mark < generation; op = op->previous) {
        op->mark = generation;
        for (unsigned i = 0; i < op->need_count; i++)
            mark_needed(op->needs[i], generation);
    }
}

/* Whether it has to wait for something that the host's code does. */
static bool needs_host(sim_op_t *op, uint64_t generation)
{
    for (; op && !op->executed && op->mark < generation; op = op->previous) {
        op->mark = generation;
        if (op->work.kind == SIM_HOST_CALL || op->work.kind == SIM_WAIT_VALUE)
            return true;
        for (unsigned i = 0; i < op->need_count; i++)
            if (needs_host(op->needs[i], generation))
                return true;
    }
    return false;
}

/* `bounded`: not where that would wait for the program. */
static void run_needed(sim_op_t *op, bool bounded)
{
    if (op->executed)
        return;
    sim_op_hold(op);
    uint64_t generation = ++sim_engine.generation;
    mark_needed(op, generation);
    bool others_too = sim_random() % 4 == 0;
    bool goes_on = true;
    while (!op->executed && goes_on) {
        if (bounded)
            goes_on = try_to_run_some(others_too ? 0 : generation);
        else
            run_some(others_too ? 0 : generation);
    }
    sim_op_drop(op);
}

void sim_run_timed(void)
{
    sim_lane_t *lane = sim_engine.active;
    while (lane) {
        sim_op_t *op = lane->run_head;
        if (op && op->timed && can_run(op)) {
            run(op);
            lane = sim_engine.active; /* that changed the list */
        } else {
            lane = lane->next_active;
        }
    }
}

void sim_wait(sim_op_t *op)
{
    if (!op)
        return;
    sim_op_hold(op);
    if (sim_engine.mode == SIM_COMPUTE)
        run_needed(op, false);
    sim_clock_wait(op);
    while (!op->executed)
        pthread_cond_wait(&sim_engine.changed, &sim_engine.mutex);
    sim_op_drop(op);
}

bool sim_try_wait(sim_op_t *op)
{
    if (!op)
        return true;
    sim_op_hold(op);
    if (sim_engine.mode == SIM_COMPUTE)
        run_needed(op, true);
    if (op->executed || sim_engine.mode == SIM_TIMING)
        sim_clock_wait(op);
    const bool done = op->executed;
    sim_op_drop(op);
    return done;
}

static bool device_has_bodies(int device)
{
    for (sim_lane_t *lane = sim_engine.active; lane; lane = lane->next_active)
        if (lane->run_head && (device < 0 || lane->context->device == device))
            return true;
    return false;
}

void sim_wait_device(int device)
{
    if (sim_engine.mode == SIM_TIMING)
        sim_clock_drain(device);
    while (device_has_bodies(device))
        run_some(0);
    sim_clock_drain(device);
}

CUresult sim_query(sim_op_t *op)
{
    if (!op)
        return CUDA_SUCCESS;
    sim_op_hold(op);
    sim_clock_advance();
    bool done = sim_op_done(op) && op->end_us <= sim_engine.host_us;
    if (!done && sim_engine.mode == SIM_TIMING) {
        sim_clock_spend(poll_us);
    } else if (!done && op->executed) { /* the device's time passes while the host polls */
        sim_clock_wait(op);
        done = true;
    } else if (!done && (value_awaited() || needs_host(op, ++sim_engine.generation))) {
        sim_op_t *other = pick(0); /* waiting for `op` might never end */
        if (other)
            run(other);
    } else if (!done && (op->denials >= MOST_DENIALS || sim_random() % 4 == 0)) {
        done = sim_try_wait(op); /* not for a callback: the caller may hold what that needs */
    } else if (!done) {
        op->denials++;
    }
    sim_op_drop(op);
    return done ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}
