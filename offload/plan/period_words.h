/* The words of a period as text, for the writer and the reader. */
#ifndef MDNN_PERIOD_WORDS_H
#define MDNN_PERIOD_WORDS_H

#include <stdint.h>

#include "offload/plan/period.h"

#define PERIOD_HEAD "microdnn-period 1"

static const char *const kinds[MDNN_OPERATION_KIND_COUNT] = {"other", "forward", "backward_data",
                                                             "backward_filter"};
static const char *const roles[MDNN_USE_ROLE_COUNT] = {"unknown", "read", "write"};
static const uint64_t parts_per_us = 1000000;
static const double most_us = 1e12;

#endif
