#include "optimizer/resident_tree.h"

#include <stdbool.h>
#include <stdlib.h>

typedef struct mdnn_resident_node node_t;

/* Of places behind the last operation. */
#define NOTHING (INT64_MIN / 2)

mdnn_status_t mdnn_resident_tree_init(mdnn_resident_tree_t *tree, uint32_t count)
{
    *tree = (mdnn_resident_tree_t){.count = (int32_t)count, .leaves = 1};
    while (tree->leaves < tree->count)
        tree->leaves *= 2;
    tree->nodes = calloc((size_t)2 * (size_t)tree->leaves, sizeof *tree->nodes);
    return tree->nodes ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
}

void mdnn_resident_tree_fini(mdnn_resident_tree_t *tree)
{
    free(tree->nodes);
    *tree = (mdnn_resident_tree_t){0};
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void mdnn_resident_tree_set(mdnn_resident_tree_t *tree, const uint64_t *bytes)
{
    for (int32_t i = 0; i < tree->leaves; i++)
        tree->nodes[tree->leaves + i] =
            (node_t){.most = i < tree->count ? (int64_t)bytes[i] : NOTHING};
    for (int32_t i = tree->leaves - 1; i > 0; i--)
        tree->nodes[i] =
            (node_t){.most = larger(tree->nodes[2 * i].most, tree->nodes[2 * i + 1].most)};
}

static void add_to_node(mdnn_resident_tree_t *tree, int32_t node, int64_t bytes)
{
    tree->nodes[node].most += bytes;
    tree->nodes[node].added += bytes;
}

/* Above `leaf`. */
static void refresh(mdnn_resident_tree_t *tree, int32_t leaf)
{
    for (int32_t i = leaf / 2; i > 0; i /= 2, tree->steps++)
        tree->nodes[i].most =
            larger(tree->nodes[2 * i].most, tree->nodes[2 * i + 1].most) + tree->nodes[i].added;
}

static void add(mdnn_resident_tree_t *tree, int32_t from, int32_t to, int64_t bytes)
{
    const int32_t first = from + tree->leaves, last = to - 1 + tree->leaves;
    if (from >= to)
        return;
    for (int32_t low = first, high = last + 1; low < high; low /= 2, high /= 2, tree->steps++) {
        if (low & 1)
            add_to_node(tree, low++, bytes);
        if (high & 1)
            add_to_node(tree, --high, bytes);
    }
    refresh(tree, first);
    refresh(tree, last);
}

void mdnn_resident_tree_add(mdnn_resident_tree_t *tree, int32_t from, int32_t to, int64_t bytes)
{
    const int32_t count = tree->count;
    if (from >= count) {
        from -= count;
        to -= count;
    }
    add(tree, from, to < count ? to : count, bytes);
    add(tree, 0, to - count, bytes);
}

int64_t mdnn_resident_tree_at(mdnn_resident_tree_t *tree, int32_t position)
{
    int64_t bytes = tree->nodes[position + tree->leaves].most;
    for (int32_t i = (position + tree->leaves) / 2; i > 0; i /= 2, tree->steps++)
        bytes += tree->nodes[i].added;
    return bytes;
}

/* Of the operations below `node`, [begin, begin + size), in [from, to). */
static int64_t most_below(mdnn_resident_tree_t *tree, int32_t node, int32_t begin, int32_t size,
                          int32_t from, int32_t to)
{
    tree->steps++;
    if (to <= begin || begin + size <= from)
        return NOTHING;
    if (from <= begin && begin + size <= to)
        return tree->nodes[node].most;
    const int32_t half = size / 2;
    return larger(most_below(tree, 2 * node, begin, half, from, to),
                  most_below(tree, 2 * node + 1, begin + half, half, from, to)) +
           tree->nodes[node].added;
}

int64_t mdnn_resident_tree_most(mdnn_resident_tree_t *tree, int32_t from, int32_t to)
{
    const int32_t count = tree->count;
    if (from >= count) {
        from -= count;
        to -= count;
    }
    if (from >= to)
        return INT64_MIN;
    const int64_t most = most_below(tree, 1, 0, tree->leaves, from, to < count ? to : count);
    return to > count ? larger(most, most_below(tree, 1, 0, tree->leaves, 0, to - count)) : most;
}

/* The first operation from `from` on below the node, or the last one before it, with more than `bytes`. */
static int32_t above(mdnn_resident_tree_t *tree, int32_t node, int32_t begin, int32_t size,
                     int32_t from, int64_t bytes, bool first)
{
    tree->steps++;
    if ((first ? begin + size <= from : begin >= from) || tree->nodes[node].most <= bytes)
        return -1;
    if (size == 1)
        return begin;
    const int32_t half = size / 2;
    const int64_t rest = bytes - tree->nodes[node].added;
    const int32_t left = 2 * node, right = 2 * node + 1;
    const int32_t near = first ? above(tree, left, begin, half, from, rest, first)
                               : above(tree, right, begin + half, half, from, rest, first);
    if (near >= 0)
        return near;
    return first ? above(tree, right, begin + half, half, from, rest, first)
                 : above(tree, left, begin, half, from, rest, first);
}

int32_t mdnn_resident_tree_first_above(mdnn_resident_tree_t *tree, int32_t from, int64_t bytes)
{
    return above(tree, 1, 0, tree->leaves, from, bytes, true);
}

int32_t mdnn_resident_tree_last_above(mdnn_resident_tree_t *tree, int32_t to, int64_t bytes)
{
    return above(tree, 1, 0, tree->leaves, to, bytes, false);
}

int32_t mdnn_resident_tree_peak(mdnn_resident_tree_t *tree)
{
    if (tree->count == 0)
        return 0;
    return mdnn_resident_tree_first_above(tree, 0, tree->nodes[1].most - 1);
}
