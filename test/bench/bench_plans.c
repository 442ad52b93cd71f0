/* What a plan of `auto` costs by the number of operations in an iteration (test/unit/long_training.h), at half of
 * what it holds at most, with whole ranges and parts as the plan follower asks for them.
 *
 *     bench_plans [OPERATIONS...]      10^3 to 10^6
 *
 * Prints for each, without variants and with them: seconds of one core; steps of the planner for each operation;
 * milliseconds of the plan and of the link bound. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "offload/plan/best_plan.h"
#include "test/unit/long_training.h"

static const mdnn_link_t link_of_h200 = {55300, 55400, 50800, 50800, 10};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static bool plan(uint32_t operations, bool variants)
{
    long_training_t made;
    uint64_t peak_bytes;
    mdnn_parts_t parts;
    mdnn_move_plan_t plan;
    const mdnn_schedule_t nothing = {0};
    if (!long_training_make(&made, operations, variants, 1) ||
        mdnn_period_check(&made.period) != MDNN_STATUS_OK ||
        mdnn_schedule_peak(&made.period, &nothing, &peak_bytes) != MDNN_STATUS_OK)
        return false;
    const mdnn_best_plan_request_t request = {.plan = {.period = &made.period,
                                                       .policy = MDNN_POLICY_AUTO,
                                                       .variants = MDNN_VARIANTS_FITTING,
                                                       .link = link_of_h200,
                                                       .budget_bytes = peak_bytes / 2,
                                                       .host_limit_bytes = UINT64_MAX},
                                              .chunk_bytes = 2 << 20,
                                              .patient = true};
    const double begin = seconds();
    const bool good = mdnn_best_plan(&request, &parts, &plan) == MDNN_STATUS_OK;
    const double took = seconds() - begin;
    if (good) {
        printf("plan\t%u operations, %u ranges, variants %s\t%.3f\ts\t%.0f steps for each, plan "
               "%.1f ms, link bound %.1f ms\n",
               made.period.operation_count, made.period.range_count, variants ? "yes" : "no", took,
               (double)plan.steps / made.period.operation_count, plan.predicted.time_us / 1e3,
               plan.link_bound_us / 1e3);
        fflush(stdout);
        mdnn_move_plan_fini(&plan);
        mdnn_parts_fini(&parts);
    }
    mdnn_period_fini(&made.period);
    return good;
}

int main(int argc, char **argv)
{
    static char *each[] = {"1000", "10000", "100000", "1000000"};
    char **const counts = argc > 1 ? argv + 1 : each;
    const int count = argc > 1 ? argc - 1 : (int)(sizeof each / sizeof *each);
    for (int i = 0; i < count; i++)
        for (int variants = 0; variants < 2; variants++)
            if (!plan((uint32_t)strtoul(counts[i], NULL, 10), variants)) {
                fputs("bench_plans: no plan\n", stderr);
                return EXIT_FAILURE;
            }
    return EXIT_SUCCESS;
}
