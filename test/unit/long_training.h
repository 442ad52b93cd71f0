/* Training of as many layers as wanted, for what planning costs: a forward operation and an activation for each layer,
 * then three backward operations for each, and an update of each weight. Sizes and times vary from layer to layer; every
 * eighth input is used again five layers on (a skip connection), and one range is named by every operation. */
#ifndef LONG_TRAINING_H
#define LONG_TRAINING_H

#include <stdlib.h>

#include "offload/plan/period.h"
#include "test/unit/random.h"

enum { LONG_TRAINING_OPERATIONS = 6, LONG_TRAINING_SKIP = 5 };

typedef struct long_training {
    mdnn_period_t period; /* owned: mdnn_period_fini */
    uint32_t use_room;
} long_training_t;

static inline uint32_t long_training_range(long_training_t *made, uint64_t bytes, bool always)
{
    made->period.ranges[made->period.range_count] =
        (mdnn_period_range_t){.bytes = bytes,
                              .birth = always ? MDNN_NO_POSITION : UINT32_MAX - 1,
                              .death = always ? MDNN_NO_POSITION : 0};
    return made->period.range_count++;
}

static inline void long_training_operation(long_training_t *made, mdnn_operation_kind_t kind,
                                           double time_us, const uint32_t *uses, uint32_t use_count)
{
    mdnn_period_t *const period = &made->period;
    const uint32_t position = period->operation_count++;
    period->variants[period->variant_count] = (mdnn_variant_t){.time_us = time_us};
    period->operations[position] = (mdnn_operation_t){.key = position + 1,
                                                      .kind = kind,
                                                      .first_use = period->use_count,
                                                      .use_count = use_count,
                                                      .first_variant = period->variant_count++,
                                                      .variant_count = 1};
    for (uint32_t u = 0; u < use_count; u++) {
        mdnn_period_range_t *const range = &period->ranges[uses[u]];
        period->uses[period->use_count++] = (mdnn_use_t){uses[u], MDNN_USE_UNKNOWN};
        if (range->birth == MDNN_NO_POSITION)
            continue;
        range->birth = position < range->birth ? position : range->birth;
        range->death = position;
    }
}

/* A slower way to run the operation that was added last, in `bytes` less workspace. */
static inline void long_training_variants(long_training_t *made, uint64_t bytes)
{
    mdnn_period_t *const period = &made->period;
    mdnn_variant_t *const first = &period->variants[period->variant_count - 1];
    first->workspace_bytes = bytes;
    period->variants[period->variant_count++] = (mdnn_variant_t){1.4 * first->time_us, bytes / 8};
    period->operations[period->operation_count - 1].variant_count = 2;
}

/* `operations` or a few less, 12 at least. False without memory. */
static inline bool long_training_make(long_training_t *made, uint32_t operations, bool variants,
                                      uint64_t seed)
{
    const uint32_t layers = operations / LONG_TRAINING_OPERATIONS;
    mdnn_period_t *const period = &made->period;
    uint32_t *const x = calloc((size_t)layers + 1, sizeof *x), *const y = calloc(layers, sizeof *y),
                    *const w = calloc(layers, sizeof *w), *const dw = calloc(layers, sizeof *dw);
    uint64_t state = seed;
    *made = (long_training_t){0};
    period->operations = calloc(operations, sizeof *period->operations);
    period->variants = calloc((size_t)2 * operations, sizeof *period->variants);
    period->uses = calloc((size_t)6 * operations, sizeof *period->uses);
    period->ranges = calloc((size_t)6 * layers + 8, sizeof *period->ranges);
    const bool ok = x && y && w && dw && period->operations && period->variants && period->uses &&
                    period->ranges;
    const uint32_t everywhere = ok ? long_training_range(made, 1 << 20, true) : 0;
    for (uint32_t l = 0; ok && l < layers; l++) {
        const uint64_t bytes = (4 + random_next(&state) % 24) << 20;
        w[l] = long_training_range(made, (1 + random_next(&state) % 3) << 20, true);
        y[l] = long_training_range(made, bytes, false);
        x[l] = long_training_range(made, bytes, false);
    }
    if (ok)
        x[layers] = long_training_range(made, 8 << 20, false);
    for (uint32_t l = 0; ok && l < layers; l++) {
        const bool skips = l % 8 == 7;
        const uint32_t uses[] = {x[l], w[l], y[l], everywhere,
                                 x[skips ? l - LONG_TRAINING_SKIP : 0]};
        long_training_operation(made, MDNN_OPERATION_FORWARD,
                                (double)(40 + random_next(&state) % 120), uses, skips ? 5 : 4);
        if (variants && l % 3 == 0)
            long_training_variants(made, (random_next(&state) % 32) << 20);
        const uint32_t of_activation[] = {y[l], x[l + 1], everywhere};
        long_training_operation(made, MDNN_OPERATION_OTHER, (double)(10 + random_next(&state) % 40),
                                of_activation, 3);
    }
    uint32_t dy = ok ? long_training_range(made, 8 << 20, false) : 0;
    for (uint32_t l = layers; ok && l-- > 0;) {
        const uint32_t g = long_training_range(made, period->ranges[y[l]].bytes, false);
        const uint32_t of_activation[] = {y[l], x[l + 1], dy, g, everywhere};
        long_training_operation(made, MDNN_OPERATION_OTHER, (double)(10 + random_next(&state) % 40),
                                of_activation, 5);
        dw[l] = long_training_range(made, period->ranges[w[l]].bytes, false);
        const uint32_t of_filter[] = {x[l], g, dw[l], everywhere};
        long_training_operation(made, MDNN_OPERATION_BACKWARD_FILTER,
                                (double)(40 + random_next(&state) % 120), of_filter, 4);
        dy = long_training_range(made, period->ranges[x[l]].bytes, false);
        const uint32_t of_data[] = {g, w[l], dy, everywhere};
        long_training_operation(made, MDNN_OPERATION_BACKWARD_DATA,
                                (double)(40 + random_next(&state) % 120), of_data, 4);
    }
    for (uint32_t l = 0; ok && l < layers; l++) {
        const uint32_t of_update[] = {w[l], dw[l], everywhere};
        long_training_operation(made, MDNN_OPERATION_OTHER, 10, of_update, 3);
    }
    free(x);
    free(y);
    free(w);
    free(dw);
    if (!ok)
        mdnn_period_fini(period);
    return ok;
}

#endif
