/* Asks microdnn-ilp from inside a process that is not ours.
 *
 * The program is made a grandchild, whose parent is gone at once and has no signal at its end: a
 * host that ignores SIGCHLD, handles it, or reaps every child notices nothing and takes nothing
 * away. (A host that is process 1 of its container, or a subreaper, becomes its parent as it does
 * of any orphan.) It gets no environment (our library is not preloaded into it), no descriptor of
 * the host's, default signals, and no terminal. Whatever it does, the caller's process goes on: an
 * answer counts only if it is complete and fits the problem. Needs Linux 5.4. */
#ifndef MDNN_ILP_CHILD_H
#define MDNN_ILP_CHILD_H

#include "optimizer/wd.h"

/* Solves with `program` (a path; not looked up) within about time_limit_ms (> 0), and after a grace
 * of MDNN_ILP_GRACE_MS more gives up and kills it. NOT_FOUND: nothing fits the total. IO: cannot
 * be started, or ended without an answer. BUSY: no answer in time. BAD_FORMAT: an answer that is
 * none, or does not fit. OUT_OF_MEMORY, INVALID_ARGUMENT. On failure choices and *result are
 * untouched. Thread-safe. Blocks only the caller. */
enum { MDNN_ILP_GRACE_MS = 500 };
mdnn_status_t mdnn_ilp_ask(const char *program, const mdnn_wd_problem_t *problem,
                           double time_limit_ms, size_t *choices, mdnn_wd_result_t *result);

/* The same, to better a solution that is there: it is replaced only by one that is faster, or as
 * fast and proven where it is not. OK if the program answered, whether or not that changed
 * anything;
 * `*improved` says which. */
mdnn_status_t mdnn_ilp_improve(const char *program, const mdnn_wd_problem_t *problem,
                               double time_limit_ms, size_t *choices, mdnn_wd_result_t *result,
                               bool *improved);

#endif
