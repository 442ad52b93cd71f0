/* A plan of moves for one period (the operations that repeat, offload/plan/period.h): the request, the result, and how
 * proposals are judged. A policy (offload/plan/planner.h) proposes schedules, which say what leaves and returns when
 * (offload/plan/schedule.h); mdnn_move_plan_consider simulates each (offload/plan/replay.h) and keeps the best. These
 * functions keep no state, so they are thread-safe. */
#ifndef MDNN_MOVE_PLAN_H
#define MDNN_MOVE_PLAN_H

#include <stdatomic.h>

#include "config/choices.h"
#include "offload/plan/replay.h"

/* The processes (ranks) whose devices share a link with this one's. {0}: nobody shares it. */
typedef struct mdnn_plan_ranks {
    mdnn_sharing_t sharing;
    uint32_t count; /* ranks that repeat the same period in the same budget, this one included */
    uint32_t own;   /* this rank's number among them, < count; all of them agree on the numbers */
    /* Processes that share the link and do other work; each gets an equal part of it. */
    uint32_t others;
} mdnn_plan_ranks_t;

/* The schedules of all ranks, with which a proposal is replayed: the proposal takes the place of schedules[own] and of
 * those that are NULL. */
typedef struct mdnn_plan_beside {
    const mdnn_schedule_t *const *schedules;
    uint32_t count, own;
    mdnn_link_t link; /* the shared one; the request's is what policies reckon with */
} mdnn_plan_beside_t;

typedef struct mdnn_move_plan_request {
    const mdnn_period_t *period; /* passes mdnn_period_check */
    mdnn_policy_t policy;
    /* Which variant of each operation runs (mdnn_variant_t), with the policies none, conv and all; dynamic and auto
     * choose by themselves, and modnn by its equation 10. RECORDED: the first variant; FASTEST: vDNN's
     * performance-optimal mode (p); SMALLEST: vDNN's memory-optimal mode (m), with the least workspace; FITTING: vDNN's
     * greedy pass, which takes the fastest that fits each time. */
    mdnn_variants_t variants;
    mdnn_link_t link;
    uint64_t budget_bytes;
    double link_bound_us;        /* if the caller knows one (mdnn_certificate); 0: it does not */
    uint64_t host_limit_bytes;   /* for host copies; UINT64_MAX: none */
    uint32_t effort;             /* auto: how many replays it may use; 0: 200 */
    uint32_t seed;               /* auto: another one begins the search with other scores */
    const atomic_bool *unwanted; /* another thread sets it to cancel; may be NULL */
    mdnn_plan_ranks_t ranks;
    const mdnn_plan_beside_t *beside; /* set by mdnn_ranks_plan; NULL: nothing else runs */
} mdnn_move_plan_request_t;

typedef enum mdnn_verdict {
    MDNN_VERDICT_FITS,
    MDNN_VERDICT_NEEDS_MORE,  /* the policy needs `needed_bytes`, but another may need less */
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
    double link_bound_us;           /* mdnn_certificate; meaningless below the floor */
    /* What was chosen. It differs from the request for dynamic, and for auto if a policy of the papers was best. */
    mdnn_policy_t policy;
    mdnn_variants_t variants;
    uint64_t steps; /* what planning cost: steps of all replays, and of auto's choices of gaps */
} mdnn_move_plan_t;

void mdnn_move_plan_fini(mdnn_move_plan_t *plan);

/* OK; BUSY if the plan was cancelled (`unwanted`). */
mdnn_status_t mdnn_move_plan_goes_on(const mdnn_move_plan_request_t *request);

/* Takes over `schedule` (empty afterwards). A schedule that fits is kept in the plan if the plan
 * has none that fits, or a slower one. Of two that are equally fast, the one that moves less is
 * kept, then the one that holds less. Otherwise only verdict and needs are noted. `policy` and `variants` say what made
 * the schedule. OUT_OF_MEMORY; BUSY if the plan was cancelled. */
mdnn_status_t mdnn_move_plan_consider(const mdnn_move_plan_request_t *request, mdnn_policy_t policy,
                                      mdnn_variants_t variants, mdnn_schedule_t *schedule,
                                      mdnn_move_plan_t *plan);

/* Sets the schedule's choices, by the rule that `variants` names, once its moves are decided. OUT_OF_MEMORY. */
mdnn_status_t mdnn_choose_variants(const mdnn_move_plan_request_t *request,
                                   mdnn_variants_t variants, mdnn_schedule_t *schedule);

#endif
