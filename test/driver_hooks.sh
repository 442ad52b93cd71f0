#!/bin/sh
# The driver's hooks, with a double of virtual memory (test/shim/test_driver_hooks.c) and the runtime
# as a shared library, or linked into the program if the argument says so.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$MDNN_BUILD/doubled/libmicrodnn.so \
    exec "$MDNN_BUILD/test/shim/test_driver_hooks${1:-}"
