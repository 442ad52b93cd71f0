/* Tensor maps are parameters of 128 bytes that contain an address, not always as a word that a scan
 * finds. Maps that hide their address are remembered by their content. */
#ifndef MDNN_TENSOR_MAPS_H
#define MDNN_TENSOR_MAPS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

/* Called after a map of `address` was encoded. False if memory is short; the map must not be used
 * then. */
bool mdnn_tensor_map_remember(const CUtensorMap *map, uint64_t address);
/* The hidden address in the map of 128 bytes at `map`; 0: none is known. Costs one load while no such map exists. */
uint64_t mdnn_tensor_map_address(const void *map);

#endif
