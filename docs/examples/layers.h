/* What each kind of layer does. */
#ifndef TRAIN_CNN_LAYERS_H
#define TRAIN_CNN_LAYERS_H

#include "network.h"

/* Sets the output's n c h w from the inputs', and makes descriptors and buffers other than the
 * output's. `state` is that of the random numbers for the weights. */
void layer_init(network_t *network, layer_t *layer, uint64_t *state);
void layer_fini(network_t *network, layer_t *layer);
void layer_forward(network_t *network, layer_t *layer, bool training);
/* From the output's gradient to those of the inputs and parameters. */
void layer_backward(network_t *network, layer_t *layer);

/* A packed descriptor in the network's layout. */
cudnnTensorDescriptor_t make_descriptor(cudnnDataType_t type, layout_t layout, int n, int c, int h,
                                        int w);
cudnnDataType_t tensor_type(const network_t *network);
size_t element_bytes(cudnnDataType_t type);
size_t tensor_elements(const tensor_t *tensor);

#endif
