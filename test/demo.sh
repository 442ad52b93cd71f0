#!/bin/sh
# What scripts/demo plays once everything is built: both halves, on the simulated GPU.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1
[ "$MDNN_BUILD" = "$PWD/build" ] || skip_all 'the demo plays the build without checks'
said=$TMPDIR/said

says() { # pattern...
    for pattern; do
        grep -qE "$pattern" "$said" || {
            cat "$said"
            return 1
        }
    done
}

plan 4
check 'the demo succeeds' sh -c "MICRODNN_SIM=1 python3 scripts/gpu/demo.py >'$said' 2>&1 || { cat '$said'; exit 1; }"
check 'it shows micro-batches' says '2 x 128|128\+' '^  convolutions 1\.[0-9]+ times as fast, accuracy 9[5-9]'
check 'it shows a training in less memory, with the same bits' says '^GPU memory at most .*MiB.*MiB' '^moved to the host .*[KMG]iB' \
    '^  trained in [0-9.]+ MiB instead of [0-9.]+ MiB, in .* with the same bits$'
check 'it names its report' says '^  made a page .*: build/demo/report.html$|makes a page .*microdnn report build/demo/statistics.json'
finish
