#include "shim/search.h"

/* A program that takes the first plan of the heuristics makes another one only where that fails; some
 * problems have few engines, so a single one without a search proves nothing. */
enum { SEARCHED_PLANS = 3, PATIENCE = 4 };

static _Atomic int patience; /* problems without a search until the program no longer searches */

void mdnn_search_met(mdnn_search_t *search)
{
    if (atomic_fetch_add(&search->plans, 1) + 1 >= SEARCHED_PLANS &&
        !atomic_load(&search->executed))
        atomic_store(&patience, PATIENCE);
}

void mdnn_search_executed(mdnn_search_t *search)
{
    if (atomic_load_explicit(&search->executed, memory_order_relaxed) ||
        atomic_exchange(&search->executed, true) || atomic_load(&search->plans) >= SEARCHED_PLANS)
        return;
    int left = atomic_load(&patience);
    while (left > 0 && !atomic_compare_exchange_weak(&patience, &left, left - 1))
        ;
}

bool mdnn_search_goes_on(void)
{
    return atomic_load_explicit(&patience, memory_order_relaxed) > 0;
}
