#include "shim/remake/drops.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "config/log.h"
#include "config/numbers.h"
#include "shim/real/failure.h"
#include "shim/real/kernels.h"
#include "shim/remake/chains.h"
#include "shim/remake/hashes.h"
#include "shim/remake/images.h"
#include "shim/remake/remake_counts.h"
#include "shim/vmem/virtual_devices.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/virtual_setup.h"
#include "shim/vmem/virtual_shared.h"

/* A key's contents are not dropped any more once so many of them had to be made again for the sake of their inputs, and
 * one more for each few that were wanted. */
enum { MOST_EARLY = 2, WANTED_FOR_AN_EARLY = 4 };
/* Nor once so many more were hashed in vain than were wanted. */
enum { MOST_REFUSED = 64 };

struct mdnn_drop {
    uint32_t references; /* the making's, and those of chains that begin with it */
    mdnn_recipe_t *recipe;
    mdnn_drop_t *before; /* of a chain: what is made again first; one reference */
    uint32_t operand;    /* the result */
    unsigned generation;
    /* Hashes of then: the result, and the inputs of the last launch in the order of its operands; of a chain, also what
     * that launch found in the result. */
    int slot;
    uint32_t inputs[MDNN_MAKING_INPUTS],
        input_count; /* operands: what was hashed, and is no side */
    int image;       /* MDNN_NO_SLOT: it has no sides */
    mdnn_redirects_t sides;
    mdnn_stream_point_t end; /* of the hashes and copies; position 0: they are not enqueued */
    bool made;               /* it was made again, and has changed its image */
};

/* Entered. */
enum { REMADE = 64 };
static struct {
    bool wanted, failed;
    mdnn_virtual_device_t *device;
    CUstream stream;
    mdnn_memory_remaker_t remaker;
    /* What was made again, until it is known to be as it was. */
    struct {
        int now; /* slot; MDNN_NO_SLOT: the place is empty */
        mdnn_memory_hash_t then;
        mdnn_stream_point_t end;
        uint64_t bytes;
        const char *kernel;
    } remade[REMADE];
    bool said_lost;
} state;

/* ---- what was made again ---- */

static void say_lost(uint64_t bytes, const char *kernel)
{
    char size[MDNN_NUMBER_BYTES];
    if (state.said_lost)
        return;
    state.said_lost = true;
    mdnn_format_size_rounded(bytes, size, sizeof size);
    MDNN_LOG(MDNN_LOG_ERROR, "memory",
             "%s that were dropped cannot be made again: kernel %s made other bytes; the run ends "
             "with an error. Set [memory] remake = off",
             size, kernel && *kernel ? kernel : "without a name");
}

static bool is_same(const mdnn_memory_hash_t *a, const mdnn_memory_hash_t *b)
{
    return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* `over`: all work is, since the context has ended. */
static void look_at_remade(bool over)
{
    for (size_t i = 0; i < REMADE; i++) {
        const int now = state.remade[i].now;
        if (now == MDNN_NO_SLOT ||
            (!over && !mdnn_timelines_is_done(mdnn_virtual_timelines(), state.remade[i].end)))
            continue;
        const mdnn_memory_hash_t *const hash = mdnn_hashes_of(now);
        const bool known = hash->words[0] != 0 || hash->words[1] != 0;
        if (known && !is_same(hash, &state.remade[i].then)) {
            mdnn_remake_count_lost();
            say_lost(state.remade[i].bytes, state.remade[i].kernel);
        }
        mdnn_hashes_give(now, state.remade[i].end);
        state.remade[i].now = MDNN_NO_SLOT;
    }
}

void mdnn_drops_say_lost(mdnn_virtual_device_t *device)
{
    mdnn_lock(&device->lock);
    if (state.device == device && device->memory)
        look_at_remade(true);
    mdnn_unlock(&device->lock);
}

/* ---- the remaker ---- */

/* A capture may forbid what drops need, and captured work runs again at any time. */
static bool may_drop(void)
{
    return !mdnn_timelines_is_capturing(mdnn_virtual_timelines());
}

static mdnn_stream_point_t now_in_stream(void)
{
    return mdnn_timelines_mark(mdnn_virtual_timelines(), state.remaker.stream);
}

static mdnn_status_t hash(void *context, const mdnn_memory_span_t *spans, size_t count, void **job)
{
    (void)context;
    const int slot = may_drop() ? mdnn_hashes_take() : MDNN_NO_SLOT;
    if (slot == MDNN_NO_SLOT)
        return MDNN_STATUS_BUSY;
    bool enqueued = mdnn_hashes_clear(slot, state.stream);
    for (size_t i = 0; enqueued && i < count; i++)
        enqueued = mdnn_hashes_add(slot, i, &spans[i], state.stream);
    enqueued = enqueued && mdnn_hashes_copy(slot, count, state.stream);
    if (!enqueued)
        mdnn_hashes_give(slot, now_in_stream());
    *job = (void *)(uintptr_t)(slot + 1);
    return enqueued ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}

static bool take_hashes(void *context, void *job, mdnn_memory_hash_t *hashes)
{
    (void)context;
    const int slot = (int)(uintptr_t)job - 1;
    if (hashes)
        memcpy(hashes, mdnn_hashes_of(slot), MDNN_HASHES_OF_A_SLOT * sizeof *hashes);
    mdnn_hashes_give(slot, now_in_stream());
    return true;
}

static size_t hash_count(const mdnn_drop_t *drop)
{
    return 1 + (size_t)drop->input_count + (drop->before != NULL);
}

/* Whether the last launch found what the ones before it had made. */
static bool found_what_was_made(const mdnn_drop_t *drop)
{
    return !drop->before || MDNN_FAULT(CHAINS_FIND_ANYTHING) ||
           is_same(&mdnn_hashes_of(drop->slot)[1 + drop->input_count],
                   mdnn_hashes_of(drop->before->slot));
}

/* Hashes of the inputs of all launches, the first launch's first. Returns how many; SIZE_MAX: they are not known. */
static size_t inputs_then(const mdnn_drop_t *drop, mdnn_memory_hash_t *hashes)
{
    const size_t before = drop->before ? inputs_then(drop->before, hashes) : 0;
    if (before == SIZE_MAX || !mdnn_timelines_is_done(mdnn_virtual_timelines(), drop->end) ||
        !found_what_was_made(drop))
        return SIZE_MAX;
    memcpy(hashes + before, mdnn_hashes_of(drop->slot) + 1, drop->input_count * sizeof *hashes);
    return before + drop->input_count;
}

static bool hashes_then(void *context, void *launch, mdnn_memory_hash_t *hashes)
{
    (void)context;
    const mdnn_drop_t *const drop = launch;
    if (inputs_then(drop, hashes + 1) == SIZE_MAX)
        return false;
    hashes[0] = *mdnn_hashes_of(drop->slot);
    return true;
}

static void note_remade(const mdnn_drop_t *drop, int now)
{
    size_t place = 0;
    while (place < REMADE && state.remade[place].now != MDNN_NO_SLOT)
        place++;
    const mdnn_stream_point_t end = now_in_stream();
    if (place == REMADE) { /* the device looks at it all the same */
        mdnn_hashes_give(now, end);
        return;
    }
    state.remade[place].now = now;
    state.remade[place].then = *mdnn_hashes_of(drop->slot);
    state.remade[place].end = end;
    state.remade[place].bytes = drop->recipe->operands[drop->operand].bytes;
    state.remade[place].kernel = mdnn_recorded_launch_name(drop->recipe->launch);
}

/* One launch after the other, each with its own copies of small results. */
static bool replay(mdnn_drop_t *drop)
{
    if (drop->before && !replay(drop->before))
        return false;
    drop->made = true;
    return mdnn_recorded_launch_replay(mdnn_real_driver(), drop->recipe->launch, drop->sides.all,
                                       drop->sides.count, state.stream) == CUDA_SUCCESS;
}

/* Hashes in `now` what was made; a launch that failed leaves other hashes there. */
static bool launch_and_hash(mdnn_drop_t *drop, int now)
{
    const mdnn_recipe_operand_t *const result = &drop->recipe->operands[drop->operand];
    const mdnn_memory_span_t span = {result->start, result->bytes};
    const bool launched = replay(drop);
    return launched && mdnn_hashes_add(now, 0, &span, state.stream) &&
           mdnn_hashes_copy(now, 1, state.stream);
}

/* Our stream waits for nothing that the program does. */
static int take_at_any_cost(void)
{
    const int slot = mdnn_hashes_take();
    if (slot != MDNN_NO_SLOT)
        return slot;
    (void)mdnn_real_driver()->cuStreamSynchronize(state.stream);
    look_at_remade(false);
    return mdnn_hashes_take();
}

static mdnn_status_t make(void *context, void *launch)
{
    (void)context;
    mdnn_drop_t *const drop = launch;
    look_at_remade(false);
    const int now = take_at_any_cost();
    if (now == MDNN_NO_SLOT)
        return mdnn_failure_note(CUDA_ERROR_LAUNCH_FAILED);
    const bool cleared = mdnn_hashes_clear(now, state.stream);
    const bool made = cleared && launch_and_hash(drop, now);
    const bool demanded =
        cleared && (mdnn_hashes_demand_equal(now, drop->slot, state.stream) || !made);
    if (!made) {
        mdnn_remake_count_lost();
        say_lost(drop->recipe->operands[drop->operand].bytes,
                 mdnn_recorded_launch_name(drop->recipe->launch));
    }
    note_remade(drop, now);
    return made && demanded ? MDNN_STATUS_OK : mdnn_failure_note(CUDA_ERROR_LAUNCH_FAILED);
}

/* Gives one reference back. `end`: of all work on the slots, if it was never made again. */
static void end_drop(mdnn_drop_t *drop, mdnn_stream_point_t end)
{
    while (drop && --drop->references == 0) {
        mdnn_drop_t *const before = drop->before;
        /* What was made again may still be compared; before that, hashes of then may be on their way. */
        const bool known =
            drop->end.position != 0 && mdnn_timelines_is_done(mdnn_virtual_timelines(), drop->end);
        const mdnn_stream_point_t over = known                     ? now_in_stream()
                                         : drop->end.position != 0 ? drop->end
                                                                   : end;
        if (drop->generation == mdnn_hashes_generation()) {
            mdnn_hashes_give(drop->slot, over);
            mdnn_images_give(drop->image, over);
        }
        if (drop->recipe->drop == drop)
            drop->recipe->drop = NULL;
        mdnn_recipe_drop(drop->recipe);
        free(drop);
        drop = before;
    }
}

static void note(void *context, void *launch, uint64_t bytes, mdnn_making_event_t what)
{
    (void)context;
    mdnn_drop_t *const drop = launch;
    if (what == MDNN_MAKING_ENDED) {
        end_drop(drop, drop->end);
        return;
    }
    mdnn_remake_count_drop(what, bytes);
    if (what == MDNN_MAKING_EARLY)
        atomic_fetch_add(&drop->recipe->key->early, 1);
    else if (what == MDNN_MAKING_REFUSED)
        atomic_fetch_add(&drop->recipe->key->refused, 1);
    else if (what == MDNN_MAKING_WANTED)
        atomic_fetch_add(&drop->recipe->key->wanted, 1);
}

/* ---- what drops need ---- */

void mdnn_drops_want(void)
{
    state.wanted = true;
}

/* Made before the device is entered, since that takes time. */
typedef struct supplies {
    CUstream stream;
    CUdeviceptr memory;
    void *pinned;
} supplies_t;

static bool get_supplies(const mdnn_driver_t *driver, supplies_t *supplies)
{
    const mdnn_kernels_t *kernels;
    return driver->cuStreamCreateWithPriority && mdnn_kernels_get(&kernels) == MDNN_STATUS_OK &&
           driver->cuStreamCreateWithPriority(&supplies->stream, CU_STREAM_NON_BLOCKING, 0) ==
               CUDA_SUCCESS &&
           mdnn_device_allocate(&supplies->memory, mdnn_hashes_bytes()) == CUDA_SUCCESS &&
           driver->cuMemHostAlloc(&supplies->pinned, mdnn_hashes_bytes(),
                                  CU_MEMHOSTALLOC_PORTABLE) == CUDA_SUCCESS;
}

static void give_back(const mdnn_driver_t *driver, const supplies_t *supplies)
{
    if (supplies->pinned)
        (void)driver->cuMemFreeHost(supplies->pinned);
    if (supplies->memory)
        (void)mdnn_device_free(supplies->memory);
    if (supplies->stream)
        (void)driver->cuStreamDestroy(supplies->stream);
}

static mdnn_status_t begin(mdnn_virtual_device_t *device, const supplies_t *supplies)
{
    uint64_t number;
    MDNN_TRY(mdnn_timelines_stream(mdnn_virtual_timelines(), supplies->stream, false, &number));
    mdnn_hashes_begin(mdnn_real_driver(), supplies->memory, supplies->pinned);
    state.stream = supplies->stream;
    state.remaker = (mdnn_memory_remaker_t){.stream = number,
                                            .hash = hash,
                                            .take_hashes = take_hashes,
                                            .hashes_then = hashes_then,
                                            .make = make,
                                            .note = note};
    for (size_t i = 0; i < REMADE; i++)
        state.remade[i].now = MDNN_NO_SLOT;
    state.device = device;
    mdnn_memory_set_remaker(device->memory, &state.remaker);
    return MDNN_STATUS_OK;
}

static void prepare_images(const mdnn_virtual_device_t *device)
{
    CUdeviceptr memory = 0;
    if (state.device != device || !mdnn_images_are_short() || mdnn_virtual_current() != device)
        return;
    if (mdnn_device_allocate(&memory, MDNN_IMAGE_PART_BYTES) != CUDA_SUCCESS)
        memory = 0;
    mdnn_images_add(memory);
    mdnn_failure_forget();
}

/* Where that fails, nothing is dropped. */
void mdnn_drops_prepare(mdnn_virtual_device_t *device)
{
    prepare_images(device);
    const mdnn_driver_t *const driver = mdnn_real_driver();
    supplies_t supplies = {0};
    if (!state.wanted || state.failed || state.device || mdnn_virtual_current() != device)
        return;
    state.failed = !get_supplies(driver, &supplies);
    if (!state.failed) {
        const mdnn_virtual_entry_t entry = mdnn_virtual_enter(device);
        state.failed = !device->memory || begin(device, &supplies) != MDNN_STATUS_OK;
        mdnn_virtual_leave(device, entry);
    }
    if (state.failed)
        give_back(driver, &supplies);
    mdnn_failure_forget();
}

void mdnn_drops_forget(void)
{
    mdnn_hashes_forget();
    mdnn_images_forget();
    state.device = NULL;
    state.wanted = false;
}

/* ---- launches ---- */

static bool is_worthwhile(mdnn_launch_key_t *key)
{
    const uint32_t wanted = atomic_load(&key->wanted);
    return (atomic_load(&key->early) < MOST_EARLY + wanted / WANTED_FOR_AN_EARLY &&
            atomic_load(&key->refused) < MOST_REFUSED + wanted) ||
           MDNN_FAULT(DROPPED_IN_VAIN);
}

/* The next launches like the first ones of this chain are hashed for it. */
static void link_parts(const mdnn_launch_key_t *chain)
{
    enum { NEXT = 256 };
    for (mdnn_launch_key_t *key = chain->before; key; key = key->before)
        key->linked = NEXT;
}

static bool is_wanted(const mdnn_recipe_t *recipe, uint32_t result)
{
    mdnn_launch_key_t *const key = recipe->key;
    return result != UINT32_MAX && (key->operands[result].wanted || key->linked > 0) &&
           mdnn_launch_key_is_proven(key, result) && key->watches >= MDNN_REMAKE_WATCHES &&
           is_worthwhile(key) && recipe->operand_count <= MDNN_HASHES_OF_A_SLOT &&
           recipe->operands[result].bytes >= MDNN_REMAKE_LARGE;
}

/* All that the last launch names, except a result of which it needs nothing. */
static size_t list_names(const mdnn_drop_t *drop, mdnn_memory_operand_t *names)
{
    size_t count = 0;
    for (uint32_t i = 0; i < drop->recipe->last_count; i++)
        if (i != drop->operand || drop->before)
            names[count++] =
                (mdnn_memory_operand_t){drop->recipe->operands[i].start, MDNN_USE_READ};
    return count;
}

/* What all launches read, in the order of their hashes. */
static size_t list_inputs(const mdnn_drop_t *drop, uint64_t *inputs)
{
    size_t count = drop->before ? list_inputs(drop->before, inputs) : 0;
    for (uint32_t i = 0; i < drop->input_count; i++)
        inputs[count++] = drop->recipe->operands[drop->inputs[i]].start;
    return count;
}

static bool are_resident(const mdnn_memory_t *memory, const mdnn_memory_operand_t *operands,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!mdnn_memory_is_resident(memory, operands[i].address))
            return false;
    return true;
}

static bool enqueue_hash(const mdnn_drop_t *drop, size_t place, uint32_t operand, CUstream stream)
{
    const mdnn_recipe_operand_t *const hashed = &drop->recipe->operands[operand];
    const mdnn_memory_span_t span = {hashed->start, hashed->bytes};
    return mdnn_hashes_add(drop->slot, place, &span, stream);
}

static bool enqueue_inputs(const mdnn_drop_t *drop, CUstream stream)
{
    bool enqueued = mdnn_hashes_clear(drop->slot, stream);
    for (uint32_t i = 0; enqueued && i < drop->input_count; i++)
        enqueued = enqueue_hash(drop, 1 + i, drop->inputs[i], stream);
    if (drop->before) /* what it finds */
        enqueued = enqueued && enqueue_hash(drop, 1 + drop->input_count, drop->operand, stream);
    return enqueued && mdnn_redirects_copy(mdnn_real_driver(), &drop->sides, stream);
}

/* As an operation of its own, which brings back what the launch is about to read anyway. */
static bool hash_inputs(mdnn_virtual_device_t *device, uint64_t number, const mdnn_drop_t *drop,
                        CUstream stream, bool alone)
{
    mdnn_memory_operand_t inputs[MDNN_HASHES_OF_A_SLOT];
    mdnn_memory_call_t call = {.stream = number, .began = 1};
    mdnn_memory_operation_t operation = {.name = "a hash",
                                         .stream = number,
                                         .operands = inputs,
                                         .operand_count = list_names(drop, inputs),
                                         .optional = true,
                                         .call = &call};
    if ((!alone && !are_resident(device->memory, inputs, operation.operand_count)) ||
        mdnn_memory_begin(device->memory, &operation) != MDNN_STATUS_OK)
        return false;
    const bool enqueued = device->memory && enqueue_inputs(drop, stream);
    if (device->memory)
        mdnn_memory_end(device->memory, &operation, true);
    return enqueued;
}

/* Inputs of all launches. */
static size_t count_inputs(const mdnn_drop_t *drop)
{
    size_t count = 0;
    for (; drop; drop = drop->before)
        count += drop->input_count;
    return count;
}

/* Those of the last launch, which has no more than its places. */
static void note_inputs(mdnn_drop_t *drop)
{
    for (uint32_t i = 0; i < drop->recipe->last_count; i++)
        if (i != drop->operand && !mdnn_recipe_is_side(drop->recipe, i))
            drop->inputs[drop->input_count++] = i;
}

static bool take_places(mdnn_drop_t *drop)
{
    mdnn_redirects_t sides;
    if (mdnn_hashes_are_many() ||
        !mdnn_redirects_of(drop->recipe, drop->recipe->last_count, 0, &sides))
        return false;
    drop->slot = mdnn_hashes_take();
    if (drop->slot != MDNN_NO_SLOT && sides.count > 0)
        drop->image = mdnn_images_take();
    if (drop->image != MDNN_NO_SLOT)
        (void)mdnn_redirects_of(drop->recipe, drop->recipe->last_count,
                                mdnn_image_address(drop->image), &drop->sides);
    return drop->slot != MDNN_NO_SLOT && (sides.count == 0 || drop->image != MDNN_NO_SLOT);
}

/* NULL: there is no memory, no place, or a launch of the chain is not known. */
static mdnn_drop_t *make_drop(mdnn_recipe_t *recipe, uint32_t result)
{
    mdnn_drop_t *const before = recipe->before ? recipe->before->drop : NULL;
    if (recipe->before && (!before || before->made))
        return NULL;
    mdnn_drop_t *const drop = calloc(1, sizeof *drop);
    if (!drop)
        return NULL;
    recipe->references++;
    if (before)
        before->references++;
    *drop = (mdnn_drop_t){.references = 1,
                          .recipe = recipe,
                          .before = before,
                          .operand = result,
                          .slot = MDNN_NO_SLOT,
                          .image = MDNN_NO_SLOT,
                          .generation = mdnn_hashes_generation()};
    note_inputs(drop);
    if (count_inputs(drop) <= MDNN_MAKING_INPUTS && hash_count(drop) <= MDNN_HASHES_OF_A_SLOT &&
        take_places(drop))
        return drop;
    end_drop(drop, now_in_stream());
    return NULL;
}

mdnn_drop_t *mdnn_drop_begin(mdnn_virtual_device_t *device, uint64_t number, mdnn_recipe_t *recipe,
                             bool alone)
{
    const uint32_t result = mdnn_recipe_result(recipe);
    CUstream const stream =
        mdnn_timelines_handle(mdnn_virtual_timelines(), number, device->context);
    if (state.device != device || !stream || !may_drop() || !is_wanted(recipe, result))
        return NULL;
    link_parts(recipe->key);
    recipe->key->linked -= recipe->key->linked > 0;
    mdnn_drop_t *const drop = make_drop(recipe, result);
    if (!drop || hash_inputs(device, number, drop, stream, alone))
        return drop;
    mdnn_drop_end(device, number, drop, false);
    return NULL;
}

void mdnn_drop_end(mdnn_virtual_device_t *device, uint64_t number, mdnn_drop_t *drop, bool launched)
{
    uint64_t inputs[MDNN_HASHES_OF_A_SLOT];
    const mdnn_recipe_operand_t *const result = &drop->recipe->operands[drop->operand];
    const mdnn_memory_span_t span = {result->start, result->bytes};
    CUstream const stream =
        mdnn_timelines_handle(mdnn_virtual_timelines(), number, device->context);
    const size_t count = list_inputs(drop, inputs);
    drop->recipe->drop = drop;
    if (launched && stream && state.device == device && !(drop->before && drop->before->made) &&
        mdnn_hashes_add(drop->slot, 0, &span, stream) &&
        mdnn_hashes_copy(drop->slot, hash_count(drop), stream) &&
        mdnn_timelines_mark_event(mdnn_virtual_timelines(), number, &drop->end) == MDNN_STATUS_OK &&
        mdnn_memory_can_make(device->memory, result->start, inputs, count, drop) == MDNN_STATUS_OK)
        return;
    end_drop(drop, mdnn_timelines_mark(mdnn_virtual_timelines(), number));
}
