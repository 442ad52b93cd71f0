/* A device's place among those of all processes that move memory over links to the host: it appears in the registry of
 * the node (config/node/node_devices.h), which says whether its copies are under way (docs/design/ranks.md).
 *
 * The caller holds the device's lock around every call. */
#ifndef MDNN_DEVICE_LINKS_H
#define MDNN_DEVICE_LINKS_H

#include "config/node/node_devices.h"
#include "offload/plan/move_plan.h"
#include "shim/real/real.h"

typedef struct mdnn_device_links mdnn_device_links_t;

/* Adds the device to the registry, with the rates in `alone`. `link`: the name of its link, as the option has it. NULL
 * without a registry, or if it has no room: the device is then taken to be alone. */
mdnn_device_links_t *mdnn_device_links_create(const mdnn_driver_t *driver, CUdevice device,
                                              mdnn_node_registry_t *registry, const char *link,
                                              const mdnn_link_t *alone);
void mdnn_device_links_destroy(mdnn_device_links_t *links); /* leaves the registry; accepts NULL */

/* Says whether copies are under way. Accepts NULL. */
void mdnn_device_links_moves(mdnn_device_links_t *links, bool out, bool in);

/* Returns the ranks for which a plan of this period is made, and the number of this one among them. `budget`: the one
 * that was requested. Other ranks may need a moment until they know what they repeat. With `patient`, which is for a
 * thread that nobody waits for, this function gives them half a second at most, and only as long as they live. Called
 * without the device's lock, by one thread at a time. {0} for NULL. */
mdnn_plan_ranks_t mdnn_device_links_ranks(mdnn_device_links_t *links, mdnn_sharing_t sharing,
                                          const mdnn_period_t *period, uint64_t budget,
                                          bool patient);

#endif
