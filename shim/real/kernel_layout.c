/* A table with open addressing whose slots are written once. A forgotten entry stays where it is
 * and only stops counting, since a reader may be looking at it; if the driver reports the same
 * again, the old entry serves. */
#include "shim/real/kernel_layout.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/lock.h"
#include "shim/real/driver_queries.h"
#include "shim/real/kernel_list.h"
#include "shim/real/operation_key.h"

enum { MOST_PARAMETERS = 4096, FIRST_CAPACITY = 1024 };

typedef struct entry {
    _Atomic uint64_t generation; /* in which the layout was asked for, or confirmed */
    mdnn_kernel_layout_t layout;
    mdnn_kernel_table_t
        tables[]; /* then the sizes of the parameters, their offsets, and the name */
} entry_t;

typedef struct table {
    struct table *older; /* readers may be in there: kept */
    size_t capacity;     /* a power of two */
    size_t used;
    _Atomic(entry_t *) slots[];
} table_t;

static _Atomic(table_t *) table;
static _Atomic uint64_t generation = 1;
static mdnn_lock_t lock = MDNN_LOCK_INIT(LAYOUTS);

static size_t first_slot(const table_t *in, CUfunction function)
{
    const uint64_t bits = (uintptr_t)function;
    return (size_t)((bits >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (in->capacity - 1);
}

/* The newest entry of the handle: later ones are further on. */
static entry_t *find(const table_t *in, CUfunction function)
{
    entry_t *last = NULL;
    if (!in)
        return NULL;
    for (size_t i = first_slot(in, function);; i = (i + 1) & (in->capacity - 1)) {
        entry_t *const entry = atomic_load_explicit(&in->slots[i], memory_order_acquire);
        if (!entry)
            return last;
        if (entry->layout.function == function)
            last = entry;
    }
}

static void put(table_t *into, entry_t *entry)
{
    size_t i = first_slot(into, entry->layout.function);
    while (atomic_load_explicit(&into->slots[i], memory_order_relaxed))
        i = (i + 1) & (into->capacity - 1);
    atomic_store_explicit(&into->slots[i], entry, memory_order_release);
    into->used++;
}

static bool grow(void)
{
    table_t *const old = atomic_load_explicit(&table, memory_order_relaxed);
    if (old && (old->used + 1) * 2 <= old->capacity)
        return true;
    const size_t capacity = old ? old->capacity * 2 : FIRST_CAPACITY;
    table_t *const larger = calloc(1, sizeof *larger + capacity * sizeof *larger->slots);
    if (!larger)
        return false;
    larger->older = old;
    larger->capacity = capacity;
    for (size_t i = 0; old && i < old->capacity; i++) {
        entry_t *const entry = atomic_load_explicit(&old->slots[i], memory_order_relaxed);
        if (entry && find(old, entry->layout.function) == entry)
            put(larger, entry);
    }
    atomic_store_explicit(&table, larger, memory_order_release);
    return true;
}

/* ---- what the driver tells ---- */

/* Each of the two queries refuses the handles of the other kind. */
typedef CUresult (*ask_t)(const mdnn_driver_queries_t *ask, CUfunction function, size_t index,
                          size_t *offset, size_t *bytes);

static CUresult ask_kernel(const mdnn_driver_queries_t *ask, CUfunction function, size_t index,
                           size_t *offset, size_t *bytes)
{
    return ask->cuKernelGetParamInfo
               ? ask->cuKernelGetParamInfo((CUkernel)(void *)function, index, offset, bytes)
               : CUDA_ERROR_NOT_SUPPORTED;
}

static CUresult ask_function(const mdnn_driver_queries_t *ask, CUfunction function, size_t index,
                             size_t *offset, size_t *bytes)
{
    return ask->cuFuncGetParamInfo ? ask->cuFuncGetParamInfo(function, index, offset, bytes)
                                   : CUDA_ERROR_NOT_SUPPORTED;
}

static const char *name_of(const mdnn_driver_queries_t *ask, CUfunction function, bool kernel)
{
    const char *name = NULL;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (kernel && ask->cuKernelGetName)
        result = ask->cuKernelGetName(&name, (CUkernel)(void *)function);
    else if (!kernel && ask->cuFuncGetName)
        result = ask->cuFuncGetName(&name, function);
    return result == CUDA_SUCCESS && name ? name : "";
}

static uint64_t hash_of(const char *text)
{
    uint64_t hash = MDNN_DRIVER_HASH_START;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

/* What is asked of the driver one by one; not on the stack, which may be a small thread's. */
typedef struct parameters {
    uint32_t *sizes, *offsets; /* NULL: host memory is short */
    size_t count, capacity;
} parameters_t;

static bool add_parameter(parameters_t *to, size_t offset, size_t bytes)
{
    if (to->count == to->capacity) {
        const size_t capacity = 2 * to->capacity + 16;
        uint32_t *const sizes = realloc(to->sizes, capacity * sizeof *sizes);
        to->sizes = sizes ? sizes : to->sizes;
        uint32_t *const offsets = realloc(to->offsets, capacity * sizeof *offsets);
        to->offsets = offsets ? offsets : to->offsets;
        if (!sizes || !offsets)
            return false;
        to->capacity = capacity;
    }
    to->sizes[to->count] = (uint32_t)bytes;
    to->offsets[to->count++] = (uint32_t)offset;
    return true;
}

static entry_t *make_entry(CUfunction function, const char *name, const parameters_t *asked,
                           CUresult result)
{
    const size_t count = asked->count;
    const size_t name_bytes = strlen(name) + 1;
    const mdnn_kernel_signature_t signature = mdnn_kernel_signature(name, (uint32_t)count);
    const size_t tables_bytes = signature.count * sizeof *signature.tables;
    entry_t *const entry =
        malloc(sizeof *entry + tables_bytes + 2 * count * sizeof(uint32_t) + name_bytes);
    if (!entry)
        return NULL;
    uint32_t *const parameters = (uint32_t *)(entry->tables + signature.count);
    memcpy(entry->tables, signature.tables, tables_bytes);
    if (count > 0) {
        memcpy(parameters, asked->sizes, count * sizeof *parameters);
        memcpy(parameters + count, asked->offsets, count * sizeof *parameters);
    }
    entry->layout = (mdnn_kernel_layout_t){
        .function = function,
        .name = memcpy(parameters + 2 * count, name, name_bytes),
        .name_hash = hash_of(name),
        .known = result == CUDA_ERROR_INVALID_VALUE, /* no parameter of that number */
        .error = result == CUDA_ERROR_INVALID_VALUE ? CUDA_SUCCESS : result,
        .count = (uint32_t)count,
        .parameter_bytes = parameters,
        .parameter_offsets = parameters + count,
        .table_count = signature.count,
        .tables = entry->tables,
        .listed = mdnn_kernel_list_has(name),
    };
    return entry;
}

static entry_t *ask_driver(CUfunction function)
{
    const mdnn_driver_queries_t *const ask = mdnn_driver_queries();
    parameters_t asked = {0};
    size_t offset = 0, bytes;
    CUresult result = ask_kernel(ask, function, 0, &offset, &bytes);
    const bool kernel = result == CUDA_SUCCESS || result == CUDA_ERROR_INVALID_VALUE;
    const ask_t next = kernel ? ask_kernel : ask_function;
    if (!kernel)
        result = next(ask, function, 0, &offset, &bytes);
    bool noted = true;
    while (result == CUDA_SUCCESS && asked.count < MOST_PARAMETERS &&
           (noted = add_parameter(&asked, offset, bytes)))
        result = next(ask, function, asked.count, &offset, &bytes);
    entry_t *const entry =
        noted ? make_entry(function, name_of(ask, function, kernel), &asked, result) : NULL;
    free(asked.sizes);
    free(asked.offsets);
    return entry;
}

static bool is_same(const mdnn_kernel_layout_t *one, const mdnn_kernel_layout_t *other)
{
    return one->name_hash == other->name_hash && one->known == other->known &&
           one->error == other->error && one->count == other->count &&
           one->listed == other->listed &&
           memcmp(one->parameter_bytes, other->parameter_bytes, /* and the offsets */
                  2 * one->count * sizeof *one->parameter_bytes) == 0;
}

/* The lock is held. */
static const mdnn_kernel_layout_t *add(entry_t *entry, uint64_t asked_in)
{
    entry_t *const known =
        find(atomic_load_explicit(&table, memory_order_relaxed), entry->layout.function);
    if (known && is_same(&known->layout, &entry->layout)) {
        atomic_store_explicit(&known->generation, asked_in, memory_order_release);
        free(entry);
        return &known->layout;
    }
    if (!grow()) {
        free(entry);
        return NULL;
    }
    atomic_store_explicit(&entry->generation, asked_in, memory_order_relaxed);
    put(atomic_load_explicit(&table, memory_order_relaxed), entry);
    return &entry->layout;
}

const mdnn_kernel_layout_t *mdnn_kernel_layout(CUfunction function)
{
    const uint64_t now = atomic_load_explicit(&generation, memory_order_acquire);
    const entry_t *const known = find(atomic_load_explicit(&table, memory_order_acquire), function);
    if (known && atomic_load_explicit(&known->generation, memory_order_acquire) == now)
        return &known->layout;
    entry_t *const entry = ask_driver(function);
    if (!entry)
        return NULL;
    mdnn_lock(&lock);
    const mdnn_kernel_layout_t *const layout = add(entry, now);
    mdnn_unlock(&lock);
    return layout;
}

void mdnn_kernel_layouts_forget(void)
{
    (void)atomic_fetch_add_explicit(&generation, 1, memory_order_acq_rel);
}
