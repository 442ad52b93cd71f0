/* The library serves the devices of a process whose ordinals are below this. CUDA names no limit; machines have up to
 * 16 devices. Calls for devices with a higher ordinal pass untouched. */
#ifndef MDNN_DEVICES_H
#define MDNN_DEVICES_H

enum { MDNN_DEVICES = 64 };

#endif
