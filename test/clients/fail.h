/* A check that fails a test of a client: false is returned, after the line and what did not hold as
 * a comment of TAP. */
#ifndef MDNN_TEST_CLIENT_FAIL_H
#define MDNN_TEST_CLIENT_FAIL_H

#include <stdbool.h>
#include <stdio.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("# line %d: %s\n", __LINE__, #condition);                                       \
            return false;                                                                          \
        }                                                                                          \
    } while (0)

#endif
