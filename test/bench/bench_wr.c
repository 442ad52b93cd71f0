/* Time of mdnn_wr_optimize without measuring costs: cuDNN-like algorithms, and a hostile table in
 * which nearly every size is worth a point of the front. Exit status 1 if a limit is missed. */
#include <stdio.h>
#include <stdlib.h>

#include "optimizer/wr.h"
#include "test/bench/samples.h"

static double noise(int64_t images, int32_t algo)
{
    uint64_t z = ((uint64_t)images << 8) + (uint64_t)algo + 1;
    z *= 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 29)) * 0xbf58476d1ce4e5b9u;
    return (double)(z >> 40) / (double)(1 << 24);
}

/* Eight algorithms: launch cost, cost per image, workspace per image; a step every `block` images.
 */
static const struct {
    double fixed_ms, image_ms;
    uint64_t fixed_bytes, image_bytes;
    int64_t block;
} ALGORITHMS[] = {
    {0.005, 0.100, 0, 0, 1},
    {0.006, 0.080, 4096, 512, 1},
    {0.010, 0.070, 0, 2 << 20, 1},
    {0.005, 0.300, 0, 0, 1},
    {0.050, 0.030, 1 << 24, 1 << 20, 16},
    {0.040, 0.040, 1 << 22, 1 << 18, 8},
    {0.008, 0.060, 65536, 64, 4},
    {0.020, 0.035, 1 << 20, 3 << 17, 2},
};
enum { ALGORITHM_COUNT = sizeof ALGORITHMS / sizeof *ALGORITHMS };

static mdnn_status_t find_realistic(void *context, int64_t images, mdnn_part_role_t role,
                                    mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    (void)context, (void)capacity;
    for (int32_t i = 0; i < ALGORITHM_COUNT; i++) {
        const int64_t blocks = (images + ALGORITHMS[i].block - 1) / ALGORITHMS[i].block;
        const double padded = (double)(blocks * ALGORITHMS[i].block);
        costs[i] = (mdnn_cost_t){
            .algo = i,
            .workspace_bytes =
                ALGORITHMS[i].fixed_bytes + (uint64_t)images * ALGORITHMS[i].image_bytes,
            .time_ms = (ALGORITHMS[i].fixed_ms + padded * ALGORITHMS[i].image_ms) *
                       (1 + 0.05 * noise(images, i)) * (role == MDNN_PART_REST ? 1.02 : 1)};
    }
    *count = ALGORITHM_COUNT;
    return MDNN_STATUS_OK;
}

/* Larger sizes are ever faster per image and want ever more workspace, each in eight grades. */
static mdnn_status_t find_hostile(void *context, int64_t images, mdnn_part_role_t role,
                                  mdnn_cost_t *costs, size_t capacity, size_t *count)
{
    (void)context, (void)role, (void)capacity;
    for (int32_t i = 0; i < 8; i++)
        costs[i] = (mdnn_cost_t){.algo = i,
                                 .workspace_bytes = (uint64_t)images * 64 + (uint64_t)i,
                                 .time_ms = 0.01 + (double)images * (1 - 1e-4 * i)};
    *count = 8;
    return MDNN_STATUS_OK;
}

typedef struct bench_case {
    const char *name;
    mdnn_wr_request_t request;
    mdnn_status_t (*find)(void *, int64_t, mdnn_part_role_t, mdnn_cost_t *, size_t, size_t *);
    double limit_ms; /* 0: for information */
} bench_case_t;

static mdnn_wr_request_t request(int64_t batch, mdnn_batch_sizes_t sizes, int64_t granularity,
                                 bool roles_differ)
{
    return (mdnn_wr_request_t){.batch = batch,
                               .sizes = sizes,
                               .granularity = granularity,
                               .roles_differ = roles_differ,
                               .workspace_limit_bytes = UINT64_MAX,
                               .part_overhead_ms = 0.004,
                               .adoption_margin = 0.02};
}

static bool run(const bench_case_t *bench)
{
    const mdnn_cost_source_t source = {NULL, bench->find};
    double best_ms = 1e30;
    size_t points = 0;

    for (int i = 0; i < 3; i++) {
        mdnn_front_t *front;
        const double begin = now_ns();
        if (mdnn_wr_optimize(&bench->request, &source, &front) != MDNN_STATUS_OK)
            return false;
        const double took = (now_ns() - begin) * 1e-6;
        best_ms = took < best_ms ? took : best_ms;
        points = mdnn_front_count(front);
        mdnn_front_destroy(front);
    }
    const bool good = bench->limit_ms <= 0 || best_ms <= bench->limit_ms;
    printf("wr\t%s\t%.3f\tms\t%zu points\tlimit %g\t%s\n", bench->name, best_ms, points,
           bench->limit_ms, good ? "ok" : "MISSED");
    return good;
}

int main(void)
{
    const mdnn_batch_sizes_t all = MDNN_SIZES_ALL, power = MDNN_SIZES_POWER_OF_TWO;
    const bench_case_t cases[] = {
        {"all 256", request(256, all, 1, false), find_realistic, 50},
        {"all 256, roles differ", request(256, all, 1, true), find_realistic, 50},
        {"all 256, granularity 8", request(256, all, 8, true), find_realistic, 50},
        {"all 256, hostile", request(256, all, 1, false), find_hostile, 50},
        {"all 1024", request(1024, all, 1, false), find_realistic, 1000},
        {"all 1024, hostile", request(1024, all, 1, false), find_hostile, 0},
        {"powerOfTwo 256", request(256, power, 1, false), find_realistic, 1},
        {"powerOfTwo 65535", request(65535, power, 1, false), find_realistic, 1000},
        {"powerOfTwo 65536", request(65536, power, 1, false), find_realistic, 1000},
    };
    bool good = true;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        good = run(&cases[i]) && good;
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
