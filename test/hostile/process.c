/* What concerns the whole process: contexts, children, modules, convolutions. */
#include "test/hostile/hostile.h"

#include <dlfcn.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "test/clients/one_convolution.h"

CUcontext process_context(int device)
{
    static CUcontext contexts[MOST_DEVICES];
    if (!contexts[device] && cuDevicePrimaryCtxRetain(&contexts[device], device) != CUDA_SUCCESS)
        exit(1);
    return contexts[device];
}

/* A child without CUDA, by exec, and one that asks for memory and is told no. */
static _Noreturn void be_child(uint32_t which)
{
    CUdeviceptr address;
    if (which == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(127);
    }
    _exit(cuMemAlloc(&address, 4096) == CUDA_SUCCESS);
}

void process_child(thread_t *t)
{
    int status = -1;
    const uint32_t which = draw(&t->draw, 3);
    if (t->number != 0)
        return;
    fflush(stdout);
    const pid_t child = which < 2 ? fork() : (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0)
        be_child(which);
    MUST(t, child > 0);
    MUST(t, waitpid(child, &status, 0) == child);
    MUST(t, WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Its kernel works as the others do. */
void process_module(thread_t *t)
{
    CUmodule module;
    CUfunction function;
    tensor_t *tensor = tensor_any(t);
    const int stream = stream_any(t);
    uint32_t n = 64, k = draw(&t->draw, 1 << 20);
    if (!tensor || t->gate != NO_GATE || !streams_follow(t, stream, &tensor, 1))
        return;
    guard_enter(t);
    OK(t, api.cuModuleLoadData(&module, kernels_ptx));
    OK(t, api.cuModuleGetFunction(&function, module, "hostile_fill"));
    void *parameters[] = {&tensor->address, &n, &k};
    if (OK(t, api.cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, t->streams[stream], parameters,
                                 NULL)) &&
        tensor->model)
        fill_words(tensor->model, n, k);
    stream_wait(t, stream);
    OK(t, api.cuModuleUnload(module));
    guard_leave(t);
}

static bool find_all(api_t *table, void *runtime, void *cudnn)
{
    bool found = true;
    void *address;
#define FIND(library, name)                                                                        \
    address = dlsym(library, #name);                                                               \
    memcpy(&table->name, &address, sizeof address);                                                \
    found = found && address;
#define OF_RUNTIME(name) FIND(runtime, name)
#define OF_CUDNN(name) FIND(cudnn, name)
    ONE_CONVOLUTION_RUNTIME(OF_RUNTIME)
    ONE_CONVOLUTION_CUDNN(OF_CUDNN)
    return found;
}

/* Whether another thread may be at a capture, which a wait for the whole device would end. */
static bool others_capture(void)
{
    return plan.threads > 1 &&
           (plan.has[FEATURE_local_captures] || plan.has[FEATURE_global_captures] ||
            plan.has[FEATURE_relaxed_captures] || plan.has[FEATURE_graph_memory]);
}

/* Small, of values whose sums are exact in any order; it waits for the device. */
void process_convolution(thread_t *t)
{
    double sum = 0;
    uint64_t bits;
    api_t table;
    if (t->number != 0 || t->gate != NO_GATE || others_capture())
        return;
    void *const runtime = dlopen("libcudart.so.13", RTLD_LAZY);
    void *const cudnn = dlopen("libcudnn.so.9", RTLD_LAZY);
    MUST(t, runtime && cudnn && find_all(&table, runtime, cudnn));
    guard_enter(t);
    MUST(t, one_convolution(&table, &sum) == 0);
    guard_leave(t);
    memcpy(&bits, &sum, sizeof bits);
    thread_note(t, bits);
}
