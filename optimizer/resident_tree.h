/* Bytes that are resident at each operation of a period while a plan is made: a segment tree. It adds bytes to a
 * stretch of operations, and finds an operation with too many bytes, in logarithmic time. Stretches count on past the
 * end of the period, as everywhere in plans: operation `count` is operation 0. */
#ifndef MDNN_RESIDENT_TREE_H
#define MDNN_RESIDENT_TREE_H

#include <stdint.h>

#include "config/status.h"

typedef struct mdnn_resident_tree {
    struct mdnn_resident_node {
        int64_t most;  /* in what lies below, `added` of this node included */
        int64_t added; /* to all that lies below */
    } * nodes;         /* 1 is the root; 2 i and 2 i + 1 lie below i */
    int32_t count, leaves;
    uint64_t steps; /* nodes visited */
} mdnn_resident_tree_t;

/* For `count` operations, none of which holds anything. OUT_OF_MEMORY. */
mdnn_status_t mdnn_resident_tree_init(mdnn_resident_tree_t *tree, uint32_t count);
void mdnn_resident_tree_fini(mdnn_resident_tree_t *tree);

/* bytes[count], none above 2^62. */
void mdnn_resident_tree_set(mdnn_resident_tree_t *tree, const uint64_t *bytes);

/* To the operations of [from, to), to <= from + count. */
void mdnn_resident_tree_add(mdnn_resident_tree_t *tree, int32_t from, int32_t to, int64_t bytes);

int64_t mdnn_resident_tree_at(mdnn_resident_tree_t *tree, int32_t position);

/* The most in [from, to), to <= from + count; INT64_MIN if that is empty. */
int64_t mdnn_resident_tree_most(mdnn_resident_tree_t *tree, int32_t from, int32_t to);

/* The first operation of [from, count), or the last one of [0, to), at which more than `bytes` are held; -1: none. */
int32_t mdnn_resident_tree_first_above(mdnn_resident_tree_t *tree, int32_t from, int64_t bytes);
int32_t mdnn_resident_tree_last_above(mdnn_resident_tree_t *tree, int32_t to, int64_t bytes);

/* The first operation at which most is held; 0 without any. */
int32_t mdnn_resident_tree_peak(mdnn_resident_tree_t *tree);

#endif
