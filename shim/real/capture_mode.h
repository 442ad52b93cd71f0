/* While a thread captures a stream in global mode, calls that might disturb the capture are
 * forbidden to every thread and end the capture, unless the calling thread declares that it does
 * not take part. */
#ifndef MDNN_CAPTURE_MODE_H
#define MDNN_CAPTURE_MODE_H

#include <stdbool.h>

#include "shim/real/real.h"

/* Makes the functions of shim/real/capture_unsafe.def relax the calling thread's mode while they run, so that our own
 * driver calls through this table take part in no capture. Called before the table is published. */
void mdnn_capture_relax_calls(mdnn_driver_t *table);

/* Between these two calls the thread's mode stays relaxed from the first such driver call on, so that later calls need
 * not change it and change it back (0.15 us each on an H200). The program's own calls do not run in between. Such pairs
 * nest. */
void mdnn_capture_begin_own(void);
void mdnn_capture_end_own(void);

/* Relaxes the mode immediately, for calls of libraries that call the driver themselves. */
void mdnn_capture_relax(void);
void mdnn_capture_restore(void);

/* Whether the stream is being captured, or whether that is not known. */
bool mdnn_stream_is_capturing(const mdnn_driver_t *driver, CUstream stream);

#endif
