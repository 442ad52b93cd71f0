#include "optimizer/database_codec.h"

#include <endian.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    DETERMINISTIC = 1,
    DIRECT = 2,
    EXTRAPOLATED = 4,
    UNTIMED = 8,
    STRICT = 16,
    DEFERRED =
        32, /* files of before have none, and such candidates as untimed ones without workspace */
    ALL_FLAGS = 63,
    HEADER_BYTES = 8
};

/* Sums of what is below stay numbers; eleven days are no time for a convolution. */
static const double longest_ms = 1e9;

static unsigned char *put32(unsigned char *bytes, uint32_t value)
{
    value = htole32(value);
    memcpy(bytes, &value, sizeof value);
    return bytes + sizeof value;
}

static unsigned char *put64(unsigned char *bytes, uint64_t value)
{
    value = htole64(value);
    memcpy(bytes, &value, sizeof value);
    return bytes + sizeof value;
}

static unsigned char *put_double(unsigned char *bytes, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return put64(bytes, bits);
}

static uint32_t take32(const unsigned char **bytes)
{
    uint32_t value;
    memcpy(&value, *bytes, sizeof value);
    *bytes += sizeof value;
    return le32toh(value);
}

static uint64_t take64(const unsigned char **bytes)
{
    uint64_t value;
    memcpy(&value, *bytes, sizeof value);
    *bytes += sizeof value;
    return le64toh(value);
}

static double take_double(const unsigned char **bytes)
{
    const uint64_t bits = take64(bytes);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static unsigned char *put_engine(unsigned char *bytes, const mdnn_engine_t *engine)
{
    bytes = put32(bytes, (uint32_t)engine->id);
    bytes = put32(bytes, (uint32_t)engine->knob_count);
    for (int i = 0; i < MDNN_ENGINE_KNOBS; i++) {
        bytes = put32(bytes, (uint32_t)engine->knobs[i].type);
        bytes = put32(bytes, (uint32_t)engine->knobs[i].value);
    }
    return bytes;
}

static bool take_engine(const unsigned char **bytes, mdnn_engine_t *engine)
{
    bool valid = true;
    engine->id = (int32_t)take32(bytes);
    engine->knob_count = (int32_t)take32(bytes);
    for (int i = 0; i < MDNN_ENGINE_KNOBS; i++) {
        engine->knobs[i].type = (int32_t)take32(bytes);
        engine->knobs[i].value = (int32_t)take32(bytes);
        valid &= i < engine->knob_count || (!engine->knobs[i].type && !engine->knobs[i].value);
    }
    return valid && engine->id >= 0 && engine->knob_count >= 0 &&
           engine->knob_count <= MDNN_ENGINE_KNOBS;
}

static unsigned char *put_cost(unsigned char *bytes, const mdnn_cost_t *cost)
{
    bytes = put32(bytes, (uint32_t)cost->algo);
    bytes = put32(bytes, (uint32_t)cost->math_type);
    bytes = put_engine(bytes, &cost->engine);
    bytes = put64(bytes, cost->workspace_bytes);
    bytes = put_double(bytes, cost->time_ms);
    return put32(bytes, (cost->deterministic ? DETERMINISTIC : 0u) | (cost->direct ? DIRECT : 0u) |
                            (cost->strict ? STRICT : 0u) |
                            (cost->extrapolated ? EXTRAPOLATED : 0u) |
                            (cost->untimed ? UNTIMED : 0u) | (cost->deferred ? DEFERRED : 0u));
}

static bool take_cost(const unsigned char **bytes, mdnn_cost_t *cost)
{
    memset(cost, 0, sizeof *cost);
    cost->algo = (int32_t)take32(bytes);
    cost->math_type = (int32_t)take32(bytes);
    const bool is_engine = take_engine(bytes, &cost->engine);
    cost->workspace_bytes = take64(bytes);
    cost->time_ms = take_double(bytes);
    const uint32_t flags = take32(bytes);
    cost->deterministic = (flags & DETERMINISTIC) != 0;
    cost->direct = (flags & DIRECT) != 0;
    cost->strict = (flags & STRICT) != 0;
    cost->extrapolated = (flags & EXTRAPOLATED) != 0;
    cost->untimed = (flags & UNTIMED) != 0;
    cost->deferred = (flags & DEFERRED) != 0;
    const bool timed = cost->time_ms > 0 && cost->time_ms <= longest_ms;
    return is_engine && (cost->untimed ? cost->time_ms == 0 : timed) &&
           (!cost->deferred || !cost->untimed || cost->workspace_bytes == 0) &&
           (flags & ~(uint32_t)ALL_FLAGS) == 0;
}

void mdnn_costs_encode(const mdnn_cost_t *costs, size_t count, unsigned char *bytes)
{
    for (size_t i = 0; i < count; i++)
        bytes = put_cost(bytes, &costs[i]);
}

mdnn_status_t mdnn_costs_decode(const unsigned char *bytes, size_t size, mdnn_cost_t *costs,
                                size_t *count)
{
    if (size % MDNN_COST_BYTES != 0 || size > MDNN_COSTS_BYTES)
        return MDNN_STATUS_BAD_FORMAT;
    for (size_t i = 0; i < size / MDNN_COST_BYTES; i++)
        if (!take_cost(&bytes, &costs[i]))
            return MDNN_STATUS_BAD_FORMAT;
    *count = size / MDNN_COST_BYTES;
    return MDNN_STATUS_OK;
}

static bool is_same_part(const mdnn_micro_config_t *a, const mdnn_micro_config_t *b)
{
    return a->images == b->images && a->cost.algo == b->cost.algo &&
           a->cost.math_type == b->cost.math_type && a->cost.time_ms == b->cost.time_ms &&
           a->cost.workspace_bytes == b->cost.workspace_bytes &&
           a->cost.deterministic == b->cost.deterministic && a->cost.direct == b->cost.direct &&
           a->cost.strict == b->cost.strict &&
           memcmp(&a->cost.engine, &b->cost.engine, sizeof a->cost.engine) == 0 &&
           a->cost.extrapolated == b->cost.extrapolated && a->cost.untimed == b->cost.untimed &&
           a->cost.deferred == b->cost.deferred;
}

static size_t run_end(const mdnn_configuration_t *configuration, size_t begin)
{
    size_t end = begin + 1;
    while (end < configuration->part_count &&
           is_same_part(&configuration->parts[begin], &configuration->parts[end]))
        end++;
    return end;
}

mdnn_status_t mdnn_parts_encode(const mdnn_configuration_t *configuration, unsigned char **bytes,
                                size_t *size)
{
    size_t runs = 0, total;
    for (size_t i = 0; i < configuration->part_count; i = run_end(configuration, i))
        runs++;
    if (__builtin_mul_overflow(runs, (size_t)MDNN_RUN_BYTES, &total) ||
        __builtin_add_overflow(total, (size_t)HEADER_BYTES, &total))
        return MDNN_STATUS_OVERFLOW;
    unsigned char *const made = malloc(total);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;

    unsigned char *next = put_double(made, configuration->time_ms);
    for (size_t i = 0, end; i < configuration->part_count; i = end) {
        end = run_end(configuration, i);
        next = put64(next, end - i);
        next = put64(next, (uint64_t)configuration->parts[i].images);
        next = put_cost(next, &configuration->parts[i].cost);
    }
    *bytes = made;
    *size = total;
    return MDNN_STATUS_OK;
}

static bool is_allowed_size(const mdnn_wr_request_t *request, int64_t images)
{
    if (images == request->batch || request->sizes == MDNN_SIZES_ALL)
        return true;
    return request->sizes == MDNN_SIZES_POWER_OF_TWO && (images & (images - 1)) == 0;
}

/* One run of equal parts; `left` images of the batch are not covered yet. */
static bool take_run(const unsigned char **bytes, const mdnn_wr_request_t *request,
                     uint64_t limit_bytes, int64_t left, mdnn_micro_config_t *part, size_t *count)
{
    const uint64_t parts = take64(bytes);
    const uint64_t images = take64(bytes);

    if (!take_cost(bytes, &part->cost) || images == 0 || parts == 0 || images > (uint64_t)left ||
        parts > (uint64_t)left / images)
        return false;
    part->images = (int64_t)images;
    *count = (size_t)parts;
    const bool all_multiples = images % (uint64_t)request->granularity == 0;
    const bool ends_batch = images * parts == (uint64_t)left;
    return is_allowed_size(request, part->images) &&
           (all_multiples || (ends_batch && parts == 1)) &&
           part->cost.workspace_bytes <= limit_bytes &&
           (part->cost.deterministic || !request->deterministic_only) &&
           (part->cost.direct || !request->direct_only) &&
           (part->cost.strict || !request->strict_only) && !part->cost.untimed;
}

/* Two passes over the runs: with `parts` NULL they are checked and counted, else filled in. */
static bool take_runs(const unsigned char *bytes, size_t runs, const mdnn_wr_request_t *request,
                      uint64_t limit_bytes, mdnn_micro_config_t *parts,
                      mdnn_configuration_t *configuration)
{
    int64_t left = request->batch;

    configuration->part_count = 0;
    configuration->workspace_bytes = 0;
    for (size_t i = 0; i < runs; i++) {
        mdnn_micro_config_t part;
        size_t count;
        if (!take_run(&bytes, request, limit_bytes, left, &part, &count))
            return false;
        if (part.cost.workspace_bytes > configuration->workspace_bytes)
            configuration->workspace_bytes = part.cost.workspace_bytes;
        for (size_t k = 0; parts && k < count; k++)
            parts[configuration->part_count + k] = part;
        configuration->part_count += count;
        left -= part.images * (int64_t)count;
    }
    return left == 0;
}

mdnn_status_t mdnn_parts_decode(const unsigned char *bytes, size_t size,
                                const mdnn_wr_request_t *request, uint64_t limit_bytes,
                                mdnn_configuration_t *configuration)
{
    mdnn_configuration_t read;

    if (size < HEADER_BYTES || (size - HEADER_BYTES) % MDNN_RUN_BYTES != 0 || request->batch < 1 ||
        request->granularity < 1)
        return MDNN_STATUS_BAD_FORMAT;
    const size_t runs = (size - HEADER_BYTES) / MDNN_RUN_BYTES;
    read.time_ms = take_double(&bytes);
    if (!isfinite(read.time_ms) || read.time_ms <= 0 ||
        !take_runs(bytes, runs, request, limit_bytes, NULL, &read))
        return MDNN_STATUS_BAD_FORMAT;
    read.parts = calloc(read.part_count, sizeof *read.parts);
    if (!read.parts)
        return MDNN_STATUS_OUT_OF_MEMORY;
    (void)take_runs(bytes, runs, request, limit_bytes, read.parts, &read);
    *configuration = read;
    return MDNN_STATUS_OK;
}
