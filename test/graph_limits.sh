#!/bin/sh
# A program that searches engines by itself, within a limit of its own, on the graph API: the library never
# costs it its best plan, and gives what the program has room for. Times are simulated.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
export MICRODNN_SIM_PROFILE=h200 MICRODNN_SIM_MODE=timing

# Convolution time in microseconds of a network: NET BATCH TYPE LIMIT
convolutions_us() {
    "$MDNN_BUILD/train_cnn" --api graph --net "$1" --batch "$2" --dtype "$3" --workspace-limit "$4" \
        --iterations 2 2>"$TMPDIR/err" |
        sed -n 's/^convolutions \([0-9]*\)\.\([0-9]*\) ms .*/\1\2/p'
}

# faster PERCENT NET BATCH TYPE LIMIT: stock takes at least PERCENT of the time with the library
faster() {
    least=$1
    shift
    stock=$(convolutions_us "$@")
    ours=$(LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library convolutions_us "$@")
    [ -n "$stock" ] && [ -n "$ours" ] && [ $((stock * 100)) -ge $((ours * least)) ] && return
    echo "stock $stock us, with the library $ours us"
    return 1
}

# The same with a limit of the library, which is that of the program.
limited_faster() { MICRODNN_WORKSPACE_LIMIT=$5 faster "$@"; }

plan "$(few 3 8)"
check 'a search within 64 MiB loses nothing (ResNet-18, TF32)' faster 99 resnet18 64 tf32 64MiB
check 'a search without a limit gets legacy algorithms too (AlexNet, fp32)' faster 140 alexnet 64 fp32 none
check 'a limit of ours splits where the search finds nothing (AlexNet, TF32)' limited_faster 200 alexnet 64 tf32 16MiB
if thorough; then
    check 'a search within 64 MiB loses nothing (AlexNet, TF32)' faster 99 alexnet 256 tf32 64MiB
    check 'a search within 64 MiB loses nothing (VGG-16, TF32)' faster 99 vgg16 64 tf32 64MiB
    check 'a search without a limit loses nothing (AlexNet, TF32)' faster 99 alexnet 256 tf32 none
    check 'legacy algorithms for a larger batch (AlexNet, fp32)' faster 140 alexnet 256 fp32 none
    check 'a limit of ours splits a larger batch (AlexNet, TF32)' limited_faster 200 alexnet 256 tf32 64MiB
fi
finish
