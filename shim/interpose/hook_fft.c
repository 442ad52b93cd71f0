/* cuFFT. The kernels of a transform may find what they read and write, and the work area of their plan, in memory that
 * the library prepared: while a call runs, its kernels name all three. What cuFFT allocates for itself is plain memory
 * (shim/real/plain_memory.h). */
#include <stdlib.h>

#include "config/fault.h"
#include "config/lock.h"
#include "shim/interpose/library_hooks.h"

/* The work area that the program has given to a plan. Plans are numbers, which are used again. */
typedef struct area {
    struct area *next;
    int plan;
    uint64_t address;
} area_t;

static mdnn_lock_t lock = MDNN_LOCK_INIT(TRANSFORMS); /* of `areas` */
static area_t *areas;

static area_t **find_area(int plan)
{
    area_t **at = &areas;
    while (*at && (*at)->plan != plan)
        at = &(*at)->next;
    return at;
}

static uint64_t area_of(int plan)
{
    mdnn_lock(&lock);
    const area_t *const area = *find_area(plan);
    const uint64_t address = area ? area->address : 0;
    mdnn_unlock(&lock);
    return address;
}

/* false: without memory. */
static bool set_area(int plan, uint64_t address)
{
    area_t *made = NULL;
    mdnn_lock(&lock);
    area_t *area = *find_area(plan);
    if (!area && (area = made = malloc(sizeof *made))) {
        made->next = areas;
        made->plan = plan;
        areas = made;
    }
    if (area)
        area->address = address;
    mdnn_unlock(&lock);
    return area != NULL;
}

static void forget_area(int plan)
{
    mdnn_lock(&lock);
    area_t **const at = find_area(plan), *const area = *at;
    if (area)
        *at = area->next;
    mdnn_unlock(&lock);
    free(area);
}

void mdnn_transform_begin(mdnn_indirect_operands_t *operands, int plan, const void *in,
                          const void *out)
{
    *operands = (mdnn_indirect_operands_t){0};
    if (!MDNN_FAULT(TRANSFORMS_NAME_NOTHING)) {
        mdnn_indirect_add(operands, (uintptr_t)in, MDNN_USE_UNKNOWN, NULL);
        mdnn_indirect_add(operands, (uintptr_t)out, MDNN_USE_UNKNOWN, NULL);
    }
    if (!MDNN_FAULT(WORK_AREAS_IGNORED))
        mdnn_indirect_add(operands, area_of(plan), MDNN_USE_UNKNOWN, NULL);
    mdnn_indirect_enter(operands);
}

void mdnn_transform_end(mdnn_indirect_operands_t *operands)
{
    mdnn_indirect_leave(operands);
    mdnn_indirect_clear(operands);
}

int mdnn_hook_cufftSetWorkArea(int (*real)(int, void *), int plan, void *area)
{
    enum { ALLOC_FAILED = 2 };
    const uint64_t before = area_of(plan);
    if (!set_area(plan, (uintptr_t)area))
        return ALLOC_FAILED;
    const int result = real(plan, area);
    if (result != 0)
        (void)set_area(plan, before); /* there is a place for it */
    return result;
}

/* Before the real call, after which another thread may get the number. */
int mdnn_hook_cufftDestroy(int (*real)(int), int plan)
{
    forget_area(plan);
    return real(plan);
}
