/* The workspace of a convolution under a budget, with memory.variants on: memory that is lent for the call, as much as
 * the plan gives it. The plan chooses among the caller's own choice and those configurations of the problem's front
 * that promise as much as that choice and take no more workspace.
 *
 * While every convolution of the program gives the same bits in each run, only the program's own choice is offered,
 * because a plan depends on measured times, and then the bits would depend on them, too. */
#ifndef MDNN_LOAN_H
#define MDNN_LOAN_H

#include "shim/convolution/plan.h"
#include "shim/vmem/virtual_workspaces.h"

typedef struct mdnn_loan {
    mdnn_virtual_call_t call;
    bool open;
    bool own; /* the caller's own plan runs, in the lent workspace */
} mdnn_loan_t;

/* `own`: time and workspace of the caller's own plan, if that one would run; NULL: a configuration of ours would. Gives
 * `call` a lent workspace, and `demand` its size. Where that is not possible, or nothing can be chosen, both stay as
 * they are, and the loan is not open. The same thread must enqueue the call next and end the loan. Thread-safe;
 * allocates device memory like a program that allocates a workspace for each call. */
void mdnn_loan_begin(mdnn_loan_t *loan, mdnn_call_t *call, const mdnn_conv_plan_t *plan,
                     mdnn_demand_t *demand, const mdnn_knapsack_item_t *own);
void mdnn_loan_end(mdnn_loan_t *loan);

#endif
