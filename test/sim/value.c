/* Values that streams write to memory and wait for. A wait is over when a write that was enqueued
 * before has ended or, in compute mode, when the memory holds what it waits for: other streams'
 * later writes and the host's own count there. */
#include "test/sim/engine.h"
#include "test/sim/entries.h"

static bool fulfils(uint64_t content, const sim_work_t *wait)
{
    uint64_t mask = wait->pattern_bytes == 4 ? UINT32_MAX : UINT64_MAX;
    uint64_t difference = (content - wait->pattern) & mask;
    switch (wait->comparison) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* cyclic */
        return difference <= mask >> 1;
    case CU_STREAM_WAIT_VALUE_EQ:
        return difference == 0;
    case CU_STREAM_WAIT_VALUE_AND:
        return (content & wait->pattern & mask) != 0;
    default:
        return (~(content | wait->pattern) & mask) != 0;
    }
}

bool sim_value_is_there(const sim_work_t *wait)
{
    const void *host =
        sim_map_translate(wait->destination, wait->pattern_bytes, SIM_ANY_DEVICE, false);
    if (sim_engine.mode == SIM_TIMING || !host)
        return true; /* without content; a fault is found when it runs */
    uint64_t content = wait->pattern_bytes == 4
                           ? __atomic_load_n((const uint32_t *)host, __ATOMIC_ACQUIRE)
                           : __atomic_load_n((const uint64_t *)host, __ATOMIC_ACQUIRE);
    return fulfils(content, wait);
}

static CUresult write_value(CUstream handle, CUdeviceptr address, uint64_t value,
                            uint32_t value_bytes, unsigned flags)
{
    CUstream stream;
    sim_work_t work;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result == CUDA_SUCCESS && (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER))
        result = CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result =
            sim_work_fill(&work, stream->context->device, address, 0, value, value_bytes, 1, 1);
    if (result != CUDA_SUCCESS)
        return result;
    work.unit = SIM_UNIT_NONE; /* the front end does it, in no time */
    return sim_stream_add(stream, &work, sim_device(stream->context->device)->profile.launch_us,
                          NULL);
}

/* The earliest write of a fulfilling value there that has not ended, or NULL. */
static sim_op_t *pending_write(const sim_work_t *wait)
{
    sim_op_t *found = NULL;
    for (sim_lane_t *lane = sim_engine.active; lane; lane = lane->next_active)
        for (sim_op_t *op = lane->first; op; op = op->next)
            if (op->work.kind == SIM_FILL && op->work.destination == wait->destination &&
                op->work.bytes == wait->pattern_bytes && fulfils(op->work.pattern, wait) &&
                !sim_op_done(op) && (!found || op->sequence < found->sequence))
                found = op;
    return found;
}

static CUresult wait_value(CUstream handle, CUdeviceptr address, uint64_t value,
                           uint32_t value_bytes, unsigned flags)
{
    CUstream stream;
    sim_work_t work;
    CUresult result = sim_stream_resolve(handle, &stream);
    if (result == CUDA_SUCCESS && flags > CU_STREAM_WAIT_VALUE_NOR)
        result = flags & CU_STREAM_WAIT_VALUE_FLUSH ? CUDA_ERROR_NOT_SUPPORTED
                                                    : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        result =
            sim_work_fill(&work, stream->context->device, address, 0, value, value_bytes, 1, 1);
    if (result != CUDA_SUCCESS)
        return result;
    work.kind = SIM_WAIT_VALUE;
    work.unit = SIM_UNIT_NONE;
    work.comparison = flags;
    double host_us = sim_device(stream->context->device)->profile.launch_us;
    if (stream->capture)
        return sim_stream_add(stream, &work, host_us, NULL);
    sim_clock_spend(host_us);
    sim_op_t *write = sim_op_hold(pending_write(&work));
    sim_stream_submit(stream, &work, &write, 1);
    sim_op_drop(write);
    return CUDA_SUCCESS;
}

SIM_ENTRY(CONTEXT, cuStreamWriteValue32,
          (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
          write_value(stream, address, value, 4, flags))
SIM_ENTRY(CONTEXT, cuStreamWriteValue64,
          (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
          write_value(stream, address, value, 8, flags))
SIM_ENTRY(CONTEXT, cuStreamWaitValue32,
          (CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags),
          wait_value(stream, address, value, 4, flags))
SIM_ENTRY(CONTEXT, cuStreamWaitValue64,
          (CUstream stream, CUdeviceptr address, cuuint64_t value, unsigned flags),
          wait_value(stream, address, value, 8, flags))

static CUresult memory_operation(CUstream stream, const CUstreamBatchMemOpParams *operation)
{
    switch (operation->operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        return write_value(stream, operation->writeValue.address, operation->writeValue.value, 4,
                           operation->writeValue.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        return write_value(stream, operation->writeValue.address, operation->writeValue.value64, 8,
                           operation->writeValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        return wait_value(stream, operation->waitValue.address, operation->waitValue.value, 4,
                          operation->waitValue.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        return wait_value(stream, operation->waitValue.address, operation->waitValue.value64, 8,
                          operation->waitValue.flags);
    case CU_STREAM_MEM_OP_BARRIER: /* order within a stream is there already */
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
}

static CUresult memory_operations(CUstream stream, unsigned count,
                                  const CUstreamBatchMemOpParams *operations, unsigned flags)
{
    CUresult result = operations && count > 0 && count <= 256 && flags == 0
                          ? CUDA_SUCCESS
                          : CUDA_ERROR_INVALID_VALUE;
    for (unsigned i = 0; i < count && result == CUDA_SUCCESS; i++)
        result = memory_operation(stream, &operations[i]);
    return result;
}

SIM_ENTRY(CONTEXT, cuStreamBatchMemOp,
          (CUstream stream, unsigned count, CUstreamBatchMemOpParams *operations, unsigned flags),
          memory_operations(stream, count, operations, flags))
