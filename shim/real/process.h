/* The state of the process that the hooks obey, and the guard against our own and cuDNN's inner
 * calls.
 *
 * Before the first call through a CUDA or cuDNN hook nothing happens: no file is opened, no
 * environment variable except MICRODNN_DISABLE is read, no thread and no exit handler is made
 * (promise P2 of docs/design/README.md). */
#ifndef MDNN_PROCESS_H
#define MDNN_PROCESS_H

#include <stdbool.h>

#include "config/options.h"

typedef enum mdnn_process_state {
    MDNN_PROCESS_NEW,
    MDNN_PROCESS_STARTING, /* a thread is reading the options; calls pass until it is done */
    MDNN_PROCESS_ACTIVE,
    MDNN_PROCESS_DISABLED,
    MDNN_PROCESS_FORKED, /* a child without exec, by fork or by clone, of one that had CUDA, which does not work here */
    MDNN_PROCESS_EXITING /* exit handlers run: the library's have, and CUDA may be gone */
} mdnn_process_state_t;

/* Starts the library at the first call. */
mdnn_process_state_t mdnn_process_state(void);
/* Whether this is a process other than the one that started us, even one that shares its memory (vfork), which the
 * state does not show. Costs a system call. */
bool mdnn_process_is_child(void);
/* Whether exit handlers have shut the driver down: nothing can be done any more, nor need it be. Until then what a
 * program does in exit handlers and destructors goes on as before, without the library's threads. */
bool mdnn_process_is_over(void);
/* True if MICRODNN_DISABLE is set in the environment; looks at nothing else. */
bool mdnn_process_disabled_by_environment(void);

/* Valid once the state is ACTIVE; constant from then on. */
const mdnn_options_t *mdnn_process_options(void);

/* A hook decides only at the outermost call of its thread. False: pass the call on, and do not
 * leave. Every true needs one mdnn_guard_leave. */
bool mdnn_guard_enter(void);
/* Called by every hook that begins to work: notes whether CUDA is initialized. Before that the library has made nothing
 * that a child could not use, and a child starts anew. */
void mdnn_process_see_cuda(void);
void mdnn_guard_leave(void);

/* Between these two calls the thread is not cancelled: a thread that ended while it waits or logs in our code would
 * leave locks taken, and memory in use, for ever. Such pairs nest. Calls that pass are not affected. */
void mdnn_cancel_hold(void);
void mdnn_cancel_allow(void);

#endif
