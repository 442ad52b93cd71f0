/* What the mangled name of a kernel says about its parameters: which of them are tables of pointers in memory, T **,
 * and from which of them the kernel could take the pointers that it writes there. Names of C++ functions carry the
 * types of the parameters (Itanium C++ ABI, 5.1.5.3), names of C functions do not. Pure; thread-safe. */
#ifndef MDNN_KERNEL_SIGNATURE_H
#define MDNN_KERNEL_SIGNATURE_H

#include <stdbool.h>
#include <stdint.h>

enum { MDNN_KERNEL_SIGNATURE_PARAMETERS = 64 };

typedef struct mdnn_kernel_table {
    uint32_t parameter; /* its number, from 0 */
    bool written;       /* the kernel may write it: T **, not T *const * */
    uint64_t values;    /* bit i: parameter i is a T *, which may be written there */
    uint64_t tables; /* bit i: parameter i is another T **, whose pointers may be written there */
} mdnn_kernel_table_t;

typedef struct mdnn_kernel_signature {
    uint32_t count; /* of tables */
    mdnn_kernel_table_t tables[MDNN_KERNEL_SIGNATURE_PARAMETERS];
} mdnn_kernel_signature_t;

/* `parameters`: how many the kernel has. There are no tables if the name says nothing about parameters, or has another
 * number of them. A void * or char * counts as a pointer to any type. */
mdnn_kernel_signature_t mdnn_kernel_signature(const char *name, uint32_t parameters);

#endif
