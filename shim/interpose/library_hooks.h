/* Hooks of cuBLAS, cuSOLVER, cuFFT and NCCL (shim/interpose/library_hooks.def): our functions that run in place of
 * theirs. Their kernels use memory that no kernel parameter names (indirect operands, shim/vmem/indirect_operands.h),
 * so the hooks name it. Programs that do not use these libraries never come here, and we load nothing. Without a budget
 * a hook costs only the test for one. */
#ifndef MDNN_LIBRARY_HOOKS_H
#define MDNN_LIBRARY_HOOKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "shim/real/plain_memory.h"
#include "shim/real/called_functions.h"
#include "shim/vmem/indirect_operands.h"

/* By value, as NCCL takes it. */
typedef struct mdnn_nccl_unique_id {
    char bytes[128];
} mdnn_nccl_unique_id_t;

enum { MDNN_NCCL_IN_PROGRESS = 7 };

/* For dlsym: whether a function of that name is hooked, and what replaces `found`, which lies in the
 * library of that soname; NULL: nothing does. */
bool mdnn_library_has_symbol(const char *symbol);
void *mdnn_library_entry_of_symbol(const char *symbol, const char *soname, void *found);

/* ---- arrays of pointers ---- */

/* How a call gets the memory to which its arrays of pointers, in device memory, point. */
typedef enum mdnn_batch_way {
    MDNN_BATCH_PASSED,    /* there is nothing that could be away */
    MDNN_BATCH_UNTRACKED, /* everything is resident, and stays so */
    MDNN_BATCH_READ,      /* the arrays are read back, and what they point to is named */
    MDNN_BATCH_ALL        /* the call is captured, and names everything that lives */
} mdnn_batch_way_t;

/* A call that takes arrays of pointers. The hook calls mdnn_batch_begin, mdnn_batch_array for each array, the real
 * function and mdnn_batch_end. */
typedef struct mdnn_batch {
    mdnn_indirect_operands_t operands;
    mdnn_batch_way_t way;
    CUstream stream;
    struct mdnn_virtual_device *device; /* UNTRACKED: the device */
    uint64_t number;                    /* UNTRACKED: the stream's number there */
    const char *name;
} mdnn_batch_t;

void mdnn_batch_begin(mdnn_batch_t *batch, mdnn_get_stream_t get_stream, void *handle,
                      const char *name);
void mdnn_batch_array(mdnn_batch_t *batch, const void *array, int64_t count, mdnn_use_role_t role);
void mdnn_batch_end(mdnn_batch_t *batch);

/* ---- cuFFT ---- */

/* Called around the real call of a transform. */
void mdnn_transform_begin(mdnn_indirect_operands_t *operands, int plan, const void *in,
                          const void *out);
void mdnn_transform_end(mdnn_indirect_operands_t *operands);

/* ---- NCCL ---- */

/* A collective call. The hook calls mdnn_collective_begin, mdnn_collective_buffer for each buffer, the real function
 * and mdnn_collective_end. */
typedef struct mdnn_collective {
    mdnn_indirect_operands_t own;    /* the buffers of a call outside a group */
    mdnn_indirect_operands_t *names; /* `own`, or the list of the group */
    void *comm;
} mdnn_collective_t;

void mdnn_collective_begin(mdnn_collective_t *collective, void *comm);
void mdnn_collective_buffer(mdnn_collective_t *collective, const void *buffer,
                            mdnn_use_role_t role);
void mdnn_collective_end(mdnn_collective_t *collective, int result);

#define PARAMETERS(...) __VA_ARGS__
#define BATCH_HOOK(library, name, parameters, arguments, arrays)
#define TRANSFORM_HOOK(name, parameters, arguments)
#define FFT_HOOK(name, parameters, arguments)                                                      \
    int mdnn_hook_##name(int (*real)(parameters), parameters);
#define COLLECTIVE_HOOK(name, parameters, arguments, buffers)
#define NCCL_HOOK(name, parameters, arguments)                                                     \
    int mdnn_hook_##name(int (*real)(parameters), parameters);
#define NCCL_GROUP_HOOK(name) int mdnn_hook_##name(int (*real)(void));
#define NCCL_INNER_HOOK(name, parameters, arguments)
#include "shim/interpose/library_hooks.def"
#undef BATCH_HOOK
#undef TRANSFORM_HOOK
#undef FFT_HOOK
#undef COLLECTIVE_HOOK
#undef NCCL_HOOK
#undef NCCL_GROUP_HOOK
#undef NCCL_INNER_HOOK
#undef PARAMETERS

#endif
