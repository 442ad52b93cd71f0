/* Names of enumerators as plan JSON spells them. */
#ifndef SIM_CUDNN_BACKEND_NAMES_H
#define SIM_CUDNN_BACKEND_NAMES_H

#include <stdint.h>

typedef struct sim_named {
    const char *name; /* NULL ends a list */
    int32_t value;
} sim_named_t;

extern const sim_named_t sim_data_types[], sim_convolution_modes[], sim_pointwise_modes[],
    sim_knobs[];
/* Of sim_node_kind_t. */
extern const sim_named_t sim_operations[];

/* "UNKNOWN" for a value that the list lacks. */
const char *sim_name(const sim_named_t *list, int32_t value);
/* -1 for a name that the list lacks, or NULL. */
int32_t sim_value(const sim_named_t *list, const char *name);

#endif
