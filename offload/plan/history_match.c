/* Uses of one operation in two iterations, of which some are none: the common subsequence that is worth most. Sizes
 * must be equal. First uses, whose places are certain, count most; a first use and a later one are a pair only if there
 * is no better match (a range that always lives had its first use once). */
#include "offload/plan/history_internal.h"

enum { SHORT = 16, SAME_SIZE = 1, BOTH_LATER = 2, BOTH_FIRST = 4 };

static uint8_t worth(uint64_t a, uint64_t b)
{
    if (a >> 1 != b >> 1)
        return 0;
    return a != b ? SAME_SIZE : a & 1 ? BOTH_FIRST : BOTH_LATER;
}

static void match_from_front(const uint64_t *a, uint32_t a_count, const uint64_t *b,
                             uint32_t b_count, uint32_t *match)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < a_count; i++) {
        uint32_t at = next;
        while (at < b_count && worth(a[i], b[at]) == 0)
            at++;
        match[i] = at;
        if (at < b_count)
            next = at + 1;
    }
}

void history_match(const uint64_t *a, uint32_t a_count, const uint64_t *b, uint32_t b_count,
                   uint32_t *match)
{
    uint8_t most[SHORT + 1][SHORT + 1] = {{0}}; /* of what is behind i and j */
    bool same = a_count == b_count;
    for (uint32_t i = 0; same && i < a_count; i++)
        same = a[i] == b[i];
    if (same || a_count > SHORT || b_count > SHORT) {
        match_from_front(a, a_count, b, b_count, match);
        return;
    }
    for (uint32_t i = a_count; i-- > 0;)
        for (uint32_t j = b_count; j-- > 0;) {
            const uint8_t skip = most[i + 1][j] > most[i][j + 1] ? most[i + 1][j] : most[i][j + 1];
            const uint8_t own = worth(a[i], b[j]);
            const uint8_t pair = own > 0 ? (uint8_t)(most[i + 1][j + 1] + own) : 0;
            most[i][j] = pair > skip ? pair : skip;
        }
    for (uint32_t i = 0, j = 0; i < a_count; i++) {
        while (j < b_count && most[i][j] == most[i][j + 1] && most[i][j] > most[i + 1][j])
            j++;
        const uint8_t own = j < b_count ? worth(a[i], b[j]) : 0;
        const bool paired = own > 0 && most[i][j] == most[i + 1][j + 1] + own;
        match[i] = paired ? j : b_count;
        j += paired;
    }
}
