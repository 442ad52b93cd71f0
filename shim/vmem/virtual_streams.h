/* Streams of the program, as numbers of their timelines. */
#ifndef MDNN_VIRTUAL_STREAMS_H
#define MDNN_VIRTUAL_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "config/status.h"

/* As mdnn_timelines_stream, tried twice; the failure is to be taken then. After
 * mdnn_virtual_has_shared. */
mdnn_status_t mdnn_virtual_stream(CUstream stream, bool per_thread, uint64_t *number);

#endif
