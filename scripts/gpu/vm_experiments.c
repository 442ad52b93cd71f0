/* What remapping memory costs, and what it does to kernels, launches and copies of the same
 * process. Driver API only; scripts/gpu/vm-experiments compiles it where it runs and starts one
 * process for each part:
 *
 *   vm_experiments PART SECONDS     remap, several, protect, copies or create; ended after SECONDS
 *
 * Every line of the output is a row, one JSON object; times in microseconds unless the name says
 * otherwise. Device memory: below 4 GiB. Nothing managed, no setting of the device changed. */
#define _GNU_SOURCE
#include "vm_driver.h"
#include "vm_kernels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

#ifdef VM_SIMULATED
#include "test/sim/sim.h"
#endif

static const size_t chunk_sizes[] = {2 * MIB,  8 * MIB,   16 * MIB, 32 * MIB,
                                     64 * MIB, 128 * MIB, 256 * MIB};
#define CHUNK_SIZES (sizeof chunk_sizes / sizeof *chunk_sizes)

static CUcontext context;

/* --- Memory --------------------------------------------------------------------------------------
 * HOST is one NUMA node's memory that the device may use; the processor may, too, in HOST_CPU. */
typedef enum kind { DEVICE, HOST, HOST_CPU, KINDS } kind_t;
static const char *const kind_names[] = {"device", "host", "host+cpu"};

static CUmemLocation location_of(kind_t kind)
{
    return (CUmemLocation){.type = kind == DEVICE ? CU_MEM_LOCATION_TYPE_DEVICE
                                                  : CU_MEM_LOCATION_TYPE_HOST_NUMA,
                           .id = 0};
}

static CUresult try_create(CUmemGenericAllocationHandle *handle, kind_t kind, size_t bytes)
{
    CUmemAllocationProp properties = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                      .location = location_of(kind)};
    return cu.cuMemCreate(handle, bytes, &properties, 0);
}

static CUmemGenericAllocationHandle create(kind_t kind, size_t bytes)
{
    CUmemGenericAllocationHandle handle;
    check(try_create(&handle, kind, bytes), "cuMemCreate", __LINE__);
    return handle;
}

static CUresult try_access(CUdeviceptr address, size_t bytes, kind_t kind, CUmemAccess_flags flags)
{
    CUmemAccessDesc access[] = {{location_of(DEVICE), flags}, {location_of(HOST_CPU), flags}};
    return cu.cuMemSetAccess(address, bytes, access, kind == HOST_CPU ? 2 : 1);
}

static void give_access(CUdeviceptr address, size_t bytes, kind_t kind)
{
    check(try_access(address, bytes, kind, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "cuMemSetAccess",
          __LINE__);
}

static CUdeviceptr reserve(size_t bytes)
{
    CUdeviceptr address;
    CHECK(cuMemAddressReserve(&address, bytes, 0, 0, 0));
    return address;
}

static void map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle, kind_t kind)
{
    CHECK(cuMemMap(address, bytes, 0, handle, 0));
    give_access(address, bytes, kind);
}

/* --- The log of a thread's calls -----------------------------------------------------------------
 */
typedef enum call { MAP, ACCESS, UNMAP, CREATE, RELEASE, HOST_ALLOC, CALLS } call_t;
static const char *const call_names[] = {"map",    "access",  "unmap",
                                         "create", "release", "host_alloc"};

typedef struct entry {
    uint64_t begin_ns, end_ns;
    call_t call;
} entry_t;

typedef struct call_log {
    entry_t *entries; /* in order of time */
    size_t count, room;
} call_log_t;

static void log_call(call_log_t *log, call_t call, uint64_t begin_ns)
{
    if (log->count < log->room)
        log->entries[log->count++] = (entry_t){begin_ns, now_ns(), call};
}

static void print_calls(const call_log_t *log)
{
    uint64_t *times = allocate(log->count * sizeof *times);
    for (call_t call = 0; call < CALLS; call++) {
        size_t count = 0;
        for (size_t i = 0; i < log->count; i++)
            if (log->entries[i].call == call)
                times[count++] = log->entries[i].end_ns - log->entries[i].begin_ns;
        if (count > 0)
            print_summary(call_names[call], times, count);
    }
    free(times);
}

/* --- Launching thread ----------------------------------------------------------------------------
 * Launches one kernel after the other, at most AHEAD before the device, and notes when. No other
 * driver call is made: the kernels' progress is read from host memory. */
#define LAUNCHES ((size_t)1 << 18)
#define AHEAD 128
#define READ_BYTES (256 * MIB)

typedef struct load {
    const char *name;
    const char *kernel;
    double spin_us; /* spin's length; 0: the shortest kernel, so that launching is the bound */
    unsigned blocks, threads;
} load_t;

static const load_t loads[] = {
    {"none", NULL, 0, 0, 0}, /* the other thread alone */
    {"spin20", "spin", 20, 1, 1},
    {"launch", "spin", 0, 1, 1},
    {"read", "read", 0, 1056, 256},
};
#define LOADS (sizeof loads / sizeof *loads)

static struct {
    CUstream stream;
    CUmodule module;
    CUdeviceptr times, data;
    uint32_t *progress; /* host memory that kernels write */
    double cycles_per_us;
    uint64_t *begins, *ends; /* of launches, host time */
    uint64_t *device_times;  /* begin and end of each kernel */
    size_t count;
} launcher;

#ifdef VM_SIMULATED
/* Stands for both kernels where no code for a GPU runs, to try the program's own steps. */
static const sim_api_t *sim;

static void simulated_kernel(void *const *parameters)
{
    uint32_t index = *(uint32_t *)parameters[3];
    uint64_t *times = sim->memory(*(uint64_t *)parameters[1] + 16 * (uint64_t)index, 16);
    uint32_t *progress = sim->memory(*(uint64_t *)parameters[2], 4);
    if (!times || !progress)
        return;
    times[0] = now_ns();
    times[1] = now_ns();
    *progress = index + 1;
}

static void add_simulated_kernels(void)
{
    static const sim_kernel_parameter_t parameters[] = {{0, 8}, {8, 8}, {16, 8}, {24, 4}, {32, 8}};
    static const sim_kernel_t kernels[] = {{"spin", 5, parameters, simulated_kernel},
                                           {"read", 5, parameters, simulated_kernel}};
    sim_api_function_t api = (sim_api_function_t)resolve("sim_api");
    sim = api();
    for (int i = 0; i < 2; i++)
        sim->function(&kernels[i]);
}
#endif

static void init_launcher(void)
{
#ifdef VM_SIMULATED
    add_simulated_kernels();
#endif
    CHECK(cuStreamCreate(&launcher.stream, CU_STREAM_NON_BLOCKING));
    CHECK(cuModuleLoadData(&launcher.module, kernels_ptx));
    CHECK(cuMemAlloc(&launcher.times, LAUNCHES * 16));
    CHECK(cuMemAlloc(&launcher.data, READ_BYTES));
    CHECK(cuMemsetD32(launcher.data, 1, READ_BYTES / 4));
    void *progress;
    CHECK(cuMemHostAlloc(&progress, 4096, CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_PORTABLE));
    launcher.progress = progress;
    launcher.begins = allocate(LAUNCHES * 8);
    launcher.ends = allocate(LAUNCHES * 8);
    launcher.device_times = allocate(LAUNCHES * 16);
}

/* Until no more than AHEAD kernels are enqueued. The simulated device works only when it is asked,
 * hence the query, which no real kernel is late enough for. */
static void wait_for_room(size_t launched)
{
    volatile uint32_t *progress = launcher.progress;
    for (uint64_t asked_ns = now_ns(); launched - *progress > AHEAD;)
        if (now_ns() - asked_ns > 2000000) {
            cu.cuStreamQuery(launcher.stream);
            asked_ns = now_ns();
        }
}

static void launch_until(const load_t *load, uint64_t end_ns, const atomic_bool *finished)
{
    CUfunction function;
    CHECK(cuModuleGetFunction(&function, launcher.module, load->kernel));
    uint64_t amount = !strcmp(load->kernel, "read")
                          ? READ_BYTES / 16
                          : (uint64_t)(load->spin_us * launcher.cycles_per_us);
    uint64_t times = launcher.times, progress = (uintptr_t)launcher.progress, data = launcher.data;
    *(volatile uint32_t *)launcher.progress = 0;
    uint32_t index = 0;
    void *parameters[] = {&amount, &times, &progress, &index, &data};
    while (index < LAUNCHES && now_ns() < end_ns && !(finished && atomic_load(finished))) {
        wait_for_room(index);
        launcher.begins[index] = now_ns();
        CHECK(cuLaunchKernel(function, load->blocks, 1, 1, load->threads, 1, 1, 0, launcher.stream,
                             parameters, NULL));
        launcher.ends[index] = now_ns();
        index++;
    }
    CHECK(cuStreamSynchronize(launcher.stream));
    launcher.count = index;
    CHECK(cuMemcpyDtoH(launcher.device_times, launcher.times, 16 * (size_t)index));
}

/* Cycles of a microsecond, at the clock that the device reaches under this load. */
static void calibrate(void)
{
    const load_t warm = {"warm", "spin", 1, 1, 1};
    launcher.cycles_per_us = 20000;
    for (int i = 0; i < 2; i++)
        launch_until(&warm, now_ns() + 100000000, NULL);
    const uint64_t *times = launcher.device_times;
    uint64_t spent_ns = 0;
    for (size_t i = launcher.count / 2; i < launcher.count; i++)
        spent_ns += times[2 * i + 1] - times[2 * i];
    double kernels = (double)(launcher.count - launcher.count / 2);
    launcher.cycles_per_us = spent_ns ? 20000 * kernels / ((double)spent_ns / 1e3) : 2000;
}

static void print_kernels(void)
{
    size_t count = launcher.count;
    const uint64_t *times = launcher.device_times;
    if (count < 2)
        return;
    uint64_t *values = allocate(count * sizeof *values), busy_ns = 0;
    for (size_t i = 0; i < count; i++)
        busy_ns += values[i] = times[2 * i + 1] - times[2 * i];
    print_summary("kernel", values, count);
    for (size_t i = 0; i + 1 < count; i++) /* the timer may step coarsely */
        values[i] = times[2 * i + 2] > times[2 * i + 1] ? times[2 * i + 2] - times[2 * i + 1] : 0;
    print_summary("gap", values, count - 1);
    uint64_t whole_ns = times[2 * count - 1] - times[0];
    if (whole_ns > 0)
        printf(",\"per_ms\":%.3f,\"busy\":%.4f", (double)count / ((double)whole_ns / 1e6),
               (double)busy_ns / (double)whole_ns);
    free(values);
}

/* Launch times, apart for each call that the other thread was in when the launch began: with a lock
 * in common, a launch lasts as long as what is left of that call. */
static void print_launches(const call_log_t *log)
{
    size_t count = launcher.count, counts[CALLS + 1] = {0}, at = 0;
    uint64_t *all = allocate(count * sizeof *all), *during[CALLS + 1];
    for (int i = 0; i <= CALLS; i++)
        during[i] = allocate(count * sizeof *during[i]);
    for (size_t i = 0; i < count; i++) {
        uint64_t begin_ns = launcher.begins[i];
        while (at < log->count && log->entries[at].end_ns <= begin_ns)
            at++;
        bool in_call = at < log->count && log->entries[at].begin_ns <= begin_ns;
        int call = in_call ? (int)log->entries[at].call : CALLS;
        during[call][counts[call]++] = all[i] = launcher.ends[i] - begin_ns;
    }
    print_summary("launch", all, count);
    for (int i = 0; i <= CALLS; i++) {
        char name[32];
        snprintf(name, sizeof name, "launch_in_%s", i < CALLS ? call_names[i] : "none");
        if (counts[i] > 0)
            print_summary(name, during[i], counts[i]);
        free(during[i]);
    }
    free(all);
}

/* --- The other thread ----------------------------------------------------------------------------
 * Repeats one cycle of calls and notes when each begins and ends. */
typedef struct worker worker_t;
struct worker {
    const char *name;
    bool (*cycle)(worker_t *worker); /* false: nothing is left to do */
    kind_t kind;
    size_t bytes, handle_count, step;
    CUmemGenericAllocationHandle *handles;
    void **pinned;
    CUdeviceptr addresses; /* PLACES of `bytes` each */
    call_log_t log;
    atomic_bool stop, finished;
};
#define PLACES 16
#define ENTRIES ((size_t)1 << 18)

static bool remap_once(worker_t *worker)
{
    CUdeviceptr address = worker->addresses + worker->step % PLACES * worker->bytes;
    CUmemGenericAllocationHandle handle = worker->handles[worker->step % worker->handle_count];
    uint64_t begin_ns = now_ns();
    CHECK(cuMemMap(address, worker->bytes, 0, handle, 0));
    log_call(&worker->log, MAP, begin_ns);
    begin_ns = now_ns();
    give_access(address, worker->bytes, worker->kind);
    log_call(&worker->log, ACCESS, begin_ns);
    begin_ns = now_ns();
    CHECK(cuMemUnmap(address, worker->bytes));
    log_call(&worker->log, UNMAP, begin_ns);
    worker->step++;
    return true;
}

/* Creates up to handle_count handles. In device memory each is released at once, without an end. */
static bool create_once(worker_t *worker)
{
    if (worker->kind != DEVICE && worker->step == worker->handle_count)
        return false;
    uint64_t begin_ns = now_ns();
    CUmemGenericAllocationHandle handle = create(worker->kind, worker->bytes);
    log_call(&worker->log, CREATE, begin_ns);
    if (worker->kind == DEVICE) {
        begin_ns = now_ns();
        CHECK(cuMemRelease(handle));
        log_call(&worker->log, RELEASE, begin_ns);
    } else {
        worker->handles[worker->step] = handle;
    }
    worker->step++;
    return true;
}

static bool host_alloc_once(worker_t *worker)
{
    if (worker->step == worker->handle_count)
        return false;
    uint64_t begin_ns = now_ns();
    CHECK(cuMemHostAlloc(&worker->pinned[worker->step], worker->bytes, 0));
    log_call(&worker->log, HOST_ALLOC, begin_ns);
    worker->step++;
    return true;
}

static void *run_worker(void *argument)
{
    worker_t *worker = argument;
    CHECK(cuCtxSetCurrent(context));
    while (!atomic_load(&worker->stop) && worker->log.count + CALLS < worker->log.room &&
           worker->cycle(worker))
        continue;
    atomic_store(&worker->finished, true);
    return NULL;
}

static void sleep_until(uint64_t end_ns, const atomic_bool *finished)
{
    while (now_ns() < end_ns && !atomic_load(finished))
        usleep(1000);
}

/* Prints one row: `load` for `ms` milliseconds (or until the worker has nothing to do), beside
 * `worker`, NULL for the load alone. */
static void run_case(const char *part, const load_t *load, worker_t *worker, unsigned ms)
{
    static entry_t entries[ENTRIES];
    call_log_t no_calls = {entries, 0, 0};
    pthread_t thread;
    if (worker) {
        worker->log = (call_log_t){entries, 0, ENTRIES};
        worker->step = 0;
        atomic_store(&worker->stop, false);
        atomic_store(&worker->finished, false);
        if (pthread_create(&thread, NULL, run_worker, worker) != 0)
            check(CUDA_ERROR_UNKNOWN, "pthread_create", __LINE__);
    }
    uint64_t end_ns = now_ns() + (uint64_t)ms * 1000000;
    if (load->kernel)
        launch_until(load, end_ns, worker ? &worker->finished : NULL);
    else if (worker)
        sleep_until(end_ns, &worker->finished);
    if (worker) {
        atomic_store(&worker->stop, true);
        pthread_join(thread, NULL);
    }
    printf("{\"part\":\"%s\",\"load\":\"%s\",\"work\":\"%s\",\"mib\":%zu", part, load->name,
           worker ? worker->name : "none", worker ? worker->bytes / MIB : 0);
    if (load->kernel) {
        print_kernels();
        print_launches(worker ? &worker->log : &no_calls);
    }
    print_calls(worker ? &worker->log : &no_calls);
    end_row();
}

/* --- Part remap ----------------------------------------------------------------------------------
 */
static void remap_cases(CUdeviceptr addresses, kind_t kind, size_t bytes)
{
    CUmemGenericAllocationHandle handles[8];
    size_t count = 512 * MIB / bytes;
    count = count > 8 ? 8 : count;
    for (size_t i = 0; i < count; i++)
        handles[i] = create(kind, bytes);
    worker_t worker = {.name = kind_names[kind],
                       .cycle = remap_once,
                       .kind = kind,
                       .bytes = bytes,
                       .handles = handles,
                       .handle_count = count,
                       .addresses = addresses};
    for (size_t i = 0; i < LOADS; i++)
        if (strcmp(loads[i].name, "read") != 0 || kind != HOST_CPU)
            run_case("remap", &loads[i], &worker, i == 0 ? 100 : 230);
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemRelease(handles[i]));
}

static void remap_controls(void)
{
    for (size_t i = 1; i < LOADS; i++)
        run_case("remap", &loads[i], NULL, 230);
}

static void part_remap(void)
{
    init_launcher();
    calibrate();
    CUdeviceptr addresses = reserve(PLACES * chunk_sizes[CHUNK_SIZES - 1]);
    remap_controls();
    for (size_t i = 0; i < CHUNK_SIZES; i++)
        for (kind_t kind = 0; kind < KINDS; kind++)
            remap_cases(addresses, kind, chunk_sizes[i]);
    remap_controls();
}

/* --- Part create ---------------------------------------------------------------------------------
 */
static void free_created(worker_t *worker)
{
    call_log_t log = {allocate(worker->step * sizeof(entry_t)), 0, worker->step};
    for (size_t i = 0; i < worker->step; i++) {
        uint64_t begin_ns = now_ns();
        if (worker->cycle == host_alloc_once)
            CHECK(cuMemFreeHost(worker->pinned[i]));
        else
            CHECK(cuMemRelease(worker->handles[i]));
        log_call(&log, RELEASE, begin_ns);
    }
    printf("{\"part\":\"create\",\"load\":\"freed\",\"work\":\"%s\",\"mib\":%zu", worker->name,
           worker->bytes / MIB);
    print_calls(&log);
    end_row();
    free(log.entries);
}

static void part_create(void)
{
    static const size_t sizes[] = {2 * MIB, 32 * MIB, 128 * MIB, 256 * MIB};
    static CUmemGenericAllocationHandle handles[512];
    static void *pinned[512];
    init_launcher();
    calibrate();
    for (size_t i = 1; i < LOADS; i++)
        run_case("create", &loads[i], NULL, 200);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        worker_t workers[] = {{.name = "host", .cycle = create_once, .kind = HOST},
                              {.name = "device", .cycle = create_once, .kind = DEVICE},
                              {.name = "pinned", .cycle = host_alloc_once}};
        for (size_t w = 0; w < 3; w++) {
            workers[w].bytes = sizes[i];
            workers[w].handles = handles;
            workers[w].pinned = pinned;
            workers[w].handle_count = 512 * MIB / sizes[i];
            for (size_t load = 0; load < LOADS; load++) {
                run_case("create", &loads[load], &workers[w], w == 1 ? 200 : 400);
                if (w != 1)
                    free_created(&workers[w]);
            }
        }
    }
}

/* --- Part several: one call for adjacent mappings ------------------------------------------------
 */
#define SEVERAL_MOST 16
#define SEVERAL_REPEATS 15

typedef struct several {
    const char *name;
    CUdeviceptr addresses;
    size_t bytes, count;
    CUmemGenericAllocationHandle handles[SEVERAL_MOST];
    uint64_t times[4]
                  [SEVERAL_REPEATS]; /* access together, unmap together, access each, unmap each */
    CUresult access, unmap;          /* of the calls for all */
} several_t;

static void unmap_each(several_t *several)
{
    for (size_t i = 0; i < several->count; i++)
        CHECK(cuMemUnmap(several->addresses + i * several->bytes, several->bytes));
}

static void several_once(several_t *several, size_t repeat, bool together)
{
    size_t whole = several->count * several->bytes;
    for (size_t i = 0; i < several->count; i++)
        CHECK(cuMemMap(several->addresses + i * several->bytes, several->bytes, 0,
                       several->handles[i], 0));
    uint64_t begin_ns = now_ns();
    if (together)
        several->access =
            try_access(several->addresses, whole, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
    else
        for (size_t i = 0; i < several->count; i++)
            give_access(several->addresses + i * several->bytes, several->bytes, DEVICE);
    uint64_t between_ns = now_ns();
    several->times[together ? 0 : 2][repeat] = between_ns - begin_ns;
    if (!together)
        unmap_each(several);
    else if ((several->unmap = cu.cuMemUnmap(several->addresses, whole)) != CUDA_SUCCESS)
        unmap_each(several);
    several->times[together ? 1 : 3][repeat] = now_ns() - between_ns;
}

/* `mixed`: every other handle is host memory. */
static void several_case(CUdeviceptr addresses, kind_t kind, bool mixed, size_t bytes, size_t count)
{
    static const char *const names[] = {"access_together", "unmap_together", "access_each",
                                        "unmap_each"};
    several_t several = {.name = mixed ? "mixed" : kind_names[kind],
                         .addresses = addresses,
                         .bytes = bytes,
                         .count = count};
    for (size_t i = 0; i < count; i++)
        several.handles[i] = create(mixed && i % 2 ? HOST : kind, bytes);
    for (size_t repeat = 0; repeat < SEVERAL_REPEATS; repeat++) {
        several_once(&several, repeat, true);
        several_once(&several, repeat, false);
    }
    printf("{\"part\":\"several\",\"work\":\"%s\",\"mib\":%zu,\"handles\":%zu,\"access_status\":%d,"
           "\"unmap_status\":%d",
           several.name, bytes / MIB, count, (int)several.access, (int)several.unmap);
    for (int i = 0; i < 4; i++)
        print_summary(names[i], several.times[i], SEVERAL_REPEATS);
    end_row();
    for (size_t i = 0; i < count; i++)
        CHECK(cuMemRelease(several.handles[i]));
}

static void part_several(void)
{
    static const size_t sizes[] = {2 * MIB, 32 * MIB};
    static const size_t counts[] = {1, 2, 4, 16};
    CUdeviceptr addresses = reserve(SEVERAL_MOST * 32 * MIB);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < 4; j++) {
            several_case(addresses, DEVICE, false, sizes[i], counts[j]);
            several_case(addresses, HOST, false, sizes[i], counts[j]);
        }
    several_case(addresses, DEVICE, true, 2 * MIB, 4);
}

/* --- Part protect: access changed without unmapping ----------------------------------------------
 */
static void print_status(const char *name, CUresult result)
{
    printf("{\"part\":\"protect\",\"what\":\"%s\",\"status\":%d", name, (int)result);
    end_row();
}

static void time_flags(CUdeviceptr address, size_t bytes)
{
    static const CUmemAccess_flags flags[] = {CU_MEM_ACCESS_FLAGS_PROT_READ,
                                              CU_MEM_ACCESS_FLAGS_PROT_NONE,
                                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    static const char *const names[] = {"to_read", "to_none", "to_readwrite"};
    uint64_t times[3][20];
    CUresult status[3] = {CUDA_SUCCESS, CUDA_SUCCESS, CUDA_SUCCESS};
    for (int i = 0; i < 20; i++)
        for (int j = 0; j < 3; j++) {
            uint64_t begin_ns = now_ns();
            CUresult result = try_access(address, bytes, DEVICE, flags[j]);
            times[j][i] = now_ns() - begin_ns;
            status[j] = result != CUDA_SUCCESS ? result : status[j];
        }
    printf("{\"part\":\"protect\",\"what\":\"times\",\"mib\":%zu", bytes / MIB);
    for (int j = 0; j < 3; j++) {
        print_summary(names[j], times[j], 20);
        printf(",\"%s_status\":%d", names[j], (int)status[j]);
    }
    end_row();
}

/* The last step writes to memory that is only to be read: the context may be dead afterwards. */
static void part_protect(void)
{
    CUdeviceptr address = reserve(4 * GIB);
    uint32_t word = 0;
    for (size_t i = 0; i < CHUNK_SIZES; i += 3) {
        CUmemGenericAllocationHandle handle = create(DEVICE, chunk_sizes[i]);
        map(address, chunk_sizes[i], handle, DEVICE);
        time_flags(address, chunk_sizes[i]);
        CHECK(cuMemUnmap(address, chunk_sizes[i]));
        CHECK(cuMemRelease(handle));
    }
    for (size_t i = 0; i < 3; i++)
        map(address + 4 * i * MIB, 4 * MIB, create(DEVICE, 4 * MIB), DEVICE);
    print_status("access to half of a mapping",
                 try_access(address, 2 * MIB, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READ));
    print_status("unmap half of a mapping", cu.cuMemUnmap(address, 2 * MIB));
    print_status("unmap the middle of three", cu.cuMemUnmap(address + 4 * MIB, 4 * MIB));
    print_status("access across a hole",
                 try_access(address, 12 * MIB, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    print_status("unmap across a hole", cu.cuMemUnmap(address, 12 * MIB));
    map(address + 1 * GIB, 4 * MIB, create(DEVICE, 4 * MIB), DEVICE);
    address += 1 * GIB;
    CHECK(cuMemsetD32(address, 7, MIB));
    CHECK(cuCtxSynchronize());
    print_status("set to read only",
                 try_access(address, 4 * MIB, DEVICE, CU_MEM_ACCESS_FLAGS_PROT_READ));
    print_status("copy out of read only", cu.cuMemcpyDtoH(&word, address, 4));
    print_status("fill of read only", cu.cuMemsetD32(address, 9, MIB));
    print_status("synchronise after it", cu.cuCtxSynchronize());
    print_status("copy out afterwards", cu.cuMemcpyDtoH(&word, address, 4));
    printf("{\"part\":\"protect\",\"what\":\"word read (7 kept, 9 written)\",\"word\":%u", word);
    end_row();
}

/* --- Part copies: through an alias, while the main mapping moves ---------------------------------
 */
#define SLOTS_MOST 64
#define LANE_BYTES (5 * 256 * MIB)
#define SAMPLE 1024 /* words from one stamped or checked word to the next */

/* One direction: chunks, each mapped for good in a window that copies go through, and at one of two
 * main places, between which it moves while it is copied. */
typedef struct lane {
    bool to_host;
    CUstream stream;
    size_t bytes, slots;
    CUdeviceptr window, places[2];
    int place[SLOTS_MOST];
    CUmemGenericAllocationHandle handles[SLOTS_MOST];
    CUevent events[SLOTS_MOST];
    CUdeviceptr host; /* pinned, or chunks of host memory mapped at a device address */
} lane_t;

typedef struct copy_case {
    size_t bytes, in_flight;
    bool lanes[2]; /* to the host, to the device */
    bool remap;
    const char *memory;
    uint32_t stamp;
} copy_case_t;

static void init_lane(lane_t *lane, bool to_host, CUdeviceptr addresses, void *pinned)
{
    *lane = (lane_t){.to_host = to_host, .window = addresses, .host = (uintptr_t)pinned};
    CHECK(cuStreamCreate(&lane->stream, CU_STREAM_NON_BLOCKING));
    for (size_t i = 0; i < SLOTS_MOST; i++)
        CHECK(cuEventCreate(&lane->events[i], CU_EVENT_DISABLE_TIMING));
}

static void fill_lane(lane_t *lane, size_t bytes)
{
    size_t slots = 512 * MIB / bytes;
    lane->slots = slots > SLOTS_MOST ? SLOTS_MOST : slots < 5 ? 5 : slots;
    lane->bytes = bytes;
    lane->places[0] = lane->window + LANE_BYTES;
    lane->places[1] = lane->window + 2 * LANE_BYTES;
    for (size_t i = 0; i < lane->slots; i++) {
        lane->handles[i] = create(DEVICE, bytes);
        lane->place[i] = 0;
        map(lane->window + i * bytes, bytes, lane->handles[i], DEVICE);
        map(lane->places[0] + i * bytes, bytes, lane->handles[i], DEVICE);
    }
}

static void empty_lane(lane_t *lane)
{
    for (size_t i = 0; i < lane->slots; i++) {
        CHECK(cuMemUnmap(lane->window + i * lane->bytes, lane->bytes));
        CHECK(cuMemUnmap(lane->places[lane->place[i]] + i * lane->bytes, lane->bytes));
        CHECK(cuMemRelease(lane->handles[i]));
    }
}

static uint32_t *host_words(const lane_t *lane, size_t slot)
{
    return (uint32_t *)(uintptr_t)(lane->host + slot * lane->bytes);
}

static uint32_t expected(const copy_case_t *copies, size_t slot)
{
    return copies->stamp * 2654435761u + (uint32_t)slot * 40503u;
}

/* Chunks or host memory get content that no case before had. To the device each page has its own.
 */
static void stamp_lane(lane_t *lane, const copy_case_t *copies)
{
    for (size_t slot = 0; slot < lane->slots; slot++) {
        uint32_t value = expected(copies, slot), *words = host_words(lane, slot);
        if (lane->to_host)
            CHECK(cuMemsetD32(lane->places[lane->place[slot]] + slot * lane->bytes, value,
                              lane->bytes / 4));
        else
            for (size_t i = 0; i < lane->bytes / 4; i += SAMPLE)
                words[i] = value + (uint32_t)i;
    }
    CHECK(cuCtxSynchronize());
}

static size_t count_wrong(const uint32_t *words, size_t count, size_t step, uint32_t value,
                          uint32_t growth)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i += step)
        wrong += words[i] != value + growth * (uint32_t)i;
    return wrong;
}

/* What a lane's copies made, in `used` slots; `other` is host memory that can be overwritten. What
 * came to the device is read where the chunk is mapped now. With one copy in flight every word of a
 * chunk that came to the host is looked at. */
static size_t wrong_words(const lane_t *lane, const lane_t *other, const copy_case_t *copies,
                          size_t used)
{
    size_t wrong = 0, words = lane->bytes / 4;
    for (size_t slot = 0; slot < used; slot++) {
        uint32_t value = expected(copies, slot);
        if (lane->to_host) {
            size_t step = slot == 0 && copies->in_flight == 1 ? 1 : SAMPLE;
            wrong += count_wrong(host_words(lane, slot), words, step, value, 0);
            continue;
        }
        uint32_t *there = host_words(other, slot);
        CHECK(
            cuMemcpyDtoH(there, lane->places[lane->place[slot]] + slot * lane->bytes, lane->bytes));
        wrong += count_wrong(there, words, SAMPLE, value, 1);
    }
    return wrong;
}

static void enqueue_copy(lane_t *lane, size_t slot)
{
    CUdeviceptr chunk = lane->window + slot * lane->bytes, host = lane->host + slot * lane->bytes;
    void *pointer = (void *)(uintptr_t)host;
    if (lane->to_host)
        CHECK(cuMemcpyDtoHAsync(pointer, chunk, lane->bytes, lane->stream));
    else
        CHECK(cuMemcpyHtoDAsync(chunk, pointer, lane->bytes, lane->stream));
    CHECK(cuEventRecord(lane->events[slot], lane->stream));
}

static void move_chunk(lane_t *lane, size_t slot, call_log_t *log)
{
    uint64_t begin_ns = now_ns();
    CHECK(cuMemUnmap(lane->places[lane->place[slot]] + slot * lane->bytes, lane->bytes));
    log_call(log, UNMAP, begin_ns);
    lane->place[slot] ^= 1;
    CUdeviceptr address = lane->places[lane->place[slot]] + slot * lane->bytes;
    begin_ns = now_ns();
    CHECK(cuMemMap(address, lane->bytes, 0, lane->handles[slot], 0));
    log_call(log, MAP, begin_ns);
    begin_ns = now_ns();
    give_access(address, lane->bytes, DEVICE);
    log_call(log, ACCESS, begin_ns);
}

/* `count` copies in each lane that takes part; returns GB/s of one lane. */
static double run_copies(lane_t lanes[2], const copy_case_t *copies, size_t count, call_log_t *log)
{
    uint64_t begin_ns = now_ns();
    for (size_t k = 0; k < count; k++)
        for (int i = 0; i < 2; i++) {
            lane_t *lane = &lanes[i];
            if (!copies->lanes[i])
                continue;
            if (k >= copies->in_flight)
                CHECK(cuEventSynchronize(lane->events[(k - copies->in_flight) % lane->slots]));
            enqueue_copy(lane, k % lane->slots);
            if (copies->remap)
                move_chunk(lane, k % lane->slots, log);
        }
    for (int i = 0; i < 2; i++)
        CHECK(cuStreamSynchronize(lanes[i].stream));
    return (double)(count * copies->bytes) / (double)(now_ns() - begin_ns);
}

static void run_copy_case(lane_t lanes[2], copy_case_t copies)
{
    static uint32_t stamp;
    static entry_t entries[4096];
    call_log_t log = {entries, 0, 4096};
    size_t count = 512 * MIB / copies.bytes < 8 ? 8 : 512 * MIB / copies.bytes;
    size_t used = count < lanes[0].slots ? count : lanes[0].slots, wrong = 0;
    double gbps[2];
    copies.stamp = ++stamp;
    for (int i = 0; i < 2; i++)
        if (copies.lanes[i])
            stamp_lane(&lanes[i], &copies);
    for (int i = 0; i < 2; i++)
        gbps[i] = run_copies(lanes, &copies, count, &log);
    for (int i = 0; i < 2; i++) /* to the host first: its memory serves the other's check */
        if (copies.lanes[i])
            wrong += wrong_words(&lanes[i], &lanes[1 - i], &copies, used);
    printf("{\"part\":\"copies\",\"mib\":%zu,\"to_host\":%s,\"to_device\":%s,\"in_flight\":%zu,"
           "\"remap\":%s,\"memory\":\"%s\",\"wrong\":%zu,\"gbps\":%.2f,\"gbps_first\":%.2f",
           copies.bytes / MIB, copies.lanes[0] ? "true" : "false",
           copies.lanes[1] ? "true" : "false", copies.in_flight, copies.remap ? "true" : "false",
           copies.memory, wrong, gbps[1], gbps[0]);
    print_calls(&log);
    end_row();
}

/* The same copies with host chunks (handles) in place of pinned memory, for one direction a time.
 */
static void host_chunk_cases(lane_t lanes[2], CUdeviceptr addresses, size_t bytes)
{
    CUmemGenericAllocationHandle handles[SLOTS_MOST];
    size_t slots = lanes[0].slots;
    for (size_t i = 0; i < slots; i++) {
        handles[i] = create(HOST_CPU, bytes);
        map(addresses + i * bytes, bytes, handles[i], HOST_CPU);
    }
    for (int i = 0; i < 2; i++) {
        CUdeviceptr pinned = lanes[i].host;
        lanes[i].host = addresses;
        run_copy_case(lanes, (copy_case_t){.bytes = bytes,
                                           .in_flight = 2,
                                           .lanes = {i == 0, i == 1},
                                           .remap = true,
                                           .memory = "host chunks"});
        lanes[i].host = pinned;
    }
    for (size_t i = 0; i < slots; i++) {
        CHECK(cuMemUnmap(addresses + i * bytes, bytes));
        CHECK(cuMemRelease(handles[i]));
    }
}

static void copy_cases(lane_t lanes[2], size_t bytes)
{
    static const bool directions[][2] = {{true, false}, {false, true}, {true, true}};
    for (int d = 0; d < 3; d++) {
        copy_case_t copies = {
            .bytes = bytes, .memory = "pinned", .lanes = {directions[d][0], directions[d][1]}};
        for (size_t n = 1; n <= 4; n++) {
            copies.in_flight = n;
            copies.remap = true;
            run_copy_case(lanes, copies);
        }
        copies.remap = false; /* the control, with four */
        run_copy_case(lanes, copies);
    }
}

static void part_copies(void)
{
    lane_t lanes[2];
    CUdeviceptr addresses = reserve(7 * LANE_BYTES);
    for (int i = 0; i < 2; i++) {
        void *pinned;
        CHECK(cuMemHostAlloc(&pinned, LANE_BYTES, CU_MEMHOSTALLOC_PORTABLE));
        init_lane(&lanes[i], i == 0, addresses + (CUdeviceptr)i * 3 * LANE_BYTES, pinned);
    }
    for (size_t i = 0; i < CHUNK_SIZES; i++) {
        for (int lane = 0; lane < 2; lane++)
            fill_lane(&lanes[lane], chunk_sizes[i]);
        copy_cases(lanes, chunk_sizes[i]);
        host_chunk_cases(lanes, addresses + 6 * LANE_BYTES, chunk_sizes[i]);
        for (int lane = 0; lane < 2; lane++)
            empty_lane(&lanes[lane]);
    }
}

/* --- Start ---------------------------------------------------------------------------------------
 */
static void start(const char *part)
{
    char name[256];
    int version = 0, numa = 0;
    CUdevice device;
    size_t free_bytes = 0, total = 0;
    load_driver();
    CHECK(cuInit(0));
    CHECK(cuDeviceGet(&device, 0));
    CHECK(cuDeviceGetName(name, sizeof name, device));
    CHECK(cuDriverGetVersion(&version));
    cu.cuDeviceGetAttribute(
        &numa, CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
    CHECK(cuDevicePrimaryCtxRetain(&context, device));
    CHECK(cuCtxSetCurrent(context));
    CHECK(cuMemGetInfo(&free_bytes, &total));
    printf("{\"part\":\"start\",\"of\":\"%s\",\"device\":\"%s\",\"driver_api\":%d,\"host_numa\":%d,"
           "\"free\":%zu,\"total\":%zu",
           part, name, version, numa, free_bytes, total);
    end_row();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } parts[] = {{"remap", part_remap},
                 {"several", part_several},
                 {"protect", part_protect},
                 {"copies", part_copies},
                 {"create", part_create}};
    int seconds = argc == 3 ? atoi(argv[2]) : 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (seconds > 0 && !strcmp(argv[1], parts[i].name)) {
            alarm((unsigned)seconds); /* no part can hang */
            start(argv[1]);
            parts[i].run();
            printf("{\"part\":\"end\",\"of\":\"%s\"", argv[1]);
            end_row();
            _Exit(0); /* a dead context must not hold up the end */
        }
    fprintf(stderr, "usage: vm_experiments remap|several|protect|copies|create SECONDS\n");
    return 2;
}
