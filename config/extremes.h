/* The smaller and the larger of two, for the types that sizes, counts and times have here. */
#ifndef MDNN_EXTREMES_H
#define MDNN_EXTREMES_H

#include <stdint.h>

static inline uint64_t mdnn_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static inline uint64_t mdnn_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

#endif
