#!/bin/sh
# Rules of the hooks, on libraries that tell which calls were made; the tests are in
# test/clients/hook_rules.c. Arguments name tests.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
LD_LIBRARY_PATH=$MDNN_BUILD/standin
export LD_LIBRARY_PATH
MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 \
    LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so} \
    exec "$MDNN_BUILD/test/clients/hook_rules" "$@"
