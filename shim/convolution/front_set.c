#include "shim/convolution/front_set.h"

#include <stdlib.h>

#include "config/fault.h"
#include "config/log.h"
#include "shim/real/process.h"

bool mdnn_conv_plan_may_be_split(const mdnn_conv_plan_t *plan)
{
    const mdnn_problem_t *const problem = &plan->key.problem;
    const bool any_half = MDNN_FAULT(HALF_SPLIT) && problem->w.type == CUDNN_DATA_HALF;
    return mdnn_problem_is_divisible(problem) &&
           (any_half || mdnn_problem_parts_may_add_up(problem)) &&
           (!mdnn_accumulator_needed(problem) || mdnn_conv_plan_accumulator(plan));
}

mdnn_wr_request_t mdnn_conv_plan_request(const mdnn_conv_plan_t *plan, uint64_t limit_bytes,
                                         unsigned flags)
{
    const mdnn_problem_t *const problem = &plan->key.problem;
    const mdnn_options_t *const options = mdnn_process_options();
    return (mdnn_wr_request_t){
        .batch = mdnn_problem_batch(problem),
        .sizes = mdnn_conv_plan_may_be_split(plan)
                     ? (mdnn_batch_sizes_t)options->convolution_batch_sizes
                     : MDNN_SIZES_UNDIVIDED,
        .granularity = mdnn_problem_granularity(problem),
        .roles_differ = problem->direction == MDNN_BACKWARD_FILTER && problem->beta_is_zero &&
                        !mdnn_accumulator_needed(problem),
        .deterministic_only = (flags & MDNN_DEMAND_DETERMINISTIC) != 0,
        .direct_only = (flags & MDNN_DEMAND_DIRECT) != 0,
        .strict_only = (flags & MDNN_DEMAND_STRICT) != 0,
        .workspace_limit_bytes = limit_bytes,
        .adoption_margin = options->convolution_adoption_margin / 100.0,
    };
}

/* As in candidate_call.c: what a part in this place of a split is scaled with. */
static mdnn_graph_scaling_t scaling_of(const mdnn_conv_plan_t *plan,
                                       const mdnn_configuration_t *configuration, size_t index)
{
    if (configuration->part_count == 1 || plan->key.problem.direction != MDNN_BACKWARD_FILTER)
        return MDNN_SCALING_CALLER;
    if (mdnn_conv_plan_accumulator(plan))
        return MDNN_SCALING_APART;
    return index == 0 || MDNN_FAULT(GRAPH_BETA_NOT_ONE) ? MDNN_SCALING_CALLER : MDNN_SCALING_ADD;
}

static mdnn_status_t make_engine_plan(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                      const mdnn_configuration_t *configuration, size_t index,
                                      mdnn_ready_part_t *part)
{
    const mdnn_micro_config_t *const micro = &configuration->parts[index];
    if (!plan->engines)
        return MDNN_STATUS_UNSUPPORTED;
    MDNN_TRY(mdnn_engines_plan(plan->engines, call->handle, micro->images,
                               scaling_of(plan, configuration, index), &micro->cost.engine,
                               &part->engine_plan));
    mdnn_engines_keep(part->engine_plan);
    return MDNN_STATUS_OK;
}

static mdnn_status_t algorithm_bytes(const mdnn_call_t *call, const mdnn_ready_part_t *part,
                                     size_t *bytes)
{
    mdnn_call_t whole = *call;
    whole.x_desc = part->descriptors->x;
    whole.y_desc = part->descriptors->y;
    if (part->descriptors->w)
        whole.w_desc = part->descriptors->w;
    whole.conv_desc = part->convolution;
    whole.algo = part->algo;
    return mdnn_call_workspace(&whole, bytes) == CUDNN_STATUS_SUCCESS ? MDNN_STATUS_OK
                                                                      : MDNN_STATUS_UNSUPPORTED;
}

/* How a part is computed: by an engine's plan, or by an algorithm with its descriptor. */
static mdnn_status_t make_means(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                const mdnn_configuration_t *configuration, size_t index,
                                mdnn_ready_part_t *part)
{
    const mdnn_micro_config_t *const micro = &configuration->parts[index];
    const bool adds_up = configuration->part_count > 1 &&
                         plan->key.problem.direction == MDNN_BACKWARD_FILTER &&
                         mdnn_conv_plan_accumulator(plan);
    size_t bytes = 0;
    part->algo = micro->cost.algo;
    if (part->algo < MDNN_ALGO_ENGINE) {
        MDNN_TRY(mdnn_slices_convolution(plan->slices, micro->cost.math_type, &part->convolution));
        if (plan->believes_file)
            MDNN_TRY(algorithm_bytes(call, part, &bytes));
    } else {
        MDNN_TRY(make_engine_plan(plan, call, configuration, index, part));
        bytes = part->engine_plan->workspace_bytes;
    }
    /* What was measured may have been the host's own plan of the engine, whose knobs need less; and a
     * file may say anything. */
    const uint64_t overhead_bytes = adds_up ? plan->accumulator.overhead_bytes : 0;
    return overhead_bytes <= micro->cost.workspace_bytes &&
                   bytes <= micro->cost.workspace_bytes - overhead_bytes
               ? MDNN_STATUS_OK
               : MDNN_STATUS_UNSUPPORTED;
}

/* *part: the one that cannot be made, after a failure. */
static mdnn_status_t make_ready(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                const mdnn_configuration_t *configuration, mdnn_ready_t *ready,
                                size_t *part)
{
    *part = 0;
    ready->configuration = configuration;
    ready->deterministic = true;
    ready->parts = calloc(configuration->part_count, sizeof *ready->parts);
    if (!ready->parts)
        return MDNN_STATUS_OUT_OF_MEMORY;
    int64_t first_image = 0;
    for (; *part < configuration->part_count; ++*part) {
        const mdnn_micro_config_t *const micro = &configuration->parts[*part];
        mdnn_ready_part_t *const made = &ready->parts[*part];
        made->first_image = first_image;
        first_image += micro->images;
        ready->deterministic &= micro->cost.deterministic;
        MDNN_TRY(mdnn_slices_get(plan->slices, micro->images, &made->descriptors));
        MDNN_TRY(make_means(plan, call, configuration, *part, made));
    }
    return MDNN_STATUS_OK;
}

static void destroy_rival(mdnn_ready_t *ready)
{
    mdnn_trial_destroy(ready->trial);
    if (ready->rival)
        free(ready->rival->parts);
    free(ready->rival);
    ready->trial = NULL;
    ready->rival = NULL;
}

static void destroy_ready(mdnn_ready_t *ready)
{
    free(ready->parts);
    destroy_rival(ready);
    *ready = (mdnn_ready_t){.parts = NULL};
}

/* Without a rival, or without events to time with, a split simply runs. So it does, without a
 * trial, where a graph's results must repeat (execute.c), and where the rival cannot be made. */
static void make_rival(mdnn_conv_plan_t *plan, const mdnn_call_t *call, const mdnn_front_t *front,
                       unsigned flags, mdnn_ready_t *ready)
{
    const bool must_repeat = call->problem && flags & MDNN_DEMAND_DETERMINISTIC;
    const mdnn_configuration_t *const undivided =
        ready->configuration->part_count > 1
            ? mdnn_front_best_undivided(front, ready->configuration->workspace_bytes)
            : NULL;
    if (!undivided || (!must_repeat && mdnn_trial_create(&ready->trial) != MDNN_STATUS_OK))
        return;
    size_t part;
    ready->rival = calloc(1, sizeof *ready->rival);
    if (!ready->rival || make_ready(plan, call, undivided, ready->rival, &part) != MDNN_STATUS_OK)
        destroy_rival(ready);
}

/* cuDNN does not make this part, although it was measured: nothing is planned with it again. False if it has no
 * cost of its own, so that the same choice would come back. */
static bool refuse_part(mdnn_conv_plan_t *plan, const mdnn_configuration_t *configuration,
                        size_t part)
{
    const mdnn_micro_config_t *const micro = &configuration->parts[part];
    MDNN_LOG_ONCE(MDNN_LOG_INFO, "plan",
                  "a measured configuration for %lld images (algorithm %d) cannot be made: the "
                  "next best one runs",
                  (long long)micro->images, micro->cost.algo);
    return mdnn_candidate_table_refuse(plan->costs, micro->images, &micro->cost);
}

/* Configurations of the front, ready to run; those that cannot be made are left out, unless it is a file that names
 * them, of which nothing more is believed then. *refused: a part was struck off, so that another choice may take its
 * place. */
static mdnn_status_t make_front_ready(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                      unsigned flags, mdnn_front_set_t *set, bool *refused)
{
    const mdnn_front_t *const front = set->fronts[flags];
    const size_t count = mdnn_front_count(front);
    *refused = false;
    set->ready[flags] = calloc(count, sizeof *set->ready[flags]);
    if (!set->ready[flags])
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t i = 0; i < count; i++) {
        mdnn_ready_t *const ready = &set->ready[flags][set->counts[flags]];
        const mdnn_configuration_t *const configuration = mdnn_front_at(front, i);
        size_t part;
        const mdnn_status_t status = make_ready(plan, call, configuration, ready, &part);
        if (status == MDNN_STATUS_OK) {
            make_rival(plan, call, front, flags, ready);
            set->counts[flags]++;
            continue;
        }
        destroy_ready(ready);
        if (status == MDNN_STATUS_OUT_OF_MEMORY || plan->believes_file)
            return status;
        *refused |= refuse_part(plan, configuration, part);
    }
    return MDNN_STATUS_OK;
}

static void destroy_front(mdnn_front_set_t *set, unsigned flags)
{
    for (size_t i = 0; i < set->counts[flags]; i++)
        destroy_ready(&set->ready[flags][i]);
    free(set->ready[flags]);
    mdnn_front_destroy(set->fronts[flags]);
    set->ready[flags] = NULL;
    set->fronts[flags] = NULL;
    set->counts[flags] = 0;
}

void mdnn_front_set_destroy(mdnn_front_set_t *set)
{
    for (unsigned flags = 0; set && flags < MDNN_DEMAND_FLAGS; flags++)
        destroy_front(set, flags);
    free(set);
}

/* A combination that nothing satisfies simply has no configurations. Each turn but the last strikes off a
 * candidate. */
mdnn_status_t mdnn_front_set_fill(mdnn_conv_plan_t *plan, const mdnn_call_t *call,
                                  const mdnn_cost_source_t *source, unsigned flags,
                                  mdnn_front_set_t *set)
{
    if (flags & MDNN_DEMAND_STRICT &&
        !(call->problem && mdnn_conv_plan_may_round(&plan->key.problem)))
        return MDNN_STATUS_OK; /* nobody can ask for it */
    const mdnn_wr_request_t request = mdnn_conv_plan_request(plan, set->limit_bytes, flags);
    for (bool refused = true; refused;) {
        destroy_front(set, flags);
        const mdnn_status_t status = mdnn_wr_optimize(&request, source, &set->fronts[flags]);
        if (status == MDNN_STATUS_NOT_FOUND)
            return MDNN_STATUS_OK;
        MDNN_TRY(status);
        MDNN_TRY(make_front_ready(plan, call, flags, set, &refused));
    }
    return MDNN_STATUS_OK;
}
