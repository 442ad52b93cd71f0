/* Tables of pointers in device memory that kernels write, such as those of MAGMA's batched routines. A kernel that has
 * a table, T **, among its parameters, as its name says (shim/real/kernel_signature.h), may write pointers there: each
 * T * among its other parameters, and those in its other tables of that type. From its launch on, the table counts as
 * holding all of these, beside what it held before (shim/vmem/virtual_pointers.h). It may count as holding too many,
 * never too few. Thread-safe. */
#ifndef MDNN_KERNEL_TABLES_H
#define MDNN_KERNEL_TABLES_H

#include "shim/real/kernel_layout.h"

/* Called after the real launch, with its parameters, before the operation ends. */
void mdnn_kernel_tables_written(const mdnn_kernel_layout_t *layout, void **parameters, void **extra,
                                bool captured);
/* Called before the launch: whether the kernel, as far as its name says, reads a table in which no pointers are
 * known. */
bool mdnn_kernel_tables_unknown(const mdnn_kernel_layout_t *layout, void **parameters,
                                void **extra);

#endif
