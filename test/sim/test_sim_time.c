/* Virtual time: every figure is exact, the same under every seed and in both modes. */
#include <math.h>

#include "test/unit/cases.h"
#include "test/sim/test_sim.h"

static const char *const environments[] = {
    "MICRODNN_SIM_SEED=1",
    "MICRODNN_SIM_SEED=77",
    "MICRODNN_SIM_MODE=timing MICRODNN_SIM_SEED=5",
};

static void expect_everywhere(void (*body)(void))
{
    for (size_t i = 0; i < sizeof environments / sizeof environments[0]; i++)
        expect_success(body, environments[i]);
}

/* Microseconds between two events, which have happened. */
static double elapsed_us(cudaEvent_t start, cudaEvent_t end)
{
    float ms;
    OK(cudaEventElapsedTime(&ms, start, end));
    return ms * 1e3;
}

static bool near(double a, double b)
{
    return fabs(a - b) < 1e-3 + 1e-5 * fabs(b); /* elapsed times are floats */
}

/* Streams and events around a gate: what is enqueued behind it starts at one moment. */
typedef struct race {
    cudaStream_t streams[2];
    cudaEvent_t gate, ends[2];
    char *device[2], *host[2];
} race_t;

static const size_t race_bytes = 64 << 20;

static race_t new_race(void)
{
    race_t race = {.gate = new_event()};
    float *device = new_device(sizeof *device);
    cudaStream_t gate_stream = new_stream();
    for (int i = 0; i < 2; i++) {
        race.streams[i] = new_stream();
        race.ends[i] = new_event();
        race.device[i] = new_device(race_bytes);
        race.host[i] = new_pinned(race_bytes);
    }
    OK(launch_add(device, 1, 1, 10000, gate_stream));
    OK(cudaEventRecord(race.gate, gate_stream));
    for (int i = 0; i < 2; i++)
        OK(cudaStreamWaitEvent(race.streams[i], race.gate, 0));
    return race;
}

static void finish_race(const race_t *race, double expected_first_us, double expected_second_us)
{
    double expected[] = {expected_first_us, expected_second_us};
    for (int i = 0; i < 2; i++)
        OK(cudaEventRecord(race->ends[i], race->streams[i]));
    OK(cudaDeviceSynchronize());
    for (int i = 0; i < 2; i++)
        CHECK(near(elapsed_us(race->gate, race->ends[i]), expected[i]));
}

static void kernels_in_one_stream(void)
{
    race_t race = new_race();
    for (int i = 0; i < 10; i++)
        OK(launch_add(race.device[0], 1, 1, 100, race.streams[0]));
    OK(launch_add(race.device[0], 1, 1, 0, race.streams[0])); /* the shortest kernel */
    finish_race(&race, 1000 + sim_api()->profile(0)->kernel_floor_us, 0);
}

CASE(kernels_add_up)
{
    expect_everywhere(kernels_in_one_stream);
}

static void kernels_in_two_streams(void)
{
    race_t race = new_race();
    OK(launch_add(race.device[0], 1, 1, 300, race.streams[0]));
    OK(launch_add(race.device[1], 1, 1, 200, race.streams[1]));
    finish_race(&race, 300, 500);
}

CASE(kernels_of_two_streams_take_turns)
{
    expect_everywhere(kernels_in_two_streams);
}

static void copy_beside_kernel(void)
{
    race_t race = new_race();
    OK(launch_add(race.device[0], 1, 1, 400, race.streams[0]));
    OK(cudaMemcpyAsync(race.host[1], race.device[1], 55300000, cudaMemcpyDeviceToHost,
                       race.streams[1]));
    finish_race(&race, 400, 1000); /* 55.3 MB at 55.3 GB/s */
}

CASE(a_copy_overlaps_a_kernel)
{
    expect_everywhere(copy_beside_kernel);
}

static void copies_both_ways(void)
{
    race_t race = new_race();
    OK(cudaMemcpyAsync(race.device[0], race.host[0], 25400000, cudaMemcpyHostToDevice,
                       race.streams[0]));
    OK(cudaMemcpyAsync(race.host[1], race.device[1], 25400000 + 27650000, cudaMemcpyDeviceToHost,
                       race.streams[1]));
    /* 25.4 MB each at 50.8 GB/s, then the rest of the second at 55.3. */
    finish_race(&race, 500, 1000);
}

CASE(copies_in_both_directions_share_the_link)
{
    expect_everywhere(copies_both_ways);
}

static void copies_one_way(void)
{
    race_t race = new_race();
    for (int i = 0; i < 2; i++)
        OK(cudaMemcpyAsync(race.host[i], race.device[i], 5530000, cudaMemcpyDeviceToHost,
                           race.streams[i]));
    finish_race(&race, 100, 200);
}

CASE(copies_in_one_direction_take_turns)
{
    expect_everywhere(copies_one_way);
}

/* Milliseconds that a copy takes on each device, all started at one moment; `bytes` by device,
 * negative to the device. */
static void copy_on_devices(const double *bytes, int count, float *ms)
{
    cudaEvent_t starts[4], ends[4];
    for (int i = 0; i < count; i++) {
        OK(cudaSetDevice(i));
        char *device = new_device(race_bytes), *host = new_pinned(race_bytes);
        float *gate = new_device(sizeof *gate);
        cudaStream_t stream = new_stream();
        starts[i] = new_event();
        ends[i] = new_event();
        /* All gates open at one virtual moment. */
        OK(launch_add(gate, 1, 1,
                      200000 - sim_api()->host_time_us() - sim_api()->profile(0)->launch_us,
                      stream));
        OK(cudaEventRecord(starts[i], stream));
        if (bytes[i] < 0)
            OK(cudaMemcpyAsync(device, host, (size_t)-bytes[i], cudaMemcpyHostToDevice, stream));
        else
            OK(cudaMemcpyAsync(host, device, (size_t)bytes[i], cudaMemcpyDeviceToHost, stream));
        OK(cudaEventRecord(ends[i], stream));
    }
    for (int i = 0; i < count; i++) {
        OK(cudaSetDevice(i));
        OK(cudaEventSynchronize(ends[i]));
        OK(cudaEventElapsedTime(&ms[i], starts[i], ends[i]));
    }
}

static bool about(float ms, double expected)
{
    return fabs(ms - expected) < 1e-4 + 1e-4 * expected;
}

/* Two take turns at half speed; then the longer one has all of the link. The third has a switch of
 * its own. */
static void share_switch(void)
{
    const double bytes[] = {55.3e5, 2 * 55.3e5, 55.3e5};
    float ms[3];
    copy_on_devices(bytes, 3, ms);
    CHECK(about(ms[0], 0.2) && about(ms[1], 0.3) && about(ms[2], 0.1));
}

/* In opposite directions they share the switch as they would share a link. */
static void share_switch_both_ways(void)
{
    const double bytes[] = {50.8e5, -50.8e5};
    float ms[2];
    copy_on_devices(bytes, 2, ms);
    CHECK(about(ms[0], 0.1) && about(ms[1], 0.1));
}

static void have_own_switches(void)
{
    const double bytes[] = {55.3e5, 55.3e5, 55.3e5};
    float ms[3];
    copy_on_devices(bytes, 3, ms);
    CHECK(about(ms[0], 0.1) && about(ms[1], 0.1) && about(ms[2], 0.1));
}

static void share_by_profile(void)
{
    const double bytes[] = {12e5, 12e5};
    float ms[2];
    copy_on_devices(bytes, 2, ms);
    CHECK(about(ms[0], 0.2) && about(ms[1], 0.2));
}

CASE(devices_behind_one_switch_share_its_link)
{
    expect_success(share_switch, "MICRODNN_SIM_DEVICES=3 MICRODNN_SIM_SWITCH=2");
    expect_success(share_switch,
                   "MICRODNN_SIM_DEVICES=3 MICRODNN_SIM_SWITCH=2 MICRODNN_SIM_MODE=timing");
    expect_success(share_switch_both_ways, "MICRODNN_SIM_DEVICES=2 MICRODNN_SIM_SWITCH=2");
    expect_success(have_own_switches, "MICRODNN_SIM_DEVICES=3");
    expect_success(share_by_profile, "MICRODNN_SIM_DEVICES=2 MICRODNN_SIM_PROFILE=p100");
}

/* Both kernels find the unit busy; the one that was ready first was enqueued last. */
static void queue_for_unit(void)
{
    race_t race = new_race();
    cudaStream_t busy = new_stream();
    OK(cudaStreamWaitEvent(busy, race.gate, 0));
    OK(launch_add(race.device[0], 1, 1, 300, busy));
    OK(cudaMemcpyAsync(race.host[0], race.device[0], 5530000, cudaMemcpyDeviceToHost,
                       race.streams[0]));
    OK(launch_add(race.device[0], 1, 1, 70, race.streams[0]));
    OK(cudaMemcpyAsync(race.device[1], race.host[1], 553000, cudaMemcpyHostToDevice,
                       race.streams[1]));
    OK(launch_add(race.device[1], 1, 1, 20, race.streams[1]));
    finish_race(&race, 390, 320);
}

CASE(a_busy_unit_takes_what_was_ready_first)
{
    expect_everywhere(queue_for_unit);
}

/* A copy that could start goes before one that was enqueued earlier and cannot. */
static void blocked_copy(void)
{
    race_t race = new_race();
    OK(launch_add(race.device[0], 1, 1, 1000, race.streams[0]));
    OK(cudaMemcpyAsync(race.host[0], race.device[0], 5530000, cudaMemcpyDeviceToHost,
                       race.streams[0]));
    OK(cudaMemcpyAsync(race.host[1], race.device[1], 5530000, cudaMemcpyDeviceToHost,
                       race.streams[1]));
    finish_race(&race, 1100, 100);
}

CASE(a_blocked_copy_does_not_hold_up_a_ready_one)
{
    expect_everywhere(blocked_copy);
}

static void host_clock(void)
{
    const sim_profile_t *profile = sim_api()->profile(0);
    float *device = new_device(sizeof *device);
    cudaStream_t stream = new_stream();
    double start = sim_api()->host_time_us();
    for (int i = 0; i < 100; i++)
        OK(launch_add(device, 1, 1, 50, stream));
    double launched = sim_api()->host_time_us();
    CHECK(near(launched - start, 100 * profile->launch_us)); /* launches do not wait */
    OK(cudaStreamSynchronize(stream));
    CHECK(near(sim_api()->host_time_us() - start, profile->launch_us + 100 * 50));
    double idle = sim_api()->host_time_us();
    OK(cudaStreamSynchronize(stream));
    CHECK(sim_api()->host_time_us() == idle);
}

CASE(the_host_runs_ahead_until_it_waits)
{
    expect_everywhere(host_clock);
}

static void launch_bound(void)
{
    const sim_profile_t *profile = sim_api()->profile(0);
    CHECK(!strcmp(profile->name, "p100") && !strcmp(profile->calibration, "illustration"));
    float *device = new_device(sizeof *device);
    cudaStream_t stream = new_stream();
    cudaEvent_t start = new_event(), end = new_event();
    OK(cudaEventRecord(start, stream));
    for (int i = 0; i < 100; i++)
        OK(launch_add(device, 1, 1, 0, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaDeviceSynchronize());
    /* The host is slower than the kernels, and the end's record comes after its own cost. */
    double last_kernel_us = 100 * profile->launch_us + profile->kernel_floor_us;
    double record_us = 100 * profile->launch_us + profile->launch_us / 4;
    CHECK(near(elapsed_us(start, end), fmax(last_kernel_us, record_us)));
}

CASE(short_kernels_are_bound_by_launches)
{
    expect_success(launch_bound, "MICRODNN_SIM_PROFILE=p100");
}

#ifdef __SANITIZE_THREAD__ /* has not the room */
static const size_t huge_bytes = (size_t)1 << 38;
#else
static const size_t huge_bytes = (size_t)1 << 40;
#endif

static void huge(void)
{
    char *device, *host;
    OK(cudaMalloc((void **)&device, huge_bytes));
    OK(cudaMallocHost((void **)&host, huge_bytes));
    cudaStream_t stream = new_stream();
    cudaEvent_t start = new_event(), end = new_event();
    OK(cudaEventRecord(start, stream));
    OK(cudaMemcpyAsync(device, host, huge_bytes, cudaMemcpyHostToDevice, stream));
    OK(launch_add(device, 1, huge_bytes / 4, 5e6, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaEventSynchronize(end));
    double copy_us = (double)huge_bytes / 55.3e3;
    CHECK(near(elapsed_us(start, end), copy_us + 5e6 + sim_api()->profile(0)->launch_us));
    OK(cudaFree(device));
    OK(cudaFreeHost(host));
}

CASE(timing_mode_has_any_size)
{
    expect_success(huge, "MICRODNN_SIM_MODE=timing MICRODNN_SIM_MEMORY=2T");
}

static void elapsed_errors(void)
{
    float ms;
    cudaStream_t stream = new_stream();
    cudaEvent_t start = new_event(), end = new_event(), untimed;
    OK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
    CHECK(cudaEventElapsedTime(&ms, start, end) == cudaErrorInvalidResourceHandle);
    OK(cudaEventRecord(start, stream));
    OK(launch_add(new_device(4), 1, 1, 100, stream));
    OK(cudaEventRecord(end, stream));
    OK(cudaEventRecord(untimed, stream));
    CHECK(cudaEventElapsedTime(&ms, start, end) == cudaErrorNotReady);
    OK(cudaStreamSynchronize(stream));
    CHECK(cudaEventElapsedTime(&ms, start, untimed) == cudaErrorInvalidResourceHandle);
    OK(cudaEventElapsedTime(&ms, start, end));
    OK(cudaEventDestroy(untimed));
}

CASE(elapsed_time_needs_timed_events_that_happened)
{
    expect_everywhere(elapsed_errors);
}

int main(void)
{
    return run_cases("sim_time");
}
