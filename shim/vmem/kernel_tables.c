#include "shim/vmem/kernel_tables.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "shim/real/host_memory.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/virtual_pointers.h"

typedef struct launch {
    const mdnn_kernel_layout_t *layout;
    void **parameters;
    const char *buffer; /* if `parameters` is NULL */
} launch_t;

/* What a table may hold now. */
typedef struct held {
    uint64_t *values;
    size_t count, capacity;
    bool lost;
} held_t;

/* ---- parameters ---- */

static const char *buffer_of(void **extra)
{
    for (size_t i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2)
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            return extra[i + 1];
    return NULL;
}

/* 0: it is no pointer. */
static uint64_t value_of(const launch_t *launch, uint32_t parameter)
{
    const mdnn_kernel_layout_t *const layout = launch->layout;
    uint64_t value = 0;
    const char *const at = launch->parameters ? launch->parameters[parameter]
                           : launch->buffer ? launch->buffer + layout->parameter_offsets[parameter]
                                            : NULL;
    if (at && layout->parameter_bytes[parameter] == sizeof value)
        memcpy(&value, at, sizeof value);
    return value;
}

/* ---- tables ---- */

static void keep(void *context, uint64_t value)
{
    held_t *const held = context;
    if (!mdnn_virtual_owns(value) || (held->count > 0 && held->values[held->count - 1] == value))
        return;
    if (held->count == held->capacity) {
        const size_t capacity = 2 * held->capacity + 16;
        uint64_t *const grown = reallocarray(held->values, capacity, sizeof *grown);
        held->lost = held->lost || !grown;
        if (!grown)
            return;
        held->values = grown;
        held->capacity = capacity;
    }
    held->values[held->count++] = value;
}

static void keep_table(held_t *held, uint64_t table)
{
    if (mdnn_virtual_owns(table))
        held->lost = !mdnn_pointers_visit(table, keep, held) || held->lost;
    else if (mdnn_host_memory_may_hold(table))
        mdnn_host_memory_words(table, MDNN_POINTER_UNREAD_BYTES, keep, held);
}

static void table_written(const launch_t *launch, const mdnn_kernel_table_t *table)
{
    const uint64_t at = value_of(launch, table->parameter);
    held_t held = {0};
    if (!table->written || !mdnn_virtual_owns(at) || MDNN_FAULT(WRITTEN_TABLES_IGNORED))
        return;
    for (uint32_t i = 0; i < launch->layout->count; i++) {
        const uint64_t bit = (uint64_t)1 << i;
        if (table->values & bit)
            keep(&held, value_of(launch, i));
        else if (table->tables & bit && !MDNN_FAULT(TABLES_OF_TABLES_IGNORED))
            keep_table(&held, value_of(launch, i));
    }
    mdnn_pointers_may_be_at(at, held.values, held.count, held.lost);
    free(held.values);
}

void mdnn_kernel_tables_written(const mdnn_kernel_layout_t *layout, void **parameters, void **extra)
{
    const launch_t launch = {layout, parameters, parameters ? NULL : buffer_of(extra)};
    for (uint32_t i = 0; i < layout->signature.count; i++)
        table_written(&launch, &layout->signature.tables[i]);
}

/* ---- before a launch ---- */

static bool is_known(uint64_t table)
{
    return table == 0 || mdnn_host_memory_may_hold(table) || mdnn_pointers_are_in(table);
}

/* Whether the kernel may write the table from its other parameters. */
static bool has_sources(const launch_t *launch, const mdnn_kernel_table_t *table)
{
    for (uint32_t i = 0; table->written && i < launch->layout->count; i++) {
        const uint64_t bit = (uint64_t)1 << i;
        const uint64_t value = (table->values | table->tables) & bit ? value_of(launch, i) : 0;
        if (mdnn_virtual_owns(value) && ((table->values & bit) || is_known(value)))
            return true;
    }
    return false;
}

bool mdnn_kernel_tables_unknown(const mdnn_kernel_layout_t *layout, void **parameters, void **extra)
{
    const launch_t launch = {layout, parameters, parameters ? NULL : buffer_of(extra)};
    for (uint32_t i = 0; i < layout->signature.count; i++) {
        const mdnn_kernel_table_t *const table = &layout->signature.tables[i];
        if (!is_known(value_of(&launch, table->parameter)) && !has_sources(&launch, table))
            return true;
    }
    return false;
}
