/* Threads of the library's own. */
#ifndef MDNN_OWN_THREAD_H
#define MDNN_OWN_THREAD_H

#include <pthread.h>
#include <stdbool.h>

/* Starts a thread that receives none of the program's signals, which are meant for the program's threads. `name` (at
 * most 15 letters) is what people see in a debugger. false: none could be started. */
bool mdnn_thread_start(pthread_t *thread, const char *name, void *(*run)(void *), void *argument);

#endif
