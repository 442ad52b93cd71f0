#include "config/sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config/numbers.h"

static const uint64_t kibibyte = (uint64_t)1 << 10, mebibyte = (uint64_t)1 << 20;

uint64_t mdnn_chunk_bytes(uint64_t budget_bytes, uint64_t option)
{
    /* To move a chunk out and back, mappings change four times, which takes about as long as copying 8 MiB. Larger ones are
     * faster for large tensors. But those of up to half a chunk are blocks of slabs, which plans cannot move. */
    const uint64_t balanced = 8 * mebibyte;
    const uint64_t wanted = option ? option : budget_bytes / 1024;
    const uint64_t most = option ? UINT64_MAX / 2 : 32 * mebibyte;
    uint64_t bytes = 2 * mebibyte;
    while (bytes < wanted && bytes < most)
        bytes *= 2;
    while (!option && bytes < balanced && 2 * bytes <= budget_bytes / 256)
        bytes *= 2;
    return bytes;
}

/* `unit`: what a number without one is likely to lack; NULL: it has one. */
static void say_small(uint64_t size_bytes, const char *unit, const char *what, char *why,
                      size_t bytes)
{
    char shown[MDNN_NUMBER_BYTES];
    mdnn_format_size(size_bytes, shown, sizeof shown);
    if (size_bytes == 0)
        snprintf(why, bytes, "0 %s; `none` sets no limit", what);
    else if (unit)
        snprintf(why, bytes,
                 "%" PRIu64 " means %" PRIu64 " bytes, which %s; did you mean %" PRIu64 "%s?",
                 size_bytes, size_bytes, what, size_bytes, unit);
    else
        snprintf(why, bytes, "%s %s", shown, what);
}

/* Few of the largest, more of the next, and never more than a device has. */
static const char *unit_of_memory(uint64_t number)
{
    const uint64_t most_of_one = 512;
    return number <= most_of_one ? "GiB" : number <= most_of_one << 10 ? "MiB" : "KiB";
}

bool mdnn_budget_can_be_kept(const mdnn_options_t *options, uint64_t device_bytes, char *why,
                             size_t bytes)
{
    const uint64_t budget_bytes = mdnn_size_on_device(options->memory_budget, device_bytes);
    if (options->memory_strict && options->unread_budget[0] != '\0') {
        snprintf(why, bytes, "memory.budget cannot be read (%.160s); it should be like 12GiB",
                 options->unread_budget);
        return false;
    }
    if (mdnn_size_is_share(options->memory_budget) && device_bytes == 0)
        return true;
    const uint64_t chunk_bytes = mdnn_chunk_bytes(budget_bytes, options->memory_chunk_size);
    if (chunk_bytes <= budget_bytes)
        return true;
    char chunk[MDNN_NUMBER_BYTES], budget[MDNN_NUMBER_BYTES], what[MDNN_TROUBLE_BYTES];
    mdnn_format_size(chunk_bytes, chunk, sizeof chunk);
    mdnn_format_size(budget_bytes, budget, sizeof budget);
    snprintf(what, sizeof what, "is less than a chunk of memory, %s", chunk);
    if (chunk_bytes > 2 * mebibyte)
        snprintf(why, bytes,
                 "[memory] chunk_size makes chunks of %s, for which the budget of %s has no room",
                 chunk, budget);
    else
        say_small(budget_bytes, budget_bytes % kibibyte != 0 ? unit_of_memory(budget_bytes) : NULL,
                  what, why, bytes);
    return false;
}

bool mdnn_size_is_plausible(mdnn_option_id_t id, const char *text, uint64_t size_bytes, char *why,
                            size_t bytes)
{
    const bool has_unit = strspn(text, "0123456789") < strlen(text);
    const char *unit = "MiB";
    switch (id) {
    case MDNN_OPTION_memory_budget:
        if (size_bytes >= mdnn_chunk_bytes(0, 0))
            return true;
        say_small(size_bytes, has_unit ? NULL : unit_of_memory(size_bytes),
                  "is less than a chunk of memory, 2MiB", why, bytes);
        return false;
    case MDNN_OPTION_memory_host_limit:
        unit = unit_of_memory(size_bytes);
        /* fall through */
    case MDNN_OPTION_memory_chunk_size:
    case MDNN_OPTION_convolution_workspace_limit:
    case MDNN_OPTION_convolution_total_workspace:
        if (has_unit || size_bytes == 0 || size_bytes >= kibibyte)
            return true;
        say_small(size_bytes, unit, "is next to nothing", why, bytes);
        return false;
    default:
        return true;
    }
}
