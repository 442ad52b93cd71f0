/* What the driver reports about captures. Thread-safe. */
#ifndef MDNN_CAPTURE_QUERIES_H
#define MDNN_CAPTURE_QUERIES_H

#include <stdbool.h>

#include <cuda.h>

/* The capture that the stream takes part in; false: none, or the driver cannot say. */
bool mdnn_capture_of(CUstream stream, unsigned long long *id);
/* The same; also sets *graph to the graph that the capture makes. */
bool mdnn_capture_asked(CUstream stream, unsigned long long *id, CUgraph *graph);
/* Whether the stream takes part in a capture, even an invalidated one. */
bool mdnn_capture_goes_on(CUstream stream);

#endif
