#include "shim/vmem/plain_memory.h"

#include <link.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

/* Calls of NCCL under way. initial-exec: see shim/real/process.c. */
static _Thread_local uint32_t calls __attribute__((tls_model("initial-exec")));

void mdnn_nccl_enter(void)
{
    calls++;
}

void mdnn_nccl_leave(void)
{
    calls--;
}

bool mdnn_plain_memory_wanted(const void *caller)
{
    return calls > 0 || is_nccl((uintptr_t)caller);
}
