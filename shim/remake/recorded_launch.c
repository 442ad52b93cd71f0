#include "shim/remake/recorded_launch.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "shim/real/operation_key.h"
#include "shim/remake/varying_words.h"
#include "shim/vmem/launch_scan.h"

enum { ATTRIBUTES = 8 };

struct mdnn_recorded_launch {
    CUfunction function;
    unsigned grid[3], block[3], shared_bytes;
    CUlaunchAttribute attributes[ATTRIBUTES];
    unsigned attribute_count;
    const mdnn_kernel_layout_t *layout;
    bool packed;            /* the program passed the parameters as one buffer */
    size_t parameter_bytes; /* all of them, at their offsets */
    char parameters[];
};

/* ---- attributes ---- */

typedef enum attribute_use { KEEP, LEAVE_OUT, REFUSE } attribute_use_t;

static attribute_use_t use_of(const CUlaunchAttribute *attribute)
{
    switch (attribute->id) {
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
        return LEAVE_OUT;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
        return KEEP;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
        return attribute->value.cooperative ? REFUSE : LEAVE_OUT;
    default: /* such as events, which would be recorded again */
        return REFUSE;
    }
}

static bool copy_attributes(const mdnn_launch_t *from, mdnn_recorded_launch_t *to)
{
    for (unsigned i = 0; i < from->attribute_count; i++) {
        const attribute_use_t use = use_of(&from->attributes[i]);
        if (use == REFUSE || (use == KEEP && to->attribute_count == ATTRIBUTES))
            return false;
        if (use == KEEP)
            to->attributes[to->attribute_count++] = from->attributes[i];
    }
    return true;
}

/* ---- parameters ---- */

static size_t bytes_of_layout(const mdnn_kernel_layout_t *layout)
{
    size_t bytes = 0;
    for (uint32_t i = 0; i < layout->count; i++) {
        const size_t end = (size_t)layout->parameter_offsets[i] + layout->parameter_bytes[i];
        bytes = end > bytes ? end : bytes;
    }
    return bytes;
}

/* SIZE_MAX: they cannot be read. */
static size_t parameter_bytes_of(const mdnn_launch_t *launch)
{
    const size_t *const packed =
        launch->parameters ? NULL : mdnn_launch_extra(launch->extra, CU_LAUNCH_PARAM_BUFFER_SIZE);
    if (packed && mdnn_launch_extra(launch->extra, CU_LAUNCH_PARAM_BUFFER_POINTER))
        return *packed;
    if (!launch->layout || !launch->layout->known ||
        (!launch->parameters && launch->layout->count > 0))
        return SIZE_MAX;
    return bytes_of_layout(launch->layout);
}

static bool copy_parameters(const mdnn_launch_t *from, mdnn_recorded_launch_t *to)
{
    to->packed = !from->parameters && to->parameter_bytes > 0;
    if (to->packed)
        memcpy(to->parameters, mdnn_launch_extra(from->extra, CU_LAUNCH_PARAM_BUFFER_POINTER),
               to->parameter_bytes);
    for (uint32_t i = 0; from->parameters && i < from->layout->count; i++) {
        if (!from->parameters[i])
            return false;
        memcpy(to->parameters + from->layout->parameter_offsets[i], from->parameters[i],
               from->layout->parameter_bytes[i]);
    }
    return true;
}

mdnn_recorded_launch_t *mdnn_recorded_launch_make(const mdnn_launch_t *launch)
{
    const size_t bytes = parameter_bytes_of(launch);
    mdnn_recorded_launch_t *const made = bytes < SIZE_MAX ? calloc(1, sizeof *made + bytes) : NULL;
    if (!made)
        return NULL;
    made->function = launch->function;
    memcpy(made->grid, launch->grid, sizeof made->grid);
    memcpy(made->block, launch->block, sizeof made->block);
    made->shared_bytes = launch->shared_bytes;
    made->layout = launch->layout;
    made->parameter_bytes = bytes;
    if (copy_attributes(launch, made) && copy_parameters(launch, made))
        return made;
    free(made);
    return NULL;
}

void mdnn_recorded_launch_free(mdnn_recorded_launch_t *launch)
{
    free(launch);
}

const char *mdnn_recorded_launch_name(const mdnn_recorded_launch_t *launch)
{
    return launch->layout ? launch->layout->name : NULL;
}

/* ---- again ---- */

static CUresult launch_again(const mdnn_driver_t *driver, const mdnn_recorded_launch_t *launch,
                             CUstream stream, void **parameters, void **extra)
{
    const unsigned *const grid = launch->grid, *const block = launch->block;
    if (launch->attribute_count == 0)
        return driver->cuLaunchKernel(launch->function, grid[0], grid[1], grid[2], block[0],
                                      block[1], block[2], launch->shared_bytes, stream, parameters,
                                      extra);
    CUlaunchAttribute attributes[ATTRIBUTES];
    memcpy(attributes, launch->attributes, sizeof attributes);
    const CUlaunchConfig config = {.gridDimX = grid[0],
                                   .gridDimY = grid[1],
                                   .gridDimZ = grid[2],
                                   .blockDimX = block[0],
                                   .blockDimY = block[1],
                                   .blockDimZ = block[2],
                                   .sharedMemBytes = launch->shared_bytes,
                                   .hStream = stream,
                                   .attrs = attributes,
                                   .numAttrs = launch->attribute_count};
    return driver->cuLaunchKernelEx
               ? driver->cuLaunchKernelEx(&config, launch->function, parameters, extra)
               : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult launch_with(const mdnn_driver_t *driver, const mdnn_recorded_launch_t *launch,
                            char *bytes, CUstream stream)
{
    size_t size = launch->parameter_bytes;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, bytes, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                     CU_LAUNCH_PARAM_END};
    if (launch->packed)
        return launch_again(driver, launch, stream, NULL, extra);
    void **const parameters = calloc((size_t)launch->layout->count + 1, sizeof *parameters);
    if (!parameters)
        return CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < launch->layout->count; i++)
        parameters[i] = bytes + launch->layout->parameter_offsets[i];
    const CUresult result = launch_again(driver, launch, stream, parameters, NULL);
    free(parameters);
    return result;
}

static uint64_t redirected(uint64_t word, const mdnn_redirect_t *redirects, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (word - redirects[i].start < redirects[i].bytes)
            return redirects[i].to + (word - redirects[i].start);
    return word;
}

/* Finds addresses as add_parameter does. */
static void redirect_parameter(char *bytes, size_t size, const mdnn_redirect_t *redirects,
                               size_t count)
{
    uint64_t word;
    for (size_t at = 0; at + sizeof word <= size;) {
        memcpy(&word, bytes + at, sizeof word);
        const bool address = word != 0 && mdnn_virtual_owns(word);
        word = address ? redirected(word, redirects, count) : word;
        memcpy(bytes + at, &word, sizeof word);
        at += address ? sizeof word : sizeof(uint32_t);
    }
}

CUresult mdnn_recorded_launch_replay(const mdnn_driver_t *driver,
                                     const mdnn_recorded_launch_t *launch,
                                     const mdnn_redirect_t *redirects, size_t count,
                                     CUstream stream)
{
    const mdnn_kernel_layout_t *const layout = launch->layout;
    char *const bytes = malloc(launch->parameter_bytes + 1);
    if (!bytes)
        return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(bytes, launch->parameters, launch->parameter_bytes);
    if (launch->packed)
        redirect_parameter(bytes, launch->parameter_bytes, redirects, count);
    for (uint32_t i = 0; !launch->packed && i < layout->count; i++)
        redirect_parameter(bytes + layout->parameter_offsets[i], layout->parameter_bytes[i],
                           redirects, count);
    const CUresult result = launch_with(driver, launch, bytes, stream);
    free(bytes);
    return result;
}

static bool has_word(const char *bytes, size_t size, uint64_t address)
{
    uint64_t word;
    for (size_t at = 0; at + sizeof word <= size; at += sizeof(uint32_t)) {
        memcpy(&word, bytes + at, sizeof word);
        if (word == address)
            return true;
    }
    return false;
}

bool mdnn_recorded_launch_has_word(const mdnn_recorded_launch_t *launch, uint64_t address)
{
    const mdnn_kernel_layout_t *const layout = launch->layout;
    if (launch->packed)
        return has_word(launch->parameters, launch->parameter_bytes, address);
    for (uint32_t i = 0; i < layout->count; i++)
        if (has_word(launch->parameters + layout->parameter_offsets[i], layout->parameter_bytes[i],
                     address))
            return true;
    return false;
}

/* ---- the key ---- */

static void add_to_key(uint64_t key[2], uint64_t value)
{
    key[0] = mdnn_driver_hash(key[0], value);
    key[1] = (key[1] ^ value) * UINT64_C(0x9e3779b97f4a7c15);
    key[1] ^= key[1] >> 29;
}

/* A walk through the parameters of a launch. */
typedef struct walk {
    mdnn_find_operand_t find;
    void *context;
    bool numbers; /* count; otherwise the key is the family's */
    mdnn_word_family_t *family;
    uint32_t place; /* of the next word that is no address */
    bool other_memory;
    uint64_t *key;
} walk_t;

/* An address of the program's other memory: a pool of its own, say, handles of cuMemCreate, or the host's. Nobody would
 * notice that such an input changes. */
static bool is_other_memory(uint64_t word)
{
    const uint64_t lowest = UINT64_C(1) << 40, highest = UINT64_C(1) << 47;
    const mdnn_driver_t *const driver = mdnn_real_driver();
    unsigned type;
    return word >= lowest && word < highest && !MDNN_FAULT(OTHER_MEMORY_IS_A_NUMBER) &&
           (!driver->cuPointerGetAttribute ||
            driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, word) ==
                CUDA_SUCCESS);
}

static void add_number(walk_t *walk, uint32_t number)
{
    enum { ANY_NUMBER = 1 };
    const bool counts = walk->numbers && !mdnn_word_varies(walk->family, walk->place, number);
    walk->place++;
    add_to_key(walk->key, counts ? number : (uint64_t)ANY_NUMBER << 32);
}

/* In steps of four bytes, as hooks look for addresses. */
static void add_parameter(walk_t *walk, const char *bytes, size_t count)
{
    size_t at = 0;
    while (at < count) {
        uint64_t word = 0, offset = 0;
        uint32_t operand = 0, half = 0;
        if (at + sizeof word <= count)
            memcpy(&word, bytes + at, sizeof word);
        const bool address = word != 0 && mdnn_virtual_owns(word);
        if (address) {
            const bool found = walk->find(walk->context, word, &operand, &offset);
            /* What only looks like an address is another one in each iteration. */
            add_to_key(walk->key,
                       found ? UINT64_C(1) << 63 | (uint64_t)operand << 48 : UINT64_C(3) << 62);
            add_to_key(walk->key, found ? offset : 0);
            at += sizeof word;
            continue;
        }
        if (walk->numbers && at % sizeof word == 0)
            walk->other_memory = walk->other_memory || is_other_memory(word);
        const size_t part = count - at < sizeof half ? count - at : sizeof half;
        memcpy(&half, bytes + at, part);
        add_number(walk, half);
        at += part;
    }
}

static void add_attributes(const mdnn_recorded_launch_t *launch, uint64_t key[2])
{
    for (unsigned i = 0; i < launch->attribute_count; i++) {
        const CUlaunchAttribute *const attribute = &launch->attributes[i];
        add_to_key(key, attribute->id);
        if (attribute->id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
            continue; /* the others change nothing but times, and may leave a part of the value undefined */
        add_to_key(key,
                   (uint64_t)attribute->value.clusterDim.x << 32 | attribute->value.clusterDim.y);
        add_to_key(key, attribute->value.clusterDim.z);
    }
}

static void add_launch(walk_t *walk, const mdnn_recorded_launch_t *launch)
{
    const mdnn_kernel_layout_t *const layout = launch->layout;
    uint64_t *const key = walk->key;
    key[0] = key[1] = MDNN_DRIVER_HASH_START;
    add_to_key(key, layout ? layout->name_hash : 0);
    add_to_key(key,
               (uintptr_t)launch->function); /* kernels of two modules may have the same name */
    for (int i = 0; i < 3; i++)
        add_to_key(key, (uint64_t)launch->grid[i] << 32 | launch->block[i]);
    add_to_key(key, launch->shared_bytes);
    add_attributes(launch, key);
    if (launch->packed)
        add_parameter(walk, launch->parameters, launch->parameter_bytes);
    for (uint32_t i = 0; !launch->packed && i < layout->count; i++)
        add_parameter(walk, launch->parameters + layout->parameter_offsets[i],
                      layout->parameter_bytes[i]);
}

bool mdnn_recorded_launch_key(const mdnn_recorded_launch_t *launch, mdnn_find_operand_t find,
                              void *context, uint64_t key[2])
{
    uint64_t of_family[2];
    walk_t walk = {.find = find, .context = context, .key = of_family};
    add_launch(&walk, launch);
    walk = (walk_t){.find = find,
                    .context = context,
                    .numbers = true,
                    .family = mdnn_word_family(of_family),
                    .key = key};
    add_launch(&walk, launch);
    return !walk.other_memory;
}
