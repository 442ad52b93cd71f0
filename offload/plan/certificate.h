/* A certificate of a plan: a time that no schedule of the period can beat within the budget (the link bound). */
#ifndef MDNN_CERTIFICATE_H
#define MDNN_CERTIFICATE_H

#include "offload/plan/replay.h"

/* While operation i runs, the bytes beyond the budget are away. Each of them lies in a gap around i (mdnn_gap_t). It
 * crosses the link after the last use before i, and again before the next use after i, unless it is padding, which
 * nobody copies. Here ranges may be cut between chunks, and chunks at will; so padding is away only with its chunk. x(g)
 * bytes of the range of gap g are away, and the link carries c(g) for them: the content of the chunks that cost least,
 * and the same share of what it could carry during the latency of a copy as x(g) is of the range, since no range moves
 * without a copy. In an iteration that waits Wb before i and Wa after it, the first line holds when i begins and the
 * second when i ends (what is away may change in between):
 *
 *     sum over gaps that begin after a of c(g)   <=  out rate * (time from a to i + Wb)    for each a before i
 *     sum over gaps that end before b of c(g)    <=  in rate * (time from i to b + Wa)     for each b after i
 *
 * This is a flow from operations before i through gaps to operations after it, so it can carry what is needed if and
 * only if each cut can, and a cut is given by one a and one b. That gives a least Wb + Wa without solving anything, and
 *
 *     T  >=  time of the fastest variants + (time of i's variant - that of its fastest) + Wb + Wa
 *
 * for the variant of i that makes this least. A cut that counts only the copies out, or only those in, gives a lower
 * bound of the sum of the waits between a and i, or between i and b; these two operations are its window. The waits of
 * windows that do not overlap add up, even if the windows belong to different operations i. So the certificate also
 * looks for the set of such windows that has the largest sum of waits. It divides the period into up to 32 parts, and
 * looks in each at the operation i that exceeds the budget by the most bytes. It ignores two facts, each of which can
 * only make an iteration longer: ranges move as a whole, and copies to the host slow down copies to the device.
 *
 * With chunk_bytes 0, ranges move as a whole.
 *
 * OUT_OF_MEMORY; INVALID_ARGUMENT for a link without rates. Time: O(operations + 32 * number of gaps), without the time
 * to find the gaps. */
mdnn_status_t mdnn_certificate(const mdnn_period_t *period, const mdnn_link_t *link,
                               uint64_t budget_bytes, uint64_t chunk_bytes, double *least_us);

/* The link bound: a time that no iteration on the device can beat. A certificate is one only as far as the replay is right,
 * which guesses the latency of copies and runs one operation after the other. So the link bound is the certificate without
 * latency; if operations of several streams take time, it is the time of those of the busiest stream, of the first 64. */
mdnn_status_t mdnn_link_bound(const mdnn_period_t *period, const mdnn_link_t *link,
                              uint64_t budget_bytes, uint64_t chunk_bytes, double *least_us);

#endif
