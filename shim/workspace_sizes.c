#include "shim/workspace_sizes.h"

#include <stddef.h>

/* More than the algorithms of a direction. */
enum { SIZES = 16 };

static _Thread_local struct {
    uint64_t bytes[SIZES];
    unsigned next;
} told __attribute__((tls_model("initial-exec")));

void mdnn_workspace_note(uint64_t bytes)
{
    for (size_t i = 0; i < SIZES; i++)
        if (told.bytes[i] == bytes)
            return;
    told.bytes[told.next++ % SIZES] = bytes;
}

void mdnn_workspace_note_algorithms(const int *returned, const mdnn_algo_perf_t *results)
{
    if (!returned || !results)
        return;
    for (int i = 0; i < *returned; i++)
        if (results[i].status == CUDNN_STATUS_SUCCESS)
            mdnn_workspace_note(results[i].memory);
}

static bool is_rounded(uint64_t size, uint64_t bytes, uint64_t unit)
{
    return bytes >= size && bytes - size < unit && (bytes == size || bytes % unit == 0);
}

bool mdnn_workspace_is_size(uint64_t bytes)
{
    enum { BLOCK = 512, SEGMENT = 2 << 20 };
    for (size_t i = 0; i < SIZES; i++)
        if (told.bytes[i] > 0 &&
            (is_rounded(told.bytes[i], bytes, BLOCK) || is_rounded(told.bytes[i], bytes, SEGMENT)))
            return true;
    return false;
}
