/* Outcomes of internal functions. 0 is success. Results are stored through the last pointer arguments, which stay
 * untouched on failure. */
#ifndef MDNN_STATUS_H
#define MDNN_STATUS_H

typedef enum mdnn_status {
#define STATUS(name, number, text) MDNN_STATUS_##name = number,
#include "config/status.def"
#undef STATUS
} mdnn_status_t;

/* Never NULL; "unknown status" for a number that is not in the list. */
const char *mdnn_status_string(mdnn_status_t status);

#define MDNN_TRY(expression)                                                                       \
    do {                                                                                           \
        const mdnn_status_t mdnn_try_status_ = (expression);                                       \
        if (mdnn_try_status_ != MDNN_STATUS_OK)                                                    \
            return mdnn_try_status_;                                                               \
    } while (0)

#define MDNN_TRY_GOTO(expression, status, label)                                                   \
    do {                                                                                           \
        (status) = (expression);                                                                   \
        if ((status) != MDNN_STATUS_OK)                                                            \
            goto label;                                                                            \
    } while (0)

#endif
