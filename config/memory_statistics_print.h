/* Statistics of virtual memory as text and as JSON. */
#ifndef MDNN_MEMORY_STATISTICS_PRINT_H
#define MDNN_MEMORY_STATISTICS_PRINT_H

#include <stdio.h>

#include "config/memory_statistics.h"

/* Print the numbers of one device, which may come from a damaged file: as some lines of text, or as one JSON object. */
void mdnn_memory_statistics_print_text(const mdnn_memory_statistics_t *numbers, int device,
                                       FILE *out);
void mdnn_memory_statistics_print_json(const mdnn_memory_statistics_t *numbers, int device,
                                       FILE *out);

#endif
