/* A list of addresses that grows. It starts as zeros; free `values` in the end. Not thread-safe. */
#ifndef MDNN_ADDRESS_LIST_H
#define MDNN_ADDRESS_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct mdnn_address_list {
    uint64_t *values;
    size_t count, capacity;
    bool lost; /* some are missing, because memory was short */
} mdnn_address_list_t;

/* Takes no lock. */
void mdnn_address_list_add(mdnn_address_list_t *list, uint64_t value);

#endif
