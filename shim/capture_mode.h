/* While another thread captures a stream in global mode, calls that might disturb it are forbidden to
 * every thread, and end its capture, unless a thread says that it is no part of that. */
#ifndef MDNN_CAPTURE_MODE_H
#define MDNN_CAPTURE_MODE_H

#include <stdbool.h>

#include "shim/real.h"

/* This thread's mode as it was; false if it could not be changed. */
typedef struct mdnn_capture_mode {
    bool changed;
    CUstreamCaptureMode before;
} mdnn_capture_mode_t;

mdnn_capture_mode_t mdnn_capture_relax(void);
void mdnn_capture_restore(mdnn_capture_mode_t mode);

/* cuEventQuery of an event that no capture recorded. */
CUresult mdnn_event_query(CUevent event);

#endif
