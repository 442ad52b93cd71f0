#include "shim/candidates/engine_identity.h"

#include <stdlib.h>
#include <string.h>

#include "shim/candidates/backend.h"

enum { NOTES = 32 };

/* The numerical notes that make results weaker than those of the plain algorithms. */
enum {
    NOTE_TENSOR_CORE = 1 << CUDNN_NUMERICAL_NOTE_TENSOR_CORE,
    NOTES_INDIRECT = 1 << CUDNN_NUMERICAL_NOTE_FFT | 1 << CUDNN_NUMERICAL_NOTE_WINOGRAD |
                     1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4 |
                     1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6 |
                     1 << CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13,
    /* Data that such engines read must have been reordered before. */
    BEHAVIOUR_REORDERED = 1 << CUDNN_BEHAVIOR_NOTE_REQUIRES_FILTER_INT8x32_REORDER |
                          1 << CUDNN_BEHAVIOR_NOTE_REQUIRES_BIAS_INT8x32_REORDER
};

/* An array of enums as bits; a value that does not fit counts as bit 31, which nothing admits. */
static bool get_bits(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t from,
                     cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                     uint32_t *bits)
{
    int32_t values[NOTES];
    int64_t count = 0;
    *bits = 0;
    if (cudnn->cudnnBackendGetAttribute(from, name, type, NOTES, &count, values) !=
        CUDNN_STATUS_SUCCESS)
        return false;
    for (int64_t i = 0; i < count && i < NOTES; i++)
        *bits |= 1U << (values[i] >= 0 && values[i] < 31 ? values[i] : 31);
    return true;
}

static bool read_knob(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t choice,
                      struct mdnn_knob *knob)
{
    cudnnBackendKnobType_t type;
    int64_t value;
    if (!mdnn_backend_get_one(cudnn, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, CUDNN_TYPE_KNOB_TYPE,
                              &type) ||
        !mdnn_backend_get_one(cudnn, choice, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, CUDNN_TYPE_INT64,
                              &value) ||
        value != (int32_t)value)
        return false;
    knob->type = (int32_t)type;
    knob->value = (int32_t)value;
    return true;
}

static int compare_knobs(const void *a, const void *b)
{
    const int32_t x = ((const struct mdnn_knob *)a)->type, y = ((const struct mdnn_knob *)b)->type;
    return (x > y) - (x < y);
}

/* cuDNN does not say how many knobs there are before it is given room for them (it says 0), so
 * there is room for one too many. */
static bool read_knobs(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t configuration,
                       mdnn_engine_t *engine)
{
    enum { ROOM = MDNN_ENGINE_KNOBS + 1 };
    cudnnBackendDescriptor_t choices[ROOM];
    int64_t count = -1;
    const size_t made =
        mdnn_backend_create_many(cudnn, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, choices, ROOM);
    bool good = made == ROOM &&
                cudnn->cudnnBackendGetAttribute(configuration, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
                                                CUDNN_TYPE_BACKEND_DESCRIPTOR, ROOM, &count,
                                                choices) == CUDNN_STATUS_SUCCESS &&
                count >= 0 && count <= MDNN_ENGINE_KNOBS;
    for (int64_t i = 0; good && i < count; i++)
        good = read_knob(cudnn, choices[i], &engine->knobs[i]);
    mdnn_backend_destroy_many(cudnn, choices, made);
    if (!good)
        return false;
    engine->knob_count = (int32_t)count;
    qsort(engine->knobs, (size_t)count, sizeof *engine->knobs, compare_knobs);
    return true;
}

bool mdnn_engine_read_notes(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t engine,
                            uint32_t *notes, uint32_t *behaviour)
{
    if (get_bits(cudnn, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                 notes) &&
        get_bits(cudnn, engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE,
                 behaviour))
        return true;
    *notes = *behaviour = 0;
    return false;
}

mdnn_status_t mdnn_engine_read(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t configuration,
                               mdnn_engine_t *engine, uint32_t *notes, uint32_t *behaviour,
                               bool *notes_known)
{
    int64_t index = -1;
    memset(engine, 0, sizeof *engine);
    *notes = *behaviour = 0;
    *notes_known = false;
    const cudnnBackendDescriptor_t made =
        mdnn_backend_create(cudnn, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    cudnnBackendDescriptor_t of_configuration = made;
    bool good = made && mdnn_backend_get_one(cudnn, configuration, CUDNN_ATTR_ENGINECFG_ENGINE,
                                             CUDNN_TYPE_BACKEND_DESCRIPTOR, &of_configuration);
    if (good) {
        *notes_known = mdnn_engine_read_notes(cudnn, made, notes, behaviour);
        good = *notes_known &&
               mdnn_backend_get_one(cudnn, made, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64,
                                    &index) &&
               index >= 0 && index <= INT16_MAX;
        engine->id = (int32_t)index;
    }
    mdnn_backend_destroy(cudnn, made);
    return good && read_knobs(cudnn, configuration, engine) ? MDNN_STATUS_OK
                                                            : MDNN_STATUS_UNSUPPORTED;
}

bool mdnn_engine_is_admissible(const mdnn_problem_t *problem, uint32_t notes, uint32_t behaviour)
{
    const bool rounds =
        problem->math_type != CUDNN_FMA_MATH || problem->x.type == CUDNN_DATA_DOUBLE;
    const uint32_t weak = notes & MDNN_NOTES_WEAK;
    return notes < 1U << 31 && (weak & ~(uint32_t)problem->weak_notes) == 0 &&
           (rounds || !(notes & NOTE_TENSOR_CORE)) && !(behaviour & BEHAVIOUR_REORDERED);
}

void mdnn_engine_judge(const mdnn_problem_t *problem, uint32_t notes, uint32_t behaviour,
                       mdnn_engine_offer_t *offer)
{
    offer->compiled = behaviour & 1U << CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
    offer->deterministic = !(notes & 1U << CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
    offer->direct = !(notes & NOTES_INDIRECT);
    offer->strict = !(notes & MDNN_NOTES_WEAK) &&
                    !(notes & NOTE_TENSOR_CORE && problem->x.type == CUDNN_DATA_FLOAT);
}
