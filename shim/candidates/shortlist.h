/* Which legacy algorithms cuDNN itself expects to be fast. */
#ifndef MDNN_SHORTLIST_H
#define MDNN_SHORTLIST_H

#include "shim/candidates/call.h"

/* A bit per algorithm: the first `most` that cudnnGetConvolution...Algorithm_v7 names for a call
 * whose descriptors are set, the first that needs at most `limit_bytes`, and the first that needs
 * no workspace. All bits if cuDNN gives no answer. */
unsigned mdnn_shortlist(const mdnn_call_t *call, int most, uint64_t limit_bytes);
/* Only the first `most` that need at most `limit_bytes`; no bits if there are none. */
unsigned mdnn_shortlist_fitting(const mdnn_call_t *call, int most, uint64_t limit_bytes);

#endif
