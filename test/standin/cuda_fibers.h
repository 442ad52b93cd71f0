/* As much of CUDA C++ as scripts/gpu/packing_kernels.cu needs, on the host: a fiber for each of the 256 threads of a
 * block, and the blocks one after the other. Fibers run in an order that changes, so that a missing barrier shows.
 * Included before the kernels, which then launch them by LAUNCH. */
#ifndef STANDIN_CUDA_FIBERS_H
#define STANDIN_CUDA_FIBERS_H

#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <functional>
#include <vector>

#define __global__
#define __device__
#define __host__
#define __shared__ static
#define LAUNCH(kernel, blocks, stream, ...) fibers::run(blocks, [=] { kernel(__VA_ARGS__); })
#define LAUNCHED() 0

struct uint4 {
    uint32_t x, y, z, w;
};
static struct {
    unsigned x;
} threadIdx, blockIdx;

static uint4 make_uint4(uint32_t x, uint32_t y, uint32_t z, uint32_t w)
{
    return {x, y, z, w};
}

namespace fibers
{
constexpr int COUNT = 256, WARP = 32;
constexpr size_t STACK = 65536;

struct fiber {
    ucontext_t begin;
    jmp_buf point; /* where it goes on */
    bool begun, ended;
};
static fiber each[COUNT];
static jmp_buf scheduler;
static int current;
static std::function<void()> body;

/* Threads that wait for each other, the values they brought, and those of the last meeting. */
struct meeting {
    int arrived;
    unsigned number;
    uint64_t brought[WARP], met[WARP];
};
static meeting block, warps[COUNT / WARP];

static void stop_here(void)
{
    if (!_setjmp(each[current].point))
        _longjmp(scheduler, 1);
}

static void meet(meeting *meeting, int expected)
{
    unsigned number = meeting->number;
    if (++meeting->arrived == expected) {
        memcpy(meeting->met, meeting->brought, sizeof meeting->met);
        meeting->arrived = 0;
        meeting->number++;
    }
    while (meeting->number == number)
        stop_here();
}

static const uint64_t *values_of_warp(uint64_t value)
{
    meeting *warp = &warps[current / WARP];
    warp->brought[current % WARP] = value;
    meet(warp, WARP);
    return warp->met;
}

static void enter(void)
{
    body();
    each[current].ended = true;
    _longjmp(scheduler, 1);
}

static void go_on(int number)
{
    current = number;
    threadIdx.x = (unsigned)number;
    if (_setjmp(scheduler))
        return;
    if (each[number].begun)
        _longjmp(each[number].point, 1);
    each[number].begun = true;
    setcontext(&each[number].begin);
}

static void prepare(std::vector<char> &stacks)
{
    for (int number = 0; number < COUNT; number++) {
        fiber *fiber = &each[number];
        fiber->begun = fiber->ended = false;
        getcontext(&fiber->begin);
        fiber->begin.uc_stack.ss_sp = &stacks[(size_t)number * STACK];
        fiber->begin.uc_stack.ss_size = STACK;
        makecontext(&fiber->begin, enter, 0);
    }
}

/* Each fiber that has not ended once, in some order; whether there was one. */
static bool turn(void)
{
    bool any = false;
    int start = rand() % COUNT, step = 2 * (rand() % COUNT) + 1;
    for (int place = 0; place < COUNT; place++) {
        int number = (start + place * step) % COUNT;
        if (!each[number].ended) {
            go_on(number);
            any = true;
        }
    }
    return any;
}

static void run(unsigned blocks, std::function<void()> kernel)
{
    static std::vector<char> stacks(COUNT * STACK);
    body = kernel;
    for (unsigned number = 0; number < blocks; number++) {
        blockIdx.x = number;
        prepare(stacks);
        while (turn()) {
        }
    }
}
} // namespace fibers

static void __syncthreads(void)
{
    fibers::meet(&fibers::block, fibers::COUNT);
}

static uint32_t __ballot_sync(unsigned, bool value)
{
    const uint64_t *values = fibers::values_of_warp(value);
    uint32_t bits = 0;
    for (int lane = 0; lane < fibers::WARP; lane++)
        bits |= (uint32_t)values[lane] << lane;
    return bits;
}

static uint32_t __shfl_up_sync(unsigned, uint32_t value, int by)
{
    const uint64_t *values = fibers::values_of_warp(value);
    int lane = fibers::current % fibers::WARP;
    return lane >= by ? (uint32_t)values[lane - by] : value;
}

static uint32_t __shfl_sync(unsigned, uint32_t value, int lane)
{
    return (uint32_t)fibers::values_of_warp(value)[lane];
}

static uint32_t __reduce_or_sync(unsigned, uint32_t value)
{
    const uint64_t *values = fibers::values_of_warp(value);
    uint64_t bits = 0;
    for (int lane = 0; lane < fibers::WARP; lane++)
        bits |= values[lane];
    return (uint32_t)bits;
}

static int __popc(uint32_t value)
{
    return __builtin_popcount(value);
}

static int __clz(uint32_t value)
{
    return value ? __builtin_clz(value) : 32;
}

template <class number> static number atomicAdd(number *place, number value)
{
    number before = *place;
    *place += value;
    return before;
}

template <class number> static number atomicMin(number *place, number value)
{
    number before = *place;
    *place = value < before ? value : before;
    return before;
}

#endif
