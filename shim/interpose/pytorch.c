#include "shim/interpose/pytorch.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "config/log.h"
#include "config/standard_error.h"
#include "shim/real/process.h"
#include "shim/vmem/virtual_memory.h"

static const char async[] = "backend:cudaMallocAsync";
/* New name, old name, and the other way. */
static const char *const variables[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
                                        "PYTORCH_NO_CUDA_MEMORY_CACHING"};

static const char *first_set(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        if (getenv(variables[i]))
            return variables[i];
    return NULL;
}

/* The library's one constructor: Python loads libtorch long before anything of CUDA is looked up,
 * so a lookup is too late for the better way. Looks at the environment only, and at nothing else of
 * it while no budget stands there; and at what standard error is, before the program may close it.
 */
__attribute__((constructor)) static void mdnn_set_pytorch_backend(void)
{
    mdnn_standard_error_remember();
    if (getauxval(AT_SECURE) != 0)
        return;
    const char *budget = getenv("MICRODNN_MEMORY_BUDGET");
    if (!budget || !*budget) /* the full name wins */
        budget = getenv("MICRODNN_MEMORY");
    if (!budget || !*budget || strcmp(budget, "none") == 0)
        return;
    const char *const disable = getenv("MICRODNN_DISABLE");
    if (disable && *disable && strcmp(disable, "0") != 0)
        return;
    if (!first_set())
        (void)setenv(variables[0], async, 0);
}

static bool is_caching(const char *variable, const char *value)
{
    return strcmp(variable, variables[2]) != 0 && !strstr(value, async);
}

static void prepare(void)
{
    const char *const variable = first_set();
    if (!variable) {
        (void)setenv(variables[2], "1", 0);
        return;
    }
    const char *const value = getenv(variable);
    if (value && is_caching(variable, value) && !getenv(variables[2]) &&
        strcmp(value, "backend:native") != 0) /* chosen, since the other backend has no use here */
        MDNN_LOG(MDNN_LOG_WARN, "memory",
                 "%s=%s is kept: PyTorch caches memory, so only whole segments of it can leave",
                 variable, value);
}

void mdnn_pytorch_prepare(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    if (mdnn_process_state() == MDNN_PROCESS_ACTIVE && mdnn_virtual_on() &&
        !atomic_flag_test_and_set(&done))
        prepare();
}
