#include "config/fault.h"

#ifdef MDNN_FAULTS

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[] = {
#define FAULT(name, noticed_by, what) #name,
#include "config/fault.def"
#undef FAULT
};

static int named_in_environment(void)
{
    const char *const wanted = getenv("MDNN_FAULT");
    for (int i = 0; wanted && i < MDNN_FAULT_COUNT; i++)
        if (strcmp(names[i], wanted) == 0)
            return i;
    return MDNN_FAULT_COUNT;
}

bool mdnn_fault_is_in(mdnn_fault_t fault)
{
    static atomic_int chosen = -1;
    int now = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (now < 0)
        atomic_store_explicit(&chosen, now = named_in_environment(), memory_order_relaxed);
    return now == (int)fault;
}

#endif
