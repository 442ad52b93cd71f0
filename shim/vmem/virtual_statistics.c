#include "shim/vmem/virtual_statistics.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "config/clock.h"
#include "config/extremes.h"
#include "config/numbers.h"
#include "shim/real/kernel_list.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_watch.h"

/* After so many operations; where they are slow, after so many that took that long. */
enum { PUBLISH_OPERATIONS = 1024, LOOK_OPERATIONS = 32 };
static const double publish_us = 2e5;

static bool is_due(mdnn_virtual_device_t *device)
{
    const uint64_t ended = ++device->ended;
    if (ended % PUBLISH_OPERATIONS == 0)
        return true;
    if (ended % LOOK_OPERATIONS != 0)
        return false;
    const double now_us = mdnn_now_us();
    const bool due = now_us - device->published_us >= publish_us;
    if (due)
        device->published_us = now_us;
    return due;
}

static void fill_of_memory(const mdnn_memory_report_t *report, mdnn_memory_statistics_t *numbers)
{
    *numbers = (mdnn_memory_statistics_t){
        .budget_bytes = report->budget_bytes,
        .resident_bytes = report->resident_bytes,
        .peak_resident_bytes = report->peak_resident_bytes,
        .average_resident_bytes = report->average_resident_bytes,
        .other_bytes = report->other_bytes,
        .peak_other_bytes = report->peak_other_bytes,
        .live_bytes = report->live_bytes,
        .peak_live_bytes = report->peak_live_bytes,
        .pinned_live_bytes = report->pinned_live_bytes,
        .largest_operation_bytes = report->largest_operation_bytes,
        .smallest_budget_bytes = mdnn_max(report->smallest_budget_bytes, report->wanting_bytes),
        .whole_budget_bytes = report->whole_budget_bytes,
        .refused_budget_bytes = report->refused_budget_bytes,
        .host_needed_bytes = report->most_host_needed_bytes,
        .out_bytes = report->out_bytes,
        .in_bytes = report->in_bytes,
        .saved_bytes = report->saved_bytes,
        .operations = report->operations,
        .planned_leaves = report->planned_leaves,
        .planned_returns = report->planned_returns,
        .demand_leaves = report->demand_leaves,
        .demand_returns = report->demand_returns,
        .called_off = report->called_off,
        .host_waits = report->host_waits,
        .host_wait_ms = report->host_wait_us / 1e3,
        .refused = report->refused,
        .refused_optional = report->refused_optional,
        .created_chunks = report->created,
        .mapped_chunks = report->mapped,
        .returned_chunks = report->mapped_returned,
        .first_use_chunks = report->mapped_at_first_use,
        .unmapped_chunks = report->unmapped,
        .background_chunks = report->background.chunks,
        .background_ms = report->background.time_us / 1e3,
        .round_ms = report->iteration_us / 1e3,
        .round_background_ms = report->iteration_background_us / 1e3,
        .unnamed_accesses = report->unnamed_accesses};
    if (report->unnamed_accesses > 0)
        snprintf(numbers->first_unnamed, sizeof numbers->first_unnamed, "%s (key %016" PRIx64 ")",
                 report->unnamed_name ? report->unnamed_name : "an operation", report->unnamed_key);
}

static void fill_of_host(const mdnn_memory_report_t *report, mdnn_memory_statistics_t *numbers)
{
#define HOST_TIME(name, words)                                                                     \
    numbers->host_##name##_ms = report->host_time.us[MDNN_HOST_TIME_##name] / 1e3;                 \
    numbers->round_##name##_ms = report->round_host_time.us[MDNN_HOST_TIME_##name] / 1e3;
#define LATE_RETURN(name, words)                                                                   \
    numbers->returned_##name = report->late_returns[MDNN_LATE_RETURN_##name];
#include "config/host_time.def"
}

/* "gemm 3 x 1 GiB, softmax 2 x 1 GiB": a count and the most at once of each. */
static void fill_of_tails(const mdnn_memory_tails_t *tails, mdnn_memory_statistics_t *numbers)
{
    size_t length = 0;
    numbers->tail_operations = tails->operations;
    numbers->tail_bytes = tails->bytes;
    for (size_t i = 0; i < MDNN_MEMORY_TAILS; i++) {
        const mdnn_memory_tail_t *const tail = &tails->largest[i];
        char size[MDNN_NUMBER_BYTES];
        if (tail->count == 0)
            continue;
        mdnn_format_size_rounded(tail->bytes, size, sizeof size);
        const int wrote = snprintf(numbers->tails + length, sizeof numbers->tails - length,
                                   "%s%.60s %" PRIu64 " x %s", length > 0 ? ", " : "",
                                   tail->name ? tail->name : "an operation", tail->count, size);
        if (wrote < 0 || (size_t)wrote >= sizeof numbers->tails - length) {
            numbers->tails[length] = '\0'; /* no part of a name */
            return;
        }
        length += (size_t)wrote;
    }
}

static const char *const plan_states[] = {
    [MDNN_PLAN_SEARCHING] = "searching", [MDNN_PLAN_LOST] = "lost",
    [MDNN_PLAN_TIMING] = "timing",       [MDNN_PLAN_PLANNING] = "planning",
    [MDNN_PLAN_FOLLOWED] = "followed",   [MDNN_PLAN_IMPOSSIBLE] = "no plan fits",
};

static void fill_of_plan(const mdnn_follower_report_t *follower, mdnn_memory_statistics_t *numbers)
{
    const char *const policy =
        follower->period_operations ? mdnn_policy_name(follower->policy) : NULL;
    numbers->floor_bytes = follower->floor_bytes;
    numbers->period_operations = follower->period_operations;
    numbers->plan_short_bytes = follower->short_bytes;
    numbers->period_out_bytes = follower->out_bytes;
    numbers->period_in_bytes = follower->in_bytes;
    numbers->compute_ms = follower->compute_us / 1e3;
    numbers->link_bound_ms = follower->link_bound_us / 1e3;
    numbers->predicted_ms = follower->predicted_us / 1e3;
    numbers->need_bytes = follower->need_bytes;
    snprintf(numbers->plan_state, sizeof numbers->plan_state, "%s",
             mdnn_process_options()->memory_policy == MDNN_POLICY_NONE
                 ? "on demand"
                 : plan_states[follower->state]);
    for (uint32_t i = 0; i < follower->forecast_count && i < MDNN_MEMORY_FORECASTS; i++)
        numbers->forecast[i] =
            (mdnn_memory_forecast_t){.budget_bytes = follower->forecast[i].budget_bytes,
                                     .predicted_ms = follower->forecast[i].predicted_us / 1e3,
                                     .moved_bytes = follower->forecast[i].moved_bytes};
    strncpy(numbers->policy, policy ? policy : "", sizeof numbers->policy - 1);
}

void mdnn_virtual_fill_statistics(mdnn_virtual_device_t *device, mdnn_memory_statistics_t *numbers)
{
    const mdnn_memory_report_t report = mdnn_memory_report(device->memory);
    const mdnn_follower_report_t follower = mdnn_memory_follower_report(device->memory);
    fill_of_memory(&report, numbers);
    fill_of_host(&report, numbers);
    fill_of_plan(&follower, numbers);
    fill_of_tails(mdnn_memory_tails(device->memory), numbers);
    const mdnn_virtual_watch_t *const watch =
        atomic_load_explicit(&mdnn_virtual_watcher, memory_order_acquire);
    if (watch)
        watch->fill(device->ordinal, numbers);
    numbers->host_bytes = mdnn_pinned_pool_bytes(mdnn_device_memory_slots(device->device));
    snprintf(numbers->device_name, sizeof numbers->device_name, "%s", device->name);
    strncpy(numbers->safety, mdnn_choices_memory_safety[mdnn_virtual_safety(device)],
            sizeof numbers->safety - 1);
}

bool mdnn_virtual_statistics_of(int ordinal, mdnn_memory_statistics_t *numbers)
{
    mdnn_virtual_device_t *device;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++) {
        if (device->ordinal != ordinal || !mdnn_trylock(&device->lock))
            continue;
        const bool there = device->memory != NULL;
        if (there)
            mdnn_virtual_fill_statistics(device, numbers);
        mdnn_unlock(&device->lock);
        return there;
    }
    return false;
}

/* Once: after an access that faults nothing else is found out in this process. */
static void learn(const mdnn_virtual_device_t *device)
{
    static _Atomic bool learned;
    const char *const name = mdnn_memory_report(device->memory).unnamed_name;
    if (name && !atomic_exchange(&learned, true))
        mdnn_kernel_list_learn(name);
}

void mdnn_virtual_count(mdnn_virtual_device_t *device)
{
    mdnn_memory_statistics_t numbers;
    /* In verify the next operation may be the last: an unnamed access can end the process. */
    const bool proving = mdnn_process_options()->memory_safety == MDNN_SAFETY_VERIFY;
    const bool due = is_due(device);
    if ((!due && !proving) || !device->memory)
        return;
    mdnn_virtual_fill_statistics(device, &numbers);
    mdnn_memory_statistics_publish(device->ordinal, &numbers);
    if (proving && numbers.unnamed_accesses > 0)
        learn(device);
}
