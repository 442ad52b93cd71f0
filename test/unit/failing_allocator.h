/* For unit tests of the core: allocations that fail on request, and a count of live ones. One
 * program includes it once; the linker routes the core's calls here (--wrap). */
#ifndef MDNN_TEST_FAILING_ALLOCATOR_H
#define MDNN_TEST_FAILING_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>

static _Atomic long fail_allocation_at; /* 0: never; counts down; below 0: always */
static _Atomic long live_allocations;

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_reallocarray(void *memory, size_t count, size_t bytes);
void __real_free(void *memory);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_reallocarray(void *memory, size_t count, size_t bytes);
void __wrap_free(void *memory);

static bool allocation_fails(void)
{
    return fail_allocation_at < 0 || (fail_allocation_at > 0 && --fail_allocation_at == 0);
}

void *__wrap_malloc(size_t bytes)
{
    void *const memory = allocation_fails() ? NULL : __real_malloc(bytes);
    live_allocations += memory != NULL;
    return memory;
}

void *__wrap_calloc(size_t count, size_t bytes)
{
    void *const memory = allocation_fails() ? NULL : __real_calloc(count, bytes);
    live_allocations += memory != NULL;
    return memory;
}

void *__wrap_reallocarray(void *memory, size_t count, size_t bytes)
{
    void *const grown = allocation_fails() ? NULL : __real_reallocarray(memory, count, bytes);
    live_allocations += grown != NULL && memory == NULL;
    return grown;
}

void __wrap_free(void *memory)
{
    live_allocations -= memory != NULL;
    __real_free(memory);
}

#endif
