#!/bin/sh
# Convolutions that take the GPU less time than their launch takes the host are measured as the GPU runs
# them. Times are simulated: a launch takes the host 2.5 us, the shortest kernel the GPU 2.0.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
log=$TMPDIR/log
export MICRODNN_SIM_PROFILE=h200 MICRODNN_SIM_MODE=timing

# least API [VARIABLE=VALUE...]: sets least, tenths of microseconds of the fastest candidate of a small
# network's first layers
least() {
    least_api=$1
    shift
    env MICRODNN_LOG=debug LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" "$@" \
        "$MDNN_BUILD/train_cnn" --net lenet --batch 4 --api "$least_api" --iterations 1 >"$TMPDIR/out" 2>"$log" ||
        { cat "$log"; return 1; }
    least=$(sed -n 's/.*direction 0, 4 images, .* 0*0\.0*\([0-9]*\) ms, took.*/\1/p' "$log" | sort -n | head -n 1)
    echo "$least tenths of a microsecond"
    [ -n "$least" ]
}

the_gpu_is_timed() { least "$1" && [ "$least" -ge 20 ] && [ "$least" -le 22 ]; }

# The kernel that holds the stream cannot be loaded: it is said once, and timing goes on.
the_host_is_timed() {
    never=$(seq -f 'cuModuleLoadData:%g:209' -s , 60)
    least "$1" MICRODNN_SIM_FAULTS="$never" && [ "$least" -ge 24 ] && [ "$least" -le 26 ] &&
        [ "$(grep -c 'kernel that holds a stream does not run' "$log")" = 1 ] && grep -q ' plan: ' "$log"
}

plan 4
for api in legacy graph; do
    check "a call that is shorter than its launch takes its time on the GPU ($api)" the_gpu_is_timed $api
    check "without a stream that can be held, it takes that of its launch ($api)" the_host_is_timed $api
done
finish
