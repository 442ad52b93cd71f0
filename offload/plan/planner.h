/* Planners: from one recorded period, a budget and the link's rates to a schedule. Plain
 * computation, nothing runs; every answer is checked against the budget and timed by the replay.
 *
 *   none      nothing leaves
 *   conv      vDNN conv (Rhu 2016, 3.3): the input X of every convolution leaves in forward
 *   all       vDNN all: the inputs of all operations of forward leave
 *   dynamic   vDNN's profiling passes, replayed; the first configuration that fits
 *   modnn     Chen 2019, Algorithm 1: leave when memory is short, return when it is time
 *   auto      ours: fewest bytes, longest reuse distance, leave as early and return as late as the
 *             link allows; the best of several such choices, improved step by step */
#ifndef MDNN_PLANNER_H
#define MDNN_PLANNER_H

#include <stdatomic.h>

#include "config/choices.h"
#include "offload/plan/replay.h"

/* Which variants none, conv and all run; dynamic and auto choose, modnn by its
 * equation 10. */
typedef enum mdnn_variants {
    MDNN_VARIANTS_RECORDED,
    MDNN_VARIANTS_FASTEST,  /* the paper's (p) */
    MDNN_VARIANTS_SMALLEST, /* the paper's (m): least workspace */
    MDNN_VARIANTS_FITTING,  /* its greedy pass: at each operation the fastest that fits */
    MDNN_VARIANTS_COUNT
} mdnn_variants_t;

typedef struct mdnn_move_plan_request {
    const mdnn_period_t *period; /* passes mdnn_period_check */
    mdnn_policy_t policy;
    mdnn_variants_t variants;
    mdnn_link_t link;
    uint64_t budget_bytes;
    uint64_t host_limit_bytes;   /* for host copies; UINT64_MAX: none */
    uint32_t effort;             /* auto: replays it may spend; 0: 200 */
    const atomic_bool *unwanted; /* set by another thread: give up; may be NULL */
} mdnn_move_plan_request_t;

typedef enum mdnn_verdict {
    MDNN_VERDICT_FITS,
    MDNN_VERDICT_NEEDS_MORE,  /* the policy needs `needed_bytes`; another may do with less */
    MDNN_VERDICT_HOST_LIMIT,  /* fits, but needs more host memory than allowed */
    MDNN_VERDICT_BELOW_FLOOR, /* no policy can help: the budget is below `floor_bytes` */
    MDNN_VERDICT_COUNT
} mdnn_verdict_t;

typedef struct mdnn_move_plan {
    mdnn_verdict_t verdict;
    mdnn_schedule_t schedule;       /* owned; empty unless FITS */
    mdnn_replay_result_t predicted; /* zero unless FITS or HOST_LIMIT */
    uint64_t needed_bytes;          /* most memory that the schedule holds in program order */
    uint64_t floor_bytes;           /* mdnn_period_floor */
    double link_bound_us;           /* mdnn_link_bound; without meaning below the floor */
    mdnn_policy_t policy;           /* what was chosen: differs for dynamic, and for auto where a */
    mdnn_variants_t variants;       /* policy of the papers was best */
} mdnn_move_plan_t;

/* Deterministic. INVALID_ARGUMENT for a link without rates, OUT_OF_MEMORY; BUSY: given up, which
 * takes no longer than a replay, or the choice of one range; *plan untouched then.
 * Milliseconds for a few thousand operations; auto: `effort` replays of about as many events as the
 * period has operations, times three. Thread-safe: keeps no state. */
mdnn_status_t mdnn_move_plan(const mdnn_move_plan_request_t *request, mdnn_move_plan_t *plan);
void mdnn_move_plan_fini(mdnn_move_plan_t *plan);

/* "none", "conv", ...; NULL out of bounds. */
const char *mdnn_policy_name(mdnn_policy_t policy);

#endif
