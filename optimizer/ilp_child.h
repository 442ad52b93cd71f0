/* Runs microdnn-ilp from inside a program that must not notice it.
 *
 * microdnn-ilp runs as a grandchild whose parent ends immediately without a signal. A program that ignores SIGCHLD,
 * handles it, or reaps every child therefore notices nothing and cannot take its status away. (A program that is
 * process 1 of its container, or a subreaper, becomes its parent, as it does for any orphan.) microdnn-ilp gets no
 * environment (so our library is not preloaded into it), no descriptor of the program, default signals, and no
 * terminal. Whatever it does, the caller's process goes on: an answer counts only if it is complete and fits the
 * problem. Needs Linux 5.4. */
#ifndef MDNN_ILP_CHILD_H
#define MDNN_ILP_CHILD_H

#include "optimizer/wd.h"

/* Solves with `program` (a path, which is not searched for) within about time_limit_ms (> 0).
 * MDNN_ILP_GRACE_MS after that time it gives up and kills the program. NOT_FOUND: nothing fits the
 * total. IO: the program could not be started, or ended without an answer. BUSY: no answer in time.
 * BAD_FORMAT: the answer is malformed or does not fit the problem. OUT_OF_MEMORY, INVALID_ARGUMENT.
 * On failure choices and *result are untouched. Thread-safe. Blocks only the caller. */
enum { MDNN_ILP_GRACE_MS = 500 };
mdnn_status_t mdnn_ilp_ask(const char *program, const mdnn_wd_problem_t *problem,
                           double time_limit_ms, size_t *choices, mdnn_wd_result_t *result);

/* The same, to improve a given solution: it is replaced only by a faster one, or by one that is as
 * fast and proven if it is not. OK if the program answered, whether or not that changed anything;
 * `*improved` says which. */
mdnn_status_t mdnn_ilp_improve(const char *program, const mdnn_wd_problem_t *problem,
                               double time_limit_ms, size_t *choices, mdnn_wd_result_t *result,
                               bool *improved);

#endif
