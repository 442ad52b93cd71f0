/* How contents can be made again, and whether what leaves can be dropped. Nothing here waits. */
#include "config/fault.h"
#include "offload/memory/memory_drops.h"
#include "offload/memory/memory_moves.h"

#include <stdlib.h>
#include <string.h>

/* One launch after another, each of which makes an input of the next. */
enum { MOST_DEPTH = 8 };

void mdnn_memory_set_remaker(mdnn_memory_t *memory, const mdnn_memory_remaker_t *remaker)
{
    memory->remaker = remaker;
}

uint64_t mdnn_memory_departures(const mdnn_memory_t *memory, uint64_t address)
{
    const mdnn_allocation_t *const allocation = mdnn_allocation_find_live(memory, address);
    return allocation ? allocation->departures : 0;
}

static void note(mdnn_memory_t *memory, const mdnn_allocation_t *allocation,
                 mdnn_making_event_t what)
{
    memory->remaker->note(memory->remaker->context, allocation->making->launch, allocation->bytes,
                          what);
}

/* ---- makings ---- */

static void link_input(mdnn_making_t *making, uint32_t i, mdnn_allocation_t *allocation)
{
    mdnn_making_input_t *const input = &making->inputs[i];
    *input = (mdnn_making_input_t){
        .allocation = allocation, .making = making, .next = allocation->dependents};
    if (input->next)
        input->next->previous = input;
    allocation->dependents = input;
}

static void unlink_input(mdnn_making_input_t *input)
{
    *(input->previous ? &input->previous->next : &input->allocation->dependents) = input->next;
    if (input->next)
        input->next->previous = input->previous;
}

void mdnn_allocation_end_making(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    mdnn_making_t *const making = allocation->making;
    if (!making)
        return;
    mdnn_allocation_end_judging(memory, allocation);
    note(memory, allocation, MDNN_MAKING_ENDED);
    for (uint32_t i = 0; i < making->input_count; i++)
        unlink_input(&making->inputs[i]);
    allocation->making = NULL;
    memory->dropped -= allocation->dropped;
    allocation->dropped = false;
    free(making);
}

static void end_dependents(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    while (allocation->dependents)
        mdnn_allocation_end_making(memory, allocation->dependents->making->result);
}

void mdnn_allocation_end_makings(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    end_dependents(memory, allocation);
    mdnn_allocation_end_making(memory, allocation);
}

mdnn_allocation_t *mdnn_allocation_dropped_dependent(const mdnn_allocation_t *allocation)
{
    for (const mdnn_making_input_t *input = allocation->dependents; input; input = input->next)
        if (input->making->result->dropped)
            return input->making->result;
    return NULL;
}

static bool may_be_input(const mdnn_allocation_t *input, const mdnn_allocation_t *result)
{
    return input && input != result && input->pins == 0;
}

/* Allocations that hold no memory, or whose memory others may reach, cannot be dropped. */
static bool may_be_made(const mdnn_memory_t *memory, const mdnn_allocation_t *result)
{
    return memory->remaker && memory->config.safety == MDNN_SAFETY_FAST && result &&
           result->range && !result->stays && result->pins == 0 && !result->dropped;
}

mdnn_status_t mdnn_memory_can_make(mdnn_memory_t *memory, uint64_t address, const uint64_t *inputs,
                                   size_t input_count, void *launch)
{
    mdnn_allocation_t *const result = mdnn_allocation_find_live(memory, address);
    if (!may_be_made(memory, result) || input_count > MDNN_MAKING_INPUTS)
        return MDNN_STATUS_UNSUPPORTED;
    for (size_t i = 0; i < input_count; i++)
        if (!may_be_input(mdnn_allocation_find_live(memory, inputs[i]), result))
            return MDNN_STATUS_UNSUPPORTED;
    mdnn_making_t *const making = calloc(1, sizeof *making + input_count * sizeof *making->inputs);
    if (!making)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_allocation_end_makings(memory, result); /* of its old content */
    making->result = result;
    making->launch = launch;
    making->input_count = (uint32_t)input_count;
    for (uint32_t i = 0; i < making->input_count; i++)
        link_input(making, i, mdnn_allocation_find_live(memory, inputs[i]));
    result->making = making;
    return MDNN_STATUS_OK;
}

/* ---- depth ---- */

/* How many launches it takes to have the content. */
static unsigned depth_below(const mdnn_allocation_t *allocation, unsigned most)
{
    unsigned deepest = 0;
    if (!allocation->dropped || most == 0)
        return 0;
    for (uint32_t i = 0; i < allocation->making->input_count; i++) {
        const unsigned depth = depth_below(allocation->making->inputs[i].allocation, most - 1);
        deepest = depth > deepest ? depth : deepest;
    }
    return 1 + deepest;
}

/* How many launches, one of the other's result, wait for the content. */
static unsigned depth_above(const mdnn_allocation_t *allocation, unsigned most)
{
    unsigned deepest = 0;
    for (const mdnn_making_input_t *input = allocation->dependents; input && most > 0;
         input = input->next) {
        const mdnn_allocation_t *const result = input->making->result;
        const unsigned depth = result->dropped ? 1 + depth_above(result, most - 1) : 0;
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest;
}

static bool is_shallow(const mdnn_allocation_t *allocation)
{
    unsigned deepest = 0;
    for (uint32_t i = 0; i < allocation->making->input_count; i++) {
        const unsigned depth =
            depth_below(allocation->making->inputs[i].allocation, MOST_DEPTH + 1);
        deepest = depth > deepest ? depth : deepest;
    }
    return deepest + 1 + depth_above(allocation, MOST_DEPTH + 1) <= MOST_DEPTH ||
           MDNN_FAULT(DROPPED_HOWEVER_DEEP);
}

/* Whether the launch can have all that it needs at once. */
static bool has_room(const mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    uint64_t bytes = allocation->room;
    for (uint32_t i = 0; i < allocation->making->input_count; i++) {
        const mdnn_allocation_t *const input = allocation->making->inputs[i].allocation;
        bytes += input->range && !input->stays ? input->room : 0;
    }
    return bytes <= mdnn_memory_bytes_for_demands(memory);
}

/* ---- hashes ---- */

static mdnn_hash_job_t *job_of(mdnn_memory_t *memory, const mdnn_allocation_t *allocation)
{
    for (size_t i = 0; memory->jobs_open > 0 && i < MDNN_HASH_JOBS; i++)
        if (memory->jobs[i].job && memory->jobs[i].allocation == allocation)
            return &memory->jobs[i];
    return NULL;
}

static void end_job(mdnn_memory_t *memory, mdnn_hash_job_t *job)
{
    memory->jobs_open--;
    *job = (mdnn_hash_job_t){0};
}

/* Those that nobody wants give their places back once they are over. */
static mdnn_hash_job_t *empty_job(mdnn_memory_t *memory)
{
    for (size_t i = 0; i < MDNN_HASH_JOBS; i++) {
        mdnn_hash_job_t *const job = &memory->jobs[i];
        if (job->job && !job->allocation && memory->device.is_done(memory->context, job->end)) {
            (void)memory->remaker->take_hashes(memory->remaker->context, job->job, NULL);
            end_job(memory, job);
        }
        if (!job->job)
            return job;
    }
    return NULL;
}

void mdnn_allocation_end_judging(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    mdnn_hash_job_t *const job = job_of(memory, allocation);
    if (job)
        job->allocation = NULL;
    allocation->judged = allocation->dropping = false;
}

void mdnn_allocation_may_change(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    allocation->sealed = false; /* a part of it may be on the host and in use there */
    for (const mdnn_making_input_t *input = memory->remaker ? allocation->dependents : NULL; input;
         input = input->next)
        if (!input->making->result->dropped && !MDNN_FAULT(WRITTEN_WHILE_HASHED))
            mdnn_allocation_end_judging(memory, input->making->result);
}

/* All of its content is on the device, and nothing can write it but by naming it. */
static bool is_whole(const mdnn_allocation_t *allocation)
{
    if (!allocation->range)
        return true;
    const mdnn_range_chunks_t chunks = mdnn_range_chunks(allocation->range);
    return chunks.mapped == chunks.count && allocation->filled == chunks.count &&
           !allocation->cut && !allocation->dropped && !allocation->blank && allocation->remap == 0;
}

static bool is_still(mdnn_memory_t *memory, mdnn_allocation_t *input)
{
    const bool free = input->held == 0 || MDNN_FAULT(HASHED_WHILE_HELD);
    return free && input->pins == 0 && !input->freed &&
           (input->sealed || (is_whole(input) && mdnn_allocation_uses_over(memory, input)));
}

static bool inputs_are_still(mdnn_memory_t *memory, const mdnn_making_t *making)
{
    for (uint32_t i = 0; i < making->input_count; i++)
        if (!is_still(memory, making->inputs[i].allocation))
            return false;
    return true;
}

/* Leaves out what is sealed. */
static void choose_hashed(mdnn_hash_job_t *job, mdnn_allocation_t *allocation, bool inputs)
{
    job->allocation = job->hashed[0] = allocation;
    job->count = 1;
    job->of_inputs = inputs;
    for (uint32_t i = 0; inputs && i < allocation->making->input_count; i++) {
        mdnn_allocation_t *const input = allocation->making->inputs[i].allocation;
        job->hashed[job->count++] = input->sealed ? NULL : input;
    }
}

static bool reserve_uses(mdnn_memory_t *memory, const mdnn_hash_job_t *job)
{
    for (size_t i = 0; i < job->count; i++)
        if (job->hashed[i] &&
            mdnn_allocation_reserve_use(memory, job->hashed[i], memory->remaker->stream) !=
                MDNN_STATUS_OK)
            return false;
    return true;
}

/* To the mechanism a hash is a use: what is hashed stays until it is over. */
static bool begin_job(mdnn_memory_t *memory, mdnn_hash_job_t *place, mdnn_allocation_t *allocation,
                      bool inputs)
{
    mdnn_memory_span_t spans[1 + MDNN_MAKING_INPUTS];
    mdnn_hash_job_t job = {0};
    size_t count = 0;
    choose_hashed(&job, allocation, inputs);
    if (!reserve_uses(memory, &job))
        return false;
    for (size_t i = 0; i < job.count; i++)
        if (job.hashed[i])
            spans[count++] = (mdnn_memory_span_t){job.hashed[i]->address, job.hashed[i]->bytes};
    if (memory->remaker->hash(memory->remaker->context, spans, count, &job.job) != MDNN_STATUS_OK)
        return false;
    job.end = memory->device.mark(memory->context, memory->remaker->stream);
    if (memory->device.fix)
        memory->device.fix(memory->context, job.end);
    for (size_t i = 0; i < job.count; i++)
        if (job.hashed[i])
            mdnn_allocation_note_use(job.hashed[i], job.end);
    *place = job;
    memory->jobs_open++;
    memory->steps++;
    return true;
}

static bool is_same(const mdnn_memory_hash_t *a, const mdnn_memory_hash_t *b)
{
    return a->words[0] == b->words[0] && a->words[1] == b->words[1];
}

/* Whether the content and all inputs are what they were; hashes: of those that were hashed. */
static bool is_as_then(mdnn_memory_t *memory, const mdnn_hash_job_t *job,
                       const mdnn_memory_hash_t *hashes)
{
    const mdnn_making_t *const making = job->allocation->making;
    mdnn_memory_hash_t then[1 + MDNN_MAKING_INPUTS];
    size_t at = 0;
    if (!memory->remaker->hashes_then(memory->remaker->context, making->launch, then))
        return false;
    for (size_t i = 0; i < job->count; i++) {
        const mdnn_memory_hash_t *const now =
            job->hashed[i] ? &hashes[at++] : &making->inputs[i - 1].allocation->seal;
        if (!is_same(now, &then[i]) && !MDNN_FAULT(HASHES_IGNORED))
            return false;
    }
    return true;
}

/* Hashes are there. Inputs that were sealed may have come back meanwhile, but then nobody has held them to write. */
static void end_judging(mdnn_memory_t *memory, mdnn_hash_job_t *job)
{
    mdnn_memory_hash_t hashes[1 + MDNN_MAKING_INPUTS];
    mdnn_allocation_t *const allocation = job->allocation;
    const bool known = memory->remaker->take_hashes(memory->remaker->context, job->job, hashes);
    if (known) {
        allocation->sealed = true;
        allocation->seal = hashes[0];
    }
    if (known && job->of_inputs && allocation->making) {
        const bool same = is_as_then(memory, job, hashes);
        allocation->dropping = same && is_shallow(allocation) && has_room(memory, allocation);
        if (!same) {
            note(memory, allocation, MDNN_MAKING_REFUSED);
            mdnn_allocation_end_making(memory, allocation);
        }
    }
    end_job(memory, job);
    allocation->judged = true;
    memory->steps++;
}

/* false: nothing is to be found out. */
static bool begin_judging(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    const bool alone = allocation->held == 0 && !allocation->demanded && allocation->pins == 0;
    const bool can_drop = allocation->making && alone && is_whole(allocation) &&
                          inputs_are_still(memory, allocation->making);
    if (!alone || !is_whole(allocation) || (!can_drop && !allocation->dependents))
        return false;
    mdnn_hash_job_t *const place = empty_job(memory);
    return place && begin_job(memory, place, allocation, can_drop);
}

mdnn_status_t mdnn_allocation_judge(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (!memory->remaker || allocation->judged)
        return MDNN_STATUS_OK;
    if (allocation->dropped) { /* it came back for an operation that could not begin */
        allocation->judged = allocation->dropping = true;
        return MDNN_STATUS_OK;
    }
    mdnn_hash_job_t *const job = job_of(memory, allocation);
    if (!job && begin_judging(memory, allocation))
        return MDNN_STATUS_BUSY;
    if (!job)
        allocation->judged = true;
    else if (!memory->device.is_done(memory->context, job->end))
        return MDNN_STATUS_BUSY;
    else
        end_judging(memory, job);
    return MDNN_STATUS_OK;
}

/* ---- drops ---- */

/* As for an allocation that has never had a content: there is nothing to copy, on the way out or back. */
void mdnn_allocation_drop(mdnn_memory_t *memory, mdnn_allocation_t *allocation)
{
    if (!allocation->dropped) {
        memory->dropped++;
        note(memory, allocation, MDNN_MAKING_DROPPED);
    }
    allocation->dropped = true;
    allocation->dropping = false;
    allocation->blank = true;
    allocation->target = 0;
    memory->steps++;
}

void mdnn_allocation_made(mdnn_memory_t *memory, mdnn_allocation_t *allocation,
                          mdnn_stream_point_t end, mdnn_making_event_t why)
{
    const mdnn_making_t *const making = allocation->making;
    allocation->remade = memory->remade = end;
    for (uint32_t i = 0; i < making->input_count; i++)
        making->inputs[i].allocation->remade = end;
    note(memory, allocation, why);
    mdnn_allocation_end_making(memory, allocation);
}
