/* Sizes and places of a kernel's parameters, and what its name says about them. The driver is asked once per handle
 * (about 10 us); later look-ups take no lock. */
#ifndef MDNN_KERNEL_LAYOUT_H
#define MDNN_KERNEL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "shim/real/kernel_signature.h"

typedef struct mdnn_kernel_layout {
    CUfunction function;
    const char *name;   /* "" if the driver does not know it; valid until the process ends */
    uint64_t name_hash; /* the same in every run of the program */
    bool known;         /* false: the driver does not report the sizes, */
    CUresult error;     /* for this reason */
    uint32_t count;     /* of parameters */
    const uint32_t *parameter_bytes, *parameter_offsets;
    uint32_t table_count;              /* of tables of pointers among the parameters, */
    const mdnn_kernel_table_t *tables; /* as the kernel's name says */
    bool listed;                       /* in the list of kernels (shim/real/kernel_list.h) */
} mdnn_kernel_layout_t;

/* The layout of a function or kernel handle; NULL without memory. Valid until the process ends.
 * Thread-safe. */
const mdnn_kernel_layout_t *mdnn_kernel_layout(CUfunction function);

/* Called before code is unloaded, since its handles may come back as those of other kernels. */
void mdnn_kernel_layouts_forget(void);

#endif
