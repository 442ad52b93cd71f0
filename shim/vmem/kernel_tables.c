#include "shim/vmem/kernel_tables.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"
#include "shim/real/host_memory.h"
#include "shim/vmem/launch_scan.h"
#include "shim/vmem/virtual_memory.h"
#include "shim/vmem/virtual_pointers.h"

typedef struct launch {
    const mdnn_kernel_layout_t *layout;
    void **parameters;
    const char *buffer; /* if `parameters` is NULL */
    bool captured;
} launch_t;

/* ---- parameters ---- */

static launch_t launch_of(const mdnn_kernel_layout_t *layout, void **parameters, void **extra,
                          bool captured)
{
    const char *const buffer =
        parameters ? NULL : mdnn_launch_extra(extra, CU_LAUNCH_PARAM_BUFFER_POINTER);
    return (launch_t){layout, parameters, buffer, captured};
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

static void keep_table(mdnn_address_list_t *held, uint64_t table)
{
    if (!mdnn_virtual_owns(table) && mdnn_host_memory_may_hold(table))
        (void)mdnn_pointers_in_host(&table, 1, held);
    mdnn_pointers_reach(table, held);
}

static void table_written(const launch_t *launch, const mdnn_kernel_table_t *table)
{
    const uint64_t at = value_of(launch, table->parameter);
    mdnn_address_list_t held = {0};
    if (!table->written || !mdnn_virtual_owns(at) || MDNN_FAULT(WRITTEN_TABLES_IGNORED))
        return;
    for (uint32_t i = 0; i < launch->layout->count; i++) {
        const uint64_t bit = (uint64_t)1 << i;
        if (table->values & bit)
            mdnn_address_list_add(&held, value_of(launch, i));
        else if (table->tables & bit && !MDNN_FAULT(TABLES_OF_TABLES_IGNORED))
            keep_table(&held, value_of(launch, i));
    }
    mdnn_pointers_may_be_at(at, &held, launch->captured);
    free(held.values);
}

void mdnn_kernel_tables_written(const mdnn_kernel_layout_t *layout, void **parameters, void **extra,
                                bool captured)
{
    const launch_t launch = launch_of(layout, parameters, extra, captured);
    for (uint32_t i = 0; i < layout->table_count; i++)
        table_written(&launch, &layout->tables[i]);
}

/* ---- before a launch ---- */

static bool is_known(uint64_t table)
{
    return table == 0 || mdnn_pointers_are_in(table) ||
           (!mdnn_virtual_owns(table) && mdnn_host_memory_may_hold(table));
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
    const launch_t launch = launch_of(layout, parameters, extra, false);
    for (uint32_t i = 0; i < layout->table_count; i++) {
        const mdnn_kernel_table_t *const table = &layout->tables[i];
        if (!is_known(value_of(&launch, table->parameter)) && !has_sources(&launch, table))
            return true;
    }
    return false;
}
