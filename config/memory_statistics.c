#include "config/memory_statistics.h"

#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "config/devices.h"
#include "config/statistics.h"
#include "config/statistics_file.h"

static _Atomic(mdnn_memory_statistics_source_t) source;

void mdnn_memory_statistics_publish(int device, const mdnn_memory_statistics_t *numbers)
{
    mdnn_statistics_region_t *const region = mdnn_statistics_recorded();
    if (region == NULL || device < 0 || device >= MDNN_DEVICES)
        return;
    mdnn_statistics_memory_t *const slot = &region->memory[device];
    const uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed) & ~1u;
    atomic_store_explicit(&slot->sequence, sequence + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    slot->numbers = *numbers;
    atomic_store_explicit(&region->header.published, (int64_t)time(NULL), memory_order_relaxed);
    atomic_store_explicit(&slot->sequence, sequence + 2, memory_order_release);
}

/* Asks for every device, and publishes what is said. */
static void collect(void)
{
    const mdnn_memory_statistics_source_t ask = atomic_load(&source);
    for (int device = 0; ask != NULL && device < MDNN_DEVICES; device++) {
        mdnn_memory_statistics_t numbers = {0};
        if (ask(device, &numbers))
            mdnn_memory_statistics_publish(device, &numbers);
    }
}

void mdnn_memory_statistics_register(mdnn_memory_statistics_source_t given)
{
    atomic_store(&source, given);
    mdnn_statistics_ask_at_finish(collect);
}
