#include "config/assertion.h"

#ifdef MDNN_DEBUG

#include <stdio.h>
#include <stdlib.h>

_Noreturn void mdnn_assertion_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "microdnn: %s:%d: does not hold: %s\n", file, line, condition);
    abort();
}

#else

/* ISO C wants something in each file. */
typedef int mdnn_no_assertions_t;

#endif
