#include "shim/vmem/workspace_sizes.h"

#include <stddef.h>
#include <string.h>

#include "config/fault.h"
#include "shim/real/tensor_layout.h"

/* More than the algorithms of a direction. */
enum { SIZES = 16, OPERANDS = MDNN_WORKSPACE_OPERANDS };

typedef struct note {
    uint64_t bytes;              /* 0: none */
    uint64_t operands[OPERANDS]; /* 0: not known */
    bool wanted;                 /* no convolution of the thread ran since, */
    bool refused;                /* and what was asked for then was refused */
} note_t;

static _Thread_local struct {
    note_t notes[SIZES];
    unsigned next;
    bool any_wanted;
} known __attribute__((tls_model("initial-exec")));

static uint64_t bytes_of(const mdnn_problem_tensor_t *tensor)
{
    const uint64_t bytes = mdnn_tensor_bytes(tensor, tensor->dims[0]);
    return bytes < UINT64_MAX / OPERANDS ? bytes : 0; /* no memory has so much */
}

void mdnn_workspace_operand_sizes(const mdnn_problem_t *problem,
                                  uint64_t sizes[MDNN_WORKSPACE_OPERANDS])
{
    sizes[0] = bytes_of(&problem->x);
    sizes[1] = bytes_of(&problem->w);
    sizes[2] = bytes_of(&problem->y);
}

static uint64_t sum_of(const uint64_t sizes[OPERANDS])
{
    uint64_t sum = 0;
    for (size_t i = 0; i < OPERANDS; i++)
        sum += sizes[i];
    return sum;
}

/* Of two convolutions that want as much, the one that needs less beside it counts. */
static void note(uint64_t bytes, const uint64_t operands[OPERANDS])
{
    size_t place = 0;
    while (place < SIZES && known.notes[place].bytes != bytes)
        place++;
    if (place == SIZES)
        place = known.next++ % SIZES;
    note_t *const kept = &known.notes[place];
    if (kept->bytes != bytes || !kept->wanted || sum_of(operands) < sum_of(kept->operands))
        memcpy(kept->operands, operands, sizeof kept->operands);
    kept->bytes = bytes;
    kept->wanted = known.any_wanted = true;
    kept->refused = false;
}

void mdnn_workspace_note(uint64_t bytes, const mdnn_problem_t *problem)
{
    uint64_t operands[OPERANDS] = {0};
    if (bytes == 0)
        return;
    if (problem)
        mdnn_workspace_operand_sizes(problem, operands);
    note(bytes, operands);
}

void mdnn_workspace_note_algorithms(const int *returned, const mdnn_algo_perf_t *results,
                                    const mdnn_problem_t *problem)
{
    if (!returned || !results)
        return;
    for (int i = 0; i < *returned; i++)
        if (results[i].status == CUDNN_STATUS_SUCCESS)
            mdnn_workspace_note(results[i].memory, problem);
}

static bool is_rounded(uint64_t size, uint64_t bytes, uint64_t unit)
{
    return bytes >= size && bytes - size < unit && (bytes == size || bytes % unit == 0);
}

static bool is_size(uint64_t size, uint64_t bytes)
{
    enum { BLOCK = 512, SEGMENT = 2 << 20 };
    return size > 0 && (is_rounded(size, bytes, BLOCK) || is_rounded(size, bytes, SEGMENT));
}

bool mdnn_workspace_is_size(uint64_t bytes)
{
    for (size_t i = 0; i < SIZES; i++)
        if (is_size(known.notes[i].bytes, bytes))
            return true;
    return false;
}

static bool is_size_of_operand(uint64_t bytes)
{
    for (size_t i = 0; i < SIZES; i++)
        for (size_t j = 0; known.notes[i].wanted && j < OPERANDS; j++)
            if (is_size(known.notes[i].operands[j], bytes))
                return true;
    return false;
}

static note_t *find_wanted(uint64_t bytes)
{
    note_t *least = NULL;
    for (note_t *kept = known.notes; known.any_wanted && kept < known.notes + SIZES; kept++)
        if (kept->wanted && is_size(kept->bytes, bytes) &&
            (!least || sum_of(kept->operands) < sum_of(least->operands)))
            least = kept;
    return least && sum_of(least->operands) > 0 && !is_size_of_operand(bytes) ? least : NULL;
}

bool mdnn_workspace_is_wanted(uint64_t bytes, uint64_t sizes[MDNN_WORKSPACE_OPERANDS])
{
    const note_t *const kept = find_wanted(bytes);
    if (kept)
        memcpy(sizes, kept->operands, sizeof kept->operands);
    return kept != NULL;
}

void mdnn_workspace_refused(uint64_t bytes)
{
    const note_t *const found = find_wanted(bytes);
    const note_t half = found ? *found : (note_t){0};
    for (note_t *kept = known.notes; kept < known.notes + SIZES; kept++) {
        kept->refused = kept->refused || is_size(kept->bytes, bytes);
        kept->wanted = !kept->refused && kept->bytes > 0 && kept->bytes < bytes &&
                       !MDNN_FAULT(OTHER_PLANS_ARE_NOT_WANTED);
        known.any_wanted = known.any_wanted || kept->wanted;
    }
    if (half.bytes > 1 && !MDNN_FAULT(WORKSPACE_IS_NOT_HALVED))
        note(half.bytes / 2, half.operands);
}

void mdnn_workspace_over(void)
{
    if (MDNN_FAULT(WANTED_FOR_EVER))
        return;
    for (size_t i = 0; known.any_wanted && i < SIZES; i++)
        known.notes[i].wanted = false;
    known.any_wanted = false;
}

/* ---- used ---- */

static struct mdnn_used_workspace *find_used(mdnn_used_workspaces_t *all, uint64_t bytes)
{
    for (size_t i = 0; i < MDNN_WORKSPACES_USED; i++)
        if (all->used[i].bytes == bytes)
            return &all->used[i];
    return NULL;
}

void mdnn_workspace_forget(mdnn_used_workspaces_t *all, uint64_t bytes)
{
    struct mdnn_used_workspace *const found = bytes > 0 ? find_used(all, bytes) : NULL;
    if (found)
        *found = (struct mdnn_used_workspace){0};
}

void mdnn_workspace_learn(mdnn_used_workspaces_t *all, uint64_t bytes,
                          const uint64_t sizes[MDNN_WORKSPACE_OPERANDS])
{
    struct mdnn_used_workspace *found = find_used(all, bytes);
    if (found && memcmp(found->operands, sizes, sizeof found->operands) == 0)
        return;
    for (size_t i = 0; i < OPERANDS; i++)
        mdnn_workspace_forget(all, sizes[i]); /* tensors have that size, too */
    for (size_t i = 0; i < OPERANDS; i++)
        if (bytes == 0 || sizes[i] == bytes)
            return;
    if (found && sum_of(found->operands) <= sum_of(sizes))
        return;
    if (!found)
        found = &all->used[all->next++ % MDNN_WORKSPACES_USED];
    found->bytes = bytes;
    memcpy(found->operands, sizes, sizeof found->operands);
}

bool mdnn_workspace_was_used(const mdnn_used_workspaces_t *all, uint64_t bytes,
                             uint64_t sizes[MDNN_WORKSPACE_OPERANDS])
{
    /* Asked at each allocation: programs without convolutions need not pay for it. */
    for (size_t i = 0; bytes > 0 && all->next > 0 && i < MDNN_WORKSPACES_USED; i++)
        if (all->used[i].bytes == bytes && !MDNN_FAULT(WORKSPACES_USED_ARE_FORGOTTEN)) {
            memcpy(sizes, all->used[i].operands, sizeof all->used[i].operands);
            return true;
        }
    return false;
}
