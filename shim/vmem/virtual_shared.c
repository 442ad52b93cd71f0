#include "shim/vmem/virtual_shared.h"

#include <errno.h>
#include <stdatomic.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/node/host_memory.h"
#include "config/lock.h"
#include "config/log.h"
#include "config/paths.h"
#include "config/memory_statistics.h"
#include "shim/device/device_remaps.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/virtual_statistics.h"

static mdnn_lock_t making = MDNN_LOCK_INIT(MAKING); /* of all below, while it is made */
static _Atomic(mdnn_timelines_t *) timelines;
static _Atomic(mdnn_captures_t *) captures;
static mdnn_trace_t *trace;
static mdnn_host_account_t host;
static const char *limit_origin = "no limit";

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

static void at_exit(void)
{
    if (mdnn_process_is_child())
        return; /* the threads that it would wait for are its parent's */
    mdnn_pinned_pool_stop_all();
    mdnn_device_remaps_stop_all();
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

static const char *origin_of(uint64_t scope)
{
    return mdnn_process_options()->memory_host_limit != UINT64_MAX ? "as it is set"
           : scope == 0                                            ? "half of the machine's memory"
                        : "half of what a control group allows";
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
        if (limits.limits[i].bytes < host.limit_bytes) {
            host.limit_bytes = limits.limits[i].bytes;
            limit_origin = origin_of(limits.limits[i].scope);
        }
    if (*folder == '\0')
        return;
    errno = 0;
    const mdnn_status_t status = mdnn_node_registry_open(folder, &limits, &registry);
    const int error = status == MDNN_STATUS_IO ? errno : 0;
    host.registry = registry;
    if (status == MDNN_STATUS_OK)
        return;
    const uint64_t processes = local_processes();
    char file[PATH_MAX];
    snprintf(file, sizeof file, "%s/registry", folder);
    const char *const trouble = status == MDNN_STATUS_IO ? mdnn_folder_trouble(file) : NULL;
    host.limit_bytes /= processes;
    limit_origin = "a share of the limit";
    MDNN_LOG(
        MDNN_LOG_WARN, "memory",
        "processes cannot add up their pinned memory in %s (%s): this one takes at most 1/%llu "
        "of [memory] host_limit",
        folder,
        status == MDNN_STATUS_UNSUPPORTED ? "the file belongs to somebody else"
        : trouble != NULL                 ? trouble
        : error != 0                      ? strerrordesc_np(error)
                                          : mdnn_status_string(status),
        (unsigned long long)processes);
}

/* Locked. Once a process. */
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
        mdnn_memory_statistics_register(mdnn_virtual_statistics_of);
        (void)atexit(at_exit);
        atomic_store_explicit(&captures, holders, memory_order_release);
        atomic_store_explicit(&timelines, made, memory_order_release);
    }
    return true;
}

bool mdnn_virtual_has_shared(void)
{
    if (atomic_load_explicit(&timelines, memory_order_acquire))
        return true;
    const mdnn_driver_t *const driver = mdnn_virtual_on() ? mdnn_real_driver() : NULL;
    CUcontext current;
    if (!driver || !driver->has_memory ||
        driver->cuCtxGetCurrent(&current) == CUDA_ERROR_NOT_INITIALIZED)
        return false; /* a child could not use what is made */
    mdnn_lock(&making);
    const bool made = make_common(driver);
    mdnn_unlock(&making);
    return made;
}

mdnn_timelines_t *mdnn_virtual_timelines(void)
{
    return mdnn_virtual_has_shared() ? atomic_load(&timelines) : NULL;
}

mdnn_captures_t *mdnn_virtual_captures(void)
{
    return mdnn_virtual_has_shared() ? atomic_load(&captures) : NULL;
}

mdnn_timelines_t *mdnn_virtual_known_timelines(void)
{
    return atomic_load_explicit(&timelines, memory_order_acquire);
}

mdnn_trace_t *mdnn_virtual_trace(void)
{
    return trace;
}

mdnn_host_account_t *mdnn_virtual_host(void)
{
    return &host;
}

const char *mdnn_virtual_host_limit_origin(void)
{
    return limit_origin;
}
