/* Tensor maps: parameters of 128 bytes that have an address in them, not always as a word that a
 * scan finds. Those where it is hidden are remembered by their content. */
#ifndef MDNN_TENSOR_MAPS_H
#define MDNN_TENSOR_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* After a map of `address` was encoded. False without memory: then the map must not be used. */
bool mdnn_tensor_map_remember(const CUtensorMap *map, uint64_t address);
/* The hidden address of the map of these 128 bytes; 0: none is known. A load while there is none at
 * all. */
uint64_t mdnn_tensor_map_address(const void *map);

#endif
