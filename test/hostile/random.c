/* Numbers from a seed: splitmix64, Steele 2014. */
#include "test/hostile/hostile.h"

static uint64_t next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9E3779B97F4A7C15));
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

draw_t draw_of(uint64_t seed, uint64_t a, uint64_t b, uint64_t c)
{
    draw_t d = {seed};
    d.state = next(&d.state) ^ a;
    d.state = next(&d.state) ^ b;
    d.state = next(&d.state) ^ c;
    return d;
}

uint32_t draw(draw_t *d, uint32_t count)
{
    return (uint32_t)((next(&d->state) >> 32) * count >> 32);
}

bool chance(draw_t *d, uint32_t percent)
{
    return draw(d, 100) < percent;
}
