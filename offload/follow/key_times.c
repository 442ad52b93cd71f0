#include "offload/follow/key_times.h"

#include <math.h>

enum { TRIES = 8 }; /* places for one key: keys are hashes */

void mdnn_key_times_note(mdnn_key_times_t *times, uint64_t key, double time_us)
{
    if (!(time_us >= 0) || !isfinite(time_us))
        return;
    for (uint64_t i = 0; i < TRIES; i++) {
        struct mdnn_key_time *const place = &times->places[(key + i) % MDNN_KEY_TIMES];
        if (place->count > 0 && place->key != key)
            continue;
        place->key = key;
        place->sum_us += time_us;
        place->count++;
        return;
    }
}

double mdnn_key_times_of(const mdnn_key_times_t *times, uint64_t key)
{
    for (uint64_t i = 0; i < TRIES; i++) {
        const struct mdnn_key_time *const place = &times->places[(key + i) % MDNN_KEY_TIMES];
        if (place->count > 0 && place->key == key)
            return place->sum_us / place->count;
    }
    return -1;
}

uint32_t mdnn_key_times_fill(const mdnn_key_times_t *times, const mdnn_period_t *period,
                             const double *known, double *time_us)
{
    uint32_t timed = 0;
    for (uint32_t i = 0; i < period->operation_count; i++) {
        time_us[i] = known[i] >= 0 ? known[i] : mdnn_key_times_of(times, period->operations[i].key);
        timed += time_us[i] >= 0;
    }
    return timed;
}
