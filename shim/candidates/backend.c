#include "shim/candidates/backend.h"

cudnnBackendDescriptor_t mdnn_backend_create(const mdnn_cudnn_t *cudnn,
                                             cudnnBackendDescriptorType_t type)
{
    cudnnBackendDescriptor_t made = NULL;
    return cudnn->cudnnBackendCreateDescriptor(type, &made) == CUDNN_STATUS_SUCCESS ? made : NULL;
}

void mdnn_backend_destroy(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t descriptor)
{
    if (descriptor)
        (void)cudnn->cudnnBackendDestroyDescriptor(descriptor);
}

size_t mdnn_backend_create_many(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptorType_t type,
                                cudnnBackendDescriptor_t *made, size_t wanted)
{
    size_t count = 0;
    while (count < wanted && (made[count] = mdnn_backend_create(cudnn, type)) != NULL)
        count++;
    return count;
}

void mdnn_backend_destroy_many(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t *descriptors,
                               size_t count)
{
    for (size_t i = 0; i < count; i++)
        mdnn_backend_destroy(cudnn, descriptors[i]);
}

bool mdnn_backend_get_one(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t from,
                          cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          void *value)
{
    int64_t count = 0;
    return cudnn->cudnnBackendGetAttribute(from, name, type, 1, &count, value) ==
               CUDNN_STATUS_SUCCESS &&
           count == 1;
}

bool mdnn_backend_set_one(const mdnn_cudnn_t *cudnn, cudnnBackendDescriptor_t descriptor,
                          cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                          const void *value)
{
    return cudnn->cudnnBackendSetAttribute(descriptor, name, type, 1, value) ==
           CUDNN_STATUS_SUCCESS;
}
