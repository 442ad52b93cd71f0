/* Calls in another context than the thread's. */
#ifndef MDNN_CONTEXT_CHANGE_H
#define MDNN_CONTEXT_CHANGE_H

#include <stdbool.h>

#include "shim/real/real.h"

/* Makes `context` current if it is not; leave makes the previous one current again. */
typedef struct mdnn_context_change {
    bool pushed;
} mdnn_context_change_t;
mdnn_context_change_t mdnn_context_enter(const mdnn_driver_t *driver, CUcontext context);
void mdnn_context_leave(const mdnn_driver_t *driver, mdnn_context_change_t change);

#endif
