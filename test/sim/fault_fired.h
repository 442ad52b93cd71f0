/* Says which of the faults that were asked for have come, so that a test can tell a program that
 * survived one from a program that never met it: a line NAME:NTH:CODE each in the file
 * MICRODNN_SIM_FAULTS_FIRED. */
#ifndef SIM_FAULT_FIRED_H
#define SIM_FAULT_FIRED_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static inline void sim_fault_fired(const char *name, uint64_t nth, int code)
{
    const char *const path = secure_getenv("MICRODNN_SIM_FAULTS_FIRED");
    FILE *const file = path ? fopen(path, "ae") : NULL;
    if (!file)
        return;
    fprintf(file, "%s:%llu:%d\n", name, (unsigned long long)nth, code);
    fclose(file);
}

#endif
