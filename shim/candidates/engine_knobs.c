#include "shim/candidates/engine_knobs.h"

#include <string.h>

static bool get_number(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t knob,
                       cudnnBackendAttributeName_t name, int64_t *number)
{
    int64_t count = 0;
    return cudnn->cudnnBackendGetAttribute(knob, name, CUDNN_TYPE_INT64, 1, &count, number) ==
               CUDNN_STATUS_SUCCESS &&
           count == 1;
}

static bool read_range(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t knob,
                       mdnn_knob_range_t *range)
{
    cudnnBackendKnobType_t type;
    int64_t count = 0;
    if (cudnn->cudnnBackendGetAttribute(knob, CUDNN_ATTR_KNOB_INFO_TYPE, CUDNN_TYPE_KNOB_TYPE, 1,
                                        &count, &type) != CUDNN_STATUS_SUCCESS ||
        count != 1 ||
        !get_number(cudnn, knob, CUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, &range->minimum) ||
        !get_number(cudnn, knob, CUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, &range->maximum) ||
        !get_number(cudnn, knob, CUDNN_ATTR_KNOB_INFO_STRIDE, &range->stride))
        return false;
    range->type = (int32_t)type;
    return range->stride > 0 && range->minimum >= INT32_MIN && range->maximum <= INT32_MAX &&
           range->minimum <= range->maximum;
}

void mdnn_engine_knob_ranges(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t engine,
                             mdnn_knob_ranges_t *ranges)
{
    cudnnBackendDescriptor_t knobs[MDNN_ENGINE_KNOBS];
    int64_t found = 0;
    size_t made = 0;
    ranges->count = 0;
    while (made < MDNN_ENGINE_KNOBS &&
           cudnn->cudnnBackendCreateDescriptor(CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, &knobs[made]) ==
               CUDNN_STATUS_SUCCESS)
        made++;
    if (cudnn->cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_KNOB_INFO,
                                        CUDNN_TYPE_BACKEND_DESCRIPTOR, (int64_t)made, &found,
                                        knobs) == CUDNN_STATUS_SUCCESS)
        for (int64_t i = 0; i < found && i < (int64_t)made; i++)
            if (read_range(cudnn, knobs[i], &ranges->at[ranges->count]))
                ranges->count++;
    while (made > 0)
        (void)cudnn->cudnnBackendDestroyDescriptor(knobs[--made]);
}

/* Where `engine` has that knob, or where it belongs. */
static int32_t place_of(const mdnn_engine_t *engine, int32_t type)
{
    int32_t place = 0;
    while (place < engine->knob_count && engine->knobs[place].type < type)
        place++;
    return place;
}

static bool has_knob(const mdnn_engine_t *engine, int32_t place, int32_t type)
{
    return place < engine->knob_count && engine->knobs[place].type == type;
}

static bool turn_knob(mdnn_engine_t *engine, int32_t type, int64_t value)
{
    const int32_t place = place_of(engine, type);
    if (!has_knob(engine, place, type)) {
        if (engine->knob_count == MDNN_ENGINE_KNOBS)
            return false;
        memmove(&engine->knobs[place + 1], &engine->knobs[place],
                (size_t)(engine->knob_count - place) * sizeof *engine->knobs);
        engine->knob_count++;
    }
    engine->knobs[place].type = type;
    engine->knobs[place].value = (int32_t)value;
    return true;
}

bool mdnn_engine_neighbour(const mdnn_engine_t *base, const mdnn_knob_ranges_t *ranges,
                           int64_t turn, mdnn_engine_t *neighbour)
{
    for (size_t i = 0; i < ranges->count; i++) {
        const mdnn_knob_range_t *const range = &ranges->at[i];
        const int32_t place = place_of(base, range->type);
        const int64_t values = (range->maximum - range->minimum) / range->stride + 1;
        int64_t own = values; /* index of the value to leave out */
        if (has_knob(base, place, range->type)) {
            const int64_t above = base->knobs[place].value - range->minimum;
            if (above >= 0 && above % range->stride == 0 && above / range->stride < values)
                own = above / range->stride;
        }
        const int64_t others = own < values ? values - 1 : values;
        if (turn < others) {
            *neighbour = *base;
            return turn_knob(neighbour, range->type,
                             range->minimum + (turn < own ? turn : turn + 1) * range->stride);
        }
        turn -= others;
    }
    return false;
}
