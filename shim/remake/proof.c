#include "shim/remake/proof.h"

#include <stdlib.h>

#include "config/fault.h"
#include "shim/remake/images.h"
#include "shim/vmem/virtual_shared.h"

/* ---- spans ---- */

static mdnn_span_t *spans_of(const mdnn_recipe_t *recipe, size_t more)
{
    mdnn_span_t *const spans = calloc(recipe->operand_count + more + 1, sizeof *spans);
    for (uint32_t i = 0; spans && i < recipe->operand_count; i++)
        spans[i] = (mdnn_span_t){recipe->operands[i].start, recipe->operands[i].bytes, 0};
    return spans;
}

static bool is_operand(const mdnn_recipe_t *recipe, uint64_t start)
{
    for (uint32_t i = 0; i < recipe->operand_count; i++)
        if (recipe->operands[i].start == start)
            return true;
    return false;
}

/* The operands and then all else that lives. NULL: too much, or no memory. */
static mdnn_span_t *all_spans(const mdnn_memory_t *memory, const mdnn_recipe_t *recipe,
                              size_t *count)
{
    bool fits;
    const size_t live = mdnn_memory_live(memory, NULL, 0, &fits);
    uint64_t *const starts =
        live + recipe->operand_count <= MDNN_PROOF_SPANS ? calloc(live + 1, sizeof *starts) : NULL;
    mdnn_span_t *const spans = starts ? spans_of(recipe, live) : NULL;
    *count = recipe->operand_count;
    if (spans)
        (void)mdnn_memory_live(memory, starts, live, &fits);
    for (size_t i = 0; spans && i < live; i++) {
        mdnn_span_t *const span = &spans[*count];
        if (!is_operand(recipe, starts[i]) && !MDNN_FAULT(ONLY_NAMED_IS_COPIED) &&
            mdnn_memory_find(memory, starts[i], &span->start, &span->bytes))
            ++*count;
    }
    free(starts);
    return spans;
}

static uint64_t *bytes_of(const mdnn_span_t *spans, size_t count)
{
    uint64_t *const bytes = calloc(count + 1, sizeof *bytes);
    for (size_t i = 0; bytes && i < count; i++)
        bytes[i] = spans[i].bytes;
    return bytes;
}

/* ---- watching ---- */

uint64_t mdnn_watch_begin(mdnn_virtual_device_t *device, uint64_t number,
                          const mdnn_recipe_t *recipe, bool may_move)
{
    mdnn_own_work_t work;
    mdnn_span_t *const spans = spans_of(recipe, 0);
    const size_t count = recipe->operand_count;
    bool copied = false;
    if (spans && mdnn_proof_results_have_room(mdnn_real_driver()) &&
        mdnn_own_work_open(&work, device, number, spans, count, 0, 0, may_move) ==
            MDNN_REMAKE_proven) {
        copied = mdnn_own_work_clear_counters(&work);
        for (size_t i = 0; copied && i < count; i++)
            copied = mdnn_own_work_copy_aside(&work, &spans[i]);
        mdnn_own_work_close(&work, copied);
    }
    free(spans);
    return copied ? work.scratch : 0;
}

void mdnn_watch_end(mdnn_virtual_device_t *device, uint64_t number, const mdnn_recipe_t *recipe,
                    uint64_t scratch, bool may_move)
{
    mdnn_own_work_t work;
    mdnn_span_t *const spans = spans_of(recipe, 0);
    const size_t count = recipe->operand_count;
    mdnn_proof_result_t result = {.key = recipe->key, .watched = true, .span_count = count};
    if (spans && mdnn_proof_results_have_room(mdnn_real_driver()) &&
        mdnn_own_work_open(&work, device, number, spans, count, 0, scratch, may_move) ==
            MDNN_REMAKE_proven) {
        bool compared = true;
        for (size_t i = 0; compared && i < count; i++)
            compared = mdnn_own_work_compare(&work, i);
        if (compared && mdnn_proof_results_add(&work, &result))
            recipe->key->watching++;
        mdnn_own_work_close(&work, false);
    } else {
        mdnn_own_work_free_scratch(device, number, scratch);
    }
    free(spans);
}

/* ---- proving ---- */

/* What other devices, processes or graphs use without naming it may not show other bytes for a moment. */
static bool may_be_seen(const mdnn_memory_t *memory, const mdnn_recipe_t *recipe)
{
    for (uint32_t i = 0; i < recipe->operand_count; i++)
        if (mdnn_memory_is_held(memory, recipe->operands[i].start) ||
            mdnn_memory_has_live_pins(memory, recipe->operands[i].start))
            return true;
    return false;
}

/* With copies of sides, as when a dropped content is made again. */
static bool replay(mdnn_own_work_t *work, const mdnn_recipe_t *recipe)
{
    mdnn_redirects_t sides;
    return mdnn_redirects_of(recipe, recipe->operand_count, work->more, &sides) &&
           mdnn_redirects_copy(work->driver, &sides, work->stream) &&
           mdnn_recipe_replay(work->driver, recipe, sides.all, sides.count, work->stream);
}

/* Everything is as it was afterwards, even if this returns false, unless copying back fails; then the context is lost. */
static bool make_again(mdnn_own_work_t *work, const mdnn_recipe_t *recipe,
                       mdnn_proof_result_t *result)
{
    const mdnn_memory_device_t functions = mdnn_device_memory_functions();
    const size_t count = work->span_count;
    size_t copied = 0;
    while (copied < count && mdnn_own_work_copy_aside(work, &work->spans[copied]))
        copied++;
    bool done = copied == count && mdnn_own_work_clear_counters(work);
    if (!done)
        return false; /* nothing was changed */
    const unsigned salt = recipe->key->operands[result->wanted].proofs - 1U;
    if (result->poisoned)
        done = mdnn_own_work_poison(work, &work->spans[result->wanted],
                                    MDNN_FAULT(POISON_IS_ALWAYS_THE_COMPLEMENT) ? 0 : salt);
    result->timer = functions.time_begin(work->device->device, work->number, true);
    done = done && replay(work, recipe);
    functions.time_end(work->device->device, work->number, result->timer);
    for (size_t i = 0; done && i < count; i++)
        done = mdnn_own_work_compare(work, i);
    for (size_t i = 0; i < count && !MDNN_FAULT(PROOFS_LEAVE_WHAT_THEY_MADE); i++)
        done = mdnn_own_work_put_back(work, &work->spans[i]) && done;
    return done;
}

static void drop_timer(mdnn_virtual_device_t *device, uint64_t timer)
{
    double us;
    if (timer != 0)
        (void)mdnn_device_memory_functions().time_read(device->device, timer, &us);
}

static mdnn_remake_outcome_t prove_spans(mdnn_own_work_t *work, const mdnn_recipe_t *recipe,
                                         mdnn_proof_result_t *result, mdnn_stream_point_t *end)
{
    mdnn_timelines_t *const timelines = mdnn_virtual_timelines();
    if (!MDNN_FAULT(PROOFS_WAIT_FOR_NOBODY) &&
        mdnn_timelines_wait_for_all(timelines, work->number) != MDNN_STATUS_OK) {
        free((void *)(uintptr_t)result->span_bytes);
        return MDNN_REMAKE_not_alone;
    }
    const bool made = make_again(work, recipe, result);
    if (mdnn_timelines_mark_event(timelines, work->number, end) != MDNN_STATUS_OK)
        *end = mdnn_timelines_mark(timelines, work->number);
    if (made && result->span_bytes && mdnn_proof_results_add(work, result))
        return MDNN_REMAKE_proven;
    if (!made)
        free((void *)(uintptr_t)result->span_bytes);
    drop_timer(work->device, result->timer);
    return MDNN_REMAKE_failed;
}

/* `spans` are freed. */
static mdnn_remake_outcome_t prove_with(mdnn_virtual_device_t *device, uint64_t number,
                                        const mdnn_recipe_t *recipe, uint32_t wanted,
                                        mdnn_span_t *spans, size_t count, bool may_move,
                                        mdnn_stream_point_t *end)
{
    mdnn_own_work_t work;
    mdnn_proof_result_t result = {.key = recipe->key,
                                  .wanted = wanted,
                                  .poisoned = recipe->key->operands[wanted].proofs > 0,
                                  .span_count = count};
    mdnn_redirects_t sides;
    if (!mdnn_redirects_of(recipe, recipe->operand_count, 0, &sides)) {
        free(spans);
        return MDNN_REMAKE_many_operands;
    }
    mdnn_remake_outcome_t outcome =
        spans ? mdnn_own_work_open(&work, device, number, spans, count, sides.bytes, 0, may_move)
              : MDNN_REMAKE_no_room;
    if (outcome == MDNN_REMAKE_proven) {
        result.span_bytes = bytes_of(spans, count);
        outcome = prove_spans(&work, recipe, &result, end);
        mdnn_own_work_close(&work, false);
    }
    free(spans);
    return outcome;
}

mdnn_remake_outcome_t mdnn_prove(mdnn_virtual_device_t *device, uint64_t number,
                                 const mdnn_recipe_t *recipe, uint32_t wanted, bool may_move,
                                 mdnn_stream_point_t *end)
{
    size_t count;
    *end = (mdnn_stream_point_t){0};
    if (may_be_seen(device->memory, recipe))
        return MDNN_REMAKE_not_alone;
    if (!mdnn_proof_results_have_room(mdnn_real_driver()))
        return MDNN_REMAKE_learning;
    mdnn_span_t *const spans = all_spans(device->memory, recipe, &count);
    mdnn_remake_outcome_t outcome =
        prove_with(device, number, recipe, wanted, spans, count, false, end);
    if (outcome == MDNN_REMAKE_no_room && may_move && device->memory)
        outcome = prove_with(device, number, recipe, wanted, spans_of(recipe, 0),
                             recipe->operand_count, true, end);
    recipe->key->proving = recipe->key->proving || outcome == MDNN_REMAKE_proven;
    return outcome;
}

/* ---- learning ---- */

/* A proof that found other bytes: what that says. */
static mdnn_remake_outcome_t why_differs(const mdnn_proof_result_t *result)
{
    const uint32_t operands = result->key->operand_count;
    bool unnamed = false, large = false;
    for (size_t i = 0; i < result->span_count; i++) {
        const bool differs = result->counts[i].differ > 0;
        unnamed = unnamed || (differs && i >= operands);
        large = large || (differs && i < operands && result->span_bytes[i] >= MDNN_REMAKE_LARGE);
    }
    if (unnamed)
        return MDNN_REMAKE_unnamed;
    if (!result->poisoned)
        return large ? MDNN_REMAKE_differs : MDNN_REMAKE_pre_image;
    const mdnn_span_counts_t *const wanted = &result->counts[result->wanted];
    return wanted->mixed == wanted->differ ? MDNN_REMAKE_partial : MDNN_REMAKE_old_content;
}

static bool differs_at_all(const mdnn_proof_result_t *result)
{
    for (size_t i = 0; i < result->span_count; i++)
        if (result->counts[i].differ > 0)
            return !MDNN_FAULT(DIFFERENCES_IGNORED);
    return false;
}

static void learn_time(const mdnn_virtual_device_t *device, const mdnn_proof_result_t *result)
{
    double us;
    if (result->timer != 0 && mdnn_device_memory_functions().time_read(
                                  device->device, result->timer, &us) == MDNN_STATUS_OK)
        result->key->replay_us = us;
}

bool mdnn_proof_learn(const mdnn_virtual_device_t *device, const mdnn_proof_result_t *result)
{
    mdnn_launch_key_t *const key = result->key;
    for (uint32_t i = 0; i < key->operand_count; i++)
        if (result->counts[i].differ > 0)
            key->operands[i].changed = true;
    if (result->watched) {
        key->watching--;
        key->watches++;
        return false;
    }
    learn_time(device, result);
    key->proving = false;
    const bool differs = differs_at_all(result);
    if (differs)
        key->barred = why_differs(result);
    else
        key->operands[result->wanted].proofs++;
    return differs;
}
