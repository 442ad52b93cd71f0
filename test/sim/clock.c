/* Virtual time: a discrete-event simulation of the devices' units. An operation is ready when it is
 * enqueued, first in its lane and what it needs has ended; each unit takes the operation that was
 * ready first. So times follow from the program alone, not from the order in which the bodies
 * really run. A copy has its direction's link bandwidth, less while the other direction is busy
 * too, or while other devices copy through the same switch. */
#include "test/sim/engine.h"

#include <math.h>

static sim_device_t *device_of(const sim_op_t *op)
{
    return &sim_engine.devices[op->lane->context->device];
}

void sim_clock_spend(double host_us)
{
    sim_engine.host_us += host_us;
}

void sim_clock_spend_for(sim_host_time_t call, uint64_t bytes)
{
    static const struct {
        double us, us_per_mib, most_mib;
    } times[] = {
#define HOST_TIME(name, us, us_per_mib, most_mib) {us, us_per_mib, most_mib},
#include "test/sim/host_times.def"
#undef HOST_TIME
    };
    double mib = fmin((double)bytes / (1 << 20), times[call].most_mib);
    sim_clock_spend(times[call].us + mib * times[call].us_per_mib);
}

/* Finds since when the head of a lane could have started, if it could. */
static bool make_ready(sim_lane_t *lane)
{
    sim_op_t *op = lane->time_head;
    if (!op || op->ready)
        return op && op->ready;
    double ready_us = fmax(op->enqueued_us, lane->time_us);
    for (unsigned i = 0; i < op->need_count; i++) {
        if (!op->needs[i]->timed)
            return false;
        ready_us = fmax(ready_us, op->needs[i]->end_us);
    }
    op->ready_us = ready_us;
    op->ready = true;
    return true;
}

static bool unit_free(const sim_op_t *op)
{
    return op->work.unit == SIM_UNIT_NONE || !device_of(op)->busy[op->work.unit];
}

static bool earlier(const sim_op_t *a, const sim_op_t *b)
{
    return a->ready_us < b->ready_us || (a->ready_us == b->ready_us && a->sequence < b->sequence);
}

/* The operation that starts next at the present time, or NULL. */
static sim_op_t *next_start(void)
{
    sim_op_t *best = NULL;
    for (sim_lane_t *lane = sim_engine.active; lane; lane = lane->next_active) {
        sim_op_t *op = make_ready(lane) ? lane->time_head : NULL;
        if (op && !op->running && op->ready_us <= sim_engine.now_us && unit_free(op) &&
            (!best || earlier(op, best)))
            best = op;
    }
    return best;
}

/* The first of the devices that share this one's switch. */
static int switch_start(const sim_op_t *op)
{
    int device = op->lane->context->device;
    return device - device % sim_engine.switch_devices;
}

static int switch_end(const sim_op_t *op)
{
    int end = switch_start(op) + sim_engine.switch_devices;
    return end < sim_engine.device_count ? end : sim_engine.device_count;
}

static int copies_through_switch(const sim_op_t *op, sim_unit_t direction)
{
    int copies = 0;
    for (int i = switch_start(op); i < switch_end(op); i++)
        copies += sim_engine.devices[i].busy[direction] != NULL;
    return copies;
}

/* GB/s: what its device's link gives, and not more than its share of the switch's. */
static double copy_gbps(const sim_op_t *copy)
{
    const sim_device_t *device = device_of(copy);
    const sim_profile_t *profile = &device->profile;
    bool duplex = device->busy[SIM_UNIT_H2D] && device->busy[SIM_UNIT_D2H];
    int to = copies_through_switch(copy, SIM_UNIT_H2D);
    int from = copies_through_switch(copy, SIM_UNIT_D2H);
    double own = duplex ? profile->link_duplex_gbps : profile->link_gbps;
    double shared = to > 0 && from > 0 ? profile->link_duplex_gbps : profile->link_gbps;
    return fmin(own, shared / (copy->work.unit == SIM_UNIT_H2D ? to : from));
}

/* Sets the end of a running copy from what is left of it and the other copies' state now. */
static void set_rate(sim_op_t *copy)
{
    if (!copy)
        return;
    copy->remaining -= copy->rate * (sim_engine.now_us - copy->since_us);
    copy->since_us = sim_engine.now_us;
    copy->rate = 1e3 * copy_gbps(copy); /* GB/s are 1000 bytes a microsecond */
    copy->end_us = sim_engine.now_us + fmax(copy->remaining, 0) / copy->rate;
}

/* Of all copies that pass the switch of this one's device. */
static void set_rates(const sim_op_t *op)
{
    for (int i = switch_start(op); i < switch_end(op); i++) {
        set_rate(sim_engine.devices[i].busy[SIM_UNIT_H2D]);
        set_rate(sim_engine.devices[i].busy[SIM_UNIT_D2H]);
    }
}

static void finish(sim_op_t *op)
{
    sim_lane_t *lane = op->lane;
    sim_device_t *device = device_of(op);
    op->end_us = sim_engine.now_us;
    op->running = false;
    op->timed = true;
    lane->time_us = op->end_us;
    lane->time_head = op->next;
    if (op->work.unit != SIM_UNIT_NONE)
        device->busy[op->work.unit] = NULL;
    if (op->work.unit == SIM_UNIT_H2D || op->work.unit == SIM_UNIT_D2H)
        set_rates(op);
    sim_op_retire(lane);
}

static void start(sim_op_t *op)
{
    sim_device_t *device = device_of(op);
    if (op->work.unit == SIM_UNIT_NONE) {
        finish(op);
        return;
    }
    op->running = true;
    device->busy[op->work.unit] = op;
    if (op->work.unit == SIM_UNIT_COMPUTE) {
        op->end_us = sim_engine.now_us + op->work.amount;
        return;
    }
    op->remaining = op->work.amount;
    op->since_us = sim_engine.now_us;
    set_rates(op);
}

/* When something happens next, and which operation ends then (NULL: one becomes ready). */
static double next_event(sim_op_t **ending)
{
    double at = INFINITY;
    *ending = NULL;
    for (sim_lane_t *lane = sim_engine.active; lane; lane = lane->next_active) {
        sim_op_t *op = lane->time_head;
        if (!op || !op->ready)
            continue;
        double when = op->running ? op->end_us : op->ready_us;
        bool ends_first = op->running && (!*ending || op->sequence < (*ending)->sequence);
        bool future = op->running || when > sim_engine.now_us; /* else it waits for its unit */
        if (future && (when < at || (when == at && ends_first))) {
            at = when;
            *ending = op->running ? op : NULL;
        }
    }
    return at;
}

/* One event, not after `limit_us`. false: there is none. */
static bool step(double limit_us)
{
    sim_op_t *op = next_start();
    if (op) {
        start(op);
        return true;
    }
    double at = next_event(&op);
    if (at > limit_us || at == INFINITY)
        return false;
    sim_engine.now_us = fmax(at, sim_engine.now_us);
    if (op)
        finish(op);
    return true;
}

void sim_clock_advance(void)
{
    while (step(sim_engine.host_us))
        ;
    sim_engine.now_us = fmax(sim_engine.now_us, sim_engine.host_us);
    if (sim_engine.mode == SIM_TIMING)
        sim_run_timed();
}

static void host_reaches(double us)
{
    sim_engine.host_us = fmax(sim_engine.host_us, us);
    if (sim_engine.mode == SIM_TIMING)
        sim_run_timed();
}

void sim_clock_wait(sim_op_t *op)
{
    while (!op->timed)
        if (!step(INFINITY))
            sim_panic("an operation waits for something that never ends");
    host_reaches(op->end_us);
}

void sim_clock_drain(int device)
{
    for (;;) {
        sim_lane_t *lane = sim_engine.active;
        while (lane && !(lane->time_head && (device < 0 || lane->context->device == device)))
            lane = lane->next_active;
        if (!lane)
            break;
        if (!step(INFINITY))
            sim_panic("a device waits for something that never ends");
    }
    host_reaches(sim_engine.now_us);
}

bool sim_clock_wait_release(void)
{
    sim_op_t *release = NULL;
    for (sim_lane_t *lane = sim_engine.active; lane; lane = lane->next_active)
        for (sim_op_t *op = lane->time_head; op; op = op->next)
            if (op->work.kind == SIM_RELEASE && (!release || op->sequence < release->sequence))
                release = op;
    if (release)
        sim_clock_wait(release);
    return release != NULL;
}
