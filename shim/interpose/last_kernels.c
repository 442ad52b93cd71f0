#include "shim/interpose/last_kernels.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "config/log.h"

enum { COUNT = 4, MOST_CHARACTERS = 80 };

static _Atomic(const char *) names[COUNT];
static _Atomic unsigned added;

void mdnn_last_kernels_add(const char *name)
{
    const unsigned place = atomic_fetch_add_explicit(&added, 1, memory_order_relaxed) % COUNT;
    atomic_store_explicit(&names[place], name, memory_order_relaxed);
}

/* The function's name without types; the latest comes first. */
static void list_names(char *text, size_t bytes)
{
    const unsigned end = atomic_load(&added);
    size_t used = 0;
    text[0] = '\0';
    for (unsigned i = 1; i <= COUNT && i <= end; i++) {
        const char *const name = atomic_load(&names[(end - i) % COUNT]);
        char *const readable = name ? cplus_demangle_v3(name, DMGL_NO_OPTS) : NULL;
        if (name && name[0] && used < bytes)
            used += (size_t)snprintf(text + used, bytes - used, "%s%.*s", used > 0 ? ", " : "",
                                     (int)MOST_CHARACTERS, readable ? readable : name);
        free(readable);
    }
}

void mdnn_last_kernels_say(void)
{
    char text[COUNT * (MOST_CHARACTERS + 2) + 1];
    list_names(text, sizeof text);
    MDNN_LOG_ONCE(MDNN_LOG_ERROR, "memory",
                  "the device reports an illegal access. If the program is right without "
                  "microdnn, a kernel used memory that nothing named; the last ones, latest first: "
                  "%s. `microdnn verify` finds the kernel, and then safety = auto serves it; "
                  "safety = host serves any",
                  text[0] ? text : "unknown");
}
