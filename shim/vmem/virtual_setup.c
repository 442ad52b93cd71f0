#include "shim/vmem/virtual_setup.h"

#include <string.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "config/devices.h"
#include "config/log.h"
#include "config/memory_statistics.h"
#include "config/numbers.h"
#include "config/sizes.h"
#include "shim/real/kernel_layout.h"
#include "shim/real/kernel_list.h"
#include "shim/real/process.h"
#include "shim/real/start_line.h"
#include "shim/vmem/virtual_bound.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_holds.h"
#include "shim/vmem/virtual_record.h"
#include "shim/vmem/virtual_refusals.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_statistics.h"
#include "shim/vmem/virtual_untracked.h"

/* One chunk more is little beside so many. */
enum { ENDED_CHUNKS = 32 };

static mdnn_lock_t making =
    MDNN_LOCK_INIT(MAKING); /* of the table of devices, and of those below */
static _Atomic bool tried[MDNN_DEVICES], failed[MDNN_DEVICES]; /* by ordinal */
/* Whether this thread makes a device. */
static _Thread_local bool makes __attribute__((tls_model("initial-exec")));

/* ---- what a device has ---- */

/* Measured; where that fails, rates that are common. The latency is what mapping a chunk costs. */
static mdnn_link_t link_of(mdnn_virtual_device_t *device)
{
    mdnn_link_t link = {.out_bytes_per_us = 25e3,
                        .in_bytes_per_us = 25e3,
                        .out_duplex_bytes_per_us = 20e3,
                        .in_duplex_bytes_per_us = 20e3,
                        .latency_us = 100};
    mdnn_device_memory_measure(device->device, &link);
    MDNN_LOG(MDNN_LOG_INFO, "memory", "link: %.1f GB/s out, %.1f in; both at once %.1f, %.1f",
             link.out_bytes_per_us / 1e3, link.in_bytes_per_us / 1e3,
             link.out_duplex_bytes_per_us / 1e3, link.in_duplex_bytes_per_us / 1e3);
    mdnn_device_memory_join(device->device, mdnn_process_options()->memory_link, &link);
    return link;
}

static mdnn_plan_ranks_t ranks_of(void *context, const mdnn_period_t *period)
{
    const mdnn_options_t *const options = mdnn_process_options();
    return mdnn_device_links_ranks(context, options->memory_sharing, period, options->memory_budget,
                                   !mdnn_real_driver()->is_simulated);
}

static mdnn_status_t make_memory(mdnn_virtual_device_t *device, uint64_t total_bytes,
                                 uint64_t chunk_bytes)
{
    const mdnn_options_t *const options = mdnn_process_options();
    const mdnn_memory_device_t functions = mdnn_device_memory_functions();
    const mdnn_safety_t safety = mdnn_virtual_safety(device);
    const mdnn_link_t link = link_of(device);
    mdnn_memory_config_t config = {
        .ranges = {.start = device->start,
                   .bytes = device->bytes,
                   .chunk_bytes = chunk_bytes,
                   /* a slab stays mapped: nothing in it can be found out */
                   .small_bytes = safety == MDNN_SAFETY_VERIFY ? 0 : chunk_bytes / 2,
                   .ended_chunks = ENDED_CHUNKS},
        .budget_bytes = device->budget_bytes,
        .min_bytes = options->memory_min_size,
        .safety = safety,
        .tail = options->memory_tail && device->can_serve_all,
        .patience_s = (double)options->memory_patience,
        .traces = mdnn_virtual_trace() != NULL,
        .follower = {.policy = device->serves_all
                                   ? MDNN_POLICY_NONE /* nothing moves ahead of time */
                                   : (mdnn_policy_t)options->memory_policy,
                     .variants = (mdnn_variants_t)options->memory_variants,
                     .budget_bytes = device->budget_bytes,
                     .chunk_bytes = chunk_bytes,
                     .host_limit_bytes = mdnn_virtual_host()->limit_bytes,
                     .link = link,
                     .background = !mdnn_real_driver()->is_simulated,
                     .ranks = ranks_of,
                     .ranks_context = mdnn_device_memory_links(device->device),
                     .forecast = options->general_stats != MDNN_STATISTICS_OFF}};
    mdnn_virtual_record_device(device->ordinal, total_bytes, device->budget_bytes,
                               &config.follower);
    return mdnn_memory_create(&config, &functions, device->device, &device->memory);
}

static bool has_tails(const mdnn_options_t *options)
{
    return options->memory_tail && options->memory_safety != MDNN_SAFETY_VERIFY;
}

/* Whether something may have to be mapped to its host copy. Layouts of kernels that were asked for before there was a
 * list know nothing of it. */
static bool must_cover(const mdnn_options_t *options)
{
    if (options->memory_safety == MDNN_SAFETY_AUTO || options->memory_safety == MDNN_SAFETY_VERIFY)
        mdnn_kernel_list_open(options->memory_kernels,
                              strcmp(options->origin[MDNN_OPTION_memory_kernels], "default") != 0);
    if (mdnn_kernel_list_any())
        mdnn_kernel_layouts_forget();
    return options->memory_safety == MDNN_SAFETY_HOST || has_tails(options) ||
           (options->memory_safety == MDNN_SAFETY_AUTO && mdnn_kernel_list_any());
}

static mdnn_status_t fill_device(mdnn_virtual_device_t *device)
{
    const mdnn_options_t *const options = mdnn_process_options();
    const mdnn_driver_t *const driver = mdnn_real_driver();
    size_t total = 0;
    device->trouble[0] = '\0';
    MDNN_TRY(mdnn_failure_note(driver->cuDeviceTotalMem(&total, device->ordinal)));
    if (!mdnn_budget_can_be_kept(options, total, device->trouble, sizeof device->trouble))
        return MDNN_STATUS_INVALID_ARGUMENT;
    const uint64_t budget_bytes = mdnn_size_on_device(options->memory_budget, total);
    device->budget_bytes = budget_bytes < total ? budget_bytes : total;
    const uint64_t chunk_bytes = mdnn_chunk_bytes(device->budget_bytes, options->memory_chunk_size);
    const mdnn_device_memory_config_t config = {.driver = driver,
                                                .timelines = mdnn_virtual_timelines(),
                                                .device = device->ordinal,
                                                .context = device->context,
                                                .budget_bytes = device->budget_bytes,
                                                .chunk_bytes = chunk_bytes,
                                                .background = !driver->is_simulated,
                                                .host = mdnn_virtual_host(),
                                                .covers = must_cover(options),
                                                .copies = (mdnn_copies_t)options->memory_copies,
                                                .trace = mdnn_virtual_trace(),
                                                .caller = mdnn_virtual_caller(device)};
    snprintf(device->trouble, sizeof device->trouble,
             "addresses or streams for it are not available, perhaps for lack of address space "
             "(ulimit -v)");
    MDNN_TRY(mdnn_device_memory_create(&config, &device->device));
    device->can_serve_all = mdnn_device_memory_covers(device->device);
    device->serves_all = device->can_serve_all && mdnn_virtual_serves_all();
    mdnn_device_memory_addresses(device->device, &device->start, &device->bytes);
    device->trouble[0] = '\0';
    const mdnn_status_t status = make_memory(device, total, chunk_bytes);
    if (status != MDNN_STATUS_OK)
        mdnn_device_memory_destroy(device->device);
    return status;
}

/* `making` is locked. */
static void publish(mdnn_virtual_device_t *device)
{
    mdnn_memory_statistics_t numbers;
    (void)mdnn_real_driver()->cuDeviceGetName(device->name, (int)sizeof device->name - 1,
                                              device->ordinal);
    mdnn_trace_device(mdnn_virtual_trace(), device->ordinal, device->name, device->budget_bytes);
    mdnn_virtual_fill_statistics(device, &numbers); /* nobody else knows the device yet */
    mdnn_memory_statistics_publish(device->ordinal, &numbers);
    mdnn_virtual_publish(device);
    mdnn_start_line(device->ordinal);
}

static void init_locks(mdnn_virtual_device_t *device)
{
    mdnn_lock_init(&device->lock, MDNN_LOCK_DEVICE);
    mdnn_condition_init(&device->changed);
}

/* In the device's primary context, which is made if there is none: mappings are for a device,
 * whatever contexts it has, but streams need one that nobody destroys. */
static mdnn_status_t fill_in_primary(mdnn_virtual_device_t *device)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    mdnn_failure_forget();
    MDNN_TRY(
        mdnn_failure_note(driver->cuDevicePrimaryCtxRetain(&device->context, device->ordinal)));
    mdnn_capture_begin_own();
    const mdnn_context_change_t change = mdnn_context_enter(driver, device->context);
    const mdnn_status_t status = fill_device(device);
    mdnn_context_leave(driver, change);
    mdnn_capture_end_own();
    if (status != MDNN_STATUS_OK)
        (void)driver->cuDevicePrimaryCtxRelease(device->ordinal);
    return status;
}

/* As elsewhere, a failure of the driver may pass: the program is not to end for it. */
static mdnn_status_t fill_patiently(mdnn_virtual_device_t *device)
{
    const mdnn_status_t status = fill_in_primary(device);
    if (status != MDNN_STATUS_DEVICE)
        return status;
    const CUresult error = mdnn_failure_take();
    if (!mdnn_failure_is_final(error))
        return fill_in_primary(device);
    (void)mdnn_failure_note(error); /* to be told */
    return status;
}

/* ---- devices that go without ---- */

/* `known`: which device it is; else the driver says why nothing works. */
static CUresult without(bool known, CUdevice ordinal)
{
    const CUresult refused =
        mdnn_process_options()->memory_strict ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;
    if (!mdnn_virtual_has_shared()) {
        mdnn_virtual_say_nowhere();
        return refused;
    }
    /* While it is being reset, what is allocated there ends with it. */
    return known && (ordinal >= MDNN_DEVICES || atomic_load(&failed[ordinal]))
               ? refused
               : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult mdnn_virtual_without_numbered(CUdevice ordinal)
{
    return mdnn_virtual_on() ? without(ordinal >= 0, ordinal) : CUDA_ERROR_NOT_SUPPORTED;
}

CUresult mdnn_virtual_without(CUcontext context)
{
    CUdevice ordinal = -1;
    if (!mdnn_virtual_on())
        return CUDA_ERROR_NOT_SUPPORTED;
    const bool known = context && mdnn_virtual_has_shared() &&
                       mdnn_real_driver()->cuCtxGetDevice(&ordinal) == CUDA_SUCCESS;
    return without(known && ordinal >= 0, ordinal);
}

/* ---- the first use ---- */

/* `making` is locked; the device was not tried yet. It is tried once. */
static void make_device(CUdevice ordinal)
{
    mdnn_virtual_device_t *const device = calloc(1, sizeof *device);
    if (!device) {
        mdnn_virtual_say_without((int)ordinal, mdnn_status_string(MDNN_STATUS_OUT_OF_MEMORY));
        atomic_store(&failed[ordinal], true);
        return;
    }
    device->ordinal = ordinal;
    init_locks(device);
    const mdnn_status_t status = fill_patiently(device);
    if (status == MDNN_STATUS_OK) {
        publish(device);
        return;
    }
    mdnn_virtual_say_failed(device, status);
    atomic_store(&failed[ordinal], true);
    free(device);
}

bool mdnn_virtual_is_device(CUdevice ordinal)
{
    size_t bytes;
    return mdnn_real_driver()->cuDeviceTotalMem(&bytes, ordinal) != CUDA_ERROR_INVALID_DEVICE;
}

mdnn_virtual_device_t *mdnn_virtual_device_numbered(CUdevice ordinal)
{
    if (ordinal < 0 || ordinal >= MDNN_DEVICES || !mdnn_virtual_has_shared())
        return NULL;
    mdnn_virtual_device_t *const device = mdnn_virtual_find_numbered(ordinal);
    if (device || atomic_load(&tried[ordinal]) || makes || !mdnn_virtual_is_device(ordinal))
        return device;
    mdnn_lock(&making);
    makes = true;
    if (!atomic_load(&tried[ordinal]))
        make_device(ordinal);
    atomic_store(&tried[ordinal], true); /* not before it is there: who comes now has to wait */
    makes = false;
    mdnn_unlock(&making);
    return mdnn_virtual_find_numbered(ordinal);
}

/* The primary contexts are known; of others the driver knows the device. */
mdnn_virtual_device_t *mdnn_virtual_current_in(CUcontext *context)
{
    CUdevice ordinal;
    mdnn_virtual_device_t *device;
    *context = NULL;
    if (!mdnn_virtual_has_shared() ||
        mdnn_real_driver()->cuCtxGetCurrent(context) != CUDA_SUCCESS || !*context)
        return NULL;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++)
        if (device->context == *context)
            return device;
    return mdnn_real_driver()->cuCtxGetDevice(&ordinal) == CUDA_SUCCESS
               ? mdnn_virtual_device_numbered(ordinal)
               : NULL;
}

mdnn_virtual_device_t *mdnn_virtual_current(void)
{
    CUcontext context;
    return mdnn_virtual_current_in(&context);
}

/* ---- a reset ---- */

/* From now on nobody begins anything there. What still runs ends first: it may use the memory. */
static void empty(mdnn_virtual_device_t *device)
{
    mdnn_memory_statistics_t numbers;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    mdnn_memory_t *const memory = device->memory;
    mdnn_virtual_fill_statistics(device, &numbers);
    mdnn_memory_statistics_publish(device->ordinal, &numbers);
    device->memory = NULL;
    mdnn_memory_close(memory);
    mdnn_condition_broadcast(&device->changed);
    mdnn_virtual_await_ends(device);
    mdnn_unlock(&device->lock);
    mdnn_lock_may_wait();
    (void)mdnn_real_driver()->cuCtxSynchronize();
    mdnn_lock(&device->lock);
    mdnn_memory_destroy(memory);
    mdnn_device_memory_destroy(device->device);
    device->device = NULL;
    mdnn_virtual_leave(device, entry);
}

/* NULL: it is none of those. Nobody finds it any more. */
static mdnn_virtual_device_t *take_out(CUdevice ordinal)
{
    mdnn_lock(&making);
    mdnn_virtual_device_t *const device = mdnn_virtual_take_out(ordinal);
    atomic_store(&tried[ordinal], true); /* what was set up now would not outlive the reset */
    mdnn_unlock(&making);
    return device;
}

bool mdnn_virtual_withdraw(CUdevice ordinal)
{
    mdnn_virtual_device_t *const device = take_out(ordinal);
    if (device) {
        empty(device);
        mdnn_virtual_forget_holds(device->start, device->bytes);
        mdnn_virtual_unbind_all(device->start, device->bytes);
    }
    return device != NULL;
}

void mdnn_virtual_device_ended(CUdevice ordinal)
{
    atomic_store(&failed[ordinal], false);
    atomic_store(&tried[ordinal], false);
}
