/* Our own kernels (shim/real/kernels.cu), which the library contains as PTX and loads into each context that needs
 * one. */
#ifndef MDNN_KERNELS_H
#define MDNN_KERNELS_H

#include "config/status.h"
#include "shim/real/real.h"

typedef struct mdnn_kernels {
    CUfunction accumulate_bfloat16; /* shim/candidates/accumulate.h */
    /* takes nanoseconds as a uint64_t; one thread that does nothing for that long */
    CUfunction hold;
    /* takes the destination, the source, and a number of 16 bytes as a uint64_t; both are aligned to 16 bytes */
    CUfunction copy;
    /* takes two places in memory, both aligned to 8 bytes, a number of bytes, and the address of two 64-bit counters: adds
     * to the first how many words of 8 bytes differ (those of the end count as one), and to the second how many of
     * them have only bytes that are the same or the complement */
    CUfunction compare;
    /* takes the destination, the source, both aligned to 8 bytes, a number of bytes, and a salt: writes what no byte of the
     * source is; with salt 0 the complement, else bytes at random */
    CUfunction poison;
    /* takes a place in memory, aligned to 8 bytes, a number of bytes, and the address of two 64-bit words: adds the hash
     * of the content to these. A block has a multiple of 32 threads */
    CUfunction hash;
    /* takes the addresses of two hashes; one thread that ends the context with an error unless they are the same */
    CUfunction demand_equal;
} mdnn_kernels_t;

/* The kernels of the current context, which are loaded once per context and live as long as the context. DEVICE if that
 * fails, UNSUPPORTED for too many contexts. Must not run during stream capture. Any thread may call it. */
mdnn_status_t mdnn_kernels_get(const mdnn_kernels_t **kernels);

#endif
