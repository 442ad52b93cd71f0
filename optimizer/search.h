/* Finds out whether the program searches by itself: PyTorch's benchmark=True makes every plan of a problem, asks for
 * the workspace of each, runs them all and keeps the fastest. Plans that the program runs anyway need not be measured.
 * If a program only seems to search, that is noticed, and the library measures after all. */
#ifndef MDNN_SEARCH_H
#define MDNN_SEARCH_H

#include <stdatomic.h>
#include <stdbool.h>

/* A search runs a plan once to load it and once for its time; what runs again was chosen. */
enum { MDNN_SEARCH_PROBES = 2 };

typedef enum mdnn_search_verdict {
    MDNN_SEARCH_OPEN,
    MDNN_SEARCH_DONE, /* it ran several plans and chose one */
    MDNN_SEARCH_NONE  /* it made several plans, and chose one without trying them */
} mdnn_search_verdict_t;

/* What a program does with one problem. Starts as zeros; any thread may use it. */
typedef struct mdnn_search {
    _Atomic int plans;   /* that it made since it last ran one */
    _Atomic int made;    /* those that it made up to its last run */
    _Atomic int tried;   /* of these, those that it ran */
    _Atomic int verdict; /* mdnn_search_verdict_t */
    _Atomic bool executed;
} mdnn_search_t;

void mdnn_search_met(mdnn_search_t *search); /* another plan of the problem, unlike the others */
/* A plan of the problem runs, for the `run`th time (from 1 on). */
void mdnn_search_ran(mdnn_search_t *search, int run);

/* Whether a plan that is made now is probably part of a search: the program searched recently, and
 * nothing shows that it does not search for this problem. */
bool mdnn_search_goes_on(const mdnn_search_t *search);
/* Whether the program runs plans of the problem that no search chose. */
bool mdnn_search_missed(const mdnn_search_t *search);

#endif
