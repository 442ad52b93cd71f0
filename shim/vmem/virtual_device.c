#include "shim/vmem/virtual_device.h"
#include "config/clock.h"

#include <math.h>
#include <time.h>

#include "config/devices.h"
#include "config/log.h"
#include "shim/real/failure.h"
#include "shim/real/process.h"

/* Locked. */
static void enter_context(const mdnn_virtual_device_t *device, mdnn_virtual_entry_t *entry)
{
    if (device->memory) /* else its context may be gone, too */
        entry->change = mdnn_context_enter(mdnn_real_driver(), device->context);
}

mdnn_virtual_entry_t mdnn_virtual_enter(mdnn_virtual_device_t *device)
{
    mdnn_virtual_entry_t entry = {0};
    mdnn_cancel_hold();
    mdnn_capture_begin_own();
    mdnn_failure_forget();
    entry.since_us = mdnn_now_us();
    if (!mdnn_trylock(&device->lock)) {
        const double asked_us = entry.since_us;
        mdnn_lock(&device->lock);
        entry.since_us = mdnn_now_us();
        entry.lock_us = entry.since_us - asked_us;
    }
    enter_context(device, &entry);
    return entry;
}

bool mdnn_virtual_try_enter(mdnn_virtual_device_t *device, mdnn_virtual_entry_t *entry)
{
    if (!mdnn_trylock(&device->lock))
        return false;
    mdnn_cancel_hold();
    *entry = (mdnn_virtual_entry_t){.since_us = mdnn_now_us()};
    mdnn_capture_begin_own();
    mdnn_failure_forget();
    enter_context(device, entry);
    return true;
}

void mdnn_virtual_leave(mdnn_virtual_device_t *device, mdnn_virtual_entry_t entry)
{
    mdnn_context_leave(mdnn_real_driver(), entry.change);
    if (device->memory)
        mdnn_memory_note_host_time(device->memory, mdnn_now_us() - entry.since_us, entry.lock_us);
    if (device->waiting > 0)
        mdnn_condition_broadcast(&device->changed);
    mdnn_unlock(&device->lock);
    mdnn_capture_end_own();
    mdnn_cancel_allow();
}

/* ---- waits within ---- */

/* By ordinal. initial-exec: see shim/real/process.c. */
static _Thread_local uint16_t opened[MDNN_DEVICES] __attribute__((tls_model("initial-exec")));

uint32_t mdnn_virtual_opened(const mdnn_virtual_device_t *device)
{
    return device->ordinal >= 0 && device->ordinal < MDNN_DEVICES ? opened[device->ordinal] : 0;
}

void mdnn_virtual_open(mdnn_virtual_device_t *device)
{
    device->inside++;
    opened[device->ordinal]++;
}

void mdnn_virtual_close(mdnn_virtual_device_t *device)
{
    device->inside--;
    opened[device->ordinal]--;
    mdnn_condition_broadcast(&device->changed);
}

static void let_go(void *context)
{
    mdnn_virtual_device_t *const device = context;
    device->waiting++;
    mdnn_condition_broadcast(&device->changed);
    mdnn_unlock(&device->lock);
}

static void take_back(void *context)
{
    mdnn_virtual_device_t *const device = context;
    mdnn_lock(&device->lock);
    if (--device->waiting == 0 && !device->memory) /* it is to be emptied */
        mdnn_condition_broadcast(&device->changed);
}

static struct timespec after(double seconds)
{
    struct timespec limit;
    clock_gettime(CLOCK_MONOTONIC, &limit);
    const double ns = (double)limit.tv_nsec + (seconds - floor(seconds)) * 1e9;
    limit.tv_sec += (time_t)floor(seconds) + (ns >= 1e9);
    limit.tv_nsec = (long)(ns >= 1e9 ? ns - 1e9 : ns);
    return limit;
}

static void wait_for_change(void *context, double seconds)
{
    mdnn_virtual_device_t *const device = context;
    const struct timespec limit = after(seconds);
    device->waiting++;
    (void)mdnn_condition_wait_until(&device->changed, &device->lock, &limit);
    if (--device->waiting == 0 && !device->memory)
        mdnn_condition_broadcast(&device->changed);
}

void mdnn_virtual_pause(mdnn_virtual_device_t *device, double seconds)
{
    wait_for_change(device, seconds);
}

static uint32_t opened_here(void *context)
{
    return mdnn_virtual_opened(context);
}

mdnn_device_caller_t mdnn_virtual_caller(mdnn_virtual_device_t *device)
{
    return (mdnn_device_caller_t){device, let_go, take_back, wait_for_change, opened_here};
}

void mdnn_virtual_await_ends(mdnn_virtual_device_t *device)
{
    const struct timespec limit = after(1);
    while (device->inside > mdnn_virtual_opened(device) &&
           mdnn_condition_wait_until(&device->changed, &device->lock, &limit))
        continue;
    while (device->waiting > 0)
        mdnn_condition_wait(&device->changed, &device->lock);
}

/* ---- host memory ---- */

void mdnn_virtual_want_slots(mdnn_virtual_device_t *device)
{
    static const uint64_t mebibyte = (uint64_t)1 << 20;
    const uint64_t budget = device->budget_bytes;
    const uint64_t live_bytes = mdnn_memory_live_bytes(device->memory);
    const uint64_t ahead = budget / 2 < 1024 * mebibyte ? budget / 2 : 1024 * mebibyte;
    if (live_bytes > budget / 2)
        mdnn_pinned_pool_want(mdnn_device_memory_slots(device->device),
                              (live_bytes > budget ? live_bytes - budget : 0) + ahead);
}

/* ---- once more ---- */

/* Whether an operation of another thread has ended, within a time: it may itself wait for what this
 * thread will do. */
static bool await_end(mdnn_virtual_device_t *device)
{
    static const double seconds = 10;
    const uint64_t before = device->ended;
    const struct timespec limit = after(seconds);
    bool in_time = true;
    device->waiting++;
    while (in_time && device->memory && device->inside > mdnn_virtual_opened(device) &&
           device->ended == before)
        in_time = mdnn_condition_wait_until(&device->changed, &device->lock, &limit);
    if (--device->waiting == 0 && !device->memory)
        mdnn_condition_broadcast(&device->changed);
    return device->memory && device->ended != before;
}

static void hurry(mdnn_virtual_device_t *device, bool hurried)
{
    device->hurried = hurried;
    mdnn_memory_hurry(device->memory, hurried);
    if (hurried)
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "a call of another thread does not end: memory moves beside it, and what it "
                      "enqueues must touch only memory that it names");
}

bool mdnn_virtual_try_again(mdnn_virtual_device_t *device, mdnn_status_t status, bool *retried)
{
    const bool held_up = device->serves_all && status == MDNN_STATUS_BUSY && !device->hurried;
    if (device->hurried && device->memory)
        hurry(device, false);
    if (held_up) {
        if (!await_end(device) && device->memory)
            hurry(device, true);
        return device->memory != NULL;
    }
    const CUresult error = status == MDNN_STATUS_DEVICE ? mdnn_failure_take() : CUDA_SUCCESS;
    if (status != MDNN_STATUS_DEVICE || *retried || mdnn_failure_is_final(error)) {
        (void)mdnn_failure_note(error); /* to be told */
        return false;
    }
    *retried = true;
    return true;
}

mdnn_safety_t mdnn_virtual_safety(const mdnn_virtual_device_t *device)
{
    if (device->serves_all)
        return MDNN_SAFETY_HOST;
    const mdnn_safety_t wanted = (mdnn_safety_t)mdnn_process_options()->memory_safety;
    const bool fast =
        wanted == MDNN_SAFETY_AUTO || (wanted == MDNN_SAFETY_HOST && !device->can_serve_all);
    return fast ? MDNN_SAFETY_FAST : wanted;
}
