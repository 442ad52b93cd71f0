#include "shim/vmem/virtual_refusals.h"

#include <stdatomic.h>
#include <stdio.h>

#include "config/extremes.h"
#include "config/log.h"
#include "config/numbers.h"
#include "config/sizes.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_statistics.h"

/* ---- devices without a budget ---- */

void mdnn_virtual_say_without(int ordinal, const char *why)
{
    if (mdnn_process_options()->memory_strict)
        MDNN_LOG(MDNN_LOG_ERROR, "memory",
                 "device %d: the budget cannot be kept, so nothing is allocated: %s ([memory] "
                 "strict = no: run without a limit)",
                 ordinal, why);
    else
        MDNN_LOG(MDNN_LOG_ERROR, "memory", "device %d goes without a budget: %s", ordinal, why);
}

void mdnn_virtual_say_failed(const mdnn_virtual_device_t *device, mdnn_status_t status)
{
    const CUresult error = mdnn_failure_take();
    const char *const what = device->trouble[0] ? device->trouble : mdnn_status_string(status);
    char why[MDNN_TROUBLE_BYTES + 32];
    snprintf(why, sizeof why, error == CUDA_SUCCESS ? "%s" : "%s (CUDA error %d)", what,
             (int)error);
    mdnn_virtual_say_without((int)device->ordinal, why);
}

void mdnn_virtual_say_nowhere(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!atomic_flag_test_and_set(&said))
        mdnn_virtual_say_without(
            0, driver && driver->has_memory
                   ? mdnn_status_string(MDNN_STATUS_OUT_OF_MEMORY)
                   : "the driver lacks functions for virtual memory, which CUDA 12 has");
}

/* ---- what a budget has no room for ---- */

static void say_host_is_short(mdnn_virtual_device_t *device, uint64_t bytes)
{
    char refused[MDNN_NUMBER_BYTES], budget[MDNN_NUMBER_BYTES], pinned[MDNN_NUMBER_BYTES];
    char all[MDNN_NUMBER_BYTES], enough[MDNN_NUMBER_BYTES], limit[MDNN_NUMBER_BYTES];
    mdnn_node_registry_t *const registry = mdnn_virtual_host()->registry;
    const uint64_t own = mdnn_pinned_pool_bytes(mdnn_device_memory_slots(device->device));
    const uint64_t sum = registry ? mdnn_node_registry_bytes(registry, 0) : own;
    const uint64_t needed =
        mdnn_memory_report(device->memory).host_needed_bytes + sum - mdnn_min(own, sum);
    mdnn_format_size_rounded(bytes, refused, sizeof refused);
    mdnn_format_size_rounded(device->budget_bytes, budget, sizeof budget);
    mdnn_format_size_rounded(own, pinned, sizeof pinned);
    mdnn_format_size_rounded(sum, all, sizeof all);
    mdnn_format_size_rounded(mdnn_virtual_host()->limit_bytes, limit, sizeof limit);
    mdnn_format_size_rounded(needed, enough, sizeof enough);
    MDNN_LOG_ONCE(
        MDNN_LOG_WARN, "memory",
        "%s refused: the budget of %s would do, but there is no room for what should leave in "
        "pinned host memory, of which there may be %s (%s); at least %s are needed, and "
        "[memory] host_limit sets the limit for all processes of the user on this machine together "
        "(they have %s now, this one %s)",
        refused, budget, limit, mdnn_virtual_host_limit_origin(), enough, all, pinned);
}

/* Whether a line about the present refusal says something new: clearly more is needed, or clearly less because the
 * program did without what was refused earlier. */
static bool is_news(const mdnn_virtual_device_t *device, uint64_t needed_bytes)
{
    enum { LINES = 8 };
    const uint64_t said = device->said_needed_bytes;
    const uint64_t by = needed_bytes > said ? needed_bytes - said : said - needed_bytes;
    return said == 0 || (device->said_lines < LINES && by > said / 16);
}

/* What is needed for this, and for what the program has run so far: nobody knows whether it can do
 * without. `least_bytes`: what is more than all addresses, which nobody goes on to want. */
static void say_refused(mdnn_virtual_device_t *device, uint64_t bytes, uint64_t least_bytes)
{
    const mdnn_memory_report_t report = mdnn_memory_report(device->memory);
    const uint64_t known_bytes = mdnn_max(report.smallest_budget_bytes, report.wanting_bytes);
    const uint64_t needed_bytes = mdnn_max(known_bytes, least_bytes);
    char refused[MDNN_NUMBER_BYTES], budget[MDNN_NUMBER_BYTES], needed[MDNN_NUMBER_BYTES];
    char so_far[MDNN_NUMBER_BYTES];
    const bool has_tails = mdnn_process_options()->memory_tail; /* then the budget is enough */
    if (report.is_host_short && (has_tails || needed_bytes <= device->budget_bytes)) {
        say_host_is_short(device, bytes);
        return;
    }
    if (!is_news(device, needed_bytes))
        return;
    device->said_needed_bytes = needed_bytes;
    device->said_lines++;
    mdnn_format_size_rounded(bytes, refused, sizeof refused);
    mdnn_format_size_rounded(device->budget_bytes, budget, sizeof budget);
    mdnn_format_size_rounded(needed_bytes, needed, sizeof needed);
    mdnn_format_size_rounded(report.smallest_budget_bytes, so_far, sizeof so_far);
    if (needed_bytes > device->budget_bytes)
        MDNN_LOG(MDNN_LOG_WARN, "memory",
                 "%s refused: nothing more can leave within the budget of %s; at least %s are "
                 "needed for it, %s for what ran so far",
                 refused, budget, needed, so_far);
    else
        MDNN_LOG(MDNN_LOG_WARN, "memory",
                 "%s refused: nothing more can leave within the budget of %s", refused, budget);
}

void mdnn_virtual_say_optional(mdnn_virtual_device_t *device, uint64_t bytes)
{
    const uint64_t needed_bytes = mdnn_memory_report(device->memory).smallest_budget_bytes;
    char refused[MDNN_NUMBER_BYTES], budget[MDNN_NUMBER_BYTES], needed[MDNN_NUMBER_BYTES];
    if (device->said_optional)
        return;
    device->said_optional = true;
    mdnn_format_size_rounded(bytes, refused, sizeof refused);
    mdnn_format_size_rounded(device->budget_bytes, budget, sizeof budget);
    mdnn_format_size_rounded(needed_bytes, needed, sizeof needed);
    MDNN_LOG(MDNN_LOG_WARN, "memory",
             "%s refused within the budget of %s: an optional workspace, a smaller one will do; at "
             "least %s are needed for what ran so far",
             refused, budget, needed);
}

void mdnn_virtual_say_tail(mdnn_virtual_device_t *device)
{
    const mdnn_memory_tails_t *const tails = mdnn_memory_tails(device->memory);
    const mdnn_memory_tail_t *const tail = &tails->largest[0];
    const uint64_t whole_bytes = mdnn_memory_report(device->memory).whole_budget_bytes;
    const char *const name = tail->name ? tail->name : "an operation";
    char host[MDNN_NUMBER_BYTES], budget[MDNN_NUMBER_BYTES], whole[MDNN_NUMBER_BYTES];
    if (tails->operations == 0)
        return;
    device->said_tail = true;
    mdnn_format_size_rounded(tail->bytes, host, sizeof host);
    mdnn_format_size_rounded(device->budget_bytes, budget, sizeof budget);
    mdnn_format_size_rounded(whole_bytes, whole, sizeof whole);
    if (tail->named_bytes > device->budget_bytes)
        MDNN_LOG(MDNN_LOG_WARN, "memory",
                 "%s names more than the budget of %s holds, so it uses %s in host memory, which "
                 "is slower; a budget of %s would hold all ([memory] tail = no: refuse it)",
                 name, budget, host, whole);
    else if (whole_bytes > device->budget_bytes)
        MDNN_LOG(
            MDNN_LOG_WARN, "memory",
            "the budget of %s has no room for what %s names beside memory that does not leave, "
            "so it uses %s in host memory, which is slower; a budget of %s would hold all "
            "([memory] tail = no: refuse it)",
            budget, name, host, whole);
    else
        MDNN_LOG(MDNN_LOG_WARN, "memory",
                 "%s uses %s in host memory, which is slower: nothing more could leave, or the "
                 "device has less than the budget of %s ([memory] tail = no: refuse it)",
                 name, host, budget);
}

CUresult mdnn_virtual_result(mdnn_virtual_device_t *device, mdnn_status_t status, uint64_t bytes)
{
    switch (status) {
    case MDNN_STATUS_OK:
        return CUDA_SUCCESS;
    case MDNN_STATUS_NOT_FOUND:
        return CUDA_ERROR_INVALID_VALUE;
    case MDNN_STATUS_OUT_OF_DEVICE_MEMORY:
    case MDNN_STATUS_OVERFLOW:
        if (device->memory)
            say_refused(device, bytes, status == MDNN_STATUS_OVERFLOW ? bytes : 0);
        return CUDA_ERROR_OUT_OF_MEMORY;
    case MDNN_STATUS_DEVICE: {
        const CUresult error = mdnn_failure_take();
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory", "CUDA error %d under virtual memory", (int)error);
        return mdnn_failure_is_final(error) ? error : CUDA_ERROR_OUT_OF_MEMORY;
    }
    case MDNN_STATUS_STUCK:
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "refused: memory that should leave is in use, and the device has completed "
                      "nothing for %llu s ([memory] patience)",
                      (unsigned long long)mdnn_process_options()->memory_patience);
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory", "%s", mdnn_status_string(status));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}
