/* What the driver says of captures. Thread-safe. */
#ifndef MDNN_CAPTURE_QUERIES_H
#define MDNN_CAPTURE_QUERIES_H

#include <stdbool.h>

#include <cuda.h>

/* The capture that the stream takes part in; false: none, or the driver cannot say. */
bool mdnn_capture_of(CUstream stream, unsigned long long *id);
/* Likewise, and the graph that it makes. */
bool mdnn_capture_asked(CUstream stream, unsigned long long *id, CUgraph *graph);
/* Whether the stream takes part in one, be it invalidated. */
bool mdnn_capture_goes_on(CUstream stream);

#endif
