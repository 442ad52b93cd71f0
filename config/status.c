/* Texts of the status codes. */
#include "config/status.h"

const char *mdnn_status_string(mdnn_status_t status)
{
    switch (status) {
#define STATUS(name, number, text)                                                                 \
    case MDNN_STATUS_##name:                                                                       \
        return text;
#include "config/status.def"
#undef STATUS
    }
    return "unknown status";
}
