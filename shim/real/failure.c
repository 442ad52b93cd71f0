#include "shim/real/failure.h"

#include <stdatomic.h>

static _Atomic bool any_final; /* a reset does not forget it: that costs a question at most */
static _Thread_local CUresult last __attribute__((tls_model("initial-exec")));

mdnn_status_t mdnn_failure_note(CUresult result)
{
    if (result == CUDA_SUCCESS)
        return MDNN_STATUS_OK;
    last = result;
    return result == CUDA_ERROR_OUT_OF_MEMORY ? MDNN_STATUS_OUT_OF_DEVICE_MEMORY
                                              : MDNN_STATUS_DEVICE;
}

void mdnn_failure_forget(void)
{
    last = CUDA_SUCCESS;
}

CUresult mdnn_failure_take(void)
{
    const CUresult taken = last;
    last = CUDA_SUCCESS;
    return taken;
}

bool mdnn_failure_is_final(CUresult result)
{
    switch ((int)result) {
    case CUDA_ERROR_DEINITIALIZED:
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_CONTEXT_IS_DESTROYED:
    case CUDA_ERROR_ASSERT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_ILLEGAL_INSTRUCTION:
    case CUDA_ERROR_MISALIGNED_ADDRESS:
    case CUDA_ERROR_INVALID_ADDRESS_SPACE:
    case CUDA_ERROR_INVALID_PC:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
        return true;
    default:
        return false;
    }
}

void mdnn_failure_see(CUresult result)
{
    if (mdnn_failure_is_final(result))
        atomic_store_explicit(&any_final, true, memory_order_relaxed);
}

bool mdnn_failure_any_final(void)
{
    return atomic_load_explicit(&any_final, memory_order_relaxed);
}
