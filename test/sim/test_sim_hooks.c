/* How programs and libraries reach the simulator: symbols, versions, the resolver, modules,
 * launches. */
#include <dlfcn.h>
#include <sys/resource.h>

#include "test/unit/cases.h"
#include "test/sim/test_sim.h"

#include <cudaTypedefs.h>

static void *driver(void)
{
    void *handle = dlopen("libcuda.so.1", RTLD_NOW);
    CHECK(handle);
    return handle;
}

static void *resolve(const char *name, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status)
{
    void *function = (void *)(uintptr_t)1;
    OK(cuGetProcAddress(name, &function, version, flags, status));
    return function;
}

static void use_resolver(void)
{
    CUdriverProcAddressQueryResult status;
    void *library = driver();
    CHECK(resolve("cuMemAlloc", 13000, 0, &status) == dlsym(library, "cuMemAlloc_v2"));
    CHECK(status == CU_GET_PROC_ADDRESS_SUCCESS);
    CHECK(!resolve("cuMemAlloc", 2000, 0, &status)); /* that version had another prototype */
    CHECK(status == CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
    CHECK(!resolve("", 13000, 0, &status) && status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK(!resolve("cuNothing", 13000, 0, &status) &&
          status == CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
    CHECK(resolve("cuLaunchKernel", 13000, CU_GET_PROC_ADDRESS_LEGACY_STREAM, &status) ==
          dlsym(library, "cuLaunchKernel"));
    CHECK(resolve("cuLaunchKernel", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
                  &status) == dlsym(library, "cuLaunchKernel_ptsz"));
    CHECK(resolve("cuMemcpyHtoD", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status) ==
          dlsym(library, "cuMemcpyHtoD_v2_ptds"));
    CHECK(resolve("cuMemAlloc", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status) ==
          dlsym(library, "cuMemAlloc_v2"));
    CHECK(resolve("cuGetProcAddress", 11030, 0, &status) == dlsym(library, "cuGetProcAddress"));
    CHECK(resolve("cuGetProcAddress", 12000, 0, &status) == dlsym(library, "cuGetProcAddress_v2"));
    CHECK(resolve("cuStreamGetCaptureInfo", 12020, 0, &status) ==
          dlsym(library, "cuStreamGetCaptureInfo_v2"));
    PFN_cuGetProcAddress_v11030 old;
    *(void **)(void *)&old = dlsym(library, "cuGetProcAddress");
    void *function;
    OK(old("cuInit", &function, 11030, 0));
    CHECK(old("cuNothing", &function, 11030, 0) == CUDA_ERROR_NOT_FOUND);
}

CASE(the_resolver_answers_by_version_and_stream_kind)
{
    expect_success(use_resolver, "");
}

/* Every row of the list: exported under its name, and what the resolver answers. */
static void resolve_all(void)
{
    static const struct {
        const char *name, *symbol;
        int version;
        bool own;
    } rows[] = {
#define ENTRY(name, version, symbol) {#name, #symbol, version, false},
#define OWN(name, version, suffix, symbol, parameters, call) {#name, #symbol, version, true},
#include "test/sim/entries.def"
#undef ENTRY
#undef OWN
    };
    CUdriverProcAddressQueryResult status;
    void *library = driver();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        void *exported = dlsym(library, rows[i].symbol);
        cuuint64_t flags = rows[i].own ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM
                                       : CU_GET_PROC_ADDRESS_LEGACY_STREAM;
        CHECK(exported);
        CHECK(resolve(rows[i].name, rows[i].version, flags, &status) == exported);
    }
}

CASE(the_resolver_and_the_exports_agree)
{
    expect_success(resolve_all, "");
}

/* The thread's own default stream must not wait for the legacy stream's non-blocking friends, and
 * must be another one than stream 0 of the plain entry points. */
static void use_own_stream(void)
{
    CUdriverProcAddressQueryResult status;
    PFN_cuStreamGetId_v12000_ptsz get_id;
    *(void **)(void *)&get_id =
        resolve("cuStreamGetId", 13000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &status);
    unsigned long long legacy, own, again;
    OK(cudaFree(NULL));
    OK(cuStreamGetId(NULL, &legacy));
    OK(get_id(NULL, &own));
    OK(get_id(NULL, &again));
    CHECK(own == again && own != legacy);
    OK(get_id(CU_STREAM_LEGACY, &again));
    CHECK(again == legacy);
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &again));
    CHECK(again == own);
}

CASE(stream_zero_depends_on_the_entry_point)
{
    expect_success(use_own_stream, "");
}

static void versioned_symbols(void)
{
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
    CHECK(runtime && dlvsym(runtime, "cudaMalloc", "libcudart.so.13"));
    CHECK(dlsym(runtime, "cudaMalloc") == dlvsym(runtime, "cudaMalloc", "libcudart.so.13"));
    CHECK(!dlsym(runtime, "sim_cuda_load")); /* nothing else comes out */
    CHECK(!dlsym(driver(), "sim_enter") && dlsym(driver(), "sim_api"));
}

CASE(the_runtime_has_versions_and_hides_its_inside)
{
    expect_success(versioned_symbols, "");
}

static void runtime_resolver(void)
{
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult status;
    OK(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 12050, cudaEnableDefault,
                                        &status));
    CHECK(status == cudaDriverEntryPointSuccess && function == dlsym(driver(), "cuMemAlloc_v2"));
    OK(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12050, cudaEnableDefault, &status));
    CHECK(status == cudaDriverEntryPointSymbolNotFound && !function);
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
    cudaError_t (*own)(const char *, void **, unsigned, unsigned long long,
                       enum cudaDriverEntryPointQueryResult *);
    *(void **)(void *)&own = dlsym(runtime, "cudaGetDriverEntryPointByVersion_ptsz");
    OK(own("cuLaunchKernel", &function, 12050, cudaEnableDefault, &status));
    CHECK(function == dlsym(driver(), "cuLaunchKernel_ptsz"));
    OK(own("cuLaunchKernel", &function, 12050, cudaEnableLegacyStream, &status));
    CHECK(function == dlsym(driver(), "cuLaunchKernel"));
    OK(own("cuGetProcAddress", &function, 12050, cudaEnableDefault, &status));
    CHECK(function == dlsym(driver(), "cuGetProcAddress_v2"));
    int version;
    OK(cudaDriverGetVersion(&version));
    CHECK(version == CUDA_VERSION);
    OK(cudaRuntimeGetVersion(&version));
    CHECK(version == CUDART_VERSION);
}

CASE(the_runtime_passes_driver_entry_points_on)
{
    expect_success(runtime_resolver, "");
}

static void device_facts(void)
{
    struct cudaDeviceProp properties;
    int major;
    OK(cudaGetDeviceProperties(&properties, 0));
    CHECK(!strcmp(properties.name, "p100 (simulated)"));
    CHECK(properties.major == 6 && properties.multiProcessorCount == 56);
    CHECK(properties.totalGlobalMem == (size_t)16 << 30);
    OK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0));
    CHECK(major == 6);
    CHECK(cudaGetDeviceProperties(&properties, 1) == cudaErrorInvalidDevice);
    CHECK(cudaSetDevice(1) == cudaErrorInvalidDevice);
    CHECK(!strcmp(cudaGetErrorName(cudaErrorInvalidDevice), "cudaErrorInvalidDevice"));
    CHECK(!strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory"));
}

CASE(a_device_says_that_it_is_simulated)
{
    expect_success(device_facts, "MICRODNN_SIM_PROFILE=p100");
}

static const char ptx[] = "//\n// Generated\n//\n.version 8.0\n.target sm_60\n.address_size 64\n"
                          ".visible .entry test_add_more(\n.param .u64 p)\n{ ret; }\n"
                          ".visible .entry test_add(\n.param .u64 p)\n{ ret; }\n"
                          ".visible .entry nobody_knows(\n.param .u64 p)\n{ ret; }\n";

/* Stream 0 of the runtime's functions that end in _ptsz is the thread's own. */
static void use_own_stream_of_runtime(void)
{
    void *runtime = dlopen("libcudart.so.13", RTLD_NOW | RTLD_NOLOAD);
    cudaError_t (*get_id)(cudaStream_t, unsigned long long *);
    cudaError_t (*launch)(cudaKernel_t, dim3, dim3, void **, size_t, cudaStream_t);
    *(void **)(void *)&get_id = dlsym(runtime, "cudaStreamGetId_ptsz");
    *(void **)(void *)&launch = dlsym(runtime, "__cudaLaunchKernel_ptsz");
    unsigned long long legacy, own, driver_own;
    OK(cudaStreamGetId(NULL, &legacy));
    OK(get_id(NULL, &own));
    OK(cudaStreamGetId(cudaStreamPerThread, &driver_own));
    CHECK(own != legacy && own == driver_own);
    OK(cudaStreamGetId(NULL, &own)); /* and only there */
    CHECK(own == legacy);
    float *device = new_device(4), value = 7, *result = new_pinned(4);
    uint64_t count = 1;
    void *parameters[] = {&device, &value, &count};
    OK(cudaMemset(device, 0, 4));
    OK(cudaDeviceSynchronize());
    OK(launch((cudaKernel_t)(void *)sim_api()->function(&add_kernel), (dim3){1, 1, 1},
              (dim3){1, 1, 1}, parameters, 0, NULL));
    OK(cudaMemcpyAsync(result, device, 4, cudaMemcpyDeviceToHost, cudaStreamPerThread));
    OK(cudaStreamSynchronize(cudaStreamPerThread));
    CHECK(result[0] == 7);
}

CASE(the_runtime_has_functions_for_own_streams)
{
    expect_success(use_own_stream_of_runtime, "");
}

static void load_module(void)
{
    CUmodule module;
    CUfunction function;
    OK(cudaFree(NULL));
    OK(cuModuleLoadData(&module, ptx));
    CHECK(cuModuleGetFunction(&function, module, "test_add") == CUDA_ERROR_NOT_FOUND); /* not yet */
    sim_api()->function(&add_kernel);
    OK(cuModuleGetFunction(&function, module, "test_add"));
    CHECK(cuModuleGetFunction(&function, module, "nobody_knows") == CUDA_ERROR_NOT_FOUND);
    CHECK(cuModuleGetFunction(&function, module, "test_ad") == CUDA_ERROR_NOT_FOUND);
    CHECK(cuModuleLoadData(&module, "\x7f"
                                    "ELF") == CUDA_ERROR_NO_BINARY_FOR_GPU);
    CHECK(cuModuleLoadData(&module, "nonsense") == CUDA_ERROR_INVALID_PTX);
    OK(cuModuleUnload(module));
    float *device = new_device(4), value = 5, result;
    uint64_t count = 1;
    void *parameters[] = {&device, &value, &count};
    OK(cudaMemset(device, 0, 4));
    OK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    OK(cudaMemcpy(&result, device, 4, cudaMemcpyDeviceToHost));
    CHECK(result == 5);
}

CASE(modules_find_registered_kernels_by_name)
{
    expect_success(load_module, "");
}

/* As measured with real programs: handles of launched kernels are CUkernels mostly, and each of the
 * two queries refuses the other kind. */
static void ask_for_parameters(void)
{
    OK(cudaFree(NULL));
    CUfunction handle = sim_api()->function(&add_kernel), function;
    CUkernel kernel = (CUkernel)(void *)handle;
    CHECK(handle == sim_api()->function(&add_kernel));
    size_t offset, bytes;
    CHECK(cuFuncGetParamInfo(handle, 0, &offset, &bytes) == CUDA_ERROR_INVALID_HANDLE);
    OK(cuKernelGetParamInfo(kernel, 2, &offset, &bytes));
    CHECK(offset == 16 && bytes == 8);
    CHECK(cuKernelGetParamInfo(kernel, 3, &offset, &bytes) == CUDA_ERROR_INVALID_VALUE);
    OK(cuKernelGetFunction(&function, kernel));
    OK(cuFuncGetParamInfo(function, 1, &offset, &bytes));
    CHECK(offset == 8 && bytes == 4);
    CHECK(cuKernelGetParamInfo((CUkernel)(void *)function, 1, &offset, &bytes) ==
          CUDA_ERROR_INVALID_HANDLE);
}

CASE(parameter_layouts_can_be_asked_for)
{
    expect_success(ask_for_parameters, "");
}

static float value_after(CUresult (*launch)(CUfunction function, void *parameters[],
                                            CUdeviceptr device))
{
    float *device = new_device(4), value = 7, result;
    uint64_t count = 1;
    void *parameters[] = {&device, &value, &count};
    OK(cudaMemset(device, 0, 4));
    OK(launch(sim_api()->function(&add_kernel), parameters, (CUdeviceptr)(uintptr_t)device));
    value = 100; /* parameters were copied at the launch */
    OK(cudaMemcpy(&result, device, 4, cudaMemcpyDeviceToHost));
    return result;
}

static CUresult launch_ex(CUfunction function, void *parameters[], CUdeviceptr device)
{
    (void)device;
    CUlaunchConfig config = {.gridDimX = 1,
                             .gridDimY = 1,
                             .gridDimZ = 1,
                             .blockDimX = 1,
                             .blockDimY = 1,
                             .blockDimZ = 1};
    return cuLaunchKernelEx(&config, function, parameters, NULL);
}

static CUresult launch_cooperative(CUfunction function, void *parameters[], CUdeviceptr device)
{
    (void)device;
    return cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, parameters);
}

static CUresult launch_buffer(CUfunction function, void *parameters[], CUdeviceptr device)
{
    (void)parameters;
    struct {
        CUdeviceptr device;
        float value;
        uint64_t count;
    } buffer = {device, 7, 1};
    size_t bytes = sizeof buffer;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    return cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra);
}

static CUresult launch_runtime(CUfunction function, void *parameters[], CUdeviceptr device)
{
    (void)device;
    return (CUresult)cudaLaunchKernel((void *)function, (dim3){1, 1, 1}, (dim3){1, 1, 1},
                                      parameters, 0, NULL);
}

static void launch_every_way(void)
{
    CHECK(value_after(launch_ex) == 7);
    CHECK(value_after(launch_cooperative) == 7);
    CHECK(value_after(launch_buffer) == 7);
    CHECK(value_after(launch_runtime) == 7);
    CUfunction function = sim_api()->function(&add_kernel);
    CHECK(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL) == CUDA_ERROR_INVALID_HANDLE);
}

CASE(kernels_can_be_launched_in_every_way)
{
    expect_success(launch_every_way, "");
}

/* Reads an address out of memory that its parameter names. */
static void indirect_body(void *const *p)
{
    uint64_t table, address = 0;
    memcpy(&table, p[0], sizeof table);
    uint64_t *entry = sim_api()->memory(table, sizeof *entry);
    if (entry)
        memcpy(&address, entry, sizeof address);
    float *value = sim_api()->memory(address, sizeof *value);
    if (value)
        *value = 9;
}

static float value_by_table(void)
{
    static const sim_kernel_parameter_t parameter = {0, 8};
    static const sim_kernel_t kernel = {"test_indirect", 1, &parameter, indirect_body};
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    float *device = new_device(4), value;
    void *table = new_device(8), *parameters[] = {&table};
    OK(cudaMemcpy(table, &device, sizeof device, cudaMemcpyHostToDevice));
    OK(cuLaunchKernel(sim_api()->function(&kernel), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    OK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    return value;
}

static void touch_by_table(void)
{
    CHECK(value_by_table() == 9);
}

/* So a hook that scans parameters sees all that the simulated libraries touch. */
CASE(kernels_touch_what_their_parameters_name)
{
    int status = run_child(touch_by_table, "ASAN_OPTIONS=log_path=/dev/null");
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    expect_success(touch_by_table, "MICRODNN_SIM_UNNAMED=1");
}

static void map_body(void *const *p)
{
    uint64_t words[2];
    memcpy(words, p[0], sizeof words);
    float *value = sim_api()->memory(words[1] ^ words[0], sizeof *value);
    if (value)
        *value = 8;
}

static void launch_with_map(void)
{
    static const sim_kernel_parameter_t parameter = {0, sizeof(CUtensorMap)};
    static const sim_kernel_t kernel = {"test_tensor_map", 1, &parameter, map_body};
    CUtensorMap map;
    const cuuint64_t size = 64;
    float *wrong = new_device(512), *device = new_device(512), value;
    void *parameters[] = {&map};
    CHECK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 6, wrong, &size, NULL, NULL,
                                 NULL, 0, 0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
    OK(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, wrong, &size, NULL, NULL,
                              NULL, 0, 0, 0, 0));
    OK(cuTensorMapReplaceAddress(&map, device));
    for (size_t i = 0; i < sizeof map; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (char *)&map + i, sizeof word);
        CHECK(word != (uintptr_t)device);
    }
    OK(cuLaunchKernel(sim_api()->function(&kernel), 1, 1, 1, 1, 1, 1, 0, NULL, parameters, NULL));
    OK(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
    CHECK(value == 8);
}

CASE(tensor_maps_hide_their_address)
{
    expect_success(launch_with_map, "");
}

static void without_context(void)
{
    CUdeviceptr address;
    CUcontext context, current;
    CHECK(cuMemAlloc(&address, 64) == CUDA_ERROR_NOT_INITIALIZED);
    OK(cuInit(0));
    CHECK(cuMemAlloc(&address, 64) == CUDA_ERROR_INVALID_CONTEXT);
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxPushCurrent(context));
    OK(cuMemAlloc(&address, 64));
    OK(cuCtxPopCurrent(&current));
    CHECK(current == context);
    CHECK(cuMemFree(address) == CUDA_ERROR_INVALID_CONTEXT);
    OK(cuCtxSetCurrent(context));
    OK(cuMemFree(address));
    OK(cuDevicePrimaryCtxRelease(0));
    CHECK(cuMemAlloc(&address, 64) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
}

/* Memory and streams end with their context; what is mapped is nobody's. */
static void with_a_context_of_its_own(void)
{
    CUcontext primary, own, current;
    CUdeviceptr address, other;
    CUstream stream;
    size_t before, after, total;
    unsigned long long primary_id, own_id;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&primary, 0));
    OK(cuCtxSetCurrent(primary));
    OK(cuMemAlloc(&other, 1 << 20));
    OK(cuMemGetInfo(&before, &total));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &primary_id));
    OK(cuCtxCreate(&own, NULL, 0, 0));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == own && own != primary);
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own_id));
    CHECK(own_id != primary_id);
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&address, 1 << 20));
    OK(cuPointerGetAttribute(&current, CU_POINTER_ATTRIBUTE_CONTEXT, address));
    CHECK(current == own);
    OK(cuMemsetD8Async(address, 1, 1 << 20, stream));
    OK(cuCtxDestroy(own));
    OK(cuCtxGetCurrent(&current));
    CHECK(current == primary);
    OK(cuMemGetInfo(&after, &total));
    CHECK(before == after);
    CHECK(cuMemFree(address) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuCtxSetCurrent(own) == CUDA_ERROR_INVALID_CONTEXT);
    OK(cuMemsetD8(other, 1, 1 << 20));
    OK(cuStreamGetId(CU_STREAM_PER_THREAD, &own_id));
    CHECK(own_id == primary_id);
}

CASE(a_program_may_have_a_context_of_its_own)
{
    expect_success(with_a_context_of_its_own, "");
}

CASE(the_driver_wants_a_context)
{
    expect_success(without_context, "");
}

int main(void)
{
    return run_cases("sim_hooks");
}
