/* Faults that calls of the driver are to have: by MICRODNN_SIM_FAULTS, or asked for by a test. */
#include "test/sim/engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/fault_fired.h"

enum { MAX_FAULTS = 64 };

typedef struct fault {
    char name[64];
    uint64_t nth;
    uint64_t countdown; /* 1: the next call; 0: spent */
    CUresult code;
} fault_t;

static fault_t faults[MAX_FAULTS];
static size_t fault_count;
static uint64_t fired;
static const char *slow; /* NULL: none */

void sim_inject(const char *name, uint64_t nth, CUresult code)
{
    size_t i = 0;
    while (i < fault_count && faults[i].countdown > 0)
        i++;
    if (i == MAX_FAULTS)
        sim_panic("too many faults to inject");
    fault_count += i == fault_count;
    faults[i] = (fault_t){.nth = nth, .countdown = nth, .code = code};
    snprintf(faults[i].name, sizeof faults[i].name, "%s", name);
}

void sim_read_faults(void)
{
    const char *text = getenv("MICRODNN_SIM_FAULTS");
    slow = getenv("MICRODNN_SIM_LINGER");
    while (text && *text) {
        fault_t fault = {0};
        unsigned long long nth;
        int code, length = 0;
        if (sscanf(text, "%63[^:]:%llu:%d%n", fault.name, &nth, &code, &length) == 3)
            sim_inject(fault.name, nth, (CUresult)code);
        else
            fprintf(stderr, "simulated GPU: MICRODNN_SIM_FAULTS: cannot read \"%s\"\n", text);
        text += length;
        text = *text == ',' ? text + 1 : NULL;
    }
}

CUresult sim_fault(const char *name)
{
    CUresult code = CUDA_SUCCESS;
    for (size_t i = 0; i < fault_count; i++) {
        fault_t *const fault = &faults[i];
        if (fault->countdown == 0 || strcmp(fault->name, name) || --fault->countdown > 0)
            continue;
        code = fault->code;
        fired++;
        sim_fault_fired(name, fault->nth, code);
    }
    return code;
}

bool sim_lingers(const char *name)
{
    return slow && strcmp(slow, name) == 0;
}

uint64_t sim_faults_fired(void)
{
    return fired;
}
