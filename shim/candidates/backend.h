/* Functions that create, read, set and destroy descriptors of cuDNN's backend API with one call each. Any thread may
 * call them. */
#ifndef MDNN_BACKEND_H
#define MDNN_BACKEND_H

#include "shim/real/real.h"

/* NULL if the descriptor cannot be made. */
cudnnBackendDescriptor_t mdnn_backend_create(const mdnn_cudnn_t *cudnn,
                                             cudnnBackendDescriptorType_t type);
void mdnn_backend_destroy(const mdnn_cudnn_t *cudnn,
                          cudnnBackendDescriptor_t descriptor); /* NULL accepted */

/* Makes descriptors of the right type, which Get needs before it can fill them. Returns how many of
 * the wanted ones were made. */
size_t mdnn_backend_create_many(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptorType_t type,
                                cudnnBackendDescriptor_t *made, size_t wanted);
void mdnn_backend_destroy_many(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t *descriptors,
                               size_t count);

/* Reads exactly one element. False, with *value as cuDNN left it, if there is not exactly one. */
bool mdnn_backend_get_one(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t from,
                          cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          void *value);
bool mdnn_backend_set_one(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t descriptor,
                          cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          const void *value);

#endif
