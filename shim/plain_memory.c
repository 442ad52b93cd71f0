#include "shim/plain_memory.h"

#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "config/lock.h"
#include "shim/library_doors.h"
#include "shim/virtual_unseen.h"

/* ---- whose ---- */

/* Code and data of a copy of the library. Never changed nor freed once it is in the list: NCCL's
 * threads look at any time. */
typedef struct image {
    struct image *next;
    uintptr_t inside; /* what is asked about */
    uintptr_t first, end;
} image_t;

static _Atomic(image_t *) images;

static bool is_named_nccl(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, "libnccl", strlen("libnccl")) == 0;
}

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
        high =
            start + info->dlpi_phdr[i].p_memsz > high ? start + info->dlpi_phdr[i].p_memsz : high;
    }
    /* A program may have NCCL within: then not all that it allocates is NCCL's. */
    if (image->inside < low || image->inside >= high || !is_named_nccl(info->dlpi_name))
        return 0;
    image->first = low;
    image->end = high;
    return 1;
}

static bool is_nccl(uintptr_t address)
{
    const image_t *image = atomic_load_explicit(&images, memory_order_acquire);
    while (image && (address < image->first || address >= image->end))
        image = image->next;
    return image != NULL;
}

void mdnn_plain_memory_of(void *function)
{
    image_t image = {.inside = (uintptr_t)function};
    if (is_nccl(image.inside) || !dl_iterate_phdr(find_image, &image))
        return;
    image_t *const made = malloc(sizeof *made);
    if (!made)
        return; /* the next function of the library may find memory */
    *made = image;
    made->next = atomic_load(&images);
    while (!atomic_compare_exchange_weak(&images, &made->next, made)) {
    }
}

bool mdnn_plain_memory_wanted(const void *caller)
{
    return mdnn_nccl_is_inside() || is_nccl((uintptr_t)caller);
}

/* ---- what there is ---- */

typedef struct mdnn_plain_block {
    struct mdnn_plain_block *next;
    CUdeviceptr address;
    size_t bytes; /* set aside for it; 0: it is virtual and pinned */
    int device;
    CUcontext context;
} block_t;

static mdnn_lock_t lock = MDNN_LOCK_INIT(PLAIN_MEMORY); /* of `blocks` */
static block_t *blocks;
static _Atomic size_t block_count;

static void add(block_t *block)
{
    mdnn_lock(&lock);
    block->next = blocks;
    blocks = block;
    atomic_fetch_add(&block_count, 1);
    mdnn_unlock(&lock);
}

static CUresult allocate_pinned(CUdeviceptr *address, size_t bytes)
{
    CUresult result = mdnn_virtual_allocate(address, bytes, NULL, false, true);
    if (result == CUDA_SUCCESS && (result = mdnn_virtual_pin(*address)) != CUDA_SUCCESS)
        (void)mdnn_virtual_free(*address, NULL, false, true);
    return result;
}

static CUresult allocate(block_t *block, CUresult (*real)(CUdeviceptr *, size_t))
{
    CUresult result = mdnn_virtual_set_aside(block->bytes, &block->device, &block->context);
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
    add(block);
    return CUDA_SUCCESS;
}

/* The blocks that are like `like`: of its address, context, or device. */
typedef bool (*alike_t)(const block_t *block, const block_t *like);

static bool has_address(const block_t *block, const block_t *like)
{
    return block->address == like->address;
}

static bool has_context(const block_t *block, const block_t *like)
{
    return block->context == like->context;
}

static bool has_device(const block_t *block, const block_t *like)
{
    return block->device == like->device;
}

static block_t *take(alike_t alike, const block_t *like)
{
    block_t *taken = NULL;
    if (atomic_load(&block_count) == 0)
        return NULL;
    mdnn_lock(&lock);
    for (block_t **at = &blocks; *at;) {
        block_t *const block = *at;
        if (!alike(block, like)) {
            at = &block->next;
            continue;
        }
        *at = block->next;
        block->next = taken;
        taken = block;
        atomic_fetch_sub(&block_count, 1);
    }
    mdnn_unlock(&lock);
    return taken;
}

void mdnn_plain_memory_device_ends(CUdevice device)
{
    block_t *const gone = take(has_device, &(block_t){.device = device});
    for (block_t *block = gone, *next; block; block = next) {
        next = block->next;
        free(block);
    }
}

mdnn_plain_block_t *mdnn_plain_memory_take(CUdeviceptr address)
{
    return take(has_address, &(block_t){.address = address});
}

mdnn_plain_block_t *mdnn_plain_memory_take_context(CUcontext context)
{
    return take(has_context, &(block_t){.context = context});
}

static void end_block(block_t *block)
{
    if (block->bytes > 0)
        mdnn_virtual_give_back(block->bytes, block->device);
    else
        mdnn_virtual_unpin(block->address);
    free(block);
}

void mdnn_plain_memory_ended(mdnn_plain_block_t *ended, bool freed)
{
    for (block_t *block = ended, *next; block; block = next) {
        next = block->next;
        if (freed)
            end_block(block);
        else
            add(block);
    }
}
