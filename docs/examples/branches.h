/* The order of work between the lanes of a network whose branches run on lanes of their own
 * (--branch-streams). A lane waits, by events, for what wrote the values or gradients that it reads
 * from another. Gradients that several branches add to are added in the order of one stream, so the
 * results are the same. Each pass begins and ends on lane 0. While algorithms are chosen each layer
 * waits for the one before, since one scratch serves all and nothing may run beside a search.
 *
 * On one lane these functions do nothing but take it into use. */
#ifndef TRAIN_CNN_BRANCHES_H
#define TRAIN_CNN_BRANCHES_H

#include "network.h"

/* Gives connected layers their lanes, and tensors that cross between lanes their events. */
void branches_init(network_t *network);
void branches_fini(network_t *network);

/* Before: take the layer's lane into use and let it wait. After: let others wait for it. */
void branches_before_forward(network_t *network, const layer_t *layer);
void branches_after_forward(network_t *network, const layer_t *layer);
void branches_before_backward(network_t *network, const layer_t *layer);
void branches_after_backward(network_t *network, const layer_t *layer);

/* Lane 0 waits for all others and is taken into use. */
void branches_join(network_t *network);

#endif
