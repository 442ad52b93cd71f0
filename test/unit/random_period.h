/* Small random periods: programs without sense, and training of a chain of layers. */
#ifndef RANDOM_PERIOD_H
#define RANDOM_PERIOD_H

#include <string.h>

#include "offload/plan/planner.h"
#include "test/unit/random.h"

enum { RANDOM_PERIOD_OPERATIONS = 512, RANDOM_PERIOD_RANGES = 768, RANDOM_PERIOD_USES = 2048 };

typedef struct random_period {
    uint64_t state;
    bool pads;            /* a part of each range is padding */
    mdnn_period_t period; /* borrows the arrays below */
    mdnn_operation_t operations[RANDOM_PERIOD_OPERATIONS];
    mdnn_period_range_t ranges[RANDOM_PERIOD_RANGES];
    mdnn_use_t uses[RANDOM_PERIOD_USES];
    mdnn_variant_t variants[2 * RANDOM_PERIOD_OPERATIONS];
} random_period_t;

static inline uint64_t random_period_below(random_period_t *random, uint64_t end)
{
    return random_next(&random->state) % end;
}

static inline void random_period_start(random_period_t *random, uint64_t seed)
{
    random->state = seed;
    random->pads = false;
    random->period = (mdnn_period_t){.operations = random->operations,
                                     .uses = random->uses,
                                     .variants = random->variants,
                                     .ranges = random->ranges};
}

static inline uint32_t random_period_range(random_period_t *random, uint64_t bytes, uint32_t birth,
                                           uint32_t death)
{
    const uint64_t padding = random->pads ? bytes / (1 + random->period.range_count % 5) / 2 : 0;
    random->ranges[random->period.range_count] = (mdnn_period_range_t){
        .bytes = bytes, .padding_bytes = padding, .birth = birth, .death = death};
    return random->period.range_count++;
}

static inline void random_period_operation(random_period_t *random, mdnn_operation_kind_t kind,
                                           double time_us, uint64_t workspace_bytes)
{
    mdnn_period_t *const period = &random->period;
    random->variants[period->variant_count] = (mdnn_variant_t){time_us, workspace_bytes};
    random->operations[period->operation_count] =
        (mdnn_operation_t){.key = period->operation_count,
                           .kind = kind,
                           .first_use = period->use_count,
                           .first_variant = period->variant_count++,
                           .variant_count = 1};
    period->operation_count++;
}

/* Of the operation that was added last. */
static inline void random_period_variant(random_period_t *random, double time_us, uint64_t bytes)
{
    random->variants[random->period.variant_count++] = (mdnn_variant_t){time_us, bytes};
    random->operations[random->period.operation_count - 1].variant_count++;
}

static inline void random_period_use(random_period_t *random, uint32_t range, mdnn_use_role_t role)
{
    random->uses[random->period.use_count++] = (mdnn_use_t){range, role};
    random->operations[random->period.operation_count - 1].use_count++;
}

/* Any program: ranges of all kinds of life, some across the end of the period. */
static inline void random_period_fill(random_period_t *random, uint64_t seed, uint32_t operations,
                                      uint32_t ranges)
{
    random_period_start(random, seed);
    random->pads = seed % 3 == 0;
    const uint32_t n = operations;
    for (uint32_t r = 0; r < ranges; r++) {
        const uint64_t kind = random_period_below(random, 8),
                       bytes = random_period_below(random, 9);
        uint32_t birth = (uint32_t)random_period_below(random, n);
        uint32_t death = (uint32_t)random_period_below(random, n);
        if (kind < 2)
            birth = death = MDNN_NO_POSITION;
        else if (kind < 7 && birth > death) {
            const uint32_t swap = birth;
            birth = death;
            death = swap;
        }
        random_period_range(random, bytes, birth, death);
        random->ranges[r].stays = random_period_below(random, 8) == 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        random_period_operation(random, MDNN_OPERATION_OTHER,
                                (double)random_period_below(random, 20) / 4,
                                random_period_below(random, 4));
        if (random_period_below(random, 6) == 0)
            random_period_variant(random, (double)random_period_below(random, 20) / 4,
                                  random_period_below(random, 6));
        for (uint32_t r = 0; r < ranges; r++) {
            const bool lives = mdnn_range_lives_at(&random->ranges[r], i);
            if (random->ranges[r].birth == i || (lives && random_period_below(random, 4) == 0))
                random_period_use(random, r, (mdnn_use_role_t)random_period_below(random, 3));
        }
    }
}

/* Training: `layers` convolutions, each with its activation, out of place; then all of it
 * backwards, and an update of the weights. Bytes and times shrink with depth as they do in
 * networks. */
static inline void random_period_training(random_period_t *random, uint64_t seed, uint32_t layers)
{
    enum { MOST = 8 };
    uint32_t x[MOST + 1], y[MOST], w[MOST], dw[MOST], dy, dx = 0;
    random_period_start(random, seed);
    random->pads = seed % 3 == 0;
    const uint32_t turn = 2 * layers, end = turn + 3 * layers + 2; /* the update */
    for (uint32_t l = 0; l < layers; l++) {
        w[l] = random_period_range(random, 1 + random_period_below(random, 3), MDNN_NO_POSITION,
                                   MDNN_NO_POSITION);
        y[l] = random_period_range(random, 1 + random_period_below(random, 12), 2 * l,
                                   turn + 1 + 3 * (layers - 1 - l));
    }
    x[0] = random_period_range(random, 1 + random_period_below(random, 12), 0,
                               turn + 3 * layers - 1 - 0);
    for (uint32_t l = 1; l <= layers; l++)
        x[l] = random_period_range(random, random->ranges[y[l - 1]].bytes, 2 * l - 1,
                                   l == layers ? turn : turn + 2 + 3 * (layers - 1 - l));
    for (uint32_t l = 0; l < layers; l++) {
        random_period_operation(random, MDNN_OPERATION_FORWARD,
                                (double)(4 + random_period_below(random, 40)) / 4,
                                random_period_below(random, 4));
        if (random_period_below(random, 2) == 0)
            random_period_variant(random, (double)(2 + random_period_below(random, 20)) / 4,
                                  2 + random_period_below(random, 8));
        random_period_use(random, x[l], MDNN_USE_READ);
        random_period_use(random, w[l], MDNN_USE_READ);
        random_period_use(random, y[l], MDNN_USE_WRITE);
        random_period_operation(random, MDNN_OPERATION_OTHER,
                                (double)(1 + random_period_below(random, 4)) / 4, 0);
        random_period_use(random, y[l], MDNN_USE_READ);
        random_period_use(random, x[l + 1], MDNN_USE_WRITE);
    }
    random_period_operation(random, MDNN_OPERATION_OTHER, 0.5, 0); /* loss */
    random_period_use(random, x[layers], MDNN_USE_READ);
    dy = random_period_range(random, random->ranges[x[layers]].bytes, turn, turn + 1);
    random_period_use(random, dy, MDNN_USE_WRITE);
    for (uint32_t l = layers; l-- > 0;) {
        const uint32_t here = turn + 1 + 3 * (layers - 1 - l);
        random_period_operation(random, MDNN_OPERATION_OTHER,
                                (double)(1 + random_period_below(random, 4)) / 4, 0);
        dx = random_period_range(random, random->ranges[y[l]].bytes, here, here + 2);
        random_period_use(random, y[l], MDNN_USE_READ);
        random_period_use(random, dy, MDNN_USE_READ);
        random_period_use(random, dx, MDNN_USE_WRITE);
        dy = dx;
        random_period_operation(random, MDNN_OPERATION_BACKWARD_FILTER,
                                (double)(4 + random_period_below(random, 40)) / 4, 0);
        dw[l] = random_period_range(random, random->ranges[w[l]].bytes, here + 1, end);
        random_period_use(random, x[l], MDNN_USE_READ);
        random_period_use(random, dy, MDNN_USE_READ);
        random_period_use(random, dw[l], MDNN_USE_WRITE);
        random_period_operation(random, MDNN_OPERATION_BACKWARD_DATA,
                                (double)(4 + random_period_below(random, 40)) / 4, 0);
        random_period_use(random, w[l], MDNN_USE_READ);
        random_period_use(random, dy, MDNN_USE_READ);
        dx = random_period_range(random, random->ranges[x[l]].bytes, here + 2,
                                 l == 0 ? here + 2 : here + 3);
        random_period_use(random, dx, MDNN_USE_WRITE);
        dy = dx;
    }
    random->ranges[x[0]].death = end - 1;
    random_period_operation(random, MDNN_OPERATION_OTHER, 0.25, 0);
    random_period_operation(random, MDNN_OPERATION_OTHER, 0.5, 0);
    for (uint32_t l = 0; l < layers; l++) {
        random_period_use(random, w[l], MDNN_USE_UNKNOWN);
        random_period_use(random, dw[l], MDNN_USE_READ);
    }
}

static inline mdnn_link_t random_period_link(random_period_t *random)
{
    const double out = (double)(1 + random_period_below(random, 8)) / 2;
    const double in = (double)(1 + random_period_below(random, 8)) / 2;
    const double both = random_period_below(random, 2) ? 1 : 0.75;
    return (mdnn_link_t){out, in, both * out, both * in,
                         (double)random_period_below(random, 3) / 8};
}

#endif
