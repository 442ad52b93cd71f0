#include "shim/captures.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "shim/real.h"

/* Allocations that live and go together; one for a graph, its clones and executables. */
typedef struct group {
    size_t holders;
    uint64_t *addresses; /* starts of allocations, each once */
    size_t count, capacity;
} group_t;

typedef struct holder {
    mdnn_holder_kind_t kind;
    uint64_t id;
    group_t *group;
} holder_t;

struct mdnn_captures {
    holder_t *holders;
    size_t holder_count, holder_capacity;
};

mdnn_captures_t *mdnn_captures_create(void)
{
    return calloc(1, sizeof(mdnn_captures_t));
}

void mdnn_captures_destroy(mdnn_captures_t *captures)
{
    if (!captures)
        return;
    while (captures->holder_count > 0) {
        const holder_t *const last = &captures->holders[captures->holder_count - 1];
        size_t count;
        free(mdnn_captures_release(captures, last->kind, last->id, &count));
    }
    free(captures->holders);
    free(captures);
}

/* Room for one more item. */
static bool reserve(void **items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return true;
    const size_t grown = *capacity > 0 ? 2 * *capacity : 8;
    void *const moved = realloc(*items, grown * item_bytes);
    if (!moved)
        return false;
    *items = moved;
    *capacity = grown;
    return true;
}

/* ---- holders ---- */

static holder_t *find_holder(const mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id)
{
    for (size_t i = 0; i < captures->holder_count; i++)
        if (captures->holders[i].id == id && captures->holders[i].kind == kind)
            return &captures->holders[i];
    return NULL;
}

static bool add_holder(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                       group_t *group)
{
    void *items = captures->holders;
    if (!reserve(&items, captures->holder_count, &captures->holder_capacity, sizeof(holder_t)))
        return false;
    captures->holders = items;
    captures->holders[captures->holder_count++] = (holder_t){kind, id, group};
    group->holders++;
    return true;
}

static group_t *group_of(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id)
{
    const holder_t *const holder = find_holder(captures, kind, id);
    if (holder)
        return holder->group;
    group_t *const group = calloc(1, sizeof *group);
    if (group && !add_holder(captures, kind, id, group)) {
        free(group);
        return NULL;
    }
    return group;
}

mdnn_status_t mdnn_captures_hold(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                 uint64_t address)
{
    group_t *const group = group_of(captures, kind, id);
    if (!group)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t i = group->count; i-- > 0;) /* named again soon, as a rule */
        if (group->addresses[i] == address)
            return MDNN_STATUS_BUSY;
    void *items = group->addresses;
    if (!reserve(&items, group->count, &group->capacity, sizeof address))
        return MDNN_STATUS_OUT_OF_MEMORY;
    group->addresses = items;
    group->addresses[group->count++] = address;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_captures_share(mdnn_captures_t *captures, mdnn_holder_kind_t from_kind,
                                  uint64_t from, mdnn_holder_kind_t to_kind, uint64_t to)
{
    const holder_t *const holder = find_holder(captures, from_kind, from);
    if (!holder)
        return MDNN_STATUS_OK;
    if (add_holder(captures, to_kind, to, holder->group))
        return MDNN_STATUS_OK;
    holder->group->holders++; /* somebody may use it that we cannot remember */
    return MDNN_STATUS_OUT_OF_MEMORY;
}

const uint64_t *mdnn_captures_held(const mdnn_captures_t *captures, mdnn_holder_kind_t kind,
                                   uint64_t id, size_t *count)
{
    const holder_t *const holder = find_holder(captures, kind, id);
    *count = holder ? holder->group->count : 0;
    return holder ? holder->group->addresses : NULL;
}

uint64_t *mdnn_captures_release(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                size_t *count)
{
    holder_t *const holder = find_holder(captures, kind, id);
    *count = 0;
    if (!holder)
        return NULL;
    group_t *const group = holder->group;
    *holder = captures->holders[--captures->holder_count];
    if (--group->holders > 0)
        return NULL;
    uint64_t *const addresses = group->addresses;
    *count = group->count;
    free(group);
    return addresses;
}

/* ---- the driver's word ---- */

bool mdnn_capture_of(CUstream stream, unsigned long long *id)
{
    /* Looked for here, since old drivers lack it and headers differ. */
    typedef CUresult (*get_info_t)(CUstream, CUstreamCaptureStatus *, cuuint64_t *, CUgraph *,
                                   const CUgraphNode **, size_t *);
    static _Atomic(get_info_t) known;
    get_info_t get = atomic_load_explicit(&known, memory_order_relaxed);
    CUstreamCaptureStatus status;
    cuuint64_t found;
    if (!get) {
        void *const library = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
        void *const symbol =
            library ? mdnn_real_dlsym()(library, "cuStreamGetCaptureInfo_v2") : NULL;
        memcpy(&get, &symbol, sizeof get);
        if (library)
            dlclose(library);
        if (!get)
            (void)dlerror(); /* not the host's */
        else
            atomic_store_explicit(&known, get, memory_order_relaxed);
    }
    if (!get || get(stream, &status, &found, NULL, NULL, NULL) != CUDA_SUCCESS ||
        status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
        return false;
    *id = found;
    return true;
}
