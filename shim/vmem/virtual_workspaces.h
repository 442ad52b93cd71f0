/* Decides for which workspaces a budget has room beside the operands of their convolutions. shim/vmem/workspace_sizes.h
 * keeps the sizes that are known for a device. */
#ifndef MDNN_VIRTUAL_WORKSPACES_H
#define MDNN_VIRTUAL_WORKSPACES_H

#include "shim/vmem/virtual_device.h"

/* Entered. Whether this is a workspace that fits, but not together with the operands of its
 * convolution. */
bool mdnn_virtual_workspace_is_useless(mdnn_virtual_device_t *device, size_t bytes);
/* Entered. Called when an optional workspace was refused: the next request of this size may be for something else. */
void mdnn_virtual_workspace_refused(mdnn_virtual_device_t *device, size_t bytes);

#endif
