/* Statistics of virtual memory as text and as JSON. */
#ifndef MDNN_MEMORY_STATISTICS_PRINT_H
#define MDNN_MEMORY_STATISTICS_PRINT_H

#include <stdio.h>

#include "config/memory_statistics.h"

/* One device. `numbers` may come from a damaged file. Text: some lines; JSON: one object. */
void mdnn_memory_statistics_print_text(const mdnn_memory_statistics_t *numbers, int device,
                                       FILE *out);
void mdnn_memory_statistics_print_json(const mdnn_memory_statistics_t *numbers, int device,
                                       FILE *out);

#endif
