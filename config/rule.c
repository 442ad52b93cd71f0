#include "config/rule.h"

#ifdef MDNN_DEBUG

#include <stdio.h>
#include <stdlib.h>

_Noreturn void mdnn_rule_violated(const char *rule, const char *file, int line)
{
    fprintf(stderr, "microdnn: %s:%d: does not hold: %s\n", file, line, rule);
    abort();
}

#else

/* ISO C wants something in each file. */
typedef mdnn_rule_pace_t mdnn_rules_without_check_t;

#endif
