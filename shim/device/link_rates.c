#include "shim/device/link_rates.h"

enum { IN, OUT, DIRECTIONS };
enum { FEWEST_COPIES = 4 };
/* Enough for a few per cent, little enough for a program's start. */
static const uint64_t measured_bytes = (uint64_t)64 << 20;

typedef struct link_test {
    const mdnn_copy_ways_t *ways;
    const mdnn_driver_t *driver;
    CUstream streams[DIRECTIONS];
    CUevent begins[DIRECTIONS], ends[DIRECTIONS];
    CUdeviceptr device;
    uint64_t host, bytes;
    uint64_t copies; /* a direction */
} link_test_t;

static CUresult copy(const link_test_t *test, int direction)
{
    return mdnn_copy_enqueue(test->ways, direction == OUT, test->device, test->host, test->bytes,
                             test->streams[direction]);
}

static bool record(const link_test_t *test, const CUevent *events, int direction)
{
    return test->driver->cuEventRecord(events[direction], test->streams[direction]) == CUDA_SUCCESS;
}

/* Copies in the directions of `mask` at once; rates[direction] in bytes a microsecond. */
static bool run(const link_test_t *test, unsigned mask, double *rates)
{
    bool good = true;
    for (int direction = 0; direction < DIRECTIONS; direction++)
        good = good && (!(mask & 1U << direction) || record(test, test->begins, direction));
    for (uint64_t i = 0; i < test->copies; i++)
        for (int direction = 0; direction < DIRECTIONS; direction++)
            good = good && (!(mask & 1U << direction) || copy(test, direction) == CUDA_SUCCESS);
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        float ms = 0;
        if (!good || !(mask & 1U << direction))
            continue;
        good = record(test, test->ends, direction) &&
               test->driver->cuEventSynchronize(test->ends[direction]) == CUDA_SUCCESS &&
               test->driver->cuEventElapsedTime(&ms, test->begins[direction],
                                                test->ends[direction]) == CUDA_SUCCESS &&
               ms > 0;
        if (good)
            rates[direction] = (double)(test->copies * test->bytes) / (1e3 * (double)ms);
    }
    return good;
}

/* The best of some rounds: what others do on the device meanwhile makes a round slower, never faster. */
static bool best_of(const link_test_t *test, unsigned mask, double *rates)
{
    enum { ROUNDS = 3 };
    bool good = true;
    for (int round = 0; good && round < ROUNDS; round++) {
        double now[DIRECTIONS] = {0};
        good = run(test, mask, now);
        for (int direction = 0; good && direction < DIRECTIONS; direction++)
            if (round == 0 || now[direction] > rates[direction])
                rates[direction] = now[direction];
    }
    return good;
}

static bool measure(const link_test_t *test, mdnn_link_t *link)
{
    double in[DIRECTIONS], out[DIRECTIONS], both[DIRECTIONS];
    if (!run(test, 1U << IN | 1U << OUT, both) || /* the first copies are slower: only warms up */
        !best_of(test, 1U << IN, in) || !best_of(test, 1U << OUT, out) ||
        !best_of(test, 1U << IN | 1U << OUT, both))
        return false;
    link->in_bytes_per_us = in[IN];
    link->out_bytes_per_us = out[OUT];
    link->in_duplex_bytes_per_us = both[IN];
    link->out_duplex_bytes_per_us = both[OUT];
    return true;
}

static void destroy_events(const link_test_t *test)
{
    for (int direction = 0; direction < DIRECTIONS; direction++) {
        if (test->begins[direction])
            (void)test->driver->cuEventDestroy(test->begins[direction]);
        if (test->ends[direction])
            (void)test->driver->cuEventDestroy(test->ends[direction]);
    }
}

static bool create_events(link_test_t *test)
{
    for (int direction = 0; direction < DIRECTIONS; direction++)
        if (test->driver->cuEventCreate(&test->begins[direction], CU_EVENT_DEFAULT) !=
                CUDA_SUCCESS ||
            test->driver->cuEventCreate(&test->ends[direction], CU_EVENT_DEFAULT) != CUDA_SUCCESS) {
            destroy_events(test);
            return false;
        }
    return true;
}

mdnn_status_t mdnn_link_measure(const mdnn_copy_ways_t *ways, CUstream in, CUstream out,
                                CUdeviceptr device, uint64_t host, uint64_t bytes,
                                mdnn_link_t *link)
{
    const mdnn_driver_t *const driver = ways->driver;
    link_test_t test = {.ways = ways,
                        .driver = driver,
                        .streams = {in, out},
                        .device = device,
                        .host = host,
                        .bytes = bytes};
    test.copies = measured_bytes / bytes > FEWEST_COPIES ? measured_bytes / bytes : FEWEST_COPIES;
    if (!create_events(&test))
        return MDNN_STATUS_DEVICE;
    const bool good = measure(&test, link);
    for (int direction = 0; direction < DIRECTIONS; direction++)
        (void)driver->cuStreamSynchronize(test.streams[direction]);
    destroy_events(&test);
    return good ? MDNN_STATUS_OK : MDNN_STATUS_DEVICE;
}
