#include "shim/interpose/driver.h"

static _Thread_local const void *caller __attribute__((tls_model("initial-exec")));

void mdnn_driver_set_caller(const void *address)
{
    caller = address;
}

const void *mdnn_driver_caller(void)
{
    return caller;
}
