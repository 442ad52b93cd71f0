/* Keeps what programs put into descriptors in their shadows (graph_shadow.h). Called by the thread that sets an
 * attribute, after cuDNN has accepted it. */
#ifndef MDNN_SHADOW_ATTRIBUTES_H
#define MDNN_SHADOW_ATTRIBUTES_H

#include <stdbool.h>
#include <stdint.h>

#include <cudnn.h>

/* Whether an attribute belongs to a variant pack. */
bool mdnn_shadow_is_of_pack(cudnnBackendAttributeName_t name);

/* Attributes that the library does not need are ignored. */
void mdnn_shadow_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     int64_t count, const void *elements);

#endif
