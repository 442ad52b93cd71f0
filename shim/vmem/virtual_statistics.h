/* The numbers of a device for the statistics (config/memory_statistics.h). */
#ifndef MDNN_VIRTUAL_STATISTICS_H
#define MDNN_VIRTUAL_STATISTICS_H

#include "config/memory_statistics.h"
#include "shim/vmem/virtual_device.h"

/* Locked; the device has memory. */
void mdnn_virtual_fill_statistics(mdnn_virtual_device_t *device, mdnn_memory_statistics_t *numbers);
/* Entered; an operation has ended. Publishes statistics, once in a while. */
void mdnn_virtual_count(mdnn_virtual_device_t *device);
/* For the exit handler, when a stopped thread may hold the lock. false: not known. */
bool mdnn_virtual_statistics_of(int ordinal, mdnn_memory_statistics_t *numbers);

#endif
