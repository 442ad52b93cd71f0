/* Whether the program searches by itself: PyTorch's benchmark=True makes every plan of a problem, asks
 * each one's workspace, runs them all and keeps the fastest. What it runs anyway need not be measured
 * before. */
#ifndef MDNN_SEARCH_H
#define MDNN_SEARCH_H

#include <stdatomic.h>
#include <stdbool.h>

/* What a program did with one problem. Zeroed at first; any thread. */
typedef struct mdnn_search {
    _Atomic int plans; /* that it made */
    _Atomic bool executed;
} mdnn_search_t;

void mdnn_search_met(mdnn_search_t *search); /* another plan of the problem */
void mdnn_search_executed(mdnn_search_t *search);

/* The program searched lately. */
bool mdnn_search_goes_on(void);

#endif
