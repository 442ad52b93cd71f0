/* A thread that maps and unmaps chunks of a device's memory, so that a thread which enqueues work does not wait for the
 * driver. It starts with the first change that it gets, and takes the oldest change first; the chunks of one change are
 * done one after the other. The caller holds the device's lock around every call except stop_all; the thread never
 * takes that lock. */
#ifndef MDNN_DEVICE_REMAPS_H
#define MDNN_DEVICE_REMAPS_H

#include "shim/device/memory_device.h"

typedef struct mdnn_device_remaps mdnn_device_remaps_t;

/* Starts no thread yet. OUT_OF_MEMORY. */
mdnn_status_t mdnn_device_remaps_create(mdnn_device_memory_t *memory,
                                        mdnn_device_remaps_t **remaps);
/* Ends the thread. Accepts NULL. */
void mdnn_device_remaps_destroy(mdnn_device_remaps_t *remaps);
/* Ends the threads of all devices when the process ends; from then on nothing changes in the background. */
void mdnn_device_remaps_stop_all(void);
/* Finishes the changes that are under way, as far as the driver allows, so that the device's table of mappings is
 * complete. */
void mdnn_device_remaps_finish(mdnn_device_remaps_t *remaps);

/* Functions for mdnn_memory_device_t; `context` is the device's memory. */
mdnn_status_t mdnn_device_remap_begin(void *context, const mdnn_remap_t *remap, uint64_t *token);
uint64_t mdnn_device_remap_done(void *context, uint64_t token, bool *over);
mdnn_status_t mdnn_device_remap_end(void *context, uint64_t token, bool all, uint64_t *done);
mdnn_background_t mdnn_device_remap_background(void *context);

#endif
