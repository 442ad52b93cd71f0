/* How many devices of a process we know: by ordinal, below this. CUDA names no limit; machines have up
 * to 16. What has a higher ordinal passes untouched. */
#ifndef MDNN_DEVICES_H
#define MDNN_DEVICES_H

enum { MDNN_DEVICES = 64 };

#endif
