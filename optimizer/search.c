#include "optimizer/search.h"

/* A program that takes the first plan of the heuristics makes another one only where that fails; some
 * problems have few engines, and the plans of a search may belong to several problems, as their notes
 * differ: a single one without a search proves nothing. */
enum { SEARCHED_PLANS = 3, PATIENCE = 4 };

static _Atomic int patience; /* problems without a search until the program no longer searches */

void mdnn_search_met(mdnn_search_t *search)
{
    const int before = atomic_fetch_add(&search->plans, 1);
    if (before == 0)
        atomic_store(&search->tried, 0);
    if (before + 1 < SEARCHED_PLANS)
        return;
    atomic_store(&search->verdict, MDNN_SEARCH_OPEN);
    atomic_store(&patience, PATIENCE);
}

static void lose_patience(void)
{
    int left = atomic_load(&patience);
    while (left > 0 && !atomic_compare_exchange_weak(&patience, &left, left - 1))
        ;
}

void mdnn_search_ran(mdnn_search_t *search, int run)
{
    const int plans = atomic_exchange(&search->plans, 0);
    if (plans > 0)
        atomic_store(&search->made, plans);
    if (!atomic_exchange(&search->executed, true) && plans < SEARCHED_PLANS)
        lose_patience();
    if (run == 1)
        atomic_fetch_add(&search->tried, 1);
    if (run == MDNN_SEARCH_PROBES + 1 && atomic_load(&search->made) >= SEARCHED_PLANS)
        atomic_store(&search->verdict, atomic_load(&search->tried) >= SEARCHED_PLANS
                                           ? MDNN_SEARCH_DONE
                                           : MDNN_SEARCH_NONE);
}

static bool is_impatient(void)
{
    return atomic_load_explicit(&patience, memory_order_relaxed) == 0;
}

bool mdnn_search_goes_on(const mdnn_search_t *search)
{
    return !is_impatient() &&
           atomic_load_explicit(&search->verdict, memory_order_relaxed) != MDNN_SEARCH_NONE;
}

bool mdnn_search_missed(const mdnn_search_t *search)
{
    const int verdict = atomic_load_explicit(&search->verdict, memory_order_relaxed);
    return verdict == MDNN_SEARCH_NONE || (verdict == MDNN_SEARCH_OPEN && is_impatient());
}
