#include "shim/graph/graph_record.h"

#include <stdlib.h>
#include <string.h>

#include "config/devices.h"
#include "config/fault.h"
#include "config/log.h"
#include "config/statistics.h"
#include "shim/convolution/wd_settings.h"
#include "shim/graph/graph_follow.h"
#include "shim/graph/json.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/convolution/plan_engines.h"
#include "shim/vmem/workspace_sizes.h"

enum { OVERCOMMIT_SHARE = 16 }; /* of the device's memory */
enum { USUAL_JSON_BYTES = 64 * 1024 };
/* This many timed runs of a plan show its time; a few more runs are needed if some are not
 * timed. */
enum { TIMED_RUNS = 3, COUNTED_RUNS = 10 };

static void count_kind(mdnn_graph_kind_t kind)
{
    static const mdnn_counter_t counters[MDNN_GRAPH_KIND_COUNT] = {
        [MDNN_GRAPH_RECOGNISED] = MDNN_COUNTER_graph_plans,
        [MDNN_GRAPH_NO_CONVOLUTION] = MDNN_COUNTER_graph_plans_other,
        [MDNN_GRAPH_MANY_OPERATIONS] = MDNN_COUNTER_graph_plans_many,
        [MDNN_GRAPH_TYPES] = MDNN_COUNTER_graph_plans_types,
        [MDNN_GRAPH_LAYOUT] = MDNN_COUNTER_graph_plans_layout,
        [MDNN_GRAPH_UNKNOWN] = MDNN_COUNTER_graph_plans_unknown,
    };
    mdnn_count(counters[kind], 1);
}

/* What a plan says of itself, `bytes` of them, or fewer: *text is to be freed. BAD_FORMAT if cuDNN does not
 * give it. */
static mdnn_status_t get_text(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t plan,
                              int64_t *bytes, char **text)
{
    const int64_t room = *bytes;
    char *const memory = malloc((size_t)room);
    if (!memory)
        return MDNN_STATUS_OUT_OF_MEMORY;
    if (cudnn->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                        CUDNN_TYPE_CHAR, room, bytes,
                                        memory) == CUDNN_STATUS_SUCCESS &&
        *bytes > 0 && *bytes <= room) {
        *text = memory;
        return MDNN_STATUS_OK;
    }
    free(memory);
    return MDNN_STATUS_BAD_FORMAT;
}

/* How long it is, which takes cuDNN as long as the text does; 0 if it does not say. */
static int64_t length_of(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t plan)
{
    int64_t bytes = 0;
    return cudnn->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                           CUDNN_TYPE_CHAR, 0, &bytes, NULL) == CUDNN_STATUS_SUCCESS
               ? bytes
               : 0;
}

/* Mostly two kilobytes; engines that are compiled at run time put their code into it, which is dozens
 * or hundreds. */
static mdnn_status_t read_json(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t plan,
                               mdnn_graph_t *graph, mdnn_graph_kind_t *kind)
{
    int64_t bytes = USUAL_JSON_BYTES;
    char *text = NULL;
    *kind = MDNN_GRAPH_UNKNOWN;
    mdnn_status_t status = get_text(cudnn, plan, &bytes, &text);
    if (status == MDNN_STATUS_BAD_FORMAT && (bytes = length_of(cudnn, plan)) > USUAL_JSON_BYTES)
        status = bytes > MDNN_JSON_BYTES ? MDNN_STATUS_UNSUPPORTED
                                         : get_text(cudnn, plan, &bytes, &text);
    MDNN_TRY(status);
    status = mdnn_graph_read(text, strnlen(text, (size_t)bytes), graph, kind);
    free(text);
    return status;
}

/* By its JSON, else by what its host has set. The first plan without JSON that can be read passes. */
static mdnn_status_t read_graph(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t plan,
                                mdnn_graph_t *graph, mdnn_graph_kind_t *kind)
{
    const mdnn_status_t status = read_json(cudnn, plan, graph, kind);
    if (status != MDNN_STATUS_BAD_FORMAT)
        return status;
    *kind = mdnn_follow_plan(plan, graph);
    mdnn_follow_begin();
    return *kind == MDNN_GRAPH_RECOGNISED ? MDNN_STATUS_OK : MDNN_STATUS_UNSUPPORTED;
}

/* The engine of the host's plan. Its notes say what the host accepts. */
static mdnn_status_t read_engine(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t plan,
                                 mdnn_graph_record_t *record)
{
    cudnnBackendDescriptor_t configuration = NULL;
    uint32_t notes = 0, behaviour = 0;
    int64_t count = 0;
    if (cudnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &configuration) !=
        CUDNN_STATUS_SUCCESS)
        return MDNN_STATUS_DEVICE;
    cudnnBackendDescriptor_t filled = configuration;
    const bool got = cudnn->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                                     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count,
                                                     &filled) == CUDNN_STATUS_SUCCESS;
    bool notes_known = false;
    if (got)
        record->engine_known = mdnn_engine_read(cudnn, configuration, &record->engine.engine,
                                                &notes, &behaviour, &notes_known) == MDNN_STATUS_OK;
    (void)cudnn->cudnnBackendDestroyDescriptor(configuration);
    if (!notes_known)
        return MDNN_STATUS_UNSUPPORTED;
    mdnn_engine_judge(&record->graph.problem, notes, behaviour, &record->engine);
    record->graph.problem.weak_notes = (int32_t)(notes & MDNN_NOTES_WEAK);
    return MDNN_STATUS_OK;
}

static double double_of(int64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Math type that allows no more than the engine does: TF32 only where it runs on tensor cores. In 16
 * bit they compute no worse than anything else, in fp64 likewise. */
static int32_t math_type_of(const mdnn_graph_record_t *record)
{
    const int32_t type = record->graph.problem.x.type;
    if (type == CUDNN_DATA_FLOAT)
        return record->engine.strict ? CUDNN_FMA_MATH : CUDNN_DEFAULT_MATH;
    return type == CUDNN_DATA_DOUBLE ? CUDNN_DEFAULT_MATH : CUDNN_TENSOR_OP_MATH;
}

/* Memory of the current device; 0 if nobody says. The driver asks the kernel each time, and a search
 * makes a dozen plans of each problem. */
static uint64_t device_bytes(void)
{
    static _Atomic size_t known[MDNN_DEVICES];
    const mdnn_driver_t *const driver = mdnn_real_driver();
    size_t free_bytes, total_bytes;
    CUdevice device;
    if (!driver || driver->cuCtxGetDevice(&device) != CUDA_SUCCESS)
        return 0;
    const bool constant = !mdnn_virtual_on() && device >= 0 && device < MDNN_DEVICES;
    if (constant && atomic_load_explicit(&known[device], memory_order_relaxed) > 0)
        return atomic_load_explicit(&known[device], memory_order_relaxed);
    if (mdnn_device_info(&free_bytes, &total_bytes) != CUDA_SUCCESS)
        return 0;
    if (constant)
        atomic_store_explicit(&known[device], total_bytes, memory_order_relaxed);
    return total_bytes;
}

/* A plan may report more workspace than it takes, but at most this share of the device. */
static uint64_t limit_of(const mdnn_graph_record_t *record)
{
    const uint64_t user_limit = mdnn_workspace_limit();
    const uint64_t share = mdnn_wd_is_on() ? mdnn_wd_limit() : device_bytes() / OVERCOMMIT_SHARE;
    const uint64_t most = share > record->own_bytes ? share : record->own_bytes;
    return most < user_limit || MDNN_FAULT(GENEROUS_WITHOUT_LIMIT) ? most : user_limit;
}

/* Under a budget, what is of any use beside the operands, too. */
static uint64_t useful_limit(const mdnn_graph_record_t *record)
{
    uint64_t sizes[MDNN_WORKSPACE_OPERANDS];
    mdnn_workspace_operand_sizes(&record->graph.problem, sizes);
    const uint64_t beside = mdnn_virtual_room_beside(sizes, MDNN_WORKSPACE_OPERANDS),
                   limit = limit_of(record);
    return beside < limit && !mdnn_wd_is_on() ? beside : limit;
}

static void finish(mdnn_graph_record_t *record)
{
    mdnn_problem_t *const problem = &record->graph.problem;
    problem->math_type = math_type_of(record);
    record->limit_bytes = useful_limit(record);
    if (mdnn_process_options()->convolution_engines == MDNN_ENGINES_NONE)
        problem->interfaces &= ~MDNN_INTERFACE_GRAPH;
    record->alpha_double = double_of(problem->alpha_bits);
    record->beta_double = double_of(problem->beta_bits);
    record->alpha_float = (float)record->alpha_double;
    record->beta_float = (float)record->beta_double;
    record->uids =
        (mdnn_graph_uids_t){record->graph.x_uid, record->graph.w_uid, record->graph.y_uid,
                            problem->z.dim_count ? record->graph.z_uid : -1,
                            problem->bias.dim_count ? record->graph.bias_uid : -1};
}

static mdnn_status_t fill(mdnn_graph_record_t *record, cudnnBackendDescriptor_t plan,
                          mdnn_graph_kind_t *kind)
{
    const mdnn_cudnn_t *const cudnn = record->cudnn;
    int64_t bytes = -1, count = 0;
    MDNN_TRY(read_graph(cudnn, plan, &record->graph, kind));
    *kind = MDNN_GRAPH_UNKNOWN;
    MDNN_TRY(read_engine(cudnn, plan, record));
    if (cudnn->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                        CUDNN_TYPE_INT64, 1, &count,
                                        &bytes) != CUDNN_STATUS_SUCCESS ||
        bytes < 0)
        return MDNN_STATUS_UNSUPPORTED;
    record->own_bytes = (uint64_t)bytes;
    *kind = MDNN_GRAPH_RECOGNISED;
    return MDNN_STATUS_OK;
}

mdnn_graph_record_t *mdnn_graph_record_create(const mdnn_cudnn_t *cudnn,
                                              cudnnBackendDescriptor_t plan)
{
    mdnn_graph_kind_t kind = MDNN_GRAPH_UNKNOWN;
    mdnn_graph_record_t *const record = calloc(1, sizeof *record);
    if (!record)
        return NULL;
    record->cudnn = cudnn;
    const mdnn_status_t status = fill(record, plan, &kind);
    count_kind(kind);
    if (status != MDNN_STATUS_OK) {
        free(record);
        return NULL;
    }
    finish(record);
    return record;
}

/* Whoever takes a plan's place gives its count back, once, whatever other threads do meanwhile. */
static void count_in(mdnn_graph_record_t *record, mdnn_conv_plan_t *planned)
{
    mdnn_conv_plan_t *const before = atomic_exchange(&record->counted_in, planned);
    if (before)
        mdnn_conv_plan_engine_unref(before, &record->engine);
}

void mdnn_graph_record_leave(mdnn_graph_record_t *record)
{
    if (atomic_load_explicit(&record->counted_in, memory_order_relaxed))
        count_in(record, NULL);
}

/* What a search tried and did not choose is known, too, as far as its own runs tell. */
static void give_up_watch(mdnn_graph_record_t *record)
{
    mdnn_conv_plan_t *const planned = atomic_load(&record->planned);
    mdnn_stopwatch_times_t times;
    if (mdnn_process_state() != MDNN_PROCESS_ACTIVE)
        return; /* CUDA may be gone */
    if (planned && atomic_load(&record->own_ms) == 0 &&
        mdnn_stopwatch_read(&record->watch, &times) > 0)
        (void)mdnn_conv_plan_take_run(planned, &record->engine, record->own_bytes, &times, false);
    mdnn_stopwatch_fini(&record->watch);
}

void mdnn_graph_record_destroy(mdnn_graph_record_t *record)
{
    if (!record)
        return;
    mdnn_graph_record_leave(record);
    if (atomic_load(&record->probed))
        give_up_watch(record);
    free(record);
}

mdnn_call_t mdnn_graph_call(const mdnn_graph_record_t *record, cudnnHandle_t handle)
{
    const bool wide = record->graph.problem.x.type == CUDNN_DATA_DOUBLE;
    return (mdnn_call_t){
        .cudnn = record->cudnn,
        .direction = (mdnn_direction_t)record->graph.problem.direction,
        .handle = handle,
        .alpha = wide ? (const void *)&record->alpha_double : &record->alpha_float,
        .beta = wide ? (const void *)&record->beta_double : &record->beta_float,
        .problem = &record->graph.problem,
        .uids = &record->uids,
        .caller_engine = record->engine_known ? &record->engine : NULL,
    };
}

void mdnn_graph_record_settle(mdnn_graph_record_t *record, mdnn_conv_plan_t *planned)
{
    if (atomic_load_explicit(&record->planned, memory_order_acquire) == planned)
        return;
    const double own_ms =
        record->engine_known ? mdnn_conv_plan_engine_ms(planned, &record->engine) : 0.0;
    atomic_store_explicit(&record->own_ms, own_ms, memory_order_relaxed);
    const bool again = record->engine_known && mdnn_conv_plan_engine_ref(planned, &record->engine);
    if (record->engine_known)
        count_in(record, planned);
    if (!again)
        mdnn_search_met(mdnn_conv_plan_search(planned));
    const bool dominated =
        own_ms > 0 && mdnn_conv_plan_engine_is_dominated(planned, &record->engine);
    atomic_store_explicit(&record->expendable, again || dominated, memory_order_relaxed);
    atomic_store_explicit(&record->planned, planned, memory_order_release);
}

static void keep_own_ms(mdnn_graph_record_t *record, const mdnn_conv_plan_t *planned)
{
    const double ms = mdnn_conv_plan_engine_ms(planned, &record->engine);
    atomic_store_explicit(&record->own_ms, ms, memory_order_relaxed);
}

void mdnn_graph_record_run(mdnn_graph_record_t *record, mdnn_conv_plan_t *planned,
                           const mdnn_call_t *call)
{
    if (atomic_load_explicit(&record->runs, memory_order_relaxed) < COUNTED_RUNS) {
        const int run = atomic_fetch_add(&record->runs, 1) + 1;
        mdnn_search_ran(mdnn_conv_plan_search(planned), run);
        /* By now a search has given up its other plans. */
        if (run == MDNN_SEARCH_PROBES + 2 && mdnn_conv_plan_has_deferred(planned))
            mdnn_conv_plan_remember(planned);
    }
    if (mdnn_conv_plan_complete(planned, call) && record->engine_known)
        keep_own_ms(record, planned);
}

/* True while the runs of a chosen plan are being timed, or if they have shown enough. */
static bool is_timed_by_runs(mdnn_graph_record_t *record, mdnn_conv_plan_t *planned)
{
    mdnn_stopwatch_times_t times;
    if (mdnn_stopwatch_read(&record->watch, &times) < TIMED_RUNS)
        return atomic_load_explicit(&record->runs, memory_order_relaxed) < COUNTED_RUNS;
    if (!mdnn_conv_plan_take_run(planned, &record->engine, record->own_bytes, &times, true))
        return false;
    atomic_store_explicit(&record->own_ms, times.most_ms, memory_order_relaxed);
    mdnn_conv_plan_remember(planned);
    MDNN_LOG(MDNN_LOG_DEBUG, "graph", "own plan of engine %d of %s: %.4f ms by its own runs",
             (int)record->engine.engine.id, mdnn_conv_plan_title(planned), times.most_ms);
    return true;
}

void mdnn_graph_record_time_own(mdnn_graph_record_t *record, const mdnn_call_t *call)
{
    mdnn_conv_plan_t *const planned = atomic_load_explicit(&record->planned, memory_order_acquire);
    if (!planned || !record->engine_known ||
        atomic_load_explicit(&record->own_ms, memory_order_relaxed) != 0)
        return;
    if (mdnn_conv_plan_is_deferred(planned) && atomic_load(&record->runs) <= MDNN_SEARCH_PROBES) {
        atomic_store_explicit(&record->probed, true, memory_order_relaxed);
        return;
    }
    if (atomic_load_explicit(&record->probed, memory_order_relaxed) &&
        is_timed_by_runs(record, planned))
        return;
    const double ms = mdnn_conv_plan_time_engine(planned, call, record->own_bytes);
    atomic_store_explicit(&record->own_ms, ms, memory_order_relaxed);
}

/* Not the first run, which loads kernels, nor where memory may be on its way. */
static bool is_timed_now(const mdnn_graph_record_t *record)
{
    return atomic_load_explicit(&record->probed, memory_order_relaxed) &&
           atomic_load_explicit(&record->own_ms, memory_order_relaxed) == 0 &&
           atomic_load_explicit(&record->runs, memory_order_relaxed) >= MDNN_SEARCH_PROBES &&
           !mdnn_virtual_on();
}

cudnnStatus_t mdnn_graph_record_execute_own(mdnn_graph_record_t *record, const mdnn_cudnn_t *cudnn,
                                            cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                            cudnnBackendDescriptor_t pack)
{
    cudaStream_t stream;
    const bool timed = is_timed_now(record) &&
                       cudnn->cudnnGetStream(handle, &stream) == CUDNN_STATUS_SUCCESS &&
                       mdnn_stopwatch_begin(&record->watch, stream);
    const cudnnStatus_t status = cudnn->cudnnBackendExecute(handle, plan, pack);
    if (timed)
        mdnn_stopwatch_end(&record->watch, stream, status != CUDNN_STATUS_SUCCESS);
    return status;
}

bool mdnn_graph_prefers_own(const mdnn_graph_record_t *record, const mdnn_ready_t *ready)
{
    const double margin = mdnn_process_options()->convolution_adoption_margin / 100.0;
    const double own_ms = atomic_load_explicit(&record->own_ms, memory_order_relaxed);
    if (own_ms < 0) /* it cannot be timed */
        return false;
    if (own_ms == 0) /* a search chooses by times of its own */
        return atomic_load_explicit(&record->probed, memory_order_relaxed);
    return ready->configuration->time_ms > (1 - margin) * own_ms;
}

mdnn_demand_t mdnn_graph_demand(const mdnn_graph_record_t *record, uint64_t workspace_bytes)
{
    const bool direct_wanted = mdnn_process_options()->convolution_numerics == MDNN_NUMERICS_DIRECT;
    return (mdnn_demand_t){
        .workspace_bytes = workspace_bytes,
        .deterministic = record->engine.deterministic && !MDNN_FAULT(GRAPH_VARIES),
        .direct = direct_wanted && record->engine.direct && !MDNN_FAULT(GRAPH_INDIRECT),
        .strict = record->engine.strict,
    };
}
