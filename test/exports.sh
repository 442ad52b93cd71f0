#!/bin/sh
# Exports, dependencies, symbol versions and the dlsym stub follow their rules in the flavour at hand.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

flavour=${MDNN_BUILD##*/}
[ "$flavour" != build ] || flavour=

plan 1
check 'the library exports, needs and calls only what its rules allow' \
    make --no-print-directory check-exports FLAVOUR="$flavour"
finish
