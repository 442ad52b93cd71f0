/* The real functions behind the entries of shim/interpose/library_hooks.def. A process may have several copies of a
 * library (two CUDA versions, a copy with another name or inside another library), each with handles of its own. A call
 * must reach the copy that it would reach without us. */
#ifndef MDNN_CALLED_FUNCTIONS_H
#define MDNN_CALLED_FUNCTIONS_H

#include <stdbool.h>

#include <cuda.h>

typedef enum mdnn_called_library {
    MDNN_CALLED_CUBLAS,
    MDNN_CALLED_CUSOLVER,
    MDNN_CALLED_CUFFT,
    MDNN_CALLED_NCCL,
    MDNN_CALLED_COUNT
} mdnn_called_library_t;

typedef void (*mdnn_function_t)(void);
typedef int (*mdnn_get_stream_t)(void *handle, CUstream *stream);

/* A real function. Its library is never unloaded. */
typedef struct mdnn_called {
    mdnn_function_t function;     /* NULL: there is no such function */
    mdnn_get_stream_t get_stream; /* of the same copy; NULL: none can be found */
} mdnn_called_t;

/* The real function for a call of `symbol` that the linker bound to our entry. `caller` is the address to which the
 * call returns. `symbol` is a literal and is compared by address. */
mdnn_called_t mdnn_called_by(mdnn_called_library_t library, const char *symbol, const void *caller);
/* The same for a function that a dlsym of the program found. */
mdnn_called_t mdnn_called_found(mdnn_called_library_t library, void *found);

bool mdnn_called_is_library(mdnn_called_library_t library, const char *soname);

#endif
