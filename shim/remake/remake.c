#include "shim/remake/remake.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "shim/real/failure.h"
#include "shim/real/kernels.h"
#include "shim/real/loaded_object.h"
#include "shim/real/operation_key.h"
#include "shim/real/process.h"
#include "shim/remake/chains.h"
#include "shim/remake/drops.h"
#include "shim/remake/proof.h"
#include "shim/remake/remake_counts.h"
#include "shim/vmem/virtual_captures.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_pointers.h"
#include "shim/vmem/virtual_setup.h"
#include "shim/vmem/virtual_shared.h"
#include "shim/vmem/virtual_streams.h"
#include "shim/vmem/virtual_untracked.h"

/* Locked. */
static mdnn_lock_t lock = MDNN_LOCK_INIT(REMAKE);
static struct {
    /* Of the device that takes part; -1: none yet. Read without the lock, too. */
    _Atomic int ordinal;
    bool has_kernels; /* ours are loaded, which takes time */
    unsigned looks;   /* operations that were looked at */
    unsigned flying;  /* operations between before and after */
    bool waits;       /* some work may have waited for the program, or for another process */
    uint64_t code;    /* how often code was unloaded, or a context ended */
    uint64_t resets;  /* of the device */
    uint64_t unknown; /* how many operations may have written anything */
    mdnn_stream_point_t proof_end; /* position 0: every proof is over */
} state = {.ordinal = -1};

/* What is kept of an operation until its end. */
typedef struct flight {
    mdnn_virtual_device_t *device;
    uint64_t number; /* of its stream */
    uint64_t resets; /* before it */
    size_t names;
    mdnn_recipe_t *recipe; /* NULL: it is no launch that can be made again */
    mdnn_remake_outcome_t why;
    uint64_t scratch;  /* of a watch; 0: it is not watched */
    mdnn_drop_t *drop; /* NULL: what it makes is not dropped */
} flight_t;

/* ---- the content that an operation names ---- */

static void learn(mdnn_virtual_device_t *device)
{
    enum { EVERY = 4 }; /* operations; to ask costs a call of the driver */
    mdnn_proof_result_t result;
    if (++state.looks % EVERY != 0)
        return;
    while (mdnn_proof_results_take(&result)) {
        const bool differs = mdnn_proof_learn(device, &result);
        free((void *)(uintptr_t)result.span_bytes);
        if (result.watched)
            continue;
        mdnn_remake_count_proof(differs);
        if (!result.key->counted && mdnn_launch_key_is_proven(result.key, result.wanted)) {
            result.key->counted = true;
            mdnn_remake_count_key(true);
        }
    }
}

/* Work that other streams wait for, or that waits for other processes, might wait for what the program does later. */
static bool may_prove(void)
{
    return state.flying == 0 && (!state.waits || MDNN_FAULT(PROOFS_BESIDE_WAITING_STREAMS)) &&
           !mdnn_timelines_is_capturing(mdnn_virtual_timelines()) && !mdnn_virtual_serves_all() &&
           mdnn_process_options()->memory_safety != MDNN_SAFETY_VERIFY &&
           mdnn_process_options()->memory_safety != MDNN_SAFETY_HOST;
}

static bool may_drop(void)
{
    return mdnn_process_options()->memory_remake == MDNN_REMAKE_CHECKED;
}

static uint32_t operand_at(const mdnn_recipe_t *recipe, uint64_t start)
{
    uint32_t i = 0;
    while (i < recipe->operand_count && recipe->operands[i].start != start)
        i++;
    return i;
}

/* Of a recipe whose inputs are there. */
static mdnn_remake_outcome_t prove(mdnn_virtual_device_t *device, uint64_t number,
                                   const mdnn_recipe_t *recipe, uint32_t operand, bool may)
{
    mdnn_launch_key_t *const key = recipe->key;
    if (mdnn_launch_key_is_proven(key, operand)) {
        mdnn_remake_count_time(key->replay_us);
        return MDNN_REMAKE_proven;
    }
    if (key->proving || !key->operands[operand].changed)
        return MDNN_REMAKE_learning;
    if (!may)
        return MDNN_REMAKE_not_alone;
    if (mdnn_launch_key_rests(key))
        return MDNN_REMAKE_no_room;
    mdnn_stream_point_t end;
    const mdnn_remake_outcome_t outcome =
        mdnn_prove(device, number, recipe, operand, may_drop(), &end);
    if (end.position != 0)
        state.proof_end = end;
    if (outcome == MDNN_REMAKE_failed)
        key->barred = outcome;
    else if (outcome == MDNN_REMAKE_no_room)
        mdnn_launch_key_refused(key);
    return outcome == MDNN_REMAKE_proven ? MDNN_REMAKE_learning : outcome;
}

static mdnn_remake_outcome_t judge(mdnn_virtual_device_t *device, uint64_t number,
                                   const mdnn_made_value_t *value, bool may)
{
    const mdnn_recipe_t *const recipe = value->recipe;
    if (!recipe)
        return value->why;
    if (recipe->key->barred != MDNN_REMAKE_proven)
        return recipe->key->barred;
    if (recipe->code != state.code && !MDNN_FAULT(UNLOADED_CODE_RUNS))
        return MDNN_REMAKE_unloaded;
    if (recipe->key->watches < MDNN_REMAKE_WATCHES)
        return may ? MDNN_REMAKE_learning : MDNN_REMAKE_not_alone;
    if (recipe->unknown != state.unknown)
        return MDNN_REMAKE_input_changed;
    const mdnn_remake_outcome_t ready = mdnn_recipe_is_ready(device->memory, recipe);
    return ready == MDNN_REMAKE_proven
               ? prove(device, number, recipe, operand_at(recipe, value->start), may)
               : ready;
}

/* Contents like this one are worth dropping: it has left by a copy since it was made, or since a kernel may have written it
 * which perhaps only read it. */
static void note_departure(const mdnn_virtual_device_t *device, const mdnn_made_value_t *value)
{
    if (!may_drop() || !value->maker ||
        mdnn_memory_departures(device->memory, value->start) == value->departures ||
        !mdnn_launch_key_is_proven(value->maker, value->maker_operand))
        return;
    value->maker->operands[value->maker_operand].wanted = true;
    mdnn_drops_want();
}

static void look_at_names(mdnn_virtual_device_t *device, uint64_t number,
                          const mdnn_virtual_operation_t *operation, bool may)
{
    const mdnn_memory_operand_t *const names = mdnn_virtual_names(operation);
    for (size_t i = 0; i < operation->name_count; i++) {
        mdnn_made_value_t *const value = names[i].role == MDNN_USE_WRITE
                                             ? NULL
                                             : mdnn_made_value(device->memory, names[i].address);
        if (!value || value->bytes < MDNN_REMAKE_LARGE)
            continue;
        note_departure(device, value);
        if (value->judged)
            continue;
        value->judged = true;
        mdnn_remake_count(judge(device, number, value, may), value->bytes);
    }
}

/* ---- recording ---- */

/* Other kernels of libraries may be one of several of a call, or find counters in a workspace that the call before has
 * set. */
static bool is_whole_call(const mdnn_launch_t *launch)
{
    static const char *const names[] = {
#define WHOLE_CALL(name, words) name,
#include "config/whole_calls.def"
    };
    const char *const name = launch->layout ? launch->layout->name : "";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(name, names[i]))
            return true;
    return false;
}

static mdnn_remake_outcome_t bar_of(const mdnn_virtual_operation_t *operation)
{
    const mdnn_launch_t *const launch = operation->launch;
    if (!launch)
        return MDNN_REMAKE_no_kernel;
    if (launch->by_library && !is_whole_call(launch))
        return MDNN_REMAKE_library;
    if (launch->cooperative)
        return MDNN_REMAKE_cooperative;
    if (operation->layout || operation->may_wait || operation->reach != MDNN_REACH_NAMED)
        return MDNN_REMAKE_indirect;
    if (operation->table_count > 0)
        return MDNN_REMAKE_host_memory;
    return operation->name_count > MDNN_REMAKE_OPERANDS ? MDNN_REMAKE_many_operands
                                                        : MDNN_REMAKE_proven;
}

typedef struct operand_list {
    const mdnn_memory_t *memory;
    uint32_t count, plain_count; /* the first ones stand among the parameters */
    bool full;
    mdnn_memory_span_t operands[MDNN_REMAKE_OPERANDS];
} operand_list_t;

static bool find_operand(void *context, uint64_t word, uint32_t *operand, uint64_t *offset)
{
    operand_list_t *const list = context;
    uint64_t start, bytes;
    uint32_t i = 0;
    if (!mdnn_memory_find(list->memory, word, &start, &bytes))
        return false;
    while (i < list->count && list->operands[i].address != start)
        i++;
    if (i == MDNN_REMAKE_OPERANDS) {
        list->full = true;
        return false;
    }
    if (i == list->count)
        list->operands[list->count++] = (mdnn_memory_span_t){start, bytes};
    *operand = i;
    *offset = word - start;
    return true;
}

/* Those that tensor maps hide are names only. */
static void add_names(operand_list_t *list, const mdnn_virtual_operation_t *operation)
{
    const mdnn_memory_operand_t *const names = mdnn_virtual_names(operation);
    uint32_t operand;
    uint64_t offset;
    for (size_t i = 0; i < operation->name_count; i++)
        (void)find_operand(list, names[i].address, &operand, &offset);
}

static mdnn_recipe_t *chain(const mdnn_memory_t *memory, mdnn_recipe_t *last)
{
    bool is_new;
    mdnn_recipe_t *const recipe = mdnn_chain(memory, last, state.code, state.unknown, &is_new);
    if (is_new)
        mdnn_remake_count_key(false);
    return recipe;
}

/* Takes over the launch. */
static mdnn_recipe_t *make_recipe(mdnn_recorded_launch_t *launch, const operand_list_t *list,
                                  uint64_t key[2], uint64_t shape)
{
    bool is_new;
    mdnn_recipe_t *const recipe = mdnn_recipe_create(list->count);
    mdnn_launch_key_t *const found =
        recipe && !list->full ? mdnn_launch_key(key, list->count, &is_new) : NULL;
    if (recipe)
        recipe->launch = launch;
    else
        mdnn_recorded_launch_free(launch);
    if (!found) {
        mdnn_recipe_drop(recipe);
        return NULL;
    }
    if (is_new)
        mdnn_remake_count_key(false);
    mdnn_launch_shape_has_key(shape, is_new);
    found->launches += found->launches < MDNN_REMAKE_WATCHES;
    recipe->key = found;
    recipe->code = state.code;
    for (uint32_t i = 0; i < list->count; i++) {
        const uint64_t start = list->operands[i].address, bytes = list->operands[i].bytes;
        recipe->operands[i] = (mdnn_recipe_operand_t){
            .start = start,
            .bytes = bytes,
            .plain = i < list->plain_count &&
                     !mdnn_recorded_launch_has_word(recipe->launch, start + bytes)};
    }
    return recipe;
}

static uint64_t shape_of(const mdnn_launch_t *launch)
{
    uint64_t hash = mdnn_driver_hash(MDNN_DRIVER_HASH_START, state.code); /* handles come back */
    hash = mdnn_driver_hash(hash, (uintptr_t)launch->function);
    for (int i = 0; i < 3; i++)
        hash = mdnn_driver_hash(hash, (uint64_t)launch->grid[i] << 32 | launch->block[i]);
    return hash;
}

static void record(flight_t *flight, const mdnn_virtual_operation_t *operation)
{
    const uint64_t shape = shape_of(operation->launch);
    operand_list_t list;
    uint64_t key[2];
    list.memory = flight->device->memory;
    list.count = 0;
    list.full = false;
    flight->why = MDNN_REMAKE_unknown;
    if (!mdnn_launch_shape_is_worthwhile(shape) && !MDNN_FAULT(HOPELESS_LAUNCHES_ARE_WATCHED))
        return;
    mdnn_recorded_launch_t *const launch = mdnn_recorded_launch_make(operation->launch);
    if (!launch && operation->launch->attribute_count > 0)
        flight->why = MDNN_REMAKE_cooperative;
    if (!launch)
        return;
    if (!mdnn_recorded_launch_key(launch, find_operand, &list, key)) {
        mdnn_recorded_launch_free(launch);
        flight->why = MDNN_REMAKE_host_memory;
        return;
    }
    list.plain_count = list.count;
    add_names(&list, operation);
    key[0] += state.code; /* other code may have the same names */
    /* A kernel may write all of one range and a part of a larger one. */
    for (uint32_t i = 0; i < list.count && !MDNN_FAULT(SIZES_ARE_ALL_THE_SAME); i++)
        key[0] = mdnn_driver_hash(key[0], list.operands[i].bytes);
    flight->recipe = make_recipe(launch, &list, key, shape);
    /* Another thread's operation may be about to name what is in between. */
    if (flight->recipe && state.flying == 0)
        flight->recipe = chain(flight->device->memory, flight->recipe);
}

static void watch(flight_t *flight)
{
    mdnn_launch_key_t *const key = flight->recipe->key;
    /* What is launched once only need not be known. */
    if (key->barred != MDNN_REMAKE_proven || key->launches < 2 ||
        key->watches + key->watching >= MDNN_REMAKE_WATCHES || mdnn_launch_key_rests(key))
        return;
    flight->scratch = mdnn_watch_begin(flight->device, flight->number, flight->recipe, may_drop());
    if (flight->scratch == 0)
        mdnn_launch_key_refused(key);
}

/* ---- around an operation ---- */

/* Whether the device takes part. */
static bool takes_part(const mdnn_virtual_device_t *device)
{
    if (state.ordinal < 0)
        state.ordinal = device->ordinal;
    return state.ordinal == device->ordinal && device->memory;
}

/* A function of another context could not be launched here, and may end with that context. */
static bool is_in_device_context(const mdnn_virtual_device_t *device, uint64_t number)
{
    return mdnn_timelines_handle(mdnn_virtual_timelines(), number, device->context) != NULL;
}

static void take_off(mdnn_virtual_operation_t *operation, mdnn_virtual_device_t *device,
                     uint64_t number)
{
    const bool ours = is_in_device_context(device, number), may = ours && may_prove();
    learn(device);
    look_at_names(device, number, operation, may);
    flight_t *const flight = calloc(1, sizeof *flight);
    if (!flight)
        return;
    *flight = (flight_t){.device = device,
                         .number = number,
                         .resets = state.resets,
                         .names = operation->name_count,
                         .why = ours ? bar_of(operation) : MDNN_REMAKE_context};
    if (flight->why == MDNN_REMAKE_proven)
        record(flight, operation);
    if (flight->recipe && may)
        watch(flight);
    if (flight->recipe && flight->scratch == 0 && may_drop() && device->memory)
        flight->drop = mdnn_drop_begin(device, number, flight->recipe, state.flying == 0);
    operation->watch_state = flight;
}

/* What is enqueued on another stream must not see a proof's work: the program does not know that it should wait. */
static void wait_for_proof(uint64_t number)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    if (MDNN_FAULT(NOBODY_WAITS_FOR_PROOFS))
        return;
    if (mdnn_timelines_is_done(timelines, state.proof_end))
        state.proof_end.position = 0;
    else
        (void)mdnn_timelines_wait_in_stream(timelines, number, state.proof_end);
}

static void load_kernels(const mdnn_virtual_device_t *device)
{
    const mdnn_kernels_t *kernels;
    if (!state.has_kernels && mdnn_virtual_current() == device)
        state.has_kernels = mdnn_kernels_get(&kernels) == MDNN_STATUS_OK;
}

static void look(mdnn_virtual_operation_t *operation)
{
    uint64_t number;
    const bool named = operation->name_count > 0;
    if ((!named && state.proof_end.position == 0) || !mdnn_virtual_has_shared() ||
        mdnn_virtual_capture(operation->stream, operation->per_thread) != 0)
        return;
    if (mdnn_virtual_stream(operation->stream, operation->per_thread, &number) != MDNN_STATUS_OK) {
        mdnn_failure_forget();
        return;
    }
    if (state.proof_end.position != 0)
        wait_for_proof(number);
    mdnn_virtual_device_t *const device =
        named ? mdnn_virtual_device_of(mdnn_virtual_names(operation)[0].address) : NULL;
    if (!device)
        return;
    load_kernels(device);
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (takes_part(device))
        take_off(operation, device, number);
    mdnn_virtual_leave(device, entry);
    mdnn_failure_forget();
}

static mdnn_virtual_device_t *own_device(void)
{
    return state.ordinal >= 0 ? mdnn_virtual_find_numbered(state.ordinal) : NULL;
}

static void before(mdnn_virtual_operation_t *operation)
{
    mdnn_lock(&lock);
    mdnn_virtual_device_t *const device = may_drop() && state.flying == 0 ? own_device() : NULL;
    if (device)
        mdnn_drops_prepare(device);
    state.waits = state.waits || (operation->may_wait && !operation->waits_for_event) ||
                  mdnn_pointers_host_may_be_awaited();
    look(operation);
    state.flying++;
    mdnn_unlock(&lock);
}

static void count_names(const flight_t *flight, const mdnn_virtual_operation_t *operation)
{
    const mdnn_memory_operand_t *const names = mdnn_virtual_names(operation);
    for (size_t i = 0; i < operation->name_count; i++) {
        mdnn_made_value_t *const value = mdnn_made_value(flight->device->memory, names[i].address);
        if (value)
            value->named++;
    }
}

/* All that the operation names has new content, unless it is known to be only read. */
static void note_writes(const flight_t *flight, const mdnn_virtual_operation_t *operation)
{
    const mdnn_memory_operand_t *const names = mdnn_virtual_names(operation);
    const bool followed = operation->name_count > flight->names;
    mdnn_recipe_t *const recipe = followed ? NULL : flight->recipe;
    const mdnn_remake_outcome_t why = followed ? MDNN_REMAKE_indirect : flight->why;
    for (size_t i = 0; i < operation->name_count; i++) {
        mdnn_made_value_t *const value =
            names[i].role == MDNN_USE_READ
                ? NULL
                : mdnn_made_value(flight->device->memory, names[i].address);
        const uint32_t operand = value && recipe ? operand_at(recipe, value->start) : 0;
        const bool reads = value && recipe && operand < recipe->operand_count &&
                           mdnn_launch_key_reads(recipe->key, operand);
        if (!value || reads)
            continue;
        mdnn_made_value_written(value, recipe, why);
        if (recipe || names[i].role == MDNN_USE_WRITE)
            mdnn_made_value_made_by(value, recipe, operand);
        value->departures = mdnn_memory_departures(flight->device->memory, value->start);
    }
}

static void note_versions(const flight_t *flight)
{
    mdnn_recipe_t *const recipe = flight->recipe;
    recipe->unknown = state.unknown;
    for (uint32_t i = 0; i < recipe->operand_count; i++) {
        const mdnn_made_value_t *const value =
            mdnn_made_value(flight->device->memory, recipe->operands[i].start);
        recipe->operands[i].number = value ? value->number : 0;
        recipe->operands[i].version = value ? value->version : 0;
        recipe->operands[i].named = value ? value->named : 0;
    }
}

static void land(flight_t *flight, const mdnn_virtual_operation_t *operation, bool enqueued)
{
    mdnn_virtual_device_t *const device = flight->device;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory && flight->resets == state.resets) {
        const bool runs = enqueued && operation->capture == 0;
        if (flight->scratch != 0 && runs)
            mdnn_watch_end(device, flight->number, flight->recipe, flight->scratch,
                           may_drop() && state.flying == 0);
        else if (flight->scratch != 0)
            mdnn_own_work_free_scratch(device, flight->number, flight->scratch);
        count_names(flight, operation);
        if (runs)
            note_writes(flight, operation);
        if (runs && flight->recipe)
            note_versions(flight);
    }
    if (flight->drop) /* pointers that were followed lead to other inputs */
        mdnn_drop_end(device, flight->number, flight->drop,
                      device->memory && flight->resets == state.resets && enqueued &&
                          operation->capture == 0 && operation->name_count == flight->names);
    mdnn_virtual_leave(device, entry);
    mdnn_failure_forget();
    mdnn_recipe_drop(flight->recipe);
    free(flight);
}

/* An operation counts as one of the device whose memory it names first. */
static bool names_other_devices(const mdnn_virtual_operation_t *operation)
{
    const mdnn_memory_operand_t *const names = mdnn_virtual_names(operation);
    for (size_t i = 1; i < operation->name_count; i++)
        if (mdnn_virtual_device_of(names[i].address) != mdnn_virtual_device_of(names[0].address))
            return !MDNN_FAULT(OTHER_DEVICES_WRITE_NOTHING);
    return false;
}

static void after(mdnn_virtual_operation_t *operation, bool enqueued)
{
    mdnn_lock(&lock);
    state.flying--;
    if (operation->untracked || operation->reach != MDNN_REACH_NAMED ||
        names_other_devices(operation))
        state.unknown++;
    if (operation->watch_state)
        land(operation->watch_state, operation, enqueued);
    operation->watch_state = NULL;
    mdnn_unlock(&lock);
}

/* Without the lock, for which an operation may wait that holds memory. */
static void make_all(void)
{
    mdnn_virtual_device_t *const device = may_drop() ? own_device() : NULL;
    if (!device)
        return;
    const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
    if (device->memory)
        (void)mdnn_memory_make_all(device->memory);
    mdnn_virtual_leave(device, entry);
    mdnn_failure_forget();
}

static void unload(void)
{
    mdnn_lock(&lock);
    state.code++;
    mdnn_unlock(&lock);
    if (!MDNN_FAULT(DROPPED_WITHOUT_CODE))
        make_all();
}

/* Another memory may get the address of the one that ends. */
static void device_ends(int ordinal)
{
    mdnn_lock(&lock);
    if (ordinal == state.ordinal) {
        mdnn_proof_results_forget();
        mdnn_drops_forget();
        state.resets++;
        state.proof_end.position = 0;
    }
    mdnn_unlock(&lock);
}

static void fill(int device, mdnn_memory_statistics_t *numbers)
{
    if (device == state.ordinal)
        mdnn_remake_fill(numbers);
}

/* ---- launches ---- */

static bool is_library(const void *caller)
{
    static const char *const names[] = {"libcudnn", "libcublas",   "libcusolver", "libcufft",
                                        "libnccl",  "libcusparse", "libcurand"};
    bool ours;
    const char *const soname = mdnn_object_soname(caller, &ours);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(soname, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

void mdnn_remake_note_launch(mdnn_virtual_operation_t *operation, mdnn_launch_t *launch,
                             const void *caller)
{
    static const mdnn_virtual_watch_t watcher = {before,   after,       unload,
                                                 make_all, device_ends, fill};
    if (mdnn_process_options()->memory_remake == MDNN_REMAKE_OFF)
        return;
    atomic_store_explicit(&mdnn_virtual_watcher, &watcher, memory_order_release);
    launch->by_library = is_library(caller);
    operation->launch = launch;
}

void mdnn_remake_code_ends(void)
{
    const mdnn_virtual_watch_t *const watch =
        atomic_load_explicit(&mdnn_virtual_watcher, memory_order_acquire);
    if (watch)
        watch->unload();
}

void mdnn_remake_device_ends(int ordinal)
{
    const mdnn_virtual_watch_t *const watch =
        atomic_load_explicit(&mdnn_virtual_watcher, memory_order_acquire);
    if (watch)
        watch->device_ends(ordinal);
}

void mdnn_remake_context_failed(void)
{
    mdnn_virtual_device_t *const device =
        atomic_load_explicit(&mdnn_virtual_watcher, memory_order_acquire) && may_drop()
            ? own_device()
            : NULL;
    if (device)
        mdnn_drops_say_lost(device);
}
