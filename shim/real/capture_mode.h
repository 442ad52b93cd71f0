/* While another thread captures a stream in global mode, calls that might disturb it are forbidden to
 * every thread, and end its capture, unless a thread says that it is no part of that. */
#ifndef MDNN_CAPTURE_MODE_H
#define MDNN_CAPTURE_MODE_H

#include <stdbool.h>

#include "shim/real/real.h"

/* Has the functions of shim/real/capture_unsafe.def relax the calling thread's mode for as long as they run, so
 * each call of the driver of our own through this table is no part of anybody's capture. Before the
 * table is published. */
void mdnn_capture_relax_calls(mdnn_driver_t *table);

/* Between these the thread's mode stays relaxed from the first such call on, which saves the later ones
 * the change there and back (0.15 us each on an H200). The program's own calls do not run in between.
 * They nest. */
void mdnn_capture_begin_own(void);
void mdnn_capture_end_own(void);

/* At once, for calls of libraries in between, which call the driver themselves. */
void mdnn_capture_relax(void);
void mdnn_capture_restore(void);

/* Whether the stream is being captured, or that cannot be known. */
bool mdnn_stream_is_capturing(const mdnn_driver_t *driver, CUstream stream);

#endif
