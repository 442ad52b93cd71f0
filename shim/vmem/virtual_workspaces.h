/* Which workspaces a budget has room for, beside what their convolutions work on. What a device has
 * learnt of sizes is shim/vmem/workspace_sizes.h. */
#ifndef MDNN_VIRTUAL_WORKSPACES_H
#define MDNN_VIRTUAL_WORKSPACES_H

#include "shim/vmem/virtual_device.h"

/* Entered. A workspace that could be had, but not together with what its convolution works on. */
bool mdnn_virtual_workspace_is_useless(mdnn_virtual_device_t *device, size_t bytes);
/* Entered. An optional one was refused: the next request of this size may be for something else. */
void mdnn_virtual_workspace_refused(mdnn_virtual_device_t *device, size_t bytes);

#endif
