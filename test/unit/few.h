/* How many seeds a random test takes: in the quick suite a few, in `make test-all` (test/run --thorough) all of them.
 * What a test must have met to mean something it must have met with all seeds only. */
#ifndef MDNN_TEST_FEW_H
#define MDNN_TEST_FEW_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline bool is_thorough(void)
{
    return getenv("MDNN_THOROUGH") != NULL;
}

static inline uint64_t few(uint64_t quick, uint64_t all)
{
    return is_thorough() ? all : quick;
}

#endif
