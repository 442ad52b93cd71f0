/* What the knobs of an engine can be set to, and an engine's neighbours: those that differ from it
 * in one knob. */
#ifndef MDNN_ENGINE_KNOBS_H
#define MDNN_ENGINE_KNOBS_H

#include "optimizer/micro_batch.h"
#include "shim/real/real.h"

typedef struct mdnn_knob_range {
    int32_t type; /* cudnnBackendKnobType_t */
    int64_t minimum, maximum, stride;
} mdnn_knob_range_t;

typedef struct mdnn_knob_ranges {
    size_t count;
    mdnn_knob_range_t at[MDNN_ENGINE_KNOBS];
} mdnn_knob_ranges_t;

/* Of a finalised engine. Knobs beyond what an mdnn_engine_t holds are left out, and so is what
 * cannot be read. */
void mdnn_engine_knob_ranges(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t engine,
                             mdnn_knob_ranges_t *ranges);

/* Neighbour number `turn` of `base`, in the order of the knobs and then of their values; the value
 * that `base` has is left out. False if there are no more, or no room for the knob. */
bool mdnn_engine_neighbour(const mdnn_engine_t *base, const mdnn_knob_ranges_t *ranges,
                           int64_t turn, mdnn_engine_t *neighbour);

#endif
