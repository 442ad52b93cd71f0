/* What operations do: kernels, copies, fills, host calls, releases. */
#include "test/sim/engine.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local double next_cost_us;
static _Thread_local CUcontext running_context; /* of the body that this thread runs, or NULL */

static _Thread_local const sim_work_t *running_kernel; /* likewise */
static _Thread_local bool in_host_call;

bool sim_in_host_call(void)
{
    return in_host_call;
}

static uint32_t parameter_bytes(const sim_kernel_t *kernel)
{
    uint32_t bytes = 0;
    for (uint32_t i = 0; i < kernel->parameter_count; i++) {
        uint32_t end = kernel->parameters[i].offset_bytes + kernel->parameters[i].size_bytes;
        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}

static void *duplicate(const void *content, uint64_t bytes)
{
    return content ? memcpy(sim_allocate(bytes), content, bytes) : NULL;
}

sim_work_t sim_work_copy(const sim_work_t *work)
{
    sim_work_t copy = *work;
    copy.parameters = duplicate(work->parameters, work->kernel ? parameter_bytes(work->kernel) : 0);
    copy.snapshot = duplicate(work->snapshot, work->bytes);
    sim_graph_memory_hold(copy.graph_memory);
    return copy;
}

void sim_work_clear(sim_work_t *work)
{
    free(work->parameters);
    free(work->snapshot);
    sim_graph_memory_drop(work->graph_memory);
    work->parameters = work->snapshot = NULL;
    work->graph_memory = NULL;
}

void sim_set_next_cost_us(double cost_us)
{
    next_cost_us = cost_us;
}

/* Another device's allocation, which kernels of this one were not let reach. Of a mapping its
 * access says that. */
static bool is_foreign(uint64_t address, int device)
{
    const sim_range_t *range = sim_map_find(address);
    return range && range->place == SIM_PLACE_DEVICE && !range->physical &&
           range->device != device && (sim_device(device)->context.peers >> range->device & 1) == 0;
}

/* Whether a parameter of the kernel, or a part of one, is an address in the same memory. */
static bool is_named(const sim_work_t *work, uint64_t address)
{
    uint32_t bytes = parameter_bytes(work->kernel);
    uint64_t before = 0;
    for (uint32_t at = 0; at + sizeof(uint64_t) <= bytes; at += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)work->parameters + at, sizeof word);
        if (sim_map_same(word, address) ||
            (before == SIM_TENSOR_MAP_MARK && sim_map_same(word ^ before, address)))
            return true;
        before = word;
    }
    return false;
}

static _Noreturn void panic_unnamed(const char *kernel)
{
    char message[160];
    snprintf(message, sizeof message, "kernel %s touches memory that no parameter names", kernel);
    sim_panic(message);
}

static int running_device(void)
{
    return running_context ? running_context->device : SIM_ANY_DEVICE;
}

static void *memory_of(int device, uint64_t address, uint64_t bytes, bool write)
{
    void *host = sim_map_translate(address, bytes, device, write);
    if (running_kernel && is_foreign(address, device))
        host = NULL;
    if (!host && running_context)
        sim_fail_context(running_context, CUDA_ERROR_ILLEGAL_ADDRESS);
    if (host && running_kernel && !sim_engine.unnamed_allowed && !is_named(running_kernel, address))
        panic_unnamed(running_kernel->kernel->name);
    return host;
}

static void *memory(uint64_t address, uint64_t bytes, bool write)
{
    return memory_of(running_device(), address, bytes, write);
}

/* What a kernel does there is not known: where no device may write, its first write ends the
 * process. */
void *sim_memory(uint64_t address, uint64_t bytes)
{
    return memory(address, bytes, false);
}

static void run_kernel(const sim_work_t *work)
{
    const sim_kernel_t *kernel = work->kernel;
    void **values = sim_allocate((kernel->parameter_count + 1) * sizeof *values);
    for (uint32_t i = 0; i < kernel->parameter_count; i++)
        values[i] = (char *)work->parameters + kernel->parameters[i].offset_bytes;
    running_kernel = work;
    kernel->run(values);
    running_kernel = NULL;
    free(values);
}

/* Where a copy reads or writes; pageable host memory is what is neither. */
static void *side(int device, uint64_t address, uint64_t bytes, bool write)
{
    return sim_map_is_device(address) ? memory_of(device, address, bytes, write)
                                      : (void *)(uintptr_t)address;
}

/* Memory of a device and of the host that have held the same since a copy between them: the same copy, or one back,
 * changes nothing. Many in a row measure the link. */
static struct {
    const void *of_device, *of_host;
    uint64_t bytes; /* 0: nothing is known */
} equal;

void sim_work_forget_equal(void)
{
    equal.bytes = 0;
}

/* Copies unless both hold the same. What has several addresses is never a device's and the host's at once, so the
 * copy leaves its source as it is. */
static void copy_bytes(const sim_work_t *work, void *destination, const void *source,
                       uint64_t bytes)
{
    const bool to_device = !sim_map_on_host(work->destination);
    const void *const of_device = to_device ? destination : source;
    const void *const of_host = to_device ? source : destination;
    if (bytes > 0 && bytes == equal.bytes && of_device == equal.of_device &&
        of_host == equal.of_host)
        return;
    memmove(destination, source, bytes);
    const bool between = to_device == sim_map_on_host(work->source) && !work->snapshot;
    equal.bytes = between && sim_shape_bytes(&work->shape) == bytes ? bytes : 0;
    equal.of_device = of_device;
    equal.of_host = of_host;
}

static void copy_row(const sim_work_t *work, uint64_t slice, uint64_t row)
{
    const sim_shape_t *shape = &work->shape;
    const sim_owners_t *owners = &work->owners;
    int reader = owners->given ? owners->source : running_device();
    int writer = owners->given ? owners->destination : running_device();
    uint64_t to = slice * shape->destination_slice + row * shape->destination_pitch;
    uint64_t from = slice * shape->source_slice + row * shape->source_pitch;
    const void *source =
        work->snapshot
            ? (const char *)work->snapshot + (slice * shape->rows + row) * shape->row_bytes
            : side(reader, work->source + from, shape->row_bytes, false);
    void *destination = side(writer, work->destination + to, shape->row_bytes, true);
    if (source && destination)
        copy_bytes(work, destination, source, shape->row_bytes);
}

static void fill_row(const sim_work_t *work, uint64_t slice, uint64_t row)
{
    const sim_shape_t *shape = &work->shape;
    uint64_t to = slice * shape->destination_slice + row * shape->destination_pitch;
    unsigned char *destination =
        side(running_device(), work->destination + to, shape->row_bytes, true);
    if (!destination)
        return;
    if (work->pattern_bytes == 1)
        memset(destination, (int)(work->pattern & 0xFF), shape->row_bytes);
    for (uint64_t i = 0; work->pattern_bytes > 1 && i < shape->row_bytes; i += work->pattern_bytes)
        memcpy(destination + i, &work->pattern, work->pattern_bytes);
}

static void run_rows(const sim_work_t *work)
{
    for (uint64_t slice = 0; slice < work->shape.slices; slice++)
        for (uint64_t row = 0; row < work->shape.rows; row++)
            (work->kind == SIM_COPY ? copy_row : fill_row)(work, slice, row);
}

void sim_work_call_host(const sim_work_t *work)
{
    in_host_call = true;
    work->function(work->user_data);
    in_host_call = false;
}

static void run_on_memory(const sim_work_t *work)
{
    if (work->kind == SIM_KERNEL)
        run_kernel(work);
    else if (work->kind == SIM_WAIT_VALUE)
        memory(work->destination, work->pattern_bytes, false); /* may fault */
    else
        run_rows(work);
}

/* Unless it was freed by a stream that did not wait for this. */
static void acquire(const sim_work_t *work)
{
    if (sim_map_find(work->destination) &&
        sim_map_edit(work->destination)->pending == work->pattern)
        sim_map_edit(work->destination)->pending = 0;
}

void sim_work_run(CUcontext context, const sim_work_t *work)
{
    bool on_memory = work->kind == SIM_KERNEL || work->kind == SIM_COPY || work->kind == SIM_FILL ||
                     work->kind == SIM_WAIT_VALUE;
    sim_engine.operations_run += on_memory;
    if (work->kind != SIM_COPY)
        sim_work_forget_equal();
    /* After an error the context does nothing more, but what the host waits for must still come. */
    if (on_memory && sim_engine.mode == SIM_COMPUTE && context->sticky == CUDA_SUCCESS) {
        running_context = context;
        run_on_memory(work);
        running_context = NULL;
    } else if (work->kind == SIM_RELEASE) {
        sim_map_remove(work->destination);
    } else if (work->graph_memory) {
        sim_graph_memory_run(work);
    } else if (work->kind == SIM_ACQUIRE) {
        acquire(work);
    }
}

/* Copies the parameters from `extra`'s buffer; false: its layout or size is wrong. */
static bool parameters_from_extra(void *parameters, uint32_t bytes, void **extra)
{
    const void *buffer = NULL;
    size_t buffer_bytes = 0;
    for (size_t i = 0; extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE)
            buffer_bytes = *(const size_t *)extra[i + 1];
        else
            return false;
    }
    if (!buffer || buffer_bytes < bytes)
        return false;
    memcpy(parameters, buffer, bytes);
    return true;
}

CUresult sim_work_kernel(sim_work_t *out, const sim_kernel_t *kernel, void *const *values,
                         void **extra)
{
    const sim_profile_t *profile = &sim_device(sim_current()->device)->profile;
    double cost_us = fmax(next_cost_us, profile->kernel_floor_us);
    next_cost_us = 0;
    if (kernel->parameter_count > 0 && !values == !extra)
        return CUDA_ERROR_INVALID_VALUE;
    uint32_t bytes = parameter_bytes(kernel);
    char *parameters = sim_allocate(bytes);
    for (uint32_t i = 0; values && i < kernel->parameter_count; i++)
        memcpy(parameters + kernel->parameters[i].offset_bytes, values[i],
               kernel->parameters[i].size_bytes);
    if (!values && extra && !parameters_from_extra(parameters, bytes, extra)) {
        free(parameters);
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = (sim_work_t){
        .kind = SIM_KERNEL,
        .unit = SIM_UNIT_COMPUTE,
        .amount = fmax(cost_us, fmax(sim_hold_us(kernel, parameters),
                                     sim_copy_kernel_us(kernel, parameters, profile->link_gbps))),
        .kernel = kernel,
        .parameters = parameters};
    return CUDA_SUCCESS;
}

/* Microseconds of device memory traffic. */
static double memory_us(const sim_profile_t *profile, double bytes)
{
    return fmax(bytes / (1e3 * profile->memory_gbps), profile->kernel_floor_us);
}

/* A short copy takes as long as a short kernel. */
static double link_bytes(const sim_profile_t *profile, uint64_t bytes)
{
    return fmax((double)bytes, profile->kernel_floor_us * 1e3 * profile->link_gbps);
}

uint64_t sim_shape_bytes(const sim_shape_t *shape)
{
    return shape->row_bytes * shape->rows * shape->slices;
}

/* Whether a copy may be asked for there: host memory is not looked at. */
static bool accessible(int device, uint64_t address, uint64_t bytes, bool write)
{
    return address != 0 && (!sim_map_is_device(address) ||
                            sim_map_covers(address, bytes, SIM_PLACE_DEVICE, device, write));
}

static bool rows_accessible(uint64_t destination, uint64_t source, const sim_shape_t *shape,
                            const sim_owners_t *owners)
{
    int here = sim_current()->device;
    int writer = owners ? owners->destination : here, reader = owners ? owners->source : here;
    for (uint64_t slice = 0; slice < shape->slices; slice++)
        for (uint64_t row = 0; row < shape->rows; row++)
            if (!accessible(writer,
                            destination + slice * shape->destination_slice +
                                row * shape->destination_pitch,
                            shape->row_bytes, true) ||
                !accessible(reader,
                            source + slice * shape->source_slice + row * shape->source_pitch,
                            shape->row_bytes, false))
                return false;
    return true;
}

/* Read and written by the device's own copy kernel within it; between two hosts by the host;
 * between two devices over this device's link. */
CUresult sim_work_transfer(sim_work_t *out, uint64_t destination, uint64_t source,
                           const sim_shape_t *shape, const sim_owners_t *owners)
{
    int here = sim_current()->device;
    const sim_profile_t *profile = &sim_device(here)->profile;
    uint64_t bytes = sim_shape_bytes(shape);
    if (!rows_accessible(destination, source, shape, owners))
        return CUDA_ERROR_INVALID_VALUE;
    int to = sim_map_device(destination), from = sim_map_device(source);
    *out = (sim_work_t){.kind = SIM_COPY,
                        .destination = destination,
                        .source = source,
                        .bytes = bytes,
                        .shape = *shape,
                        .owners = owners ? *owners : (sim_owners_t){0},
                        .amount = link_bytes(profile, bytes)};
    bool to_device = to != SIM_ANY_DEVICE && (from == SIM_ANY_DEVICE || to == here);
    out->unit = to_device ? SIM_UNIT_H2D : SIM_UNIT_D2H;
    if (to == from) {
        out->unit = to != SIM_ANY_DEVICE ? SIM_UNIT_COMPUTE : SIM_UNIT_NONE;
        out->amount = memory_us(profile, 2.0 * (double)bytes);
    }
    return CUDA_SUCCESS;
}

static bool fillable(uint64_t address, uint64_t bytes, int device)
{
    return sim_map_covers(address, bytes, SIM_PLACE_DEVICE, device, true) ||
           sim_map_covers(address, bytes, SIM_PLACE_PINNED, SIM_ANY_DEVICE, true);
}

CUresult sim_work_fill(sim_work_t *out, int device, uint64_t destination, uint64_t pitch_bytes,
                       uint64_t pattern, uint32_t pattern_bytes, uint64_t count, uint64_t rows)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(count, pattern_bytes, &bytes) || destination % pattern_bytes != 0 ||
        (rows > 1 && (pitch_bytes < bytes || pitch_bytes % pattern_bytes != 0)))
        return CUDA_ERROR_INVALID_VALUE;
    for (uint64_t row = 0; row < rows; row++)
        if (!fillable(destination + row * pitch_bytes, bytes, device))
            return CUDA_ERROR_INVALID_VALUE;
    const sim_profile_t *profile = &sim_device(device)->profile;
    *out = (sim_work_t){.kind = SIM_FILL,
                        .unit = SIM_UNIT_COMPUTE,
                        .destination = destination,
                        .bytes = bytes * rows,
                        .shape = {bytes, rows, 1, .destination_pitch = pitch_bytes},
                        .pattern = pattern,
                        .pattern_bytes = pattern_bytes,
                        .amount = memory_us(profile, (double)(bytes * rows))};
    return CUDA_SUCCESS;
}
