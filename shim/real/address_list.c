#include "shim/real/address_list.h"

#include <stdlib.h>

void mdnn_address_list_add(mdnn_address_list_t *list, uint64_t value)
{
    if (list->count == list->capacity) {
        const size_t capacity = 2 * list->capacity + 16;
        uint64_t *const grown = reallocarray(list->values, capacity, sizeof *grown);
        list->lost = list->lost || !grown;
        if (!grown)
            return;
        list->values = grown;
        list->capacity = capacity;
    }
    list->values[list->count++] = value;
}
