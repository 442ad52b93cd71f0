/* One period of a program that repeats itself, such as a training iteration: its operations (kernels, copies,
 * convolutions) in the order in which the host enqueues them, the ranges (allocations) that they name, and how long
 * each range lives. The history (offload/follow/history.h) records it; planners (offload/plan/planner.h) and the replay
 * (offload/plan/replay.h) read it; files keep it (offload/plan/period_text.h).
 *
 * Positions are indices of operations, 0 to operation_count - 1, and the period is a circle: a
 * range that lives past its end lives on at its beginning. The operations of all streams have one
 * order and are assumed to run in it, one after another. */
#ifndef MDNN_PERIOD_H
#define MDNN_PERIOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/status.h"

/* Longest period: positions of two periods fit into an int32_t. */
enum { MDNN_PERIOD_OPERATIONS = 1 << 24 };
#define MDNN_NO_POSITION UINT32_MAX

typedef enum mdnn_use_role {
    MDNN_USE_UNKNOWN, /* may be written */
    MDNN_USE_READ,
    MDNN_USE_WRITE, /* perhaps in part: the rest keeps its content */
    MDNN_USE_ROLE_COUNT
} mdnn_use_role_t;

typedef struct mdnn_use {
    uint32_t range; /* index into ranges */
    mdnn_use_role_t role;
} mdnn_use_t;

typedef enum mdnn_operation_kind {
    MDNN_OPERATION_OTHER,
    MDNN_OPERATION_FORWARD, /* a convolution; its first use is its input X */
    MDNN_OPERATION_BACKWARD_DATA,
    MDNN_OPERATION_BACKWARD_FILTER,
    MDNN_OPERATION_KIND_COUNT
} mdnn_operation_kind_t;

/* A way to run an operation: for a convolution one of its configurations, otherwise the only way. */
typedef struct mdnn_variant {
    double time_us;           /* finite, >= 0 */
    uint64_t workspace_bytes; /* held while the operation runs; belongs to no range */
} mdnn_variant_t;

typedef struct mdnn_operation {
    uint64_t key; /* identity, independent of addresses; planners ignore it */
    uint32_t stream;
    mdnn_operation_kind_t kind;
    uint32_t first_use, use_count;         /* into uses; each range at most once per operation */
    uint32_t first_variant, variant_count; /* into variants, >= 1; the first is what was recorded */
} mdnn_operation_t;

typedef struct mdnn_period_range {
    uint64_t bytes;         /* memory that it takes; the recorder rounds it to chunks */
    uint64_t padding_bytes; /* of these, what holds nothing, so that nobody copies it */
    /* The range takes memory before operation `birth`, the first that names it, and gives it back
     * after operation `death`, which is past the end of the period if death < birth. Both
     * MDNN_NO_POSITION: lives always. */
    uint32_t birth, death;
    /* It may not leave the device: it is captured, shared with another process, or its life is unclear. */
    bool stays;
} mdnn_period_range_t;

/* {0} is empty and valid. Whoever calls mdnn_period_fini owns the arrays; without that call they are borrowed. */
typedef struct mdnn_period {
    mdnn_operation_t *operations;
    mdnn_use_t *uses;
    mdnn_variant_t *variants;
    mdnn_period_range_t *ranges;
    uint32_t operation_count, use_count, variant_count, range_count;
} mdnn_period_t;

/* What a move of the range copies. */
static inline uint64_t mdnn_range_copied_bytes(const mdnn_period_range_t *range)
{
    return range->bytes - range->padding_bytes;
}

void mdnn_period_fini(mdnn_period_t *period);

/* OUT_OF_MEMORY; *copy untouched on failure. */
mdnn_status_t mdnn_period_copy(const mdnn_period_t *period, mdnn_period_t *copy);

/* Returns INVALID_ARGUMENT for any of these: an index out of bounds; a range that an operation names twice, that is
 * named outside its life, or that is not named at its birth; a time that is negative or not finite; a birth without a
 * death, or a death without a birth. OVERFLOW if all bytes together exceed 2^62. Every period from outside is checked
 * here once; the other functions of offload/ rely on that. O(operations + uses + ranges). */
mdnn_status_t mdnn_period_check(const mdnn_period_t *period);

/* Whether the range lives always (see `birth`). */
bool mdnn_range_is_permanent(const mdnn_period_range_t *range);

/* Whether the range holds memory while operation `position` runs, if it never leaves. */
bool mdnn_range_lives_at(const mdnn_period_range_t *range, uint32_t position);

/* live_bytes[operation_count]: ranges that live at each operation, without workspace. */
void mdnn_period_live_bytes(const mdnn_period_t *period, uint64_t *live_bytes);

/* The index (within the operation) of the fastest variant that needs at most `limit_bytes` and,
 * among equals, has the least workspace; MDNN_NO_POSITION if there is none. */
uint32_t mdnn_operation_fastest(const mdnn_period_t *period, uint32_t position,
                                uint64_t limit_bytes);
/* The variant with the least workspace and, among equals, the fastest. */
uint32_t mdnn_operation_smallest(const mdnn_period_t *period, uint32_t position);

/* The smallest budget in which the period can run (Chen 2019, equations 6 and 7, for the batch that was recorded). One
 * operation needs the ranges that it names, those that live then and may not leave, and its smallest workspace; the
 * floor is the largest such need. OUT_OF_MEMORY. */
mdnn_status_t mdnn_period_floor(const mdnn_period_t *period, uint64_t *floor_bytes);

/* Sum of the times of the recorded variants, or of `choices` (one for each position; may be NULL). */
double mdnn_period_compute_us(const mdnn_period_t *period, const uint32_t *choices);

/* A hash of all that a period consists of, except for its times; processes that do the same work get the same hash.
 * Never 0. */
uint64_t mdnn_period_shape(const mdnn_period_t *period);

/* A stretch in which a range is not used: it may leave after `from` and must be back before `to`.
 * `to` continues to count past the end of the period. */
typedef struct mdnn_gap {
    uint32_t range;
    /* Position of the last use; MDNN_GAP_ALWAYS for a permanent range without a use. */
    int32_t from;
    int32_t to;   /* position of the next use, > from + 1; one_way: the position after the death */
    bool one_way; /* not used again before it dies */
} mdnn_gap_t;
#define MDNN_GAP_ALWAYS INT32_MIN

/* All gaps of ranges that may leave, ordered by range, then by `from`. The caller frees *gaps.
 * OUT_OF_MEMORY. */
mdnn_status_t mdnn_period_gaps(const mdnn_period_t *period, mdnn_gap_t **gaps, size_t *count);

#endif
