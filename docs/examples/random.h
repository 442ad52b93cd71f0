/* Random numbers that are the same everywhere (splitmix64, Steele, Lea and Flood 2014). */
#ifndef TRAIN_CNN_RANDOM_H
#define TRAIN_CNN_RANDOM_H

#include <stdint.h>

static inline uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += 0x9e3779b97f4a7c15u);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Even in [-bound, bound). */
static inline float random_uniform(uint64_t *state, float bound)
{
    return bound * ((float)(random_next(state) >> 40) * 0x1p-23f - 1.0f);
}

/* Even in 0 .. count-1; the bias of the remainder is below 2^-32 here. */
static inline int random_below(uint64_t *state, int count)
{
    return (int)((random_next(state) >> 32) % (uint64_t)count);
}

/* Puts count numbers in random order (Fisher and Yates). */
static inline void random_shuffle(uint64_t *state, int *numbers, int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = random_below(state, i + 1);
        int kept = numbers[i];
        numbers[i] = numbers[j];
        numbers[j] = kept;
    }
}

#endif
