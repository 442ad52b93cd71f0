/* Fault points: places where the build for tests of tests (FLAVOUR=faults) can break a rule of the library, so that
 * `make test-faults` can show that a test notices it. config/fault.def lists them. In any other build a fault point is
 * the constant false and costs nothing:
 *
 *     if (index > 0 && !MDNN_FAULT(BETA_NOT_ONE))
 *
 * At most one fault is active: the one that the environment names (MDNN_FAULT=BETA_NOT_ONE). */
#ifndef MDNN_FAULT_H
#define MDNN_FAULT_H

#include <stdbool.h>

typedef enum mdnn_fault {
#define FAULT(name, noticed_by, what) MDNN_FAULT_##name,
#include "config/fault.def"
#undef FAULT
    MDNN_FAULT_COUNT
} mdnn_fault_t;

#ifdef MDNN_FAULTS
enum { MDNN_HAS_FAULTS = 1 };
#else
enum { MDNN_HAS_FAULTS = 0 };
#endif

#define MDNN_FAULT(name) (MDNN_HAS_FAULTS && mdnn_fault_is_in(MDNN_FAULT_##name))

/* May be called by any thread, even before the rest of the library is ready. Exists only if
 * MDNN_HAS_FAULTS is 1. */
bool mdnn_fault_is_in(mdnn_fault_t fault);

#endif
