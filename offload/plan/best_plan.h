/* The best plan for a period: with ranges that move as a whole, or with large ranges cut into parts where that is
 * faster. The plan follower makes its plans here, and so does whoever asks what another budget would cost. */
#ifndef MDNN_BEST_PLAN_H
#define MDNN_BEST_PLAN_H

#include "offload/plan/move_plan.h"
#include "offload/plan/parts.h"

typedef struct mdnn_best_plan_request {
    mdnn_move_plan_request_t plan; /* of the period with whole ranges */
    uint64_t chunk_bytes;          /* parts are multiples of this; 0: ranges stay whole */
    /* With effort 0: as many replays as a tenth of a second of one core allows; for more than 2,000 operations as many as
     * the policy likes. */
    bool patient;
} mdnn_best_plan_request_t;

/* *parts says what moves in *plan; both are the caller's. The period must not change meanwhile. Fails as mdnn_move_plan and mdnn_parts_cut do, and then
 * leaves both untouched. Thread-safe: keeps no state. */
mdnn_status_t mdnn_best_plan(const mdnn_best_plan_request_t *request, mdnn_parts_t *parts,
                             mdnn_move_plan_t *plan);

#endif
