#include "shim/candidates/candidate_call.h"

#include "config/clock.h"
#include "shim/candidates/shortlist.h"

/* Of 16-bit data the second guess is an algorithm without tensor cores. */
enum { SHORTLIST = 3, SHORTLIST_16_BIT = 1, SHORTLIST_FEW = 1 };

static const float one_float = 1.0F, zero_float = 0.0F;
static const double one_double = 1.0, zero_double = 0.0;

mdnn_graph_scaling_t mdnn_candidate_scaling(const mdnn_measurement_t *measurement,
                                            const mdnn_cost_row_t *row)
{
    if (measurement->request.accumulator && row->images < mdnn_problem_batch(measurement->problem))
        return MDNN_SCALING_APART;
    return row->role == MDNN_PART_REST && measurement->problem->direction == MDNN_BACKWARD_FILTER
               ? MDNN_SCALING_ADD
               : MDNN_SCALING_CALLER;
}

static const void *scalar_of(const mdnn_problem_t *problem, bool is_one)
{
    if (problem->x.type == CUDNN_DATA_DOUBLE)
        return is_one ? &one_double : &zero_double;
    return is_one ? (const void *)&one_float : &zero_float;
}

/* Of plain fp32 and fp64, where engines lack many fast algorithms, `few` has more of them, unless volumes make that
 * slow. */
static unsigned ask_guesses(const mdnn_measurement_t *measurement, const mdnn_call_t *whole)
{
    const mdnn_measure_request_t *const request = &measurement->request;
    const mdnn_problem_tensor_t *const x = &measurement->problem->x;
    if (request->few)
        return mdnn_shortlist_fitting(
            whole, request->brief || x->dim_count > 4 ? SHORTLIST_FEW : SHORTLIST,
            request->limit_bytes);
    return mdnn_shortlist(
        whole,
        x->type == CUDNN_DATA_HALF || x->type == CUDNN_DATA_BFLOAT16 ? SHORTLIST_16_BIT : SHORTLIST,
        request->limit_bytes);
}

/* The legacy algorithms worth a run beside engines: cuDNN's own guess for the whole batch. */
static unsigned legacy_shortlist(mdnn_measurement_t *measurement)
{
    const mdnn_slice_descriptors_t *descriptors;
    mdnn_call_t whole = measurement->call;
    if (measurement->has_shortlist)
        return measurement->shortlist;
    measurement->has_shortlist = true;
    measurement->shortlist = ~0U;
    if (mdnn_slices_get(measurement->slices, mdnn_problem_batch(measurement->problem),
                        &descriptors) != MDNN_STATUS_OK ||
        mdnn_slices_convolution(measurement->slices, measurement->problem->math_type,
                                &whole.conv_desc) != MDNN_STATUS_OK)
        return measurement->shortlist;
    whole.x_desc = descriptors->x;
    whole.y_desc = descriptors->y;
    if (descriptors->w)
        whole.w_desc = descriptors->w;
    const double begin_us = mdnn_now_us();
    measurement->shortlist = ask_guesses(measurement, &whole);
    measurement->us.guesses += mdnn_now_us() - begin_us;
    return measurement->shortlist;
}

bool mdnn_candidate_is_algorithm(const mdnn_measurement_t *measurement, int index)
{
    return index < (measurement->request.brief ? MDNN_CANDIDATE_ALGOS : MDNN_CANDIDATE_LEGACY) &&
           mdnn_candidate_math_type(measurement->problem, index) >= 0 &&
           measurement->problem->interfaces & MDNN_INTERFACE_LEGACY &&
           index % MDNN_CANDIDATE_ALGOS < mdnn_algo_count(measurement->call.direction);
}

bool mdnn_candidate_is_shortlisted(mdnn_measurement_t *measurement, int index)
{
    return mdnn_candidate_is_algorithm(measurement, index) &&
           legacy_shortlist(measurement) & 1U << index % MDNN_CANDIDATE_ALGOS;
}

/* The algorithm, in the math type of the candidate. */
static mdnn_status_t request_algorithm(mdnn_measurement_t *measurement, int index,
                                       mdnn_call_t *whole)
{
    if (measurement->request.brief ? !mdnn_candidate_is_shortlisted(measurement, index)
                                   : !mdnn_candidate_is_algorithm(measurement, index))
        return MDNN_STATUS_UNSUPPORTED;
    whole->algo = index % MDNN_CANDIDATE_ALGOS;
    return mdnn_slices_convolution(measurement->slices,
                                   mdnn_candidate_math_type(measurement->problem, index),
                                   &whole->conv_desc);
}

static mdnn_status_t request_engine(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                                    int index, mdnn_call_t *whole)
{
    const mdnn_engine_offer_t *const offer = mdnn_candidate_engine(measurement->table, index);
    if (!offer || !measurement->request.engines || !row->offered[index - MDNN_CANDIDATE_LEGACY])
        return MDNN_STATUS_UNSUPPORTED;
    whole->algo = MDNN_ALGO_ENGINE + offer->engine.id;
    if (measurement->own_plan && row->images == mdnn_problem_batch(measurement->problem)) {
        whole->uids = measurement->own_uids;
        whole->engine_plan = measurement->own_plan;
        return MDNN_STATUS_OK;
    }
    whole->uids = mdnn_engines_uids(measurement->request.engines);
    const double begin_us = mdnn_now_us();
    const mdnn_status_t status = mdnn_engines_plan(
        measurement->request.engines, whole->handle, row->images,
        mdnn_candidate_scaling(measurement, row), &offer->engine, &whole->engine_plan);
    measurement->us.plans += mdnn_now_us() - begin_us;
    return status;
}

mdnn_status_t mdnn_candidate_call(mdnn_measurement_t *measurement, const mdnn_cost_row_t *row,
                                  int index, const mdnn_slice_descriptors_t **descriptors,
                                  mdnn_call_t *whole)
{
    const mdnn_problem_t *const problem = measurement->problem;
    *whole = measurement->call;
    whole->alpha = scalar_of(problem, true);
    whole->beta = scalar_of(problem, row->role == MDNN_PART_REST || !problem->beta_is_zero);
    if (index < MDNN_CANDIDATE_LEGACY)
        MDNN_TRY(request_algorithm(measurement, index, whole));
    else
        MDNN_TRY(request_engine(measurement, row, index, whole));
    MDNN_TRY(mdnn_slices_get(measurement->slices, row->images, descriptors));
    whole->x_desc = (*descriptors)->x;
    whole->y_desc = (*descriptors)->y;
    if ((*descriptors)->w)
        whole->w_desc = (*descriptors)->w;
    if (measurement->request.accumulator && row->images < mdnn_problem_batch(problem)) {
        whole->accumulator = measurement->request.accumulator;
        whole->accumulate_mode = MDNN_ACCUMULATE_ADD;
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_candidate_call_bytes(const mdnn_call_t *whole, uint64_t *bytes)
{
    size_t needed;
    if (whole->engine_plan)
        needed = whole->engine_plan->workspace_bytes;
    else if (mdnn_call_workspace(whole, &needed) != CUDNN_STATUS_SUCCESS)
        return MDNN_STATUS_UNSUPPORTED;
    *bytes = needed + (whole->accumulator ? whole->accumulator->overhead_bytes : 0);
    return MDNN_STATUS_OK;
}

mdnn_cost_t mdnn_candidate_cost(const mdnn_measurement_t *measurement, const mdnn_call_t *whole,
                                int index)
{
    const mdnn_engine_offer_t *const offer = mdnn_candidate_engine(measurement->table, index);
    if (offer)
        return (mdnn_cost_t){.algo = whole->algo,
                             .engine = offer->engine,
                             .deterministic = offer->deterministic,
                             .direct = offer->direct,
                             .strict = offer->strict};
    return (mdnn_cost_t){
        .algo = whole->algo,
        .math_type = mdnn_candidate_math_type(measurement->problem, index),
        .deterministic = mdnn_algo_is_deterministic(whole->direction, whole->algo),
        .direct = mdnn_algo_is_direct(whole->direction, whole->algo),
        .strict = mdnn_candidate_is_strict(measurement->problem, index),
    };
}
