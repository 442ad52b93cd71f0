/* How structures are checked in debug and sanitizer builds (MDNN_DEBUG). mdnn_X_is_valid checks each rule of a
 * structure and names the first one that does not hold. mdnn_X_check, which is called after a change, then aborts the
 * process; its cost is bounded. Rules catch mistakes of the library only: an error that a program, a file or the driver
 * can cause has a status. */
#ifndef MDNN_RULE_H
#define MDNN_RULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* For functions that have `const char **broken` and return whether the rules hold. */
#define MDNN_RULE(rule)                                                                            \
    do {                                                                                           \
        if (!(rule)) {                                                                             \
            *broken = #rule;                                                                       \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

#ifdef MDNN_DEBUG
/* Writes to standard error which rule is broken, and aborts. */
_Noreturn void mdnn_rule_violated(const char *rule, const char *file, int line);
#endif

/* A check looks at everything in a structure. A small structure is checked after each change, and a large one only
 * after many changes: each change pays for MDNN_RULE_LOOKS looks. All structures of a kind share one pace, which any
 * thread may use. */
enum { MDNN_RULE_LOOKS = 64 };

typedef struct mdnn_rule_pace {
    _Atomic uint64_t paid, cost; /* looks that changes have paid for; that the last check took */
} mdnn_rule_pace_t;

static inline bool mdnn_rule_is_due(mdnn_rule_pace_t *pace)
{
    const uint64_t paid =
        atomic_fetch_add_explicit(&pace->paid, MDNN_RULE_LOOKS, memory_order_relaxed);
    if (paid + MDNN_RULE_LOOKS < atomic_load_explicit(&pace->cost, memory_order_relaxed))
        return false;
    atomic_store_explicit(&pace->paid, 0, memory_order_relaxed);
    return true;
}

static inline void mdnn_rule_took(mdnn_rule_pace_t *pace, uint64_t looks)
{
    atomic_store_explicit(&pace->cost, looks, memory_order_relaxed);
}

#endif
