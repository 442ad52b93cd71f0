/* Variables of CUDA, PyTorch, JAX and tools that decide what the library can do. */
#include "scripts/microdnn_doctor.h"

#include <stdlib.h>
#include <string.h>

static bool is_set(const char *name)
{
    const char *const value = getenv(name);
    return value != NULL && *value != '\0';
}

static bool holds(const char *name, const char *word)
{
    return is_set(name) && strstr(getenv(name), word) != NULL;
}

/* Which of PyTorch's variables decides how it allocates. NULL: none is set. */
static const char *allocator_variable(void)
{
    static const char *const names[] = {"PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_ALLOC_CONF",
                                        "PYTORCH_CUDA_ALLOC_CONF"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_set(names[i]))
            return names[i];
    return NULL;
}

static void look_at_pytorch(const doctor_t *doctor)
{
    const char *const name = allocator_variable();
    if (name == NULL) {
        doctor_find(
            DOCTOR_FINE, "PyTorch",
            "nothing is set; with a budget `microdnn run` sets "
            "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync, which does not support CUDA graphs "
            "of torch.compile (\"reduce-overhead\"), memory history and MemPool: for these "
            "run with --allocator native");
        return;
    }
    const bool gives_back = strcmp(name, "PYTORCH_NO_CUDA_MEMORY_CACHING") == 0 ||
                            holds(name, "backend:cudaMallocAsync");
    doctor_find(doctor->budget && !gives_back ? DOCTOR_WARNING : DOCTOR_FINE, "PyTorch",
                "%s=%s is set and stays%s", name, getenv(name),
                doctor->budget && !gives_back
                    ? ": PyTorch keeps what it frees, so only whole segments of it can leave; "
                      "unset it, or set PYTORCH_ALLOC_CONF=backend:cudaMallocAsync"
                    : "");
    if (is_set("PYTORCH_ALLOC_CONF") && is_set("PYTORCH_CUDA_ALLOC_CONF") &&
        strcmp(getenv("PYTORCH_ALLOC_CONF"), getenv("PYTORCH_CUDA_ALLOC_CONF")) != 0)
        doctor_find(DOCTOR_WARNING, "PyTorch",
                    "PYTORCH_ALLOC_CONF=%s and PYTORCH_CUDA_ALLOC_CONF=%s differ: it depends on "
                    "PyTorch's version which one counts",
                    getenv("PYTORCH_ALLOC_CONF"), getenv("PYTORCH_CUDA_ALLOC_CONF"));
    const char *const feature =
        doctor->arguments != NULL ? tool_unsupported_feature(doctor->arguments) : NULL;
    if (feature != NULL && holds(name, "backend:cudaMallocAsync"))
        doctor_find(DOCTOR_BROKEN, "PyTorch",
                    "the program uses %s, which %s=%s does not support: unset it, or set "
                    "PYTORCH_ALLOC_CONF=backend:native",
                    feature, name, getenv(name));
}

static void look_at_jax(const doctor_t *doctor)
{
    static const char *const names[] = {
        "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE",
        "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION"};
    for (size_t i = 0; doctor->budget && i < sizeof names / sizeof *names; i++) {
        if (!is_set(names[i]) || (i == 0 && strcmp(getenv(names[i]), "cuda_async") == 0))
            continue;
        doctor_find(DOCTOR_WARNING, "JAX",
                    "%s=%s is set and stays: with a budget, unset it, so that `microdnn run` sets "
                    "XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async",
                    names[i], getenv(names[i]));
        return;
    }
}

void doctor_look_at_variables(const doctor_t *doctor)
{
    static const struct {
        const char *name, *what;
    } tools[] = {
        {"CUDA_INJECTION64_PATH", "a profiler or debugger is injected into CUDA programs and may "
                                  "call the driver past the library"},
        {"CUDA_LAUNCH_BLOCKING", "each launch waits for its end, so nothing moves while something "
                                 "runs"},
        {"LD_AUDIT", "an auditor may bind functions past the library"},
        {"TORCH_CUDNN_V8_API_DISABLED", "PyTorch uses cuDNN's old functions, whose engines are "
                                        "fewer"},
    };
    look_at_pytorch(doctor);
    look_at_jax(doctor);
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++)
        if (is_set(tools[i].name) && strcmp(getenv(tools[i].name), "0") != 0)
            doctor_find(DOCTOR_WARNING, "environment", "%s=%s: %s", tools[i].name,
                        getenv(tools[i].name), tools[i].what);
}
