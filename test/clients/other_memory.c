/* Programs that have device memory in other ways than by cudaMalloc, beside buffers whose content
 * they know. Run by test/other_memory.sh, with and without the library; they know nothing of it.
 *
 *   other_memory KIND SEED
 *
 * KIND: a kind of the list at the end. What is refused as out of memory is tried again later. Prints
 * how many were made and refused. Exit status 0 if all was right. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda.h>

#include "test/clients/check.h"

enum { BUFFERS = 12, OTHERS = 24, STEPS = 120, GRAIN = 2 << 20, PARTS = 3 };

static uint64_t random_state;
static unsigned made, refused;

static uint32_t pick(uint32_t below)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % below);
}

/* Whether it is there; out of memory is no error. */
static bool got(CUresult result)
{
    if (result != CUDA_ERROR_OUT_OF_MEMORY)
        DRIVER(result);
    made += result == CUDA_SUCCESS;
    refused += result == CUDA_ERROR_OUT_OF_MEMORY;
    return result == CUDA_SUCCESS;
}

/* ---- content: one byte, over and over ---- */

static void fill(CUdeviceptr address, size_t bytes, int value)
{
    DRIVER(cuMemsetD8(address, (unsigned char)value, bytes));
}

static void check(CUdeviceptr address, size_t bytes, int value)
{
    static unsigned char host[8 << 20];
    CHECK(bytes <= sizeof host);
    DRIVER(cuMemcpyDtoH(host, address, bytes));
    CHECK(host[0] == (unsigned char)value && memcmp(host, host + 1, bytes - 1) == 0);
}

typedef struct buffer {
    CUdeviceptr address;
    size_t bytes;
    int value;
} buffer_t;

static buffer_t buffers[BUFFERS];

static void use_buffer(buffer_t *buffer)
{
    if (buffer->address && pick(4) == 0) {
        check(buffer->address, buffer->bytes, buffer->value);
        DRIVER(cuMemFree(buffer->address));
        buffer->address = 0;
    } else if (buffer->address) {
        check(buffer->address, buffer->bytes, buffer->value);
        fill(buffer->address, buffer->bytes, buffer->value = (int)pick(256));
    } else {
        buffer->bytes = (1 << 20) + 1 + pick(5 << 20);
        if (cuMemAlloc(&buffer->address, buffer->bytes) != CUDA_SUCCESS)
            buffer->address = 0;
        else
            fill(buffer->address, buffer->bytes, buffer->value = (int)pick(256));
    }
}

/* ---- what else there is ---- */

typedef struct other {
    bool there;
    unsigned number;
    CUdeviceptr address;
    CUmemGenericAllocationHandle handle;
    unsigned handles, mappings; /* to be released, unmapped */
    size_t bytes;
    int value;
    CUarray array;
    CUmipmappedArray mipmap;
    CUgraph graph;
    CUgraphExec executable;
    uint32_t shape;
    bool launched;
} other_t;

typedef struct kind {
    const char *name;
    void (*make)(other_t *other); /* sets `there` if it could */
    void (*use)(other_t *other);
    void (*end)(other_t *other);
    void (*end_all)(void); /* or NULL */
} kind_t;

/* ---- handles and mappings ---- */

static const CUmemAllocationProp on_device = {
    .type = CU_MEM_ALLOCATION_TYPE_PINNED,
    .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
static const CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
                                       .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};

static void map_part(other_t *other)
{
    const CUdeviceptr at = other->address + other->mappings * other->bytes;
    DRIVER(cuMemMap(at, other->bytes, 0, other->handle, 0));
    DRIVER(cuMemSetAccess(at, other->bytes, &access, 1));
    other->mappings++;
}

static void make_handle(other_t *other)
{
    other->bytes = (size_t)GRAIN * (1 + pick(3));
    if (!got(cuMemCreate(&other->handle, other->bytes, &on_device, 0)))
        return;
    other->there = true;
    other->handles = 1;
    other->mappings = 0;
    DRIVER(cuMemAddressReserve(&other->address, PARTS * other->bytes, 0, 0, 0));
    map_part(other);
    fill(other->address, other->bytes, other->value = (int)pick(256));
}

/* The same memory several times, by one handle and by what its addresses say, which works when
 * there is no handle any more. */
static void use_handle(other_t *other)
{
    CUmemGenericAllocationHandle handle;
    check(other->address + pick(other->mappings) * other->bytes, other->bytes, other->value);
    if (other->handles > 0 && other->mappings < PARTS && pick(3) == 0)
        map_part(other);
    if (pick(3) == 0) {
        DRIVER(cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)(other->address + 100)));
        other->handle = handle;
        other->handles++;
    }
    while (other->handles > 0 && pick(3) == 0) {
        DRIVER(cuMemRelease(other->handle));
        other->handles--;
    }
}

static void end_handle(other_t *other)
{
    DRIVER(cuCtxSynchronize()); /* unmapping waits for nothing */
    CHECK(cuMemUnmap(other->address + 1, other->bytes) != CUDA_SUCCESS);
    if (pick(2) == 0)
        for (; other->handles > 0; other->handles--)
            DRIVER(cuMemRelease(other->handle));
    DRIVER(cuMemUnmap(other->address, other->mappings * other->bytes));
    for (; other->handles > 0; other->handles--)
        DRIVER(cuMemRelease(other->handle));
    DRIVER(cuMemAddressFree(other->address, PARTS * other->bytes));
}

/* ---- pools of the program's own ---- */

enum { POOLS = 3 };

typedef struct own_pool {
    CUmemoryPool pool; /* NULL: none, or it was destroyed and has memory still */
    unsigned users;
} own_pool_t;

static own_pool_t own_pools[POOLS];

static bool have_pool(own_pool_t *own)
{
    const CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                                       .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    cuuint64_t threshold = pick(2) ? (uint64_t)pick(3) * GRAIN : UINT64_MAX;
    if (own->pool)
        return true;
    if (own->users > 0)
        return false;
    DRIVER(cuMemPoolCreate(&own->pool, &properties));
    DRIVER(cuMemPoolSetAttribute(own->pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &threshold));
    return true;
}

static void make_pooled(other_t *other)
{
    own_pool_t *const own = &own_pools[other->number % POOLS];
    other->bytes = 1 + pick(5 << 20);
    if (!have_pool(own) ||
        !got(cuMemAllocFromPoolAsync(&other->address, other->bytes, own->pool, NULL)))
        return;
    other->there = true;
    own->users++;
    fill(other->address, other->bytes, other->value = (int)pick(256));
}

static void use_pooled(other_t *other)
{
    own_pool_t *const own = &own_pools[other->number % POOLS];
    check(other->address, other->bytes, other->value);
    if (own->pool && pick(8) == 0)
        DRIVER(cuMemPoolTrimTo(own->pool, pick(8) * (size_t)GRAIN));
    if (own->pool && pick(16) == 0) { /* what is allocated stays */
        DRIVER(cuMemPoolDestroy(own->pool));
        own->pool = NULL;
    }
    if (pick(4) == 0)
        DRIVER(cuCtxSynchronize());
}

static void end_pooled(other_t *other)
{
    if (pick(2) == 0)
        DRIVER(cuMemFreeAsync(other->address, NULL));
    else
        DRIVER(cuMemFree(other->address));
    own_pools[other->number % POOLS].users--;
}

static void end_pools(void)
{
    for (int i = 0; i < POOLS; i++)
        if (own_pools[i].pool)
            DRIVER(cuMemPoolDestroy(own_pools[i].pool));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaStreamSynchronize(NULL));
}

/* ---- arrays ---- */

static void make_array(other_t *other)
{
    const CUDA_ARRAY3D_DESCRIPTOR like = {.Width = 1 + pick(1500),
                                          .Height = pick(1500),
                                          .Depth = 0,
                                          .Format = CU_AD_FORMAT_FLOAT,
                                          .NumChannels = 1 + pick(2)};
    const CUDA_ARRAY_DESCRIPTOR flat = {like.Width, like.Height, like.Format, like.NumChannels};
    other->shape = pick(3);
    other->there = got(other->shape == 0   ? cuArrayCreate(&other->array, &flat)
                       : other->shape == 1 ? cuArray3DCreate(&other->array, &like)
                                           : cuMipmappedArrayCreate(&other->mipmap, &like, 4));
}

static void use_array(other_t *other)
{
    (void)other;
}

static void end_array(other_t *other)
{
    DRIVER(other->shape < 2 ? cuArrayDestroy(other->array)
                            : cuMipmappedArrayDestroy(other->mipmap));
}

/* ---- memory that graphs allocate ---- */

static void make_graph(other_t *other)
{
    CUDA_MEM_ALLOC_NODE_PARAMS how = {
        .poolProps = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                      .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}},
        .bytesize = (1 << 20) + pick(6 << 20)};
    CUgraphNode node;
    CUgraph whole;
    DRIVER(cuGraphCreate(&other->graph, 0));
    DRIVER(cuGraphAddMemAllocNode(&node, other->graph, NULL, 0, &how));
    other->address = how.dptr;
    other->bytes = how.bytesize;
    other->launched = false;
    other->shape = pick(3);
    if (other->shape == 0)
        DRIVER(cuGraphAddMemFreeNode(&node, other->graph, &node, 1, how.dptr));
    if (other->shape == 2) { /* in a child */
        DRIVER(cuGraphCreate(&whole, 0));
        DRIVER(cuGraphAddChildGraphNode(&node, whole, NULL, 0, other->graph));
        DRIVER(cuGraphDestroy(other->graph));
        other->graph = whole;
    }
    DRIVER(cuGraphInstantiate(&other->executable, other->graph, 0));
    other->there = true;
}

/* What is freed by no node is the program's after the launch. */
static void use_graph(other_t *other)
{
    if (other->launched && other->shape > 0)
        return;
    if (!got(cuGraphLaunch(other->executable, NULL)))
        return;
    other->launched = true;
    if (other->shape > 0)
        fill(other->address, other->bytes, other->value = (int)pick(256));
}

static void end_graph(other_t *other)
{
    if (other->launched && other->shape > 0) {
        check(other->address, other->bytes, other->value);
        DRIVER(cuMemFreeAsync(other->address, NULL));
    }
    DRIVER(cuCtxSynchronize());
    DRIVER(cuGraphExecDestroy(other->executable));
    DRIVER(cuGraphDestroy(other->graph));
    DRIVER(cuDeviceGraphMemTrim(0));
}

/* ---- */

static const kind_t kinds[] = {
    {"arrays", make_array, use_array, end_array, NULL},
    {"graphs", make_graph, use_graph, end_graph, NULL},
    {"handles", make_handle, use_handle, end_handle, NULL},
    {"pools", make_pooled, use_pooled, end_pooled, end_pools},
};

static void step(const kind_t *kind, other_t *others)
{
    other_t *const other = &others[pick(OTHERS)];
    use_buffer(&buffers[pick(BUFFERS)]);
    if (!other->there) {
        kind->make(other);
    } else if (pick(3) > 0) {
        kind->use(other);
    } else {
        kind->end(other);
        other->there = false;
    }
}

static void run(const kind_t *kind)
{
    static other_t others[OTHERS];
    CUDA(cudaFree(NULL));
    for (unsigned i = 0; i < OTHERS; i++)
        others[i].number = i;
    for (int i = 0; i < STEPS; i++)
        step(kind, others);
    for (int i = 0; i < OTHERS; i++)
        if (others[i].there)
            kind->end(&others[i]);
    if (kind->end_all)
        kind->end_all();
    for (int i = 0; i < BUFFERS; i++)
        if (buffers[i].address) {
            check(buffers[i].address, buffers[i].bytes, buffers[i].value);
            DRIVER(cuMemFree(buffers[i].address));
        }
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    random_state = strtoull(argv[2], NULL, 10);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, argv[1]) == 0) {
            run(&kinds[i]);
            printf("%u %u\n", made, refused);
            return 0;
        }
    return 2;
}
