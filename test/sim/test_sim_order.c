/* The order of operations: what the simulated GPU promises and, more to the point, what it does
 * not. */
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

#include "test/unit/cases.h"
#include "test/sim/test_sim.h"

enum { COUNT = 1024, SEEDS = 24 };

static bool wait_for_event; /* set before the fork */

/* One stream writes, another one reads. */
static void write_then_read(void)
{
    float *device = new_device(COUNT * sizeof(float)), *host = new_pinned(COUNT * sizeof(float));
    cudaStream_t writer = new_stream(), reader = new_stream();
    cudaEvent_t written = new_event();
    OK(cudaMemset(device, 0, COUNT * sizeof(float)));
    OK(cudaDeviceSynchronize());
    OK(launch_add(device, 2, COUNT, 50, writer));
    OK(cudaEventRecord(written, writer));
    if (wait_for_event)
        OK(cudaStreamWaitEvent(reader, written, 0));
    OK(cudaMemcpyAsync(host, device, COUNT * sizeof(float), cudaMemcpyDeviceToHost, reader));
    OK(cudaStreamSynchronize(reader));
    CHECK(host[0] == 2 && host[COUNT - 1] == 2);
}

/* One stream reads what another one overwrites afterwards. */
static void read_then_overwrite(void)
{
    float *device = new_device(COUNT * sizeof(float)), *host = new_pinned(COUNT * sizeof(float));
    cudaStream_t writer = new_stream(), reader = new_stream();
    cudaEvent_t has_read = new_event();
    OK(cudaMemset(device, 0, COUNT * sizeof(float)));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpyAsync(host, device, COUNT * sizeof(float), cudaMemcpyDeviceToHost, reader));
    OK(cudaEventRecord(has_read, reader));
    if (wait_for_event)
        OK(cudaStreamWaitEvent(writer, has_read, 0));
    OK(launch_add(device, 2, COUNT, 50, writer));
    OK(cudaStreamSynchronize(writer));
    OK(cudaStreamSynchronize(reader));
    CHECK(host[0] == 0 && host[COUNT - 1] == 0);
}

static int failures_over_seeds(void (*body)(void), bool wait, bool may_fail)
{
    int failures = 0;
    wait_for_event = wait;
    failure_expected = may_fail;
    for (int seed = 1; seed <= SEEDS; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%d", seed);
        failures += run_child(body, environment) != 0;
    }
    return failures;
}

CASE(a_missing_wait_before_a_read_shows)
{
    assert_in_range(failures_over_seeds(write_then_read, false, true), SEEDS / 2, SEEDS);
    assert_int_equal(failures_over_seeds(write_then_read, true, false), 0);
}

CASE(a_missing_wait_before_an_overwrite_shows)
{
    assert_in_range(failures_over_seeds(read_then_overwrite, false, true), SEEDS / 2, SEEDS);
    assert_int_equal(failures_over_seeds(read_then_overwrite, true, false), 0);
}

static uint8_t *observed; /* shared with the children: what each one saw */

/* Three writes that nothing orders; which is last? */
static void race_of_three(void)
{
    uint8_t *device = new_device(1);
    for (int i = 0; i < 3; i++)
        OK(cudaMemsetAsync(device, 1 << i, 1, new_stream()));
    OK(cudaMemcpy(observed, device, 1, cudaMemcpyDeviceToHost));
    OK(cudaDeviceSynchronize());
    OK(cudaMemcpy(observed, device, 1, cudaMemcpyDeviceToHost));
}

/* Waits for one stream; has another one's work been done, too? */
static void wait_for_another(void)
{
    float *device = new_device(sizeof *device), *pinned = new_pinned(sizeof *pinned);
    cudaStream_t waited = new_stream();
    *pinned = 0;
    OK(launch_add(pinned, 1, 1, 1, new_stream()));
    OK(launch_add(device, 1, 1, 1, waited));
    OK(cudaStreamSynchronize(waited));
    *observed = *pinned != 0 ? 1 : 2;
}

static unsigned observations_over_seeds(void (*body)(void))
{
    unsigned seen = 0;
    for (int seed = 1; seed <= SEEDS; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%d", seed);
        expect_success(body, environment);
        seen |= *observed;
    }
    return seen;
}

CASE(seeds_cover_every_order_and_both_early_and_late)
{
    observed = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(observed != MAP_FAILED);
    assert_int_equal(observations_over_seeds(race_of_three), 1 | 2 | 4);
    assert_int_equal(observations_over_seeds(wait_for_another), 1 | 2);
    munmap(observed, 1);
}

/* The legacy stream clears, `stream` adds, the legacy stream reads: how often that was right. */
static int alternate(cudaStream_t stream)
{
    enum { ROUNDS = 10 };
    float *device = new_device(sizeof *device), *results = new_pinned(ROUNDS * sizeof *results);
    int right = 0;
    for (int i = 0; i < ROUNDS; i++) {
        OK(cudaMemsetAsync(device, 0, sizeof *device, NULL));
        OK(launch_add(device, (float)i, 1, 5, stream));
        OK(cudaMemcpyAsync(results + i, device, sizeof *device, cudaMemcpyDeviceToHost, NULL));
    }
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < ROUNDS; i++)
        right += results[i] == (float)i;
    return right;
}

static void legacy_waits_for_blocking(void)
{
    cudaStream_t blocking;
    OK(cudaStreamCreate(&blocking));
    CHECK(alternate(blocking) == 10);
    CHECK(alternate(cudaStreamPerThread) == 10);
}

static void legacy_ignores_non_blocking(void)
{
    CHECK(alternate(new_stream()) == 10);
}

CASE(the_legacy_stream_is_in_order_with_blocking_streams_only)
{
    assert_int_equal(failures_over_seeds(legacy_waits_for_blocking, false, false), 0);
    assert_true(failures_over_seeds(legacy_ignores_non_blocking, false, true) > 0);
}

static void sources_of_copies(void)
{
    float pageable = 1, *pinned = new_pinned(sizeof *pinned),
          *device = new_device(2 * sizeof *device);
    float result[2];
    cudaStream_t stream = new_stream();
    *pinned = 1;
    OK(cudaMemcpyAsync(device, &pageable, sizeof pageable, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(device + 1, pinned, sizeof *pinned, cudaMemcpyHostToDevice, stream));
    pageable = *pinned = 2;
    OK(cudaMemcpyAsync(result, device, sizeof result, cudaMemcpyDeviceToHost, stream));
    CHECK(result[0] == 1); /* taken at the call */
    CHECK(result[1] == 2); /* read when the copy ran */
}

CASE(pageable_sources_are_taken_at_the_call_and_pinned_ones_late)
{
    expect_success(sources_of_copies, "");
}

static void poll(void)
{
    float *device = new_device(sizeof *device);
    cudaStream_t stream = new_stream();
    cudaEvent_t event = new_event();
    int denied = 0;
    CHECK(cudaEventQuery(event) == cudaSuccess); /* never recorded */
    for (int i = 0; i < 20; i++) {
        OK(cudaMemsetAsync(device, 0, sizeof *device, stream));
        OK(cudaEventRecord(event, stream));
        while (cudaEventQuery(event) == cudaErrorNotReady)
            denied++;
        CHECK(cudaEventQuery(event) == cudaSuccess);
        OK(launch_add(device, 1, 1, 1000, NULL));
        while (cudaStreamQuery(NULL) == cudaErrorNotReady)
            denied++;
        OK(launch_add(device, 1, 1, 1000, stream));
        while (cudaStreamQuery(stream) == cudaErrorNotReady)
            denied++;
    }
    CHECK(denied > 20);
}

CASE(polling_is_denied_at_first_and_ends)
{
    expect_success(poll, "");
    expect_success(poll, "MICRODNN_SIM_MODE=timing");
}

typedef struct note {
    float *seen, value;
    cudaError_t from_inside;
} note_t;

static void take_note(void *data)
{
    note_t *note = data;
    note->value = *note->seen;
    note->from_inside = cudaDeviceSynchronize();
}

static void host_function(void)
{
    float *pinned = new_pinned(sizeof *pinned), *device = new_device(sizeof *device);
    cudaStream_t stream = new_stream();
    note_t note = {.seen = pinned};
    OK(cudaMemsetAsync(device, 0, sizeof *device, stream));
    OK(launch_add(device, 3, 1, 10, stream));
    OK(cudaMemcpyAsync(pinned, device, sizeof *pinned, cudaMemcpyDeviceToHost, stream));
    OK(cudaLaunchHostFunc(stream, take_note, &note));
    OK(cudaStreamSynchronize(stream));
    CHECK(note.value == 3 || sim_api()->mode() == SIM_TIMING);
    CHECK(note.from_inside == cudaErrorNotPermitted);
}

CASE(host_functions_run_in_order_and_may_not_call_cuda)
{
    expect_success(host_function, "");
    expect_success(host_function, "MICRODNN_SIM_MODE=timing");
}

static void wait_for_post(void *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

/* A host call that blocks holds up its stream; others, the device's memory and questions go on in
 * the very thread that has to end it. */
static void blocked_host_function(void)
{
    sem_t semaphore;
    CHECK(sem_init(&semaphore, 0, 0) == 0);
    float *pinned = new_pinned(sizeof *pinned), *device = new_device(sizeof *device);
    cudaStream_t held = new_stream(), free_stream = new_stream();
    cudaEvent_t behind = new_event();
    OK(cudaLaunchHostFunc(held, wait_for_post, &semaphore));
    OK(cudaEventRecord(behind, held));
    for (int i = 0; i < 40; i++) {
        OK(cudaMemsetAsync(device, 0, sizeof *device, free_stream));
        OK(launch_add(device, (float)i, 1, 10, free_stream));
        OK(cudaMemcpyAsync(pinned, device, sizeof *pinned, cudaMemcpyDeviceToHost, free_stream));
        OK(cudaStreamSynchronize(free_stream));
        CHECK(*pinned == (float)i);
        CHECK(cudaEventQuery(behind) == cudaErrorNotReady);
        CHECK(cudaStreamQuery(held) == cudaErrorNotReady);
    }
    CHECK(sem_post(&semaphore) == 0);
    OK(cudaEventSynchronize(behind));
    OK(cudaFree(device));
}

/* Likewise for what is behind a word that the host writes, several operations on. */
static void asked_behind_a_value(void)
{
    uint32_t *word = new_pinned(sizeof *word);
    float *device = new_device(sizeof *device);
    cudaStream_t held = new_stream();
    cudaEvent_t behind = new_event();
    *word = 0;
    OK(launch_add(device, 1, 1, 10, held));
    OK(cuStreamWaitValue32(held, (uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ));
    OK(launch_add(device, 1, 1, 10, held));
    OK(cudaEventRecord(behind, held));
    for (int i = 0; i < 40; i++)
        CHECK(cudaEventQuery(behind) == cudaErrorNotReady);
    __atomic_store_n(word, 1, __ATOMIC_RELEASE);
    OK(cudaEventSynchronize(behind));
}

CASE(nobody_waits_for_the_host_but_who_asks_to)
{
    for (const char *const *seed = (const char *const[]){"1", "2", "3", "4", NULL}; *seed; seed++) {
        char environment[64];
        snprintf(environment, sizeof environment, "MICRODNN_SIM_SEED=%s", *seed);
        expect_success(blocked_host_function, environment);
        expect_success(asked_behind_a_value, environment);
    }
}

static void *work_alone(void *argument)
{
    (void)argument;
    float *device = new_device(COUNT * sizeof(float)), *host = new_pinned(COUNT * sizeof(float));
    cudaStream_t stream = new_stream();
    for (int round = 0; round < 20; round++) {
        OK(cudaMemsetAsync(device, 0, COUNT * sizeof(float), stream));
        for (int i = 0; i < 20; i++)
            OK(launch_add(device, 1, COUNT, 10, stream));
        OK(cudaMemcpyAsync(host, device, COUNT * sizeof(float), cudaMemcpyDeviceToHost, stream));
        if (round % 2)
            OK(cudaStreamSynchronize(stream));
        else
            OK(cudaDeviceSynchronize());
        CHECK(sim_api()->mode() == SIM_TIMING || (host[0] == 20 && host[COUNT - 1] == 20));
    }
    OK(cudaStreamDestroy(stream));
    OK(cudaFreeHost(host));
    OK(cudaFree(device));
    return NULL;
}

static void threads_work(void)
{
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        OK(pthread_create(&threads[i], NULL, work_alone, NULL));
    for (int i = 0; i < 4; i++)
        OK(pthread_join(threads[i], NULL));
}

CASE(threads_with_streams_of_their_own_do_not_disturb_each_other)
{
    expect_success(threads_work, "");
    expect_success(threads_work, "MICRODNN_SIM_MODE=timing");
}

static void queue_much(void)
{
    float *device = new_device(sizeof *device), result;
    cudaStream_t stream = new_stream();
    uint64_t before = sim_api()->operations_run();
    double start_us = sim_api()->host_time_us();
    OK(cudaMemsetAsync(device, 0, sizeof *device, stream));
    for (int i = 0; i < 5000; i++)
        OK(launch_add(device, 1, 1, 100, stream));
    CHECK(sim_api()->host_time_us() - start_us >= (5000 - 1025) * 100);
    OK(cudaStreamDestroy(stream)); /* its work goes on */
    OK(cudaDeviceSynchronize());
    CHECK(sim_api()->operations_run() - before == 5001);
    OK(cudaMemcpy(&result, device, sizeof result, cudaMemcpyDeviceToHost));
    CHECK(result == 5000);
}

CASE(a_full_queue_makes_the_host_wait_and_destroyed_streams_drain)
{
    expect_success(queue_much, "");
}

static void across_devices(void)
{
    int count;
    OK(cudaGetDeviceCount(&count));
    CHECK(count == 2);
    float *first = new_device(sizeof *first), result;
    cudaStream_t producer = new_stream();
    cudaEvent_t done = new_event();
    OK(cudaMemsetAsync(first, 0, sizeof *first, producer));
    OK(launch_add(first, 4, 1, 20, producer));
    OK(cudaEventRecord(done, producer));
    OK(cudaSetDevice(1));
    float *second = new_device(sizeof *second);
    cudaStream_t consumer = new_stream();
    OK(cudaStreamWaitEvent(consumer, done, 0));
    OK(cudaMemcpyAsync(second, first, sizeof *first, cudaMemcpyDeviceToDevice, consumer));
    OK(cudaMemcpyAsync(&result, second, sizeof result, cudaMemcpyDeviceToHost, consumer));
    CHECK(result == 4);
}

CASE(events_order_streams_of_two_devices)
{
    expect_success(across_devices, "MICRODNN_SIM_DEVICES=2");
}

static void reset_one_device(void)
{
    cudaEvent_t here = new_event(), there;
    OK(cudaEventRecord(here, NULL));
    OK(cudaSetDevice(1));
    OK(cudaEventCreate(&there));
    OK(cudaEventRecord(there, NULL));
    OK(cudaDeviceReset());
    CHECK(cudaEventSynchronize(there) == cudaErrorInvalidResourceHandle);
    CHECK(cudaEventDestroy(there) == cudaErrorInvalidResourceHandle);
    OK(cudaSetDevice(0));
    OK(cudaEventSynchronize(here));
}

CASE(events_end_with_their_device)
{
    expect_success(reset_one_device, "MICRODNN_SIM_DEVICES=2");
}

int main(void)
{
    return run_cases("sim_order");
}
