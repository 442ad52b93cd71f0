/* Policy wd: the division of the arena among streams and layers (Oyama 2018, section III-D). Knows
 * networks, fronts and solvers; keeps no state and takes no lock. */
#ifndef MDNN_WD_POLICY_H
#define MDNN_WD_POLICY_H

#include "optimizer/network.h"
#include "optimizer/wd.h"

/* Regions and segments begin at multiples of this, the alignment of an allocation. */
enum { MDNN_WD_ALIGNMENT_BYTES = 512 };

/* Bytes of the arena. */
typedef struct mdnn_wd_segment {
    uint64_t offset, bytes;
} mdnn_wd_segment_t;

/* Convolutions that run one after another, in one stream. */
typedef struct mdnn_wd_group {
    const mdnn_network_t *network; /* NULL: not known yet */
    mdnn_wd_segment_t region;
    /* A segment per layer of the network, within the region; NULL: the layers share the region. The
     * owner of the group owns it. */
    mdnn_wd_segment_t *segments;
} mdnn_wd_group_t;

/* Points of the desirable set of a call, workspace ascending: fills at most `capacity`, returns how
 * many there are. */
typedef size_t (*mdnn_wd_items_t)(const mdnn_network_call_t *call, mdnn_knapsack_item_t *items,
                                  size_t capacity);

typedef struct mdnn_wd_settings {
    mdnn_wd_model_t model;
    mdnn_wd_solver_t solver;
    double solver_ms;
    const char *glpk_program; /* NULL: find_program says where microdnn-ilp is */
    /* Finds the path of a program of our installation; false: there is none. NULL means the
     * same. */
    bool (*find_program)(const char *name, char *path, size_t bytes);
} mdnn_wd_settings_t;

/* Divides the first `bytes` of the arena among `count` >= 1 groups: fills `region` and `segments`
 * (NULL before). Gives equal shares if a network is not known or nothing can be solved; in the
 * model `shared`, a single group gets everything. The result is always a valid division; failures
 * are logged. */
void mdnn_wd_divide(const mdnn_wd_settings_t *settings, mdnn_wd_items_t items, uint64_t bytes,
                    mdnn_wd_group_t *groups, size_t count);

#endif
