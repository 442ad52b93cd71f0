#!/bin/sh
# What a program sees that has the library under it; the tests are in test/clients/behaviour.c.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 \
    LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so} \
    exec "$MDNN_BUILD/test/clients/behaviour" "$@"
