/* Whether the program searches by itself: PyTorch's benchmark=True makes every plan of a problem, asks
 * each one's workspace, runs them all and keeps the fastest. What it runs anyway need not be measured
 * before. Whoever only looks like that is found out, and has it measured after all. */
#ifndef MDNN_SEARCH_H
#define MDNN_SEARCH_H

#include <stdatomic.h>
#include <stdbool.h>

/* A search runs a plan once to load it and once for its time; what runs again was chosen. */
enum { MDNN_SEARCH_PROBES = 2 };

typedef enum mdnn_search_verdict {
    MDNN_SEARCH_OPEN,
    MDNN_SEARCH_DONE, /* it ran several plans and chose one */
    MDNN_SEARCH_NONE  /* it made several plans and chose one that way */
} mdnn_search_verdict_t;

/* What a program does with one problem. Zeroed at first; any thread. */
typedef struct mdnn_search {
    _Atomic int plans;   /* that it made since it last ran one */
    _Atomic int made;    /* those before it last ran one */
    _Atomic int tried;   /* of these, those that it ran */
    _Atomic int verdict; /* mdnn_search_verdict_t */
    _Atomic bool executed;
} mdnn_search_t;

void mdnn_search_met(mdnn_search_t *search); /* another plan of the problem, unlike the others */
/* A plan of the problem runs, for the `run`th time (from 1 on). */
void mdnn_search_ran(mdnn_search_t *search, int run);

/* Whether a plan that is made now is likely one of a search: the program searched lately, and did not
 * turn out to do otherwise with this problem. */
bool mdnn_search_goes_on(const mdnn_search_t *search);
/* Whether plans of the problem run that no search chose. */
bool mdnn_search_missed(const mdnn_search_t *search);

#endif
