#include "shim/plain_memory.h"

#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "shim/library_doors.h"
#include "shim/virtual_unseen.h"

/* ---- whose ---- */

/* The library's code and data. Several copies: the last. */
static _Atomic uintptr_t first = UINTPTR_MAX, end;

typedef struct image {
    uintptr_t inside, first, end;
} image_t;

static int find_image(struct dl_phdr_info *info, size_t bytes, void *context)
{
    image_t *const image = context;
    uintptr_t low = UINTPTR_MAX, high = 0;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type != PT_LOAD)
            continue;
        low = start < low ? start : low;
        high = start + info->dlpi_phdr[i].p_memsz > high ? start + info->dlpi_phdr[i].p_memsz
                                                         : high;
    }
    /* A program may have NCCL within: then not all that it allocates is NCCL's. */
    if (image->inside < low || image->inside >= high || !strstr(info->dlpi_name, "libnccl"))
        return 0;
    image->first = low;
    image->end = high;
    return 1;
}

void mdnn_plain_memory_of(void *function)
{
    image_t image = {.inside = (uintptr_t)function};
    if (!dl_iterate_phdr(find_image, &image))
        return;
    atomic_store(&end, 0);
    atomic_store(&first, image.first);
    atomic_store(&end, image.end);
}

bool mdnn_plain_memory_wanted(const void *caller)
{
    const uintptr_t address = (uintptr_t)caller;
    return mdnn_nccl_is_inside() ||
           (address >= atomic_load_explicit(&first, memory_order_relaxed) &&
            address < atomic_load_explicit(&end, memory_order_relaxed));
}

/* ---- what there is ---- */

typedef struct mdnn_plain_block {
    struct mdnn_plain_block *next;
    CUdeviceptr address;
    size_t bytes; /* set aside for it; 0: it is virtual and pinned */
    int device;
} block_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of `blocks` */
static block_t *blocks;
static _Atomic size_t block_count;

static CUresult allocate_pinned(CUdeviceptr *address, size_t bytes)
{
    CUresult result = mdnn_virtual_allocate(address, bytes, NULL, false, true);
    if (result == CUDA_SUCCESS && (result = mdnn_virtual_pin(*address)) != CUDA_SUCCESS)
        (void)mdnn_virtual_free(*address, NULL, false, true);
    return result;
}

static CUresult allocate(block_t *block, CUresult (*real)(CUdeviceptr *, size_t))
{
    CUresult result = mdnn_virtual_set_aside(block->bytes, &block->device);
    if (result == CUDA_SUCCESS) {
        result = real(&block->address, block->bytes);
        if (result != CUDA_SUCCESS)
            mdnn_virtual_give_back(block->bytes, block->device);
    } else if (result == CUDA_ERROR_OUT_OF_MEMORY) {
        result = allocate_pinned(&block->address, block->bytes);
        block->bytes = 0;
    }
    return result;
}

CUresult mdnn_plain_memory_allocate(CUresult (*real)(CUdeviceptr *, size_t), CUdeviceptr *address,
                                    size_t bytes)
{
    block_t *const block = malloc(sizeof *block);
    if (!block)
        return CUDA_ERROR_OUT_OF_MEMORY;
    *block = (block_t){.bytes = bytes};
    const CUresult result = allocate(block, real);
    if (result != CUDA_SUCCESS) {
        free(block);
        return result == CUDA_ERROR_NOT_SUPPORTED ? real(address, bytes) : result;
    }
    *address = block->address;
    pthread_mutex_lock(&lock);
    block->next = blocks;
    blocks = block;
    atomic_fetch_add(&block_count, 1);
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

void mdnn_plain_memory_device_ends(CUdevice device)
{
    pthread_mutex_lock(&lock);
    for (block_t **at = &blocks; *at;) {
        block_t *const block = *at;
        if (block->device != device) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        free(block);
        atomic_fetch_sub(&block_count, 1);
    }
    pthread_mutex_unlock(&lock);
}

mdnn_plain_block_t *mdnn_plain_memory_take(CUdeviceptr address)
{
    if (atomic_load(&block_count) == 0)
        return NULL;
    pthread_mutex_lock(&lock);
    block_t **at = &blocks;
    while (*at && (*at)->address != address)
        at = &(*at)->next;
    block_t *const block = *at;
    if (block) {
        *at = block->next;
        atomic_fetch_sub(&block_count, 1);
    }
    pthread_mutex_unlock(&lock);
    return block;
}

static void put_back(block_t *block)
{
    pthread_mutex_lock(&lock);
    block->next = blocks;
    blocks = block;
    atomic_fetch_add(&block_count, 1);
    pthread_mutex_unlock(&lock);
}

void mdnn_plain_memory_ended(mdnn_plain_block_t *block, bool freed)
{
    if (!block)
        return;
    if (!freed) {
        put_back(block);
        return;
    }
    if (block->bytes > 0)
        mdnn_virtual_give_back(block->bytes, block->device);
    else
        mdnn_virtual_unpin(block->address);
    free(block);
}
