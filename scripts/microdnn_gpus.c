/* The GPUs of scripts/gpus.def. */
#include <stddef.h>
#include <string.h>

#include "config/numbers.h"
#include "scripts/microdnn_advice.h"

typedef struct link_rate {
    int generation;
    double nominal_gb_s, share, duplex_share;
} link_rate_t;

#define LINK(generation, nominal, share, duplex) {generation, nominal, share, duplex},
#define GPU(name, gib, generation, lanes, cores, mhz, tf32, fp16, memory, source)
static const link_rate_t links[] = {
#include "scripts/gpus.def"
};
#undef LINK
#undef GPU

#define LINK(generation, nominal, share, duplex)
#define GPU(name, gib, generation, lanes, cores, mhz, tf32, fp16, memory, source)                  \
    {name, source, (uint64_t)(gib) << 30, generation, lanes, 2e-6 * (cores) * (mhz), tf32,         \
     fp16, memory},
static const tool_gpu_t gpus[] = {
#include "scripts/gpus.def"
};

const tool_gpu_t *tool_gpu_at(size_t index)
{
    return index < sizeof gpus / sizeof *gpus ? &gpus[index] : NULL;
}

static bool contains(const char *text, const char *word)
{
    const size_t bytes = strlen(word);
    char part[MDNN_RECORD_NAME_BYTES];
    for (; strlen(text) >= bytes; text++) {
        memcpy(part, text, bytes);
        part[bytes] = '\0';
        if (mdnn_same_word(part, word, bytes))
            return true;
    }
    return false;
}

const tool_gpu_t *tool_gpu_named(const char *device_name)
{
    const tool_gpu_t *found = NULL;
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++)
        if (contains(device_name, gpus[i].name) &&
            (!found || strlen(gpus[i].name) > strlen(found->name)))
            found = &gpus[i];
    return found;
}

size_t tool_gpus_like(const char *text, const tool_gpu_t **gpu)
{
    size_t count = 0;
    for (size_t i = 0; i < sizeof gpus / sizeof *gpus; i++) {
        if (!contains(gpus[i].name, text))
            continue;
        *gpu = &gpus[i];
        if (strlen(text) == strlen(gpus[i].name))
            return 1;
        count++;
    }
    return count;
}

/* What has no such tensor cores computes with its fp32 units. */
double tool_gpu_tflops(const tool_gpu_t *gpu, tool_arithmetic_t arithmetic)
{
    const double times = arithmetic == TOOL_ARITHMETIC_TF32   ? gpu->tf32
                         : arithmetic == TOOL_ARITHMETIC_FP16 ? gpu->fp16
                                                              : 1;
    return gpu->fp32_tflops * (times > 0 ? times : 1);
}

mdnn_link_t tool_gpu_link(const tool_gpu_t *gpu, double latency_us)
{
    mdnn_link_t link = {.latency_us = latency_us};
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        if (links[i].generation != gpu->generation)
            continue;
        const double bytes_per_us = links[i].nominal_gb_s * 1e3 * gpu->lanes / 16;
        link.out_bytes_per_us = link.in_bytes_per_us = bytes_per_us * links[i].share;
        link.out_duplex_bytes_per_us = link.in_duplex_bytes_per_us =
            bytes_per_us * links[i].duplex_share;
    }
    return link;
}

uint64_t tool_gpu_budget(const tool_gpu_t *gpu)
{
    return gpu->bytes - ((uint64_t)768 << 20);
}
