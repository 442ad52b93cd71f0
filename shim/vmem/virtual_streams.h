/* Streams of the program, as numbers of their timelines. */
#ifndef MDNN_VIRTUAL_STREAMS_H
#define MDNN_VIRTUAL_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "config/status.h"

/* Like mdnn_timelines_stream, but tries twice; if both tries fail, the caller takes the failure. Called after
 * mdnn_virtual_has_shared. */
mdnn_status_t mdnn_virtual_stream(CUstream stream, bool per_thread, uint64_t *number);

#endif
