/* Host time of mdnn_follower_record while a plan is followed: 3,000 operations with 4 uses each, and
 * ranges that begin and end as in training. Exit status 1 if the limit is missed. */
#include <stdio.h>
#include <stdlib.h>

#include "offload/follow/follower.h"
#include "test/bench/samples.h"

enum {
    LAYERS = 600, /* five operations each: forward, activation, and three backwards */
    OPERATIONS = 5 * LAYERS,
    USES = 4,
    RANGES = 6 * LAYERS,
    WARM_ROUNDS = 24,
    ROUNDS = 20,
    RUNS = 5
};
static const double LIMIT_US = 0.5;

typedef struct step {
    uint64_t key;
    uint32_t ranges[USES];
    uint32_t begins, ends; /* a range, or RANGES: none */
} step_t;

static step_t steps[OPERATIONS];
static uint64_t bytes_of[RANGES];
static uint32_t handles[RANGES];

enum { WEIGHT, OUTPUT, ACTIVATION, GRADIENT, STATE, MASK };

static uint32_t range(int layer, int what)
{
    return (uint32_t)(6 * layer + what);
}

static void fill_layer(int layer)
{
    const int before = layer > 0 ? layer - 1 : 0, after = layer + 1 < LAYERS ? layer + 1 : layer;
    const uint32_t w = range(layer, WEIGHT), y = range(layer, OUTPUT), s = range(layer, STATE),
                   a = range(layer, ACTIVATION), m = range(layer, MASK), g = range(layer, GRADIENT),
                   x = range(before, ACTIVATION), next = range(after, GRADIENT);
    step_t *const forward = &steps[2 * layer];
    step_t *const backward = &steps[2 * LAYERS + 3 * (LAYERS - 1 - layer)];
    forward[0] = (step_t){1, {layer ? x : m, w, y, s}, y, RANGES};
    forward[1] = (step_t){2, {y, a, m, s}, a, RANGES};
    backward[0] = (step_t){3, {y, a, g, layer < after ? next : m}, g, y};
    backward[1] = (step_t){4, {layer ? x : m, g, w, s}, RANGES, a};
    backward[2] = (step_t){5, {g, w, s, m}, RANGES, layer < after ? next : RANGES};
    for (int i = 0; i < 2; i++)
        forward[i].key += (uint64_t)layer << 8;
    for (int i = 0; i < 3; i++)
        backward[i].key += (uint64_t)layer << 8;
    bytes_of[w] = bytes_of[s] = 1 << 20;
    bytes_of[m] = 1 << 18;
    bytes_of[y] = bytes_of[a] = bytes_of[g] = (uint64_t)(8 + layer % 7) << 20;
}

static uint64_t advised;

static void run_round(mdnn_follower_t *follower)
{
    for (int i = 0; i < OPERATIONS; i++) {
        const step_t *const step = &steps[i];
        mdnn_use_t uses[USES];
        mdnn_advice_t advice;
        if (step->begins < RANGES)
            handles[step->begins] =
                mdnn_follower_begin_range(follower, bytes_of[step->begins], false, &steps[0]);
        for (int u = 0; u < USES; u++)
            uses[u] = (mdnn_use_t){handles[step->ranges[u]], MDNN_USE_UNKNOWN};
        const mdnn_history_operation_t operation = {
            .key = step->key, .time_us = 50, .uses = uses, .use_count = USES};
        mdnn_follower_record(follower, &operation, &advice);
        advised += advice.leave_count + advice.back_count;
        if (step->ends < RANGES) {
            mdnn_follower_end_range(follower, handles[step->ends]);
            handles[step->ends] = MDNN_NO_POSITION;
        }
    }
}

static mdnn_follower_t *follow_plan(void)
{
    const mdnn_follower_config_t config = {.policy = MDNN_POLICY_AUTO,
                                           .budget_bytes = (uint64_t)9 << 30,
                                           .host_limit_bytes = UINT64_MAX,
                                           .link = {55300, 55400, 50800, 50800, 10},
                                           .effort = 20};
    mdnn_follower_t *const follower = mdnn_follower_create(&config);
    if (!follower)
        return NULL;
    for (int layer = 0; layer < LAYERS; layer++) {
        fill_layer(layer);
        const int permanent[] = {WEIGHT, STATE, MASK};
        for (int i = 0; i < 3; i++) {
            const uint32_t r = range(layer, permanent[i]);
            handles[r] = mdnn_follower_begin_range(follower, bytes_of[r], false, &steps[0]);
        }
    }
    for (int i = 0; i < WARM_ROUNDS; i++)
        run_round(follower);
    return follower;
}

int main(void)
{
    mdnn_follower_t *const follower = follow_plan();
    double best_us = 1e30;
    if (!follower)
        return EXIT_FAILURE;
    const mdnn_follower_report_t report = mdnn_follower_report(follower);
    if (report.period_operations != OPERATIONS || report.verdict != MDNN_VERDICT_FITS) {
        fprintf(stderr, "no plan: period %u, verdict %d\n", report.period_operations,
                report.verdict);
        return EXIT_FAILURE;
    }
    for (int run = 0; run < RUNS; run++) {
        advised = 0;
        const double begin = now_ns();
        for (int i = 0; i < ROUNDS; i++)
            run_round(follower);
        const double took = (now_ns() - begin) * 1e-3 / ROUNDS / OPERATIONS;
        best_us = took < best_us ? took : best_us;
    }
    const bool good = best_us <= LIMIT_US && advised > 0;
    printf("follower\trecord, begin and end, %d operations, %d uses\t%.3f\tus\t%.1f advised a "
           "round\tlimit %g\t%s\n",
           OPERATIONS, USES, best_us, (double)advised / ROUNDS, LIMIT_US, good ? "ok" : "MISSED");
    mdnn_follower_destroy(follower);
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
