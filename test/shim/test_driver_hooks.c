/* Ways in and operations of the driver's hooks, on the simulated GPU, with a double in the place of
 * virtual memory that writes down what it is told. Runs with that library preloaded
 * (test/driver_hooks.sh). */
#include "test/sim/test_sim.h"

#include <dlfcn.h>

#include <cudaTypedefs.h>

#include "test/clients/one_convolution.h"
#include "test/clients/one_graph.h"
#include "test/shim/virtual_double.h"

#define BUDGET "MICRODNN_MEMORY_BUDGET=1GiB"

static virtual_double_t *seen;

static virtual_double_t *find_double(void)
{
    virtual_double_t *(*get)(void);
    *(void **)(void *)&get = dlsym(RTLD_DEFAULT, "virtual_double");
    CHECK(get);
    return get();
}

static void start(void)
{
    seen = find_double();
    OK(cudaFree(NULL));
    memset(seen->events, 0, sizeof seen->events);
}

/* ---- ways in ---- */

typedef struct hook {
    const char *symbol, *type;
    void (*linked)(void);
    bool own;
} hook_t;

#define DRIVER_HOOK(symbol, type, hook, own, parameters, arguments)                                \
    __attribute__((weak)) void linked_##symbol(void) __asm__(#symbol);
#define DRIVER_OPERATION(symbol, type, own, stream, names, parameters, arguments)                  \
    DRIVER_HOOK(symbol, , , , , )
#define DRIVER_NODE(symbol, type, owner, uses, parameters, arguments) DRIVER_HOOK(symbol, , , , , )
#include "shim/interpose/driver_hooks.def"
#undef DRIVER_HOOK

static const hook_t hooks[] = {
#define DRIVER_HOOK(symbol, type, hook, own, parameters, arguments)                                \
    {#symbol, #type, &linked_##symbol, own},
#undef DRIVER_OPERATION
#define DRIVER_OPERATION(symbol, type, own, stream, names, parameters, arguments)                  \
    DRIVER_HOOK(symbol, type, , own, , )
#undef DRIVER_NODE
#define DRIVER_NODE(symbol, type, owner, uses, parameters, arguments)                              \
    DRIVER_HOOK(symbol, type, , false, , )
#include "shim/interpose/driver_hooks.def"
#undef DRIVER_HOOK
#undef DRIVER_OPERATION
#undef DRIVER_NODE
};

static void *driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(handle);
    return handle;
}

static bool is_of(void *function, const char *library)
{
    Dl_info info;
    return dladdr(function, &info) && strstr(info.dli_fname, library);
}

/* "PFN_cuMemAlloc_v3020" -> "cuMemAlloc", 3020 */
static int split_type(const char *type, char *name, size_t bytes)
{
    const char *version = strrchr(type, 'v');
    CHECK(version && snprintf(name, bytes, "%s", type + strlen("PFN_")) < (int)bytes);
    name[version - type - (int)strlen("PFN_") - 1] = '\0';
    return atoi(version + 1);
}

typedef struct resolvers {
    PFN_cuGetProcAddress_v11030 old;
    PFN_cuGetProcAddress_v12000 new;
} resolvers_t;

static resolvers_t find_resolvers(void)
{
    resolvers_t resolvers;
    *(void **)(void *)&resolvers.old = dlsym(driver(), "cuGetProcAddress");
    *(void **)(void *)&resolvers.new = dlsym(driver(), "cuGetProcAddress_v2");
    return resolvers;
}

static void check_hook(const hook_t *hook, const resolvers_t *resolvers)
{
    char name[100];
    const int version = split_type(hook->type, name, sizeof name);
    const cuuint64_t flags = hook->own ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
    void *const entry = dlsym(driver(), hook->symbol), *found, *linked;
    memcpy(&linked, &hook->linked, sizeof linked);
    if (!entry || !is_of(entry, "libmicrodnn") || linked != entry)
        fprintf(stderr, "# %s\n", hook->symbol);
    CHECK(entry && is_of(entry, "libmicrodnn") && linked == entry);
    if (resolvers->old(name, &found, version, flags) != CUDA_SUCCESS)
        found = NULL;
    if (found != entry)
        fprintf(stderr, "# %s (%s %d)\n", hook->symbol, name, version);
    CHECK(found == entry);
    CUdriverProcAddressQueryResult status;
    OK(resolvers->new (name, &found, version, flags, &status));
    CHECK(found == entry && status == CU_GET_PROC_ADDRESS_SUCCESS);
    const unsigned long long runtime_flags =
        hook->own ? cudaEnablePerThreadDefaultStream : cudaEnableLegacyStream;
    OK(cudaGetDriverEntryPointByVersion(name, &found, (unsigned)version, runtime_flags, NULL));
    CHECK(found == entry);
}

/* What the simulated driver does not have is not there, whatever is hooked. */
static void all_ways(void)
{
    start();
    const resolvers_t resolvers = find_resolvers();
    size_t checked = 0;
    for (size_t i = 0; i < sizeof hooks / sizeof *hooks; i++) {
        if (dlsym(driver(), hooks[i].symbol)) {
            check_hook(&hooks[i], &resolvers);
            checked++;
        }
    }
    CHECK(checked >= 116);
    void *again;
    OK(resolvers.new("cuGetProcAddress", &again, 12000, 0, NULL));
    CHECK(again == dlsym(driver(), "cuGetProcAddress_v2"));
    OK(resolvers.old("cuGetProcAddress", &again, 11030, 0));
    CHECK(again == dlsym(driver(), "cuGetProcAddress"));
    OK(cudaGetDriverEntryPoint("cuLaunchKernel", &again, cudaEnableDefault, NULL));
    CHECK(again == dlsym(driver(), "cuLaunchKernel"));
}

static void every_way_in_leads_to_the_same_entry(void **state)
{
    (void)state;
    expect_success(all_ways, BUDGET);
}

static void other_answers(void)
{
    start();
    const resolvers_t resolvers = find_resolvers();
    void *found = &found;
    CUdriverProcAddressQueryResult status;
    OK(resolvers.new("", &found, 13000, 0, &status));
    CHECK(!found && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK(resolvers.old("", &found, 13000, 0) == CUDA_ERROR_NOT_FOUND);
    OK(resolvers.new("cuMemAlloc", &found, 2000, 0, &status));
    CHECK(!found && status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    OK(resolvers.new("cuInit", &found, 13000, 0, &status));
    CHECK(found && is_of(found, "libcuda.so.1"));
    CHECK(resolvers.new(NULL, &found, 13000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
    CHECK(resolvers.new("cuMemAlloc", NULL, 13000, 0, &status) == CUDA_ERROR_INVALID_VALUE);
    /* The newest form that the version knows, and a family that has only one form. */
    OK(resolvers.new("cuMemcpyBatchAsync", &found, 12090, 0, &status));
    CHECK(found == dlsym(driver(), "cuMemcpyBatchAsync"));
    OK(resolvers.new("cuMemAlloc", &found, 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                     &status));
    CHECK(found == dlsym(driver(), "cuMemAlloc_v2"));
}

static void other_answers_are_the_drivers_own(void **state)
{
    (void)state;
    expect_success(other_answers, BUDGET);
}

static void no_budget(void)
{
    start();
    const resolvers_t resolvers = find_resolvers();
    void *found;
    OK(resolvers.new("cuLaunchKernel", &found, 13000, 0, NULL));
    CHECK(found && is_of(found, "libcuda.so.1"));
    OK(launch_add(new_device(64), 1, 16, 1, NULL));
    OK(cudaDeviceSynchronize());
    CHECK(seen->begun == 0 && seen->allocated == 0 && seen->waited == 0);
}

static void without_a_budget_the_resolver_gives_real_functions(void **state)
{
    (void)state;
    expect_success(no_budget, "");
    expect_success(no_budget, "MICRODNN_MEMORY_BUDGET=none");
    expect_success(no_budget, BUDGET " MICRODNN_DISABLE=1");
}

static void fork_after_use(void)
{
    start();
    void *const memory = new_device(64);
    const pid_t child = fork();
    if (child == 0) {
        const size_t before = seen->begun;
        (void)cuMemsetD8((CUdeviceptr)memory, 0, 64);
        _exit(seen->begun != before);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static void a_forked_child_passes(void **state)
{
    (void)state;
    expect_success(fork_after_use, BUDGET);
}

static void *freed_late;

/* Registered before the library's exit handler, this one runs after it. */
static void free_at_exit(void)
{
    const size_t begun = seen->begun;
    const bool right = cudaMemset(freed_late, 0, 64) == cudaSuccess && seen->begun == begun + 1 &&
                       cudaFree(freed_late) == cudaSuccess && seen->freed != 0;
    _exit(right ? 0 : 1);
}

static void exit_after_use(void)
{
    OK(atexit(free_at_exit));
    start();
    freed_late = new_device(64);
    exit(2); /* free_at_exit decides */
}

static void memory_may_be_used_and_freed_while_the_process_ends(void **state)
{
    (void)state;
    expect_success(exit_after_use, BUDGET);
}

static void free_when_cuda_is_gone(void)
{
    const size_t freed = seen->freed;
    _exit(cuMemFree((CUdeviceptr)freed_late) == CUDA_SUCCESS && seen->freed == freed ? 0 : 1);
}

static void exit_with_the_driver(void)
{
    OK(setenv("MICRODNN_SIM_ENDS", "1", 1));
    OK(atexit(free_when_cuda_is_gone));
    start();
    freed_late = new_device(64);
    exit(2); /* free_when_cuda_is_gone decides */
}

static void nothing_is_freed_after_the_driver_has_shut_down(void **state)
{
    (void)state;
    expect_success(exit_with_the_driver, BUDGET);
}

/* ---- operations ---- */

typedef struct expected {
    const void *address;
    mdnn_use_role_t role;
} expected_t;

static size_t operations; /* so far */

static bool was_named(const expected_t *one)
{
    for (size_t i = 0; i < seen->name_count; i++)
        if (seen->names[i].address == (uintptr_t)one->address && seen->names[i].role == one->role)
            return true;
    return false;
}

static void check_operation(int line, CUstream stream, bool per_thread, const expected_t *names,
                            size_t count)
{
    bool right = seen->begun == operations + 1 && seen->ended == seen->begun && seen->enqueued &&
                 seen->stream == stream && seen->per_thread == per_thread &&
                 seen->name_count == count;
    for (size_t i = 0; right && i < count; i++)
        right = was_named(&names[i]);
    if (!right)
        fprintf(stderr, "# line %d: %zu operations, the last with %zu names in stream %p (%d)\n",
                line, seen->begun - operations, seen->name_count, (void *)seen->stream,
                seen->per_thread);
    CHECK(right);
    operations = seen->begun;
}

/* The call is one operation in the stream, and names exactly this. */
#define NAMES(call, stream, per_thread, ...)                                                       \
    do {                                                                                           \
        const expected_t names_[] = {__VA_ARGS__};                                                 \
        operations = seen->begun;                                                                  \
        OK(call);                                                                                  \
        check_operation(__LINE__, stream, per_thread, names_, sizeof names_ / sizeof *names_);     \
    } while (0)
#define READS(address)                                                                             \
    {                                                                                              \
        (const void *)(address), MDNN_USE_READ                                                     \
    }
#define WRITES(address)                                                                            \
    {                                                                                              \
        (const void *)(address), MDNN_USE_WRITE                                                    \
    }
#define USES(address)                                                                              \
    {                                                                                              \
        (const void *)(address), MDNN_USE_UNKNOWN                                                  \
    }

/* The entry for per-thread default streams, with the type of the other. */
#define OWN(function, symbol) ((__typeof__(&function))find_own(symbol))
static void (*find_own(const char *symbol))(void)
{
    void *const found = dlsym(driver(), symbol);
    void (*function)(void);
    CHECK(found);
    memcpy(&function, &found, sizeof function);
    return function;
}

/* What the last call was said to write, after its success. */
static bool wrote(uint64_t to, const void *from, uint64_t width, uint64_t rows, uint64_t to_step,
                  uint64_t from_step, bool later)
{
    const mdnn_transfer_t *const last = &seen->transfer;
    return seen->transfers == seen->transfers_enqueued && last->to == to &&
           last->from == (uintptr_t)from && last->width == width && last->rows == rows &&
           last->later == later &&
           (rows == 1 || (last->to_step == to_step && last->from_step == from_step));
}

static void flat_copies(void)
{
    start();
    char *const a = new_device(4096), *const b = new_device(4096), *const host = new_pinned(4096);
    const CUdeviceptr pa = (CUdeviceptr)a, pb = (CUdeviceptr)b;
    cudaStream_t s = new_stream();
    NAMES(cuMemcpy(pa, pb, 64), NULL, false, WRITES(a), READS(b));
    NAMES(cuMemcpyAsync(pa + 8, pb + 16, 64, s), s, false, WRITES(a + 8), READS(b + 16));
    NAMES(cuMemcpyHtoD(pa, host, 64), NULL, false, WRITES(a));
    CHECK(wrote(pa, host, 64, 1, 0, 0, false));
    NAMES(cuMemcpyHtoDAsync(pa, host, 64, s), s, false, WRITES(a));
    CHECK(wrote(pa, host, 64, 1, 0, 0, true));
    NAMES(cuMemcpyDtoH(host, pb, 64), NULL, false, READS(b));
    NAMES(cuMemcpyDtoHAsync(host, pb, 64, s), s, false, READS(b));
    NAMES(cuMemcpyDtoD(pa, pb, 64), NULL, false, WRITES(a), READS(b));
    NAMES(cuMemcpyDtoDAsync(pa, pb, 64, s), s, false, WRITES(a), READS(b));
    CUcontext context;
    OK(cuCtxGetCurrent(&context));
    NAMES(cuMemcpyPeer(pa, context, pb, context, 64), NULL, false, WRITES(a), READS(b));
    NAMES(cuMemcpyPeerAsync(pa, context, pb, context, 64, s), s, false, WRITES(a), READS(b));
    NAMES(OWN(cuMemcpy, "cuMemcpy_ptds")(pa, pb, 64), NULL, true, WRITES(a), READS(b));
    NAMES(OWN(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2_ptsz")(host, pb, 64, NULL), NULL, true,
          READS(b));
    NAMES(cudaMemcpy(a, host, 64, cudaMemcpyHostToDevice), NULL, false, WRITES(a));
    NAMES(cudaMemcpyAsync(a, b, 64, cudaMemcpyDeviceToDevice, s), s, false, WRITES(a), READS(b));
    OK(cudaDeviceSynchronize());
}

static void copies_name_what_they_read_and_write(void **state)
{
    (void)state;
    expect_success(flat_copies, BUDGET);
}

static void boxes(void)
{
    start();
    char *const a = new_device(65536), *const b = new_device(65536);
    cudaStream_t s = new_stream();
    const CUDA_MEMCPY2D flat = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = (CUdeviceptr)b,
                                .srcPitch = 512,
                                .srcY = 2,
                                .srcXInBytes = 16,
                                .dstMemoryType = CU_MEMORYTYPE_UNIFIED,
                                .dstDevice = (CUdeviceptr)a,
                                .dstPitch = 256,
                                .WidthInBytes = 64,
                                .Height = 4};
    NAMES(cuMemcpy2D(&flat), NULL, false, WRITES(a), READS(b + 1040));
    NAMES(cuMemcpy2DUnaligned(&flat), NULL, false, WRITES(a), READS(b + 1040));
    CHECK(wrote(flat.dstDevice, b + 1040, 64, 4, 256, 512, false));
    NAMES(cuMemcpy2DAsync(&flat, s), s, false, WRITES(a), READS(b + 1040));
    CHECK(wrote(flat.dstDevice, b + 1040, 64, 4, 256, 512, true));
    NAMES(OWN(cuMemcpy2DAsync, "cuMemcpy2DAsync_v2_ptsz")(&flat, NULL), NULL, true, WRITES(a),
          READS(b + 1040));
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = (CUdeviceptr)b,
                          .srcPitch = 512,
                          .srcHeight = 8,
                          .srcZ = 1,
                          .srcY = 2,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = (CUdeviceptr)a,
                          .dstPitch = 512,
                          .dstHeight = 8,
                          .dstY = 1,
                          .WidthInBytes = 64,
                          .Height = 4,
                          .Depth = 2};
    NAMES(cuMemcpy3D(&deep), NULL, false, WRITES(a + 512), READS(b + 5120));
    CHECK(wrote(deep.dstDevice + 512 + 4096, b + 5120 + 4096, 64, 4, 512, 512, false));
    NAMES(cuMemcpy3DAsync(&deep, s), s, false, WRITES(a + 512), READS(b + 5120));
    CHECK(wrote(deep.dstDevice + 512 + 4096, b + 5120 + 4096, 64, 4, 512, 512, true));
    char *const host = new_pinned(65536);
    deep.srcMemoryType = CU_MEMORYTYPE_HOST;
    deep.srcHost = host;
    NAMES(cuMemcpy3D(&deep), NULL, false, WRITES(a + 512));
    CHECK(wrote(deep.dstDevice + 512 + 4096, host + 5120 + 4096, 64, 4, 512, 512, false));
    NAMES(cudaMemcpy2D(a, 512, host, 64, 64, 4, cudaMemcpyHostToDevice), NULL, false, WRITES(a));
    CUDA_MEMCPY3D_PEER peer = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                               .srcDevice = (CUdeviceptr)b,
                               .srcPitch = 512,
                               .srcHeight = 8,
                               .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                               .dstDevice = (CUdeviceptr)a,
                               .dstPitch = 512,
                               .dstHeight = 8,
                               .WidthInBytes = 64,
                               .Height = 4,
                               .Depth = 2};
    OK(cuCtxGetCurrent(&peer.srcContext));
    peer.dstContext = peer.srcContext;
    NAMES(cuMemcpy3DPeer(&peer), NULL, false, WRITES(a), READS(b));
    NAMES(cuMemcpy3DPeerAsync(&peer, s), s, false, WRITES(a), READS(b));
    OK(cudaDeviceSynchronize());
}

static void copies_of_boxes_name_where_the_box_begins(void **state)
{
    (void)state;
    expect_success(boxes, BUDGET);
}

static void batches(void)
{
    start();
    enum { COUNT = 300 }; /* 600 names: more than an operation has room for */
    char *const a = new_device(65536), *const b = new_device(65536);
    cudaStream_t s = new_stream();
    CUdeviceptr to[COUNT], from[COUNT];
    size_t sizes[COUNT], first = 0;
    for (size_t i = 0; i < COUNT; i++) {
        to[i] = (CUdeviceptr)a + 64 * i;
        from[i] = (CUdeviceptr)b + 64 * i;
        sizes[i] = 64;
    }
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_STREAM};
    NAMES(cuMemcpyBatchAsync_v2(to, from, sizes, 1, &attributes, &first, 1, s), s, false, WRITES(a),
          READS(b));
    operations = seen->begun;
    OK(cuMemcpyBatchAsync_v2(to, from, sizes, COUNT, &attributes, &first, 1, s));
    CHECK(seen->begun == operations + 1 && seen->name_count == 2 * (size_t)COUNT);
    const expected_t last[] = {WRITES(to[COUNT - 1]), READS(from[COUNT - 1])};
    CHECK(was_named(&last[0]) && was_named(&last[1]));
    CHECK(wrote(to[COUNT - 1], b + 64 * (COUNT - 1), 64, 1, 0, 0, true));
    attributes.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL;
    OK(cuMemcpyBatchAsync_v2(to, from, sizes, COUNT, &attributes, &first, 1, s));
    CHECK(wrote(to[COUNT - 1], b + 64 * (COUNT - 1), 64, 1, 0, 0, false));
    OK(cudaDeviceSynchronize());
}

static void batches_name_each_copy(void **state)
{
    (void)state;
    expect_success(batches, BUDGET);
}

static void memsets(void)
{
    start();
    char *const a = new_device(65536);
    const CUdeviceptr p = (CUdeviceptr)a;
    cudaStream_t s = new_stream();
    NAMES(cuMemsetD8(p, 1, 64), NULL, false, WRITES(a));
    NAMES(cuMemsetD16(p, 1, 64), NULL, false, WRITES(a));
    NAMES(cuMemsetD32(p, 1, 64), NULL, false, WRITES(a));
    CHECK(wrote(p, NULL, 256, 1, 0, 0, false));
    NAMES(cuMemsetD8Async(p + 1, 1, 64, s), s, false, WRITES(a + 1));
    CHECK(wrote(p + 1, NULL, 64, 1, 0, 0, false));
    NAMES(cuMemsetD16Async(p, 1, 64, s), s, false, WRITES(a));
    NAMES(cuMemsetD32Async(p, 1, 64, s), s, false, WRITES(a));
    NAMES(cuMemsetD2D8(p, 512, 1, 64, 4), NULL, false, WRITES(a));
    NAMES(cuMemsetD2D16(p, 512, 1, 64, 4), NULL, false, WRITES(a));
    NAMES(cuMemsetD2D32(p, 512, 1, 64, 4), NULL, false, WRITES(a));
    NAMES(cuMemsetD2D8Async(p, 512, 1, 64, 4, s), s, false, WRITES(a));
    NAMES(cuMemsetD2D16Async(p, 512, 1, 64, 4, s), s, false, WRITES(a));
    CHECK(wrote(p, NULL, 128, 4, 512, 0, false));
    NAMES(cuMemsetD2D32Async(p, 512, 1, 64, 4, s), s, false, WRITES(a));
    CHECK(wrote(p, NULL, 256, 4, 512, 0, false));
    NAMES(OWN(cuMemsetD8Async, "cuMemsetD8Async_ptsz")(p, 1, 64, NULL), NULL, true, WRITES(a));
    NAMES(cudaMemsetAsync(a, 0, 64, s), s, false, WRITES(a));
    NAMES(cudaMemset2D(a, 512, 0, 64, 4), NULL, false, WRITES(a));
    OK(cudaDeviceSynchronize());
}

static void memsets_name_what_they_write(void **state)
{
    (void)state;
    expect_success(memsets, BUDGET);
}

static void values(void)
{
    start();
    char *const a = new_device(64), *const b = new_device(64);
    const CUdeviceptr p = (CUdeviceptr)a;
    cudaStream_t s = new_stream();
    NAMES(cuStreamWriteValue32_v2(s, p, 5, 0), s, false, WRITES(a));
    NAMES(cuStreamWaitValue32_v2(s, p, 5, CU_STREAM_WAIT_VALUE_EQ), s, false, READS(a));
    NAMES(cuStreamWriteValue64_v2(s, p + 8, 5, 0), s, false, WRITES(a + 8));
    NAMES(cuStreamWaitValue64_v2(s, p + 8, 5, CU_STREAM_WAIT_VALUE_EQ), s, false, READS(a + 8));
    CUstreamBatchMemOpParams list[2];
    memset(list, 0, sizeof list);
    list[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
    list[0].writeValue.address = (CUdeviceptr)b;
    list[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
    list[1].waitValue.address = p;
    list[1].waitValue.value = 5;
    NAMES(cuStreamBatchMemOp_v2(s, 2, list, 0), s, false, WRITES(b), READS(a));
    OK(cudaDeviceSynchronize());
}

static void values_in_memory_are_named(void **state)
{
    (void)state;
    expect_success(values, BUDGET);
}

/* ---- launches ---- */

typedef struct packed {
    uint32_t padding; /* the pointers are at multiples of four bytes only */
    uint32_t pointers[6];
} packed_t;

static void packed_body(void *const *p)
{
    (void)p;
}

static const sim_kernel_parameter_t packed_parameters[] = {{0, sizeof(packed_t)}, {32, 8}};
static const sim_kernel_t packed_kernel = {"test_packed", 2, packed_parameters, packed_body};

static void launches(void)
{
    start();
    char *a = new_device(256), *const b = new_device(256), *const c = new_device(256);
    cudaStream_t s = new_stream();
    float value = 1;
    uint64_t count = 4;
    void *parameters[] = {&a, &value, &count};
    CUfunction function = sim_api()->function(&add_kernel), plain;
    OK(cuKernelGetFunction(&plain, (CUkernel)(void *)function));
    NAMES(cuLaunchKernel(function, 2, 1, 1, 1, 1, 1, 0, s, parameters, NULL), s, false, USES(a));
    const uint64_t key = seen->key;
    CHECK(seen->name && !strcmp(seen->name, "test_add"));
    NAMES(cuLaunchKernel(plain, 2, 1, 1, 1, 1, 1, 0, s, parameters, NULL), s, false, USES(a));
    CHECK(seen->key == key); /* whichever handle names the kernel */
    NAMES(cuLaunchKernel(function, 3, 1, 1, 1, 1, 1, 0, s, parameters, NULL), s, false, USES(a));
    CHECK(seen->key != key);
    NAMES(cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, s, parameters), s, false,
          USES(a));
    const CUlaunchConfig config = {.gridDimX = 1,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = 1,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .hStream = s};
    NAMES(cuLaunchKernelEx(&config, function, parameters, NULL), s, false, USES(a));
    NAMES(OWN(cuLaunchKernel, "cuLaunchKernel_ptsz")(function, 1, 1, 1, 1, 1, 1, 0, NULL,
                                                     parameters, NULL),
          NULL, true, USES(a));
    NAMES(cudaLaunchKernel((void *)function, (dim3){1, 1, 1}, (dim3){1, 1, 1}, parameters, 0, s), s,
          false, USES(a));
    struct {
        char *address;
        float value;
        uint64_t count;
    } buffer = {b + 16, 1, 4};
    size_t bytes = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    NAMES(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, s, NULL, extra), s, false, USES(b + 16));
    packed_t packed = {0};
    memcpy(&packed.pointers[0], &a, sizeof a);
    memcpy(&packed.pointers[4], &c, sizeof c);
    void *packed_arguments[] = {&packed, (void *)(uintptr_t)&b};
    NAMES(cuLaunchKernel(sim_api()->function(&packed_kernel), 1, 1, 1, 1, 1, 1, 0, s,
                         packed_arguments, NULL),
          s, false, USES(a), USES(b), USES(c));
    CHECK(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, s, parameters, NULL) ==
          CUDA_ERROR_INVALID_HANDLE);
    OK(cudaDeviceSynchronize());
}

static void launches_name_the_addresses_in_their_parameters(void **state)
{
    (void)state;
    expect_success(launches, BUDGET);
}

static void map_body(void *const *p)
{
    (void)p;
}

static void hidden_addresses(void)
{
    start();
    static const sim_kernel_parameter_t parameter = {0, 2 * sizeof(CUtensorMap)};
    static const sim_kernel_t kernel = {"test_maps", 1, &parameter, map_body};
    CUtensorMap maps[2];
    const cuuint64_t size = 64;
    char *const a = new_device(512), *const b = new_device(512), *const c = new_device(512);
    void *parameters[] = {maps};
    for (int i = 0; i < 2; i++)
        OK(cuTensorMapEncodeTiled(&maps[i], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, i ? b : a, &size,
                                  NULL, NULL, NULL, 0, 0, 0, 0));
    CUfunction function = sim_api()->function(&kernel);
    NAMES(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), NULL, false,
          USES(a), USES(b));
    OK(cuTensorMapReplaceAddress(&maps[0], c));
    NAMES(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), NULL, false,
          USES(b), USES(c));
    OK(cuTensorMapEncodeIm2col(&maps[1], CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, a, &size, NULL, NULL,
                               NULL, 1, 1, NULL, 0, 0, 0, 0));
    NAMES(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL), NULL, false,
          USES(a), USES(c));
    OK(cudaDeviceSynchronize());
}

static void addresses_hidden_in_tensor_maps_are_named(void **state)
{
    (void)state;
    expect_success(hidden_addresses, BUDGET);
}

static void refusals(void)
{
    start();
    float *const a = new_device(64);
    OK(cudaMemset(a, 0, 64));
    seen->refuse = true;
    const size_t ended = seen->ended;
    CHECK(launch_add(a, 1, 16, 1, NULL) == CUDA_ERROR_OUT_OF_MEMORY);
    CHECK(cudaMemset(a, 1, 64) == cudaErrorMemoryAllocation);
    CHECK(seen->refused == 2 && seen->ended == ended);
    seen->refuse = false;
    float value = 1;
    OK(cudaMemcpy(&value, a, sizeof value, cudaMemcpyDeviceToHost));
    CHECK(value == 0);
}

static void a_refused_operation_does_not_run(void **state)
{
    (void)state;
    expect_success(refusals, BUDGET);
}

static void failing_launch(void)
{
    start();
    void *a = new_device(64);
    float value = 1;
    uint64_t count = 1;
    void *parameters[] = {&a, &value, &count};
    CHECK(cuLaunchKernel(sim_api()->function(&add_kernel), 0, 1, 1, 1, 1, 1, 0, NULL, parameters,
                         NULL) == CUDA_ERROR_INVALID_VALUE);
    CHECK(seen->begun == 1 && seen->ended == 1 && !seen->enqueued);
    CHECK(cuMemsetD32((CUdeviceptr)a + 2, 0, 1) == CUDA_ERROR_INVALID_VALUE);
    CHECK(seen->begun == 2 && seen->ended == 2 && !seen->enqueued);
}

static void a_failed_operation_ends_as_not_enqueued(void **state)
{
    (void)state;
    expect_success(failing_launch, BUDGET);
}

/* ---- memory ---- */

static void allocations(void)
{
    start();
    CUdeviceptr address, start_of;
    size_t bytes, pitch, freed = 0, allocated = 0;
    cudaStream_t s = new_stream();
#define ALLOCATES(call, stream, per_thread, synchronous)                                           \
    OK(call);                                                                                      \
    CHECK(seen->allocated == ++allocated && seen->allocated_in == (stream) &&                      \
          seen->allocated_per_thread == (per_thread) &&                                            \
          seen->allocated_synchronous == (synchronous))
#define FREES(call, stream, per_thread, synchronous)                                               \
    OK(call);                                                                                      \
    CHECK(seen->freed == ++freed && seen->allocated_in == (stream) &&                              \
          seen->allocated_per_thread == (per_thread) &&                                            \
          seen->allocated_synchronous == (synchronous))
    ALLOCATES(cuMemAlloc(&address, 1000), NULL, false, true);
    OK(cuMemGetAddressRange(&start_of, &bytes, address + 10));
    CHECK(start_of == address && bytes == 1000);
    FREES(cuMemFree(address), NULL, false, true);
    ALLOCATES(cuMemAllocPitch(&address, &pitch, 700, 3, 4), NULL, false, true);
    CHECK(pitch == 1024);
    OK(cuMemGetAddressRange(NULL, &bytes, address));
    CHECK(bytes == 3 * 1024);
    FREES(cuMemFree(address), NULL, false, true);
    CHECK(cuMemAllocPitch(&address, &pitch, SIZE_MAX - 600, SIZE_MAX, 4) != CUDA_SUCCESS);
    ALLOCATES(cuMemAllocAsync(&address, 1000, s), s, false, false);
    FREES(cuMemFreeAsync(address, s), s, false, false);
    ALLOCATES(OWN(cuMemAllocAsync, "cuMemAllocAsync_ptsz")(&address, 1000, NULL), NULL, true,
              false);
    FREES(OWN(cuMemFreeAsync, "cuMemFreeAsync_ptsz")(address, NULL), NULL, true, false);
    CUmemoryPool pool;
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    ALLOCATES(cuMemAllocFromPoolAsync(&address, 1000, pool, s), s, false, false);
    FREES(cudaFreeAsync((void *)address, s), s, false, false);
    void *pointer;
    ALLOCATES(cudaMalloc(&pointer, 1000), NULL, false, true);
    FREES(cudaFree(pointer), NULL, false, true);
    ALLOCATES(cudaMallocAsync(&pointer, 1000, s), s, false, false);
    FREES(cudaFreeAsync(pointer, s), s, false, false);
    size_t free_bytes, total;
    OK(cudaMemGetInfo(&free_bytes, &total));
    CHECK(free_bytes == 111 && total == 222);
}

/* What a pool says: of the memory that stands in for its own. */
static void check_pool(CUmemoryPool pool, cuuint64_t now, cuuint64_t used_high,
                       cuuint64_t reserved_high)
{
    const CUmemPool_attribute attributes[] = {
        CU_MEMPOOL_ATTR_USED_MEM_CURRENT, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT,
        CU_MEMPOOL_ATTR_USED_MEM_HIGH, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH,
        CU_MEMPOOL_ATTR_RELEASE_THRESHOLD};
    const cuuint64_t wanted[] = {now, now, used_high, reserved_high, 0};
    for (int i = 0; i < 5; i++) {
        cuuint64_t value = 1;
        OK(cuMemPoolGetAttribute(pool, attributes[i], &value));
        if (value != wanted[i])
            fprintf(stderr, "# attribute %d: %llu\n", (int)attributes[i],
                    (unsigned long long)value);
        CHECK(value == wanted[i]);
    }
}

static void begin_again(CUmemoryPool pool, CUmemPool_attribute attribute)
{
    cuuint64_t value = 1;
    CHECK(cuMemPoolSetAttribute(pool, attribute, &value) == CUDA_ERROR_INVALID_VALUE);
    value = 0;
    OK(cuMemPoolSetAttribute(pool, attribute, &value));
}

/* Only what pools hold counts, each mark begins anew by itself, and a capture's memory is no
 * pool's. */
static void pool_counters(void)
{
    start();
    CUdeviceptr whole, pitched, first, second, captured;
    CUmemoryPool pool;
    size_t pitch;
    int flag = 0;
    cudaStream_t s = new_stream();
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    OK(cuMemAllocAsync(&captured, 1000, s));
    seen->no_capture = true;
    OK(cuMemAlloc(&whole, 8 << 20));
    OK(cuMemAllocPitch(&pitched, &pitch, 700, 3, 4));
    check_pool(pool, 0, 0, 0);
    OK(cuMemAllocAsync(&first, 1000, s));
    OK(cuMemAllocFromPoolAsync(&second, 5000, pool, s));
    check_pool(pool, 6000, 6000, 6000);
    OK(cuMemFree(second));
    OK(cuMemFreeAsync(whole, s));
    check_pool(pool, 1000, 6000, 6000);
    begin_again(pool, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH);
    check_pool(pool, 1000, 6000, 1000);
    begin_again(pool, CU_MEMPOOL_ATTR_USED_MEM_HIGH);
    check_pool(pool, 1000, 1000, 1000);
    OK(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC, &flag));
    CHECK(flag == 1);
    CHECK(cuMemPoolGetAttribute(pool, (CUmemPool_attribute)99, &flag) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuMemFreeAsync(first + 512, s) != CUDA_SUCCESS);
    OK(cuMemFreeAsync(first, s));
    OK(cuMemFree(pitched));
    OK(cuMemFreeAsync(captured, s));
    check_pool(pool, 0, 1000, 1000);
}

static void a_pool_counts_what_it_would_hold(void **state)
{
    (void)state;
    expect_success(pool_counters, BUDGET);
}

/* One of the program's own counts what is allocated from it while it is the device's, also when it is
 * not any more; its next of the same handle begins with nothing. */
static void own_pool(void)
{
    start();
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    CUdeviceptr first, second;
    CUmemoryPool first_pool, pool;
    cudaStream_t s = new_stream();
    seen->no_capture = true;
    OK(cuDeviceGetDefaultMemPool(&first_pool, 0));
    OK(cuMemPoolCreate(&pool, &properties));
    OK(cuDeviceSetMemPool(0, pool));
    OK(cuMemAllocAsync(&first, 1000, s));
    OK(cuMemAllocFromPoolAsync(&second, 300, first_pool, s));
    OK(cuDeviceSetMemPool(0, first_pool));
    check_pool(pool, 1000, 1000, 1000);
    check_pool(first_pool, 300, 300, 300);
    OK(cuMemFreeAsync(first, s));
    check_pool(pool, 0, 1000, 1000);
    OK(cuMemPoolDestroy(pool));
    OK(cuMemPoolCreate(&pool, &properties));
    check_pool(pool, 0, 0, 0);
    OK(cuMemFreeAsync(second, s));
    check_pool(first_pool, 0, 300, 300);
}

static void so_does_one_of_the_programs_own(void **state)
{
    (void)state;
    expect_success(own_pool, BUDGET);
}

static void allocations_and_frees_are_served(void **state)
{
    (void)state;
    expect_success(allocations, BUDGET);
}

static void not_served(void)
{
    start();
    CUdeviceptr address;
    void *pointer;
    CHECK(cuMemAlloc(&address, 0) == CUDA_ERROR_INVALID_VALUE);
    seen->out = true;
    CHECK(cudaMalloc(&pointer, 1000) == cudaErrorMemoryAllocation);
    CHECK(cudaMallocAsync(&pointer, 1000, NULL) == cudaErrorMemoryAllocation);
    seen->out = false;
    seen->not_served = true;
    OK(cudaMalloc(&pointer, 1000));
    seen->name_count = 1;
    OK(cudaMemset(pointer, 0, 1000));
    CHECK(seen->name_count == 0);
}

static void what_is_not_served_is_the_drivers(void **state)
{
    (void)state;
    expect_success(not_served, BUDGET);
}

static void questions(void)
{
    start();
    char *const a = new_device(5000);
    struct cudaPointerAttributes attributes;
    operations = seen->begun;
    OK(cudaPointerGetAttributes(&attributes, a + 100));
    CHECK(attributes.type == cudaMemoryTypeDevice && attributes.devicePointer == a + 100);
    CUdeviceptr first;
    size_t bytes;
    OK(cuPointerGetAttribute(&first, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, (CUdeviceptr)a + 100));
    OK(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_RANGE_SIZE, (CUdeviceptr)a + 100));
    CHECK(first == (CUdeviceptr)a && bytes == 5000);
    OK(cudaPointerGetAttributes(&attributes, new_pinned(64)));
    CHECK(seen->begun == operations);
}

static void questions_about_an_address_need_no_memory_there(void **state)
{
    (void)state;
    expect_success(questions, BUDGET);
}

/* ---- waits, captures, graphs ---- */

static void waits(void)
{
    start();
    cudaStream_t s = new_stream();
    cudaEvent_t event = new_event();
    OK(launch_add(new_device(64), 1, 1, 100, s));
    OK(cudaEventRecord(event, s));
    OK(cudaEventSynchronize(event));
    CHECK(seen->waited == 1);
    OK(cudaStreamSynchronize(s));
    CHECK(seen->waited == 2);
    OK(OWN(cuStreamSynchronize, "cuStreamSynchronize_ptsz")(NULL));
    CHECK(seen->waited == 3);
    OK(cudaDeviceSynchronize());
    CHECK(seen->waited == 4);
    OK(cudaStreamDestroy(s));
    CHECK(strcmp(seen->events, "stream-destroyed lost ") == 0);
}

static void contexts(void)
{
    start();
    CUcontext context;
    CUdeviceptr address;
    OK(cuCtxCreate(&context, NULL, 0, 0));
    OK(cuMemAlloc(&address, 64));
    CHECK(cuCtxDestroy_v2(NULL) != CUDA_SUCCESS);
    CHECK(!strcmp(seen->events, "context-ends ") && seen->freed == 0);
    OK(cuCtxDestroy_v2(context));
    CHECK(!strcmp(seen->events, "context-ends context-ends bound bound "));
    CHECK(seen->freed == 1 && seen->allocated_synchronous);
}

static void reset(void)
{
    start();
    char *const a = new_device(64);
    CHECK(seen->allocated == 1 && a);
    OK(cudaDeviceReset());
    CHECK(!strcmp(seen->events, "device-ends device-ended "));
    OK(cuDevicePrimaryCtxReset_v2(0));
    CHECK(!strcmp(seen->events, "device-ends device-ended device-ends device-ended "));
}

static void a_reset_is_told_before_it_is_made(void **state)
{
    (void)state;
    expect_success(reset, BUDGET);
}

static void memory_ends_with_its_context(void **state)
{
    (void)state;
    expect_success(contexts, BUDGET);
}

static void waits_of_the_program_let_moves_go_on(void **state)
{
    (void)state;
    expect_success(waits, BUDGET);
}

static void check_events(const char *expected)
{
    if (strcmp(seen->events, expected))
        fprintf(stderr, "# %s\n", seen->events);
    CHECK(!strcmp(seen->events, expected));
    memset(seen->events, 0, sizeof seen->events);
}

static void graphs(void)
{
    start();
    cudaStream_t s = new_stream();
    char *const a = new_device(64);
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    OK(cudaStreamBeginCapture(s, cudaStreamCaptureModeThreadLocal));
    NAMES(launch_add(a, 1, 1, 1, s), s, false, USES(a));
    OK(cudaStreamEndCapture(s, &graph));
    OK(cudaGraphInstantiate(&executable, graph, 0));
    operations = seen->begun;
    OK(cudaGraphLaunch(executable, s));
    CHECK(seen->begun == operations + 1 && seen->enqueued && seen->stream == s);
    OK(cudaGraphDestroy(graph));
    OK(cudaStreamSynchronize(s));
    OK(cudaGraphExecDestroy(executable));
    check_events("begins began ended instantiated launched ends destroyed executable-ends "
                 "executable-destroyed ");
}

static cudaGraph_t capture_add(cudaStream_t stream, void *memory)
{
    cudaGraph_t graph;
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    OK(launch_add(memory, 1, 1, 1, stream));
    OK(cudaStreamEndCapture(stream, &graph));
    return graph;
}

static void graphs_of_graphs(void)
{
    start();
    cudaStream_t s = new_stream();
    char *const a = new_device(64);
    cudaGraph_t graph = capture_add(s, a);
    cudaGraphExec_t executable;
    CUgraph clone, parent;
    CUgraphNode node;
    CUgraphExecUpdateResultInfo info;
    OK(cudaGraphInstantiate(&executable, graph, 0));
    check_events("begins began ended instantiated ");
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphExecUpdate_v2(executable, clone, &info));
    check_events("cloned updated ");
    OK(cuGraphCreate(&parent, 0));
    OK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
    OK(cuGraphAddChildGraphNode(&node, parent, NULL, 0, graph));
    CHECK(cuGraphExecUpdate_v2(executable, parent, &info) == CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
    check_events("child:graph child:graph updated-in-part ");
    CHECK(cudaStreamBeginCapture(NULL, cudaStreamCaptureModeThreadLocal) ==
          cudaErrorStreamCaptureUnsupported);
    check_events("begins not-begun ");
    cudaGraph_t none;
    CHECK(cudaStreamEndCapture(s, &none) == cudaErrorIllegalState);
    check_events("failed ");
    CHECK(cudaGraphDestroy(NULL) == cudaErrorInvalidValue);
    CHECK(cudaGraphExecDestroy(NULL) == cudaErrorInvalidValue);
    check_events("ends still-there executable-ends executable-still-there ");
    OK(cudaGraphDestroy(graph));
    OK(cudaGraphDestroy(clone));
    OK(cudaGraphDestroy(parent));
    OK(cudaGraphExecDestroy(executable));
}

static void captures_and_graphs_are_followed(void **state)
{
    (void)state;
    expect_success(graphs, BUDGET);
    expect_success(graphs_of_graphs, BUDGET);
}

/* ---- convolutions ---- */

static void convolutions(void)
{
    start();
    api_t api;
    graph_api_t graph_api;
    void *const cudart = dlopen("libcudart.so.13", RTLD_NOW);
    void *const cudnn = dlopen("libcudnn.so.9", RTLD_NOW), *found;
    double sum;
    CHECK(cudart && cudnn);
#define LOOK(table, library, name)                                                                 \
    found = dlsym(library, #name);                                                                 \
    memcpy(&table.name, &found, sizeof found);
#define LOOK_RUNTIME(name) LOOK(api, cudart, name)
#define LOOK_CUDNN(name) LOOK(api, cudnn, name)
    ONE_CONVOLUTION_RUNTIME(LOOK_RUNTIME)
    ONE_CONVOLUTION_CUDNN(LOOK_CUDNN)
#undef LOOK_RUNTIME
#undef LOOK_CUDNN
#define LOOK_RUNTIME(name) LOOK(graph_api, cudart, name)
#define LOOK_CUDNN(name) LOOK(graph_api, cudnn, name)
    ONE_GRAPH_RUNTIME(LOOK_RUNTIME)
    ONE_GRAPH_CUDNN(LOOK_CUDNN)
    size_t before = seen->begun;
    OK(one_convolution(&api, &sum));
    CHECK(!strcmp(seen->events, "convolution:1:1 ") && seen->begun > before);
    before = seen->begun;
    OK(one_graph(&graph_api, &sum));
    CHECK(!strcmp(seen->events, "convolution:1:1 convolution:1:1 ") && seen->begun > before);
}

static void convolutions_are_told_with_their_input(void **state)
{
    (void)state;
    expect_success(convolutions, BUDGET " MICRODNN_CONVOLUTION_MEASURE_REPEATS=1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_way_in_leads_to_the_same_entry),
        cmocka_unit_test(other_answers_are_the_drivers_own),
        cmocka_unit_test(without_a_budget_the_resolver_gives_real_functions),
        cmocka_unit_test(a_forked_child_passes),
        cmocka_unit_test(memory_may_be_used_and_freed_while_the_process_ends),
        cmocka_unit_test(nothing_is_freed_after_the_driver_has_shut_down),
        cmocka_unit_test(copies_name_what_they_read_and_write),
        cmocka_unit_test(copies_of_boxes_name_where_the_box_begins),
        cmocka_unit_test(batches_name_each_copy),
        cmocka_unit_test(memsets_name_what_they_write),
        cmocka_unit_test(values_in_memory_are_named),
        cmocka_unit_test(launches_name_the_addresses_in_their_parameters),
        cmocka_unit_test(addresses_hidden_in_tensor_maps_are_named),
        cmocka_unit_test(a_refused_operation_does_not_run),
        cmocka_unit_test(a_failed_operation_ends_as_not_enqueued),
        cmocka_unit_test(allocations_and_frees_are_served),
        cmocka_unit_test(a_pool_counts_what_it_would_hold),
        cmocka_unit_test(so_does_one_of_the_programs_own),
        cmocka_unit_test(what_is_not_served_is_the_drivers),
        cmocka_unit_test(questions_about_an_address_need_no_memory_there),
        cmocka_unit_test(waits_of_the_program_let_moves_go_on),
        cmocka_unit_test(memory_ends_with_its_context),
        cmocka_unit_test(a_reset_is_told_before_it_is_made),
        cmocka_unit_test(captures_and_graphs_are_followed),
        cmocka_unit_test(convolutions_are_told_with_their_input),
    };
    return cmocka_run_group_tests_name("driver_hooks", tests, NULL, NULL);
}
