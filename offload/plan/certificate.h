/* A certificate of a plan: a time that no schedule of the period can beat within the budget (the link bound). */
#ifndef MDNN_CERTIFICATE_H
#define MDNN_CERTIFICATE_H

#include "offload/plan/replay.h"

/* While operation i runs, the bytes beyond the budget are away. Each of them lies in a gap around i (mdnn_gap_t): it
 * crosses the link after the last use before i, and again before the next use after i. Ranges may be cut at will here;
 * x(g) bytes of the range of gap g are away. In an iteration that waits Wb before i and Wa after it, these hold when i
 * begins and when it ends (what is away may change in between):
 *
 *     sum over gaps that begin after a of x(g)   <=  out rate * (time from a to i + Wb)    for each a before i
 *     sum over gaps that end before b of x(g)    <=  in rate * (time from i to b + Wa)     for each b after i
 *
 * This is a flow from operations before i through gaps to operations after it, so it can carry what is needed if and
 * only if each cut can, and a cut is given by one a and one b. That gives a least Wb + Wa without solving anything, and
 *
 *     T  >=  time of the fastest variants + (time of i's variant - that of its fastest) + Wb + Wa
 *
 * for the variant of i that makes this least. A cut that counts only the copies out, or only those in, gives a lower
 * bound of the sum of the waits between a and i, or between i and b; these two operations are its window. The waits of
 * windows that do not overlap add up, so the certificate also looks for the windows, whichever operations i they come
 * from, whose waits add up to most. It looks at up to 64 operations i, where most is missing.
 * It leaves two things out: ranges move as a whole, and copies out of some ranges slow down copies in of others.
 *
 * OUT_OF_MEMORY; INVALID_ARGUMENT for a link without rates. O(operations + 64 gaps) besides the gaps themselves. */
mdnn_status_t mdnn_certificate(const mdnn_period_t *period, const mdnn_link_t *link,
                               uint64_t budget_bytes, double *least_us);

#endif
