/* What is in a slab: slabs.c keeps it right, ranges_check.c says whether it is. */
#ifndef MDNN_SLABS_INTERNAL_H
#define MDNN_SLABS_INTERNAL_H

#include "offload/memory/ranges_internal.h"

struct mdnn_slab {
    unsigned kind;
    uint64_t used;           /* bytes that blocks in use take */
    mdnn_block_t **starting; /* by granule: the block that starts there */
    uint64_t *starts;        /* bits by granule: where one starts; */
    uint64_t *some;          /* and by word of those: where any does */
};

#endif
