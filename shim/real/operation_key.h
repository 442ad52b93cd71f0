/* Keys of operations. The same call with other addresses has the same key. */
#ifndef MDNN_OPERATION_KEY_H
#define MDNN_OPERATION_KEY_H

#include <stdint.h>

/* FNV-1a. */
static inline uint64_t mdnn_driver_hash(uint64_t hash, uint64_t value)
{
    for (int shift = 0; shift < 64; shift += 8)
        hash = (hash ^ ((value >> shift) & 0xff)) * UINT64_C(0x100000001b3);
    return hash;
}
#define MDNN_DRIVER_HASH_START UINT64_C(0xcbf29ce484222325)

#endif
