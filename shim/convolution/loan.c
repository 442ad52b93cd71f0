#include "shim/convolution/loan.h"

#include <stdatomic.h>
#include <string.h>

#include "config/fault.h"
#include "config/statistics.h"
#include "shim/convolution/execute.h"
#include "shim/convolution/plan_engines.h"
#include "shim/convolution/wd_settings.h"

/* A convolution of the program gives other bits in each run, whatever we do. */
static atomic_bool bits_vary;

static mdnn_operation_kind_t kind_of(const mdnn_call_t *call)
{
    return call->direction == MDNN_BACKWARD_DATA     ? MDNN_OPERATION_BACKWARD_DATA
           : call->direction == MDNN_BACKWARD_FILTER ? MDNN_OPERATION_BACKWARD_FILTER
                                                     : MDNN_OPERATION_FORWARD;
}

static void add_operand(mdnn_virtual_call_t *made, const void *address, const mdnn_call_t *call)
{
    const mdnn_use_role_t role =
        address == mdnn_call_output(call) ? MDNN_USE_UNKNOWN : MDNN_USE_READ;
    if (address)
        made->operands[made->call.operand_count++] =
            (mdnn_memory_operand_t){(uintptr_t)address, role};
}

/* The caller's choice first, then what takes less. If the caller's own engine was not timed, for lack of room, the times
 * of the others say nothing about how much longer they take: there is no choice. */
static void add_variants(mdnn_virtual_call_t *made, const mdnn_conv_plan_t *plan,
                         const mdnn_demand_t *demand, const mdnn_knapsack_item_t *chosen)
{
    mdnn_knapsack_item_t items[MDNN_CALL_VARIANTS];
    const size_t known = mdnn_conv_plan_items(plan, demand, items, MDNN_CALL_VARIANTS);
    const size_t count = known < MDNN_CALL_VARIANTS ? known : MDNN_CALL_VARIANTS;
    made->variants[made->call.variant_count++] =
        (mdnn_variant_t){chosen->time_ms * 1e3, chosen->workspace_bytes};
    if (!(chosen->time_ms > MDNN_FASTEST_MS) ||
        (!atomic_load_explicit(&bits_vary, memory_order_relaxed) &&
         !MDNN_FAULT(BITS_NEED_NOT_REPEAT)))
        return;
    for (size_t i = count; i-- > 0 && made->call.variant_count < MDNN_CALL_VARIANTS;)
        if (items[i].workspace_bytes < chosen->workspace_bytes)
            made->variants[made->call.variant_count++] =
                (mdnn_variant_t){items[i].time_ms * 1e3, items[i].workspace_bytes};
}

static void describe(mdnn_loan_t *loan, const mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                     const mdnn_demand_t *demand, const mdnn_knapsack_item_t *chosen)
{
    mdnn_memory_call_t *const made = &loan->call.call;
    memset(made, 0, sizeof *made);
    made->key = mdnn_problem_hash(mdnn_conv_plan_problem(plan));
    made->name = mdnn_conv_plan_title(plan);
    made->kind = kind_of(call);
    add_operand(&loan->call, call->x, call);
    add_operand(&loan->call, call->w, call);
    add_operand(&loan->call, call->y, call);
    add_operand(&loan->call, call->z, call);
    add_operand(&loan->call, call->bias, call);
    add_variants(&loan->call, plan, demand, chosen);
}

/* Less than the caller's choice takes, and something runs in it. */
static bool is_chosen(const mdnn_conv_plan_t *plan, const mdnn_demand_t *demand,
                      const mdnn_knapsack_item_t *chosen, uint64_t limit_bytes,
                      mdnn_demand_t *limited)
{
    *limited = *demand;
    limited->workspace_bytes = limit_bytes;
    return limit_bytes < chosen->workspace_bytes && mdnn_conv_plan_best(plan, limited) != NULL;
}

static void lend(mdnn_loan_t *loan, mdnn_call_t *call, mdnn_demand_t *demand, uint64_t bytes)
{
    loan->open = mdnn_virtual_call_lend(&loan->call, bytes);
    if (!loan->open)
        return;
    call->workspace = bytes > 0 ? (void *)(uintptr_t)loan->call.lent : NULL;
    call->workspace_bytes = bytes;
    call->pack_fits = false; /* the caller's variant pack has another workspace */
    demand->workspace_bytes = bytes;
    mdnn_count(MDNN_COUNTER_loans, 1);
}

void mdnn_loan_begin(mdnn_loan_t *loan, mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                     mdnn_demand_t *demand, const mdnn_knapsack_item_t *own)
{
    cudaStream_t stream;
    uint64_t limit_bytes;
    mdnn_demand_t limited;
    loan->open = loan->own = false;
    if (!mdnn_virtual_calls_on() || mdnn_wd_is_on() || !plan || !call->workspace)
        return;
    if (!demand->deterministic)
        atomic_store_explicit(&bits_vary, true, memory_order_relaxed);
    const mdnn_ready_t *const ready = mdnn_conv_plan_best(plan, demand);
    if (!ready || call->cudnn->cudnnGetStream(call->handle, &stream) != CUDNN_STATUS_SUCCESS)
        return;
    const mdnn_knapsack_item_t ours = {ready->configuration->time_ms,
                                       ready->configuration->workspace_bytes};
    const mdnn_knapsack_item_t *const chosen = own ? own : &ours;
    loan->call.stream = (CUstream)stream;
    describe(loan, call, plan, demand, chosen);
    if (!mdnn_virtual_call_begin(&loan->call, (uintptr_t)call->workspace, &limit_bytes))
        return;
    if (!is_chosen(plan, demand, chosen, limit_bytes, &limited)) {
        lend(loan, call, demand, chosen->workspace_bytes);
        loan->own = loan->open && own;
        return;
    }
    lend(loan, call, demand, mdnn_conv_plan_best(plan, &limited)->configuration->workspace_bytes);
    if (!loan->open)
        return;
    mdnn_convolution_reported_less(); /* the caller's own algorithm may need more */
    mdnn_count(MDNN_COUNTER_loans_smaller, 1);
}

void mdnn_loan_end(mdnn_loan_t *loan)
{
    if (loan->open)
        mdnn_virtual_call_end(&loan->call);
}
