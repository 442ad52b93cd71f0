/* What the loader loaded before this library. Symbols are bound to the first object that defines them: where CUDA comes
 * first, its functions are called directly, without the library, and where another copy of the library comes first,
 * that one is called. Reads the loader's list; opens nothing. Thread-safe. */
#ifndef MDNN_LOAD_ORDER_H
#define MDNN_LOAD_ORDER_H

#include <stdbool.h>
#include <stddef.h>

enum { MDNN_LOAD_ORDER_BYTES = 1024 };

typedef struct mdnn_load_order {
    char cuda
        [MDNN_LOAD_ORDER_BYTES]; /* the first library of CUDA or cuDNN before this one; "": none */
    char copy[MDNN_LOAD_ORDER_BYTES]; /* another copy of this library; "": none */
    bool copy_is_first;
} mdnn_load_order_t;

void mdnn_load_order_look(mdnn_load_order_t *order);

#endif
