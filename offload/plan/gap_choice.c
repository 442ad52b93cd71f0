#include "offload/plan/gap_choice.h"

#include <math.h>
#include <stdlib.h>

typedef struct mdnn_gap_node node_t;

static const node_t nothing = {-1, -1};

typedef struct sized {
    uint64_t bytes;
    uint32_t gap;
} sized_t;

static int compare_sizes(const void *left, const void *right)
{
    const sized_t *const a = left, *const b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->gap < b->gap ? -1 : a->gap > b->gap;
}

mdnn_status_t mdnn_gap_choice_init(mdnn_gap_choice_t *choice, const mdnn_period_t *period,
                                   const mdnn_gap_t *gaps, size_t gap_count)
{
    *choice = (mdnn_gap_choice_t){.count = (uint32_t)gap_count, .leaves = 1};
    while (choice->leaves < choice->count)
        choice->leaves *= 2;
    choice->nodes = calloc((size_t)2 * choice->leaves, sizeof *choice->nodes);
    choice->place = calloc(gap_count + 1, sizeof *choice->place);
    choice->gap = calloc(gap_count + 1, sizeof *choice->gap);
    choice->bytes = calloc(gap_count + 1, sizeof *choice->bytes);
    sized_t *const sized = calloc(gap_count + 1, sizeof *sized);
    if (!choice->nodes || !choice->place || !choice->gap || !choice->bytes || !sized) {
        free(sized);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    for (uint32_t g = 0; g < gap_count; g++)
        sized[g] = (sized_t){period->ranges[gaps[g].range].bytes, g};
    if (gap_count > 0)
        qsort(sized, gap_count, sizeof *sized, compare_sizes);
    for (uint32_t leaf = 0; leaf < gap_count; leaf++) {
        choice->place[sized[leaf].gap] = leaf;
        choice->gap[leaf] = sized[leaf].gap;
        choice->bytes[leaf] = sized[leaf].bytes;
    }
    free(sized);
    return MDNN_STATUS_OK;
}

void mdnn_gap_choice_fini(mdnn_gap_choice_t *choice)
{
    free(choice->nodes);
    free(choice->place);
    free(choice->gap);
    free(choice->bytes);
    *choice = (mdnn_gap_choice_t){0};
}

/* What is far or long is so whatever is missing; then leaves are in the order of gaps. */
static bool is_by_bytes(const mdnn_gap_choice_t *choice)
{
    return choice->rule == MDNN_GAP_FEW || choice->rule == MDNN_GAP_LARGE;
}

void mdnn_gap_choice_start(mdnn_gap_choice_t *choice, mdnn_gap_rule_t rule)
{
    choice->rule = rule;
    for (uint32_t i = 0; i < 2 * choice->leaves; i++)
        choice->nodes[i] = nothing;
}

static void set_leaf(mdnn_gap_choice_t *choice, uint32_t gap, node_t node)
{
    node_t *const nodes = choice->nodes;
    uint32_t i = choice->leaves + (is_by_bytes(choice) ? choice->place[gap] : gap);
    nodes[i] = node;
    for (i /= 2; i > 0; i /= 2) {
        const node_t *const left = &nodes[2 * i], *const right = &nodes[2 * i + 1];
        const node_t best = {left->enough >= right->enough ? left->enough : right->enough,
                             left->more >= right->more ? left->more : right->more};
        choice->steps++;
        if (nodes[i].enough == best.enough && nodes[i].more == best.more)
            return;
        nodes[i] = best;
    }
}

void mdnn_gap_choice_enter(mdnn_gap_choice_t *choice, uint32_t gap, double base)
{
    const double bytes = (double)choice->bytes[choice->place[gap]];
    set_leaf(choice, gap,
             choice->rule == MDNN_GAP_LARGE ? (node_t){bytes * base, base}
                                            : (node_t){base, base / bytes});
}

void mdnn_gap_choice_leave(mdnn_gap_choice_t *choice, uint32_t gap)
{
    set_leaf(choice, gap, nothing);
}

/* How many leaves are not larger than `bytes`. */
static uint32_t leaves_within(const mdnn_gap_choice_t *choice, uint64_t bytes)
{
    uint32_t low = 0, high = choice->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (choice->bytes[middle] <= bytes)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double value_of(const node_t *node, bool more)
{
    return more ? node->more : node->enough;
}

/* The first leaf of [from, to) with the best value, as a node; 0: there is none. */
static uint32_t best_leaf(mdnn_gap_choice_t *choice, uint32_t from, uint32_t to, bool more)
{
    const node_t *const nodes = choice->nodes;
    uint32_t best = 0, best_later = 0;
    for (uint32_t low = from + choice->leaves, high = to + choice->leaves; low < high;
         low /= 2, high /= 2, choice->steps++) {
        if (low & 1) {
            if (value_of(&nodes[low], more) > (best ? value_of(&nodes[best], more) : -1))
                best = low;
            low++;
        }
        if (high & 1) {
            high--;
            if (value_of(&nodes[high], more) >=
                (best_later ? value_of(&nodes[best_later], more) : 0))
                best_later = high;
        }
    }
    if (best_later && (!best || value_of(&nodes[best_later], more) > value_of(&nodes[best], more)))
        best = best_later;
    while (best > 0 && best < choice->leaves) {
        const double value = value_of(&nodes[best], more);
        best = value_of(&nodes[2 * best], more) == value ? 2 * best : 2 * best + 1;
        choice->steps++;
    }
    return best;
}

uint32_t mdnn_gap_choice_best(mdnn_gap_choice_t *choice, uint64_t missing_bytes)
{
    const bool by_bytes = is_by_bytes(choice);
    const uint32_t within = by_bytes ? leaves_within(choice, missing_bytes) : choice->count;
    const uint32_t enough = best_leaf(choice, 0, within, false);
    const uint32_t more = by_bytes ? best_leaf(choice, within, choice->count, true) : 0;
    uint32_t best = enough;
    if (more && (!enough ||
                 choice->nodes[more].more * (double)missing_bytes > choice->nodes[enough].enough))
        best = more;
    if (best == 0)
        return UINT32_MAX;
    return by_bytes ? choice->gap[best - choice->leaves] : best - choice->leaves;
}
