#include "config/devices.h"
#include "config/lock.h"
#include "config/extremes.h"
#include "shim/vmem/virtual_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "config/host_memory.h"
#include "config/log.h"
#include "config/memory_statistics.h"
#include "config/numbers.h"
#include "config/sizes.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_untracked.h"

enum { PUBLISH_OPERATIONS = 1024 };
/* One chunk more is little beside so many. */
enum { ENDED_CHUNKS = 32 };
static const uint64_t mebibyte = (uint64_t)1 << 20;

static _Atomic(mdnn_virtual_device_t *) devices[MDNN_DEVICES]; /* filled from the front */
/* In the place of one that was reset, until another takes it. */
static mdnn_virtual_device_t nothing = {.lock = MDNN_LOCK_INIT(DEVICE), .ordinal = -1};
static mdnn_virtual_device_t *withdrawn;              /* others may have seen them, so they stay */
static _Atomic uint64_t lowest = UINT64_MAX, highest; /* all addresses lie in there */
static _Atomic bool tried[MDNN_DEVICES], failed[MDNN_DEVICES]; /* by ordinal */

/* Whether this thread makes a device. */
static _Thread_local bool makes __attribute__((tls_model("initial-exec")));
static mdnn_lock_t making = MDNN_LOCK_INIT(MAKING); /* of all below, and of devices */
static _Atomic(mdnn_timelines_t *) timelines;
static _Atomic(mdnn_captures_t *) captures;
static mdnn_trace_t *trace;
static mdnn_host_account_t host; /* of all devices */

/* Somebody asked for a budget, but nobody can say which: none is kept then. */
static bool is_unread(const mdnn_options_t *options)
{
    return options->memory_strict && options->unread_budget[0] != '\0';
}

bool mdnn_virtual_on(void)
{
    const mdnn_process_state_t state = mdnn_process_state();
    const mdnn_options_t *const options = mdnn_process_options();
    return (state == MDNN_PROCESS_ACTIVE || state == MDNN_PROCESS_EXITING) &&
           (options->memory_budget != UINT64_MAX || is_unread(options));
}

/* ---- entering ---- */

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
    mdnn_lock(&device->lock);
    enter_context(device, &entry);
    return entry;
}

bool mdnn_virtual_try_enter(mdnn_virtual_device_t *device, mdnn_virtual_entry_t *entry)
{
    if (!mdnn_trylock(&device->lock))
        return false;
    mdnn_cancel_hold();
    *entry = (mdnn_virtual_entry_t){0};
    mdnn_capture_begin_own();
    mdnn_failure_forget();
    enter_context(device, entry);
    return true;
}

void mdnn_virtual_leave(mdnn_virtual_device_t *device, mdnn_virtual_entry_t entry)
{
    mdnn_context_leave(mdnn_real_driver(), entry.change);
    if (device->waiting > 0)
        mdnn_condition_broadcast(&device->changed);
    mdnn_unlock(&device->lock);
    mdnn_capture_end_own();
    mdnn_cancel_allow();
}

/* ---- waits within ---- */

/* By index in `devices` and beyond: of the ordinal. initial-exec: see shim/real/process.c. */
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

static uint32_t opened_here(void *context)
{
    return mdnn_virtual_opened(context);
}

/* ---- devices ---- */

mdnn_virtual_device_t *mdnn_virtual_device(size_t index)
{
    return index < MDNN_DEVICES ? atomic_load_explicit(&devices[index], memory_order_acquire)
                                : NULL;
}

bool mdnn_virtual_owns(uint64_t address)
{
    return address >= atomic_load_explicit(&lowest, memory_order_relaxed) &&
           address < atomic_load_explicit(&highest, memory_order_relaxed) &&
           mdnn_virtual_device_of(address) != NULL;
}

mdnn_virtual_device_t *mdnn_virtual_device_of(uint64_t address)
{
    mdnn_virtual_device_t *device;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++)
        if (address - device->start < device->bytes)
            return device;
    return NULL;
}

/* As the option says, unless host memory cannot be mapped where ranges are. */
static mdnn_safety_t safety_of(const mdnn_virtual_device_t *device)
{
    const mdnn_safety_t wanted = (mdnn_safety_t)mdnn_process_options()->memory_safety;
    return wanted == MDNN_SAFETY_HOST && !device->serves_all ? MDNN_SAFETY_FAST : wanted;
}

static void fill_numbers(mdnn_virtual_device_t *device, mdnn_memory_statistics_t *numbers)
{
    const mdnn_memory_report_t report = mdnn_memory_report(device->memory);
    const mdnn_follower_report_t follower = mdnn_memory_follower_report(device->memory);
    static const char *const safeties[] = {"fast", "host", "verify"};
    const char *const policy =
        follower.period_operations ? mdnn_policy_name(follower.policy) : NULL;
    *numbers = (mdnn_memory_statistics_t){
        .budget_bytes = report.budget_bytes,
        .resident_bytes = report.resident_bytes,
        .peak_resident_bytes = report.peak_resident_bytes,
        .average_resident_bytes = report.average_resident_bytes,
        .other_bytes = report.other_bytes,
        .peak_other_bytes = report.peak_other_bytes,
        .live_bytes = report.live_bytes,
        .peak_live_bytes = report.peak_live_bytes,
        .pinned_live_bytes = report.pinned_live_bytes,
        .largest_operation_bytes = report.largest_operation_bytes,
        .smallest_budget_bytes = mdnn_max(report.smallest_budget_bytes, report.wanting_bytes),
        .refused_budget_bytes = report.refused_budget_bytes,
        .floor_bytes = follower.floor_bytes,
        .host_bytes = mdnn_pinned_pool_bytes(mdnn_device_memory_slots(device->device)),
        .out_bytes = report.out_bytes,
        .in_bytes = report.in_bytes,
        .saved_bytes = report.saved_bytes,
        .operations = report.operations,
        .planned_leaves = report.planned_leaves,
        .planned_returns = report.planned_returns,
        .demand_leaves = report.demand_leaves,
        .demand_returns = report.demand_returns,
        .called_off = report.called_off,
        .host_waits = report.host_waits,
        .host_wait_ms = report.host_wait_us / 1e3,
        .refused = report.refused,
        .refused_optional = report.refused_optional,
        .created_chunks = report.created,
        .mapped_chunks = report.mapped,
        .unmapped_chunks = report.unmapped,
        .period_operations = follower.period_operations,
        .plan_short_bytes = follower.short_bytes,
        .period_out_bytes = follower.out_bytes,
        .period_in_bytes = follower.in_bytes,
        .compute_ms = follower.compute_us / 1e3,
        .link_bound_ms = follower.link_bound_us / 1e3,
        .predicted_ms = follower.predicted_us / 1e3,
        .round_ms = report.iteration_us / 1e3,
        .unnamed_accesses = report.unnamed_accesses};
    strncpy(numbers->policy, policy ? policy : "", sizeof numbers->policy - 1);
    strncpy(numbers->safety, safeties[safety_of(device)], sizeof numbers->safety - 1);
    if (report.unnamed_accesses > 0)
        snprintf(numbers->first_unnamed, sizeof numbers->first_unnamed, "%s (key %016" PRIx64 ")",
                 report.unnamed_name ? report.unnamed_name : "an operation", report.unnamed_key);
}

/* For the exit handler: a thread that was stopped may hold the lock. */
static bool numbers_of(int ordinal, mdnn_memory_statistics_t *numbers)
{
    mdnn_virtual_device_t *device;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++) {
        if (device->ordinal != ordinal || !mdnn_trylock(&device->lock))
            continue;
        const bool there = device->memory != NULL;
        if (there)
            fill_numbers(device, numbers);
        mdnn_unlock(&device->lock);
        return there;
    }
    return false;
}

void mdnn_virtual_count(mdnn_virtual_device_t *device)
{
    mdnn_memory_statistics_t numbers;
    /* In verify the next operation may be the last: an unnamed access can end the process. */
    const bool proving = mdnn_process_options()->memory_safety == MDNN_SAFETY_VERIFY;
    if ((++device->ended % PUBLISH_OPERATIONS != 0 && !proving) || !device->memory)
        return;
    fill_numbers(device, &numbers);
    mdnn_memory_statistics_publish(device->ordinal, &numbers);
}

static void at_exit(void)
{
    if (mdnn_process_is_child())
        return; /* the threads that it would wait for are its parent's */
    mdnn_pinned_pool_stop_all();
    mdnn_trace_finish(trace);
}

/* How many processes of a job are on this machine, as its launcher says. */
static uint64_t local_processes(void)
{
    static const char *const variables[] = {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE",
                                            "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"};
    enum { UNKNOWN = 8, MOST = 1024 };
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *const text = secure_getenv(variables[i]);
        const unsigned long count = text ? strtoul(text, NULL, 10) : 0;
        if (count >= 1 && count <= MOST)
            return count;
    }
    return UNKNOWN;
}

static void limits_of_host(mdnn_node_limits_t *limits)
{
    const uint64_t option = mdnn_process_options()->memory_host_limit;
    if (option != UINT64_MAX) {
        *limits = (mdnn_node_limits_t){.count = 1, .limits = {{0, option}}};
        return;
    }
    mdnn_host_memory_limits("", limits);
    for (size_t i = 0; i < limits->count; i++)
        limits->limits[i].bytes /= 2;
}

/* Where processes cannot add up, each takes the share of one among those that the job has. */
static void open_account(void)
{
    const char *const folder = mdnn_process_options()->memory_registry;
    mdnn_node_limits_t limits;
    mdnn_node_registry_t *registry = NULL;
    limits_of_host(&limits);
    host.limit_bytes = UINT64_MAX;
    for (size_t i = 0; i < limits.count; i++)
        if (limits.limits[i].bytes < host.limit_bytes)
            host.limit_bytes = limits.limits[i].bytes;
    if (*folder == '\0')
        return;
    const mdnn_status_t status = mdnn_node_registry_open(folder, &limits, &registry);
    host.registry = registry;
    if (status == MDNN_STATUS_OK)
        return;
    const uint64_t processes = local_processes();
    host.limit_bytes /= processes;
    MDNN_LOG(
        MDNN_LOG_WARN, "memory",
        "processes cannot add up their pinned memory in %s (%s): this one takes at most 1/%llu "
        "of [memory] host_limit",
        folder,
        status == MDNN_STATUS_UNSUPPORTED ? "what is there is somebody else's"
                                          : mdnn_status_string(status),
        (unsigned long long)processes);
}

/* `making` is locked. Once a process. */
static bool make_common(const mdnn_driver_t *driver)
{
    if (!atomic_load(&timelines)) {
        mdnn_timelines_t *const made = mdnn_timelines_create(driver);
        mdnn_captures_t *const holders = mdnn_captures_create();
        if (!made || !holders) {
            mdnn_timelines_destroy(made);
            mdnn_captures_destroy(holders);
            return false;
        }
        open_account();
        trace = mdnn_trace_open(mdnn_process_options()->memory_trace, MDNN_TRACE_EVENTS);
        mdnn_memory_statistics_register(numbers_of);
        (void)atexit(at_exit);
        atomic_store_explicit(&captures, holders, memory_order_release);
        atomic_store_explicit(&timelines, made, memory_order_release);
    }
    return true;
}

static bool has_common(void)
{
    if (atomic_load_explicit(&timelines, memory_order_acquire))
        return true;
    const mdnn_driver_t *const driver = mdnn_virtual_on() ? mdnn_real_driver() : NULL;
    if (!driver || !driver->has_memory)
        return false;
    mdnn_lock(&making);
    const bool made = make_common(driver);
    mdnn_unlock(&making);
    return made;
}

mdnn_timelines_t *mdnn_virtual_timelines(void)
{
    return has_common() ? atomic_load(&timelines) : NULL;
}

mdnn_captures_t *mdnn_virtual_captures(void)
{
    return has_common() ? atomic_load(&captures) : NULL;
}

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
    return link;
}

static mdnn_status_t make_memory(mdnn_virtual_device_t *device, uint64_t chunk_bytes)
{
    const mdnn_options_t *const options = mdnn_process_options();
    const mdnn_memory_device_t functions = mdnn_device_memory_functions();
    const mdnn_safety_t safety = safety_of(device);
    const mdnn_memory_config_t config = {
        .ranges = {.start = device->start,
                   .bytes = device->bytes,
                   .chunk_bytes = chunk_bytes,
                   /* a slab stays mapped: nothing in it can be found out */
                   .small_bytes = safety == MDNN_SAFETY_VERIFY ? 0 : chunk_bytes / 2,
                   .ended_chunks = ENDED_CHUNKS},
        .budget_bytes = device->budget_bytes,
        .min_bytes = options->memory_min_size,
        .safety = safety,
        .patience_s = (double)options->memory_patience,
        .follower = {.policy = device->serves_all
                                   ? MDNN_POLICY_NONE /* nothing moves ahead of time */
                                   : (mdnn_policy_t)options->memory_policy,
                     .variants = MDNN_VARIANTS_RECORDED,
                     .budget_bytes = device->budget_bytes,
                     .chunk_bytes = chunk_bytes,
                     .host_limit_bytes = host.limit_bytes,
                     .link = link_of(device),
                     .background = !mdnn_real_driver()->is_simulated}};
    return mdnn_memory_create(&config, &functions, device->device, &device->memory);
}

static mdnn_status_t fill_device(mdnn_virtual_device_t *device)
{
    const mdnn_options_t *const options = mdnn_process_options();
    const mdnn_driver_t *const driver = mdnn_real_driver();
    size_t total = 0;
    device->trouble[0] = '\0';
    if (!mdnn_budget_can_be_kept(options, device->trouble, sizeof device->trouble))
        return MDNN_STATUS_INVALID_ARGUMENT;
    MDNN_TRY(mdnn_failure_note(driver->cuDeviceTotalMem(&total, device->ordinal)));
    device->budget_bytes = options->memory_budget < total ? options->memory_budget : total;
    const uint64_t chunk_bytes = mdnn_chunk_bytes(device->budget_bytes, options->memory_chunk_size);
    const mdnn_device_memory_config_t config = {
        .driver = driver,
        .timelines = atomic_load(&timelines),
        .device = device->ordinal,
        .context = device->context,
        .budget_bytes = device->budget_bytes,
        .chunk_bytes = chunk_bytes,
        .host = &host,
        .covers = options->memory_safety == MDNN_SAFETY_HOST,
        .trace = trace,
        .caller = {device, let_go, take_back, wait_for_change, opened_here}};
    snprintf(device->trouble, sizeof device->trouble,
             "addresses or streams for it are not to be had; too little address space (ulimit -v) "
             "is one reason");
    MDNN_TRY(mdnn_device_memory_create(&config, &device->device));
    device->serves_all = mdnn_device_memory_covers(device->device);
    mdnn_device_memory_addresses(device->device, &device->start, &device->bytes);
    device->trouble[0] = '\0';
    const mdnn_status_t status = make_memory(device, chunk_bytes);
    if (status != MDNN_STATUS_OK)
        mdnn_device_memory_destroy(device->device);
    return status;
}

static void publish(mdnn_virtual_device_t *device)
{
    char name[128] = "";
    size_t index = 0;
    (void)mdnn_real_driver()->cuDeviceGetName(name, (int)sizeof name - 1, device->ordinal);
    mdnn_trace_device(trace, device->ordinal, name, device->budget_bytes);
    for (const mdnn_virtual_device_t *at; (at = atomic_load(&devices[index])) && at != &nothing;)
        index++; /* there are as many as ordinals */
    if (device->start < atomic_load(&lowest))
        atomic_store(&lowest, device->start);
    if (device->start + device->bytes > atomic_load(&highest))
        atomic_store(&highest, device->start + device->bytes);
    atomic_store_explicit(&devices[index], device, memory_order_release);
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

/* What becomes of allocations there, in one line. */
static void say_without(int ordinal, const char *why)
{
    if (mdnn_process_options()->memory_strict)
        MDNN_LOG(MDNN_LOG_ERROR, "memory",
                 "device %d: the budget cannot be kept, so nothing is allocated: %s ([memory] "
                 "strict = no: run without a limit)",
                 ordinal, why);
    else
        MDNN_LOG(MDNN_LOG_ERROR, "memory", "device %d goes without a budget: %s", ordinal, why);
}

static void say_failed(const mdnn_virtual_device_t *device, mdnn_status_t status)
{
    const CUresult error = mdnn_failure_take();
    const char *const what = device->trouble[0] ? device->trouble : mdnn_status_string(status);
    char why[MDNN_TROUBLE_BYTES + 32];
    snprintf(why, sizeof why, error == CUDA_SUCCESS ? "%s" : "%s (CUDA error %d)", what,
             (int)error);
    say_without((int)device->ordinal, why);
}

/* Without what all devices share. */
static void say_nowhere(void)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (!atomic_flag_test_and_set(&said))
        say_without(0, driver && driver->has_memory
                           ? mdnn_status_string(MDNN_STATUS_OUT_OF_MEMORY)
                           : "the driver lacks functions for virtual memory, which CUDA 12 has");
}

/* `known`: which device it is; else the driver says why nothing works. */
static CUresult without(bool known, CUdevice ordinal)
{
    const CUresult refused =
        mdnn_process_options()->memory_strict ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_NOT_SUPPORTED;
    if (!has_common()) {
        say_nowhere();
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
    const bool known =
        context && has_common() && mdnn_real_driver()->cuCtxGetDevice(&ordinal) == CUDA_SUCCESS;
    return without(known && ordinal >= 0, ordinal);
}

/* `making` is locked; the device was not tried yet. It is tried once. */
static void make_device(CUdevice ordinal)
{
    mdnn_virtual_device_t *const device = calloc(1, sizeof *device);
    if (!device) {
        say_without((int)ordinal, mdnn_status_string(MDNN_STATUS_OUT_OF_MEMORY));
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
    say_failed(device, status);
    atomic_store(&failed[ordinal], true);
    free(device);
}

static mdnn_virtual_device_t *find_numbered(CUdevice ordinal)
{
    mdnn_virtual_device_t *device;
    size_t i = 0;
    while ((device = mdnn_virtual_device(i)) && device->ordinal != ordinal)
        i++;
    return device;
}

mdnn_virtual_device_t *mdnn_virtual_device_numbered(CUdevice ordinal)
{
    if (ordinal < 0 || ordinal >= MDNN_DEVICES || !has_common())
        return NULL;
    mdnn_virtual_device_t *const device = find_numbered(ordinal);
    if (device || atomic_load(&tried[ordinal]) || makes)
        return device;
    mdnn_lock(&making);
    makes = true;
    if (!atomic_load(&tried[ordinal]))
        make_device(ordinal);
    atomic_store(&tried[ordinal], true); /* not before it is there: who comes now has to wait */
    makes = false;
    mdnn_unlock(&making);
    return find_numbered(ordinal);
}

/* The primary contexts are known; of others the driver knows the device. */
mdnn_virtual_device_t *mdnn_virtual_current_in(CUcontext *context)
{
    CUdevice ordinal;
    mdnn_virtual_device_t *device;
    *context = NULL;
    if (!has_common() || mdnn_real_driver()->cuCtxGetCurrent(context) != CUDA_SUCCESS || !*context)
        return NULL;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++)
        if (device->context == *context)
            return device;
    return mdnn_real_driver()->cuCtxGetDevice(&ordinal) == CUDA_SUCCESS
               ? mdnn_virtual_device_numbered(ordinal)
               : NULL;
}

/* Entered. Operations of other threads that are between begin and end, for as long as a call takes:
 * one that lasts may wait for what this thread will do. Those that wait in a call of ours leave it. */
static void await_ends(mdnn_virtual_device_t *device)
{
    const struct timespec limit = after(1);
    while (device->inside > mdnn_virtual_opened(device) &&
           mdnn_condition_wait_until(&device->changed, &device->lock, &limit))
        continue;
    while (device->waiting > 0)
        mdnn_condition_wait(&device->changed, &device->lock);
}

/* From now on nobody begins anything there. What still runs ends first: it may use the memory. */
static void empty(mdnn_virtual_device_t *device)
{
    mdnn_memory_statistics_t numbers;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    mdnn_memory_t *const memory = device->memory;
    fill_numbers(device, &numbers);
    mdnn_memory_statistics_publish(device->ordinal, &numbers);
    device->memory = NULL;
    mdnn_memory_close(memory);
    mdnn_condition_broadcast(&device->changed);
    await_ends(device);
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
    mdnn_virtual_device_t *device;
    size_t index = 0;
    mdnn_lock(&making);
    while ((device = mdnn_virtual_device(index)) && device->ordinal != ordinal)
        index++;
    if (device) {
        atomic_store(&devices[index], &nothing);
        device->next_withdrawn = withdrawn;
        withdrawn = device;
    }
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

mdnn_virtual_device_t *mdnn_virtual_current(void)
{
    CUcontext context;
    return mdnn_virtual_current_in(&context);
}

/* ---- what the program is told ---- */

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
                      "enqueues may not touch what it does not name");
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

mdnn_status_t mdnn_virtual_pin_entered(mdnn_virtual_device_t *device, uint64_t address,
                                       uint64_t *start)
{
    mdnn_status_t status;
    bool retried = false;
    do
        status = device->memory ? mdnn_memory_pin(device->memory, address, start)
                                : MDNN_STATUS_NOT_FOUND; /* it was just reset */
    while (status == MDNN_STATUS_BUSY && mdnn_virtual_try_again(device, status, &retried));
    return status;
}

static void say_host_is_short(mdnn_virtual_device_t *device, uint64_t bytes)
{
    char refused[MDNN_NUMBER_BYTES], budget[MDNN_NUMBER_BYTES], pinned[MDNN_NUMBER_BYTES];
    char all[MDNN_NUMBER_BYTES];
    const uint64_t own = mdnn_pinned_pool_bytes(mdnn_device_memory_slots(device->device));
    mdnn_format_size_rounded(bytes, refused, sizeof refused);
    mdnn_format_size_rounded(device->budget_bytes, budget, sizeof budget);
    mdnn_format_size_rounded(own, pinned, sizeof pinned);
    mdnn_format_size_rounded(host.registry ? mdnn_node_registry_bytes(host.registry, 0) : own, all,
                             sizeof all);
    MDNN_LOG_ONCE(
        MDNN_LOG_WARN, "memory",
        "%s refused: the budget of %s would do, but what should leave finds no room in %s "
        "of pinned host memory; [memory] host_limit sets how much there may be, shared "
        "by all processes of the user on this machine (%s now)",
        refused, budget, pinned, all);
}

/* Whether a line about what is refused now tells something new: clearly more is needed, or clearly less
 * since the program has done without what was refused before. */
static bool is_news(const mdnn_virtual_device_t *device, uint64_t needed_bytes)
{
    enum { LINES = 8 };
    const uint64_t said = device->said_needed_bytes;
    return said == 0 || (device->said_lines < LINES &&
                         (needed_bytes > said + said / 16 || needed_bytes < said - said / 16));
}

/* What is needed for this, and for what the program has run so far: nobody knows whether it can do
 * without. */
static void say_refused(mdnn_virtual_device_t *device, uint64_t bytes)
{
    const mdnn_memory_report_t report = mdnn_memory_report(device->memory);
    const uint64_t needed_bytes = mdnn_max(report.smallest_budget_bytes, report.wanting_bytes);
    char refused[MDNN_NUMBER_BYTES], budget[MDNN_NUMBER_BYTES], needed[MDNN_NUMBER_BYTES];
    char so_far[MDNN_NUMBER_BYTES];
    if (needed_bytes <= device->budget_bytes && report.host_short > 0) {
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

/* Once: the program takes less, and goes on. */
static void say_optional(mdnn_virtual_device_t *device, uint64_t bytes)
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
            say_refused(device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    case MDNN_STATUS_DEVICE: {
        const CUresult error = mdnn_failure_take();
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory", "CUDA error %d under virtual memory", (int)error);
        return mdnn_failure_is_final(error) ? error : CUDA_ERROR_OUT_OF_MEMORY;
    }
    case MDNN_STATUS_STUCK:
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory",
                      "refused: what should leave is in use, and the device has completed nothing "
                      "for %llu s ([memory] patience)",
                      (unsigned long long)mdnn_process_options()->memory_patience);
        return CUDA_ERROR_OUT_OF_MEMORY;
    default:
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "memory", "%s", mdnn_status_string(status));
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
}

/* ---- allocations ---- */

/* Entered. Host memory for what lives beyond the budget, and some more. */
static void want_slots(mdnn_virtual_device_t *device)
{
    const uint64_t budget = device->budget_bytes;
    const uint64_t live_bytes = mdnn_memory_report(device->memory).live_bytes;
    const uint64_t ahead = budget / 2 < 1024 * mebibyte ? budget / 2 : 1024 * mebibyte;
    if (live_bytes > budget / 2)
        mdnn_pinned_pool_want(mdnn_device_memory_slots(device->device),
                              (live_bytes > budget ? live_bytes - budget : 0) + ahead);
}

mdnn_status_t mdnn_virtual_stream(CUstream stream, bool per_thread, uint64_t *number)
{
    mdnn_timelines_t *const all = atomic_load(&timelines);
    mdnn_failure_forget();
    const mdnn_status_t status = mdnn_timelines_stream(all, stream, per_thread, number);
    return status == MDNN_STATUS_DEVICE ? mdnn_timelines_stream(all, stream, per_thread, number)
                                        : status;
}

/* The number of the stream whose order an allocation follows. During a capture of that stream it is
 * none: the memory may be used at once, and belongs to the capture. */
static mdnn_status_t order_of(CUstream stream, bool per_thread, bool synchronous, uint64_t *number,
                              unsigned long long *capture)
{
    *number = MDNN_NO_STREAM;
    *capture = 0;
    if (synchronous)
        return MDNN_STATUS_OK;
    *capture = mdnn_virtual_capture(stream, per_thread);
    return *capture ? MDNN_STATUS_OK : mdnn_virtual_stream(stream, per_thread, number);
}

/* Where the device is in order and only we failed, the driver's own memory serves. */
static CUresult note_allocation(mdnn_virtual_device_t *device, mdnn_status_t status, uint64_t bytes)
{
    const CUresult result = mdnn_virtual_result(device, status, bytes);
    return status == MDNN_STATUS_DEVICE && !mdnn_failure_is_final(result) ? CUDA_ERROR_NOT_SUPPORTED
                                                                          : result;
}

/* Entered. NOT_FOUND: it was just reset. */
static mdnn_status_t allocate_entered(mdnn_virtual_device_t *device, size_t bytes, uint64_t number,
                                      unsigned long long capture, uint64_t *start)
{
    mdnn_status_t status;
    bool retried = false;
    do
        status = device->memory ? mdnn_memory_allocate(device->memory, bytes, number, start)
                                : MDNN_STATUS_NOT_FOUND;
    while (mdnn_virtual_try_again(device, status, &retried));
    if (!device->memory)
        return MDNN_STATUS_NOT_FOUND;
    if (status == MDNN_STATUS_OK && capture)
        mdnn_virtual_capture_allocates(device, capture, *start);
    if (status == MDNN_STATUS_OK)
        want_slots(device);
    return status;
}

/* Entered. A workspace that could be had, but not together with what its convolution works on. */
static bool is_useless(mdnn_virtual_device_t *device, size_t bytes)
{
    uint64_t sizes[MDNN_WORKSPACE_OPERANDS];
    return device->memory &&
           (mdnn_workspace_is_wanted(bytes, sizes) ||
            mdnn_workspace_was_used(&device->workspaces, bytes, sizes)) &&
           !mdnn_memory_workspace_fits(device->memory, bytes, sizes, MDNN_WORKSPACE_OPERANDS);
}

/* Entered. The next request of this size may be for something else. */
static void note_refused(mdnn_virtual_device_t *device, size_t bytes)
{
    mdnn_workspace_refused(bytes);
    mdnn_workspace_forget(&device->workspaces, bytes);
}

/* On the device; what is not `synchronous` belongs to no context. */
static CUresult allocate_on(mdnn_virtual_device_t *device, CUcontext context, CUdeviceptr *address,
                            size_t bytes, CUstream stream, bool per_thread, bool synchronous,
                            bool quiet)
{
    uint64_t number, start = 0;
    unsigned long long capture;
    if (order_of(stream, per_thread, synchronous, &number, &capture) != MDNN_STATUS_OK) {
        const CUresult error = mdnn_failure_take(); /* of the stream: the real call's, too */
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_OUT_OF_MEMORY;
    }
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const bool useless = !quiet && is_useless(device, bytes);
    const bool optional = quiet || useless || mdnn_workspace_is_size(bytes);
    const mdnn_status_t status = useless ? MDNN_STATUS_OUT_OF_DEVICE_MEMORY
                                         : allocate_entered(device, bytes, number, capture, &start);
    const bool refused = status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && device->memory;
    if (refused)
        mdnn_memory_judge_refusal(device->memory, bytes, optional);
    if (refused && optional && !quiet)
        note_refused(device, bytes);
    const CUresult result = status == MDNN_STATUS_NOT_FOUND ? CUDA_ERROR_NOT_SUPPORTED
                            : refused && optional           ? CUDA_ERROR_OUT_OF_MEMORY
                                                  : note_allocation(device, status, bytes);
    if (refused && optional && !quiet)
        say_optional(device, bytes);
    if (result == CUDA_SUCCESS && synchronous && !quiet && context != device->context)
        mdnn_virtual_bind(context, start);
    mdnn_virtual_leave(device, entry);
    if (result == CUDA_SUCCESS)
        *address = start;
    return result;
}

/* On the current context's device. */
static CUresult allocate(CUdeviceptr *address, size_t bytes, CUstream stream, bool per_thread,
                         bool synchronous, bool quiet)
{
    CUcontext context;
    mdnn_virtual_device_t *const device = bytes > 0 ? mdnn_virtual_current_in(&context) : NULL;
    if (!device)
        return bytes > 0 ? mdnn_virtual_without(context) : CUDA_ERROR_NOT_SUPPORTED;
    return allocate_on(device, context, address, bytes, stream, per_thread, synchronous, quiet);
}

/* The stream's, whatever is current; NULL: the current one. */
static CUcontext context_of(CUstream stream)
{
    CUcontext context = NULL;
    const bool own = stream && stream != CU_STREAM_LEGACY && stream != CU_STREAM_PER_THREAD;
    return own && mdnn_virtual_on() && mdnn_real_driver() &&
                   mdnn_real_driver()->cuStreamGetCtx(stream, &context) == CUDA_SUCCESS
               ? context
               : NULL;
}

CUresult mdnn_virtual_allocate(CUdeviceptr *address, size_t bytes, CUstream stream, bool per_thread,
                               bool synchronous)
{
    CUcontext const context = synchronous ? NULL : context_of(stream);
    if (!context)
        return allocate(address, bytes, stream, per_thread, synchronous, false);
    const mdnn_context_change_t change = mdnn_context_enter(mdnn_real_driver(), context);
    const CUresult result = allocate(address, bytes, stream, per_thread, synchronous, false);
    mdnn_context_leave(mdnn_real_driver(), change);
    return result;
}

CUresult mdnn_virtual_allocate_on(CUdevice ordinal, CUdeviceptr *address, size_t bytes,
                                  CUstream stream, bool per_thread)
{
    mdnn_virtual_device_t *const device = bytes > 0 ? mdnn_virtual_device_numbered(ordinal) : NULL;
    if (device)
        return allocate_on(device, NULL, address, bytes, stream, per_thread, false, false);
    return bytes > 0 ? mdnn_virtual_without_numbered(ordinal) : CUDA_ERROR_NOT_SUPPORTED;
}

/* What has live pins may be in use without being named: by a kernel that reads a texture, say. As
 * the driver does, a free that promises to wait waits for all that the context has to do. */
static void wait_for_unnamed_uses(mdnn_virtual_device_t *device, CUdeviceptr address)
{
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    const bool any = device->memory && mdnn_memory_has_live_pins(device->memory, address);
    mdnn_virtual_leave(device, entry);
    if (!any)
        return;
    mdnn_capture_begin_own();
    (void)mdnn_real_driver()->cuCtxSynchronize();
    mdnn_capture_end_own();
}

/* `ours`: the library's own, which no program's graph has lost with this. */
static CUresult free_memory(CUdeviceptr address, CUstream stream, bool per_thread, bool synchronous,
                            bool ours)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    uint64_t number;
    unsigned long long capture;
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (order_of(stream, per_thread, synchronous, &number, &capture) != MDNN_STATUS_OK) {
        const CUresult error = mdnn_failure_take(); /* of the stream: the real call's, too */
        return error != CUDA_SUCCESS ? error : CUDA_ERROR_OUT_OF_MEMORY;
    }
    mdnn_virtual_unbind(address); /* before another may get it */
    if (synchronous)
        wait_for_unnamed_uses(device, address);
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    CUresult result = CUDA_ERROR_NOT_SUPPORTED; /* it was just reset: the driver says so */
    bool now = true;
    if (device->memory && capture)
        result = mdnn_virtual_capture_frees(device, capture, address, &now);
    if (device->memory && now) {
        if (!capture && !ours)
            mdnn_virtual_holds_freed(device, address);
        if (synchronous) /* where it fails the memory is used again later, that is all */
            (void)mdnn_memory_wait_idle(device->memory, address);
        if (device->memory) /* else another thread has reset it meanwhile */
            result =
                mdnn_virtual_result(device, mdnn_memory_free(device->memory, address, number), 0);
    }
    mdnn_virtual_leave(device, entry);
    return result;
}

CUresult mdnn_virtual_free(CUdeviceptr address, CUstream stream, bool per_thread, bool synchronous)
{
    return free_memory(address, stream, per_thread, synchronous, false);
}

bool mdnn_virtual_find(uint64_t address, uint64_t *start, uint64_t *bytes, int *ordinal)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return false;
    mdnn_lock(&device->lock);
    const bool found = device->memory && mdnn_memory_find(device->memory, address, start, bytes);
    mdnn_unlock(&device->lock);
    *ordinal = device->ordinal;
    return found;
}

/* Locked. What the program has told the driver of it holds for its own address, where it stays. */
static CUdeviceptr sample_of(const mdnn_virtual_device_t *device, CUdeviceptr address)
{
    return mdnn_memory_has_live_pins(device->memory, address)
               ? address
               : mdnn_device_memory_sample(device->device);
}

bool mdnn_virtual_ask(CUdeviceptr address, void (*ask)(void *context, CUdeviceptr address),
                      void *context, uint64_t *number)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    CUdeviceptr sample = 0;
    *number = 0;
    if (!device)
        return false;
    mdnn_lock(&device->lock);
    if (device->memory)
        *number = mdnn_memory_number(device->memory, address);
    if (*number > 0)
        sample = sample_of(device, address);
    if (sample != 0)
        ask(context, sample);
    mdnn_unlock(&device->lock);
    return sample != 0;
}

bool mdnn_virtual_info(size_t *free_bytes, size_t *total_bytes)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_current();
    if (!device)
        return false;
    mdnn_lock(&device->lock);
    const bool there = device->memory != NULL;
    *free_bytes = there ? mdnn_memory_available(device->memory) : 0;
    const mdnn_memory_report_t report =
        there ? mdnn_memory_report(device->memory) : (mdnn_memory_report_t){0};
    const uint64_t live_bytes = report.live_bytes + report.other_bytes;
    mdnn_unlock(&device->lock);
    if (!there)
        return false;
    /* PyTorch asserts that what is free and what it holds together are no more than the total. */
    *total_bytes = *free_bytes + live_bytes > device->budget_bytes ? *free_bytes + live_bytes
                                                                   : device->budget_bytes;
    return true;
}

/* Locked. Operands in one allocation count once. */
static void learn(mdnn_virtual_device_t *device, uint64_t workspace, const uint64_t *operands,
                  size_t count)
{
    uint64_t starts[MDNN_WORKSPACE_OPERANDS], sizes[MDNN_WORKSPACE_OPERANDS] = {0};
    uint64_t start, bytes, workspace_bytes;
    size_t kept = 0;
    if (!mdnn_memory_find(device->memory, workspace, &start, &workspace_bytes))
        return;
    for (size_t i = 0; i < count && kept < MDNN_WORKSPACE_OPERANDS; i++) {
        size_t known = 0;
        if (!mdnn_memory_find(device->memory, operands[i], &start, &bytes))
            continue;
        while (known < kept && starts[known] != start)
            known++;
        if (known < kept)
            continue;
        starts[kept] = start;
        sizes[kept++] = bytes;
    }
    mdnn_workspace_learn(&device->workspaces, workspace_bytes, sizes);
}

bool mdnn_virtual_workspace_fits(uint64_t workspace, const uint64_t *operands, size_t count)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(workspace);
    uint64_t here[MDNN_VIRTUAL_TOGETHER] = {workspace};
    size_t here_count = 1;
    if (!device)
        return true;
    for (size_t i = 0; i < count && here_count < MDNN_VIRTUAL_TOGETHER; i++)
        if (operands[i] - device->start < device->bytes)
            here[here_count++] = operands[i];
    mdnn_lock(&device->lock);
    const bool fits = !device->memory || mdnn_memory_fit_together(device->memory, here, here_count);
    if (device->memory && fits)
        learn(device, workspace, here + 1, here_count - 1);
    mdnn_unlock(&device->lock);
    return fits;
}

uint64_t mdnn_virtual_room_beside(const uint64_t *sizes, size_t count)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_on() ? mdnn_virtual_current() : NULL;
    uint64_t bytes = UINT64_MAX;
    if (!device)
        return bytes;
    mdnn_lock(&device->lock);
    if (device->memory)
        bytes = mdnn_memory_room_beside(device->memory, sizes, count);
    mdnn_unlock(&device->lock);
    return bytes;
}

/* `quiet`: for ourselves. */
static CUresult pin(CUdeviceptr address, bool quiet)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    uint64_t start, bytes = 0;
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        (void)mdnn_memory_find(device->memory, address, &start, &bytes);
    const mdnn_status_t status = mdnn_virtual_pin_entered(device, address, &start);
    const bool refused = status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && device->memory;
    if (refused)
        mdnn_memory_judge_refusal(device->memory, bytes, quiet);
    const CUresult result =
        refused && quiet ? CUDA_ERROR_OUT_OF_MEMORY : mdnn_virtual_result(device, status, bytes);
    mdnn_virtual_leave(device, entry);
    return result;
}

CUresult mdnn_virtual_pin(CUdeviceptr address)
{
    return pin(address, false);
}

CUresult mdnn_virtual_pin_live(CUdeviceptr address, mdnn_live_pin_t *pin)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    uint64_t start, bytes = 0;
    mdnn_status_t status;
    bool retried = false;
    if (!device)
        return CUDA_ERROR_NOT_SUPPORTED;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        (void)mdnn_memory_find(device->memory, address, &start, &bytes);
    do
        status = device->memory ? mdnn_memory_pin_live(device->memory, address, pin)
                                : MDNN_STATUS_NOT_FOUND; /* it was just reset */
    while (status == MDNN_STATUS_BUSY && mdnn_virtual_try_again(device, status, &retried));
    if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY && device->memory)
        mdnn_memory_judge_refusal(device->memory, bytes, false);
    const CUresult result = mdnn_virtual_result(device, status, bytes);
    mdnn_virtual_leave(device, entry);
    return result;
}

void mdnn_virtual_unpin_live(mdnn_live_pin_t pin)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(pin.address);
    if (!device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        mdnn_memory_unpin_live(device->memory, pin);
    mdnn_virtual_leave(device, entry);
}

void mdnn_virtual_fix(const mdnn_virtual_operation_t *operation)
{
    mdnn_timelines_t *const all = atomic_load_explicit(&timelines, memory_order_acquire);
    if (!all)
        return;
    mdnn_capture_begin_own();
    mdnn_failure_forget();
    mdnn_timelines_fix_stream(all, operation->stream, operation->per_thread);
    mdnn_failure_forget();
    mdnn_capture_end_own();
}

unsigned long long mdnn_virtual_stream_destroyed(CUstream stream)
{
    mdnn_timelines_t *const all = atomic_load_explicit(&timelines, memory_order_acquire);
    if (!all)
        return 0;
    mdnn_capture_begin_own();
    mdnn_timelines_stream_ends(all, stream);
    mdnn_capture_end_own();
    return mdnn_virtual_capture_in(stream);
}

/* ---- our own ---- */

CUresult mdnn_device_allocate(CUdeviceptr *address, size_t bytes)
{
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (mdnn_virtual_on())
        result = allocate(address, bytes, NULL, false, true, true);
    if (result == CUDA_SUCCESS && pin(*address, true) != CUDA_SUCCESS) {
        (void)mdnn_virtual_free(*address, NULL, false, true);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (result != CUDA_ERROR_NOT_SUPPORTED)
        return result;
    /* Where there is a budget it was trouble of our own: what it could not count is not taken. */
    return mdnn_virtual_on() && mdnn_virtual_current()
               ? CUDA_ERROR_OUT_OF_MEMORY
               : mdnn_real_driver()->cuMemAlloc(address, bytes);
}

CUresult mdnn_device_free(CUdeviceptr address)
{
    mdnn_virtual_device_t *const device = mdnn_virtual_device_of(address);
    if (!device)
        return mdnn_real_driver()->cuMemFree(address);
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        mdnn_memory_unpin(device->memory, address);
    mdnn_virtual_leave(device, entry);
    return free_memory(address, NULL, false, true, true);
}

CUresult mdnn_device_info(size_t *free_bytes, size_t *total_bytes)
{
    return mdnn_virtual_info(free_bytes, total_bytes)
               ? CUDA_SUCCESS
               : mdnn_real_driver()->cuMemGetInfo(free_bytes, total_bytes);
}
