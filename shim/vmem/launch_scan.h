/* The addresses in a kernel's parameters, for launches and for nodes of graphs. */
#ifndef MDNN_LAUNCH_SCAN_H
#define MDNN_LAUNCH_SCAN_H

#include <stdbool.h>

#include "shim/real/kernel_layout.h"

/* What follows the key in a launch's last argument; NULL: the key is not there. */
static inline void *mdnn_launch_extra(void **extra, const void *key)
{
    while (extra && *extra != CU_LAUNCH_PARAM_END && *extra != key)
        extra += 2;
    return extra && *extra == key ? extra[1] : NULL;
}

typedef void (*mdnn_launch_visit_t)(void *context, uint64_t address);

/* Calls `visit` for each word at a multiple of four bytes that is one of our addresses or may be one of the program's
 * pinned memory (shim/real/host_memory.h), and for addresses that tensor maps hide. False if the kernel's parameters
 * are not known. */
bool mdnn_launch_scan(const mdnn_kernel_layout_t *layout, void **parameters, void **extra,
                      mdnn_launch_visit_t visit, void *context);

#endif
