/* The values of an engine's knobs, and its neighbours, which are the engines that differ from it in
 * one knob. */
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

/* Reads the knobs of a finalised engine. Knobs beyond the room of an mdnn_engine_t are left out,
 * and so are knobs that cannot be read. */
void mdnn_engine_knob_ranges(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t engine,
                             mdnn_knob_ranges_t *ranges);

/* Neighbour number `turn` of `base`, in the order of the knobs and then of their values; the value
 * that `base` has is left out. False if there are no more, or no room for the knob. */
bool mdnn_engine_neighbour(const mdnn_engine_t *base, const mdnn_knob_ranges_t *ranges,
                           int64_t turn, mdnn_engine_t *neighbour);

#endif
