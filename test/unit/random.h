/* Random numbers of the unit tests, repeatable from a seed (splitmix64). From a thread's draw random_limit on they are 0:
 * test/unit/each_seed.h finds the fewest random draws with which a test still fails. */
#ifndef MDNN_TEST_RANDOM_H
#define MDNN_TEST_RANDOM_H

#include <stdint.h>

static _Thread_local uint64_t random_drawn;
static uint64_t random_limit = UINT64_MAX;

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return random_drawn++ < random_limit ? z ^ (z >> 31) : 0;
}

#endif
