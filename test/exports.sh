#!/bin/sh
# Exports, dependencies, symbol versions and the dlsym stub follow their rules in the flavour at hand.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

flavour=${MDNN_BUILD##*/}
[ "$flavour" != build ] || flavour=

plan 3
check 'the library exports, needs and calls only what its rules allow' \
    make --no-print-directory check-exports FLAVOUR="$flavour"
if nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null) &&
    "$nvcc" --version | grep -q 'release 13\.0'; then
    check 'the committed PTX is what its source compiles to' \
        make --no-print-directory check-ptx FLAVOUR="$flavour"
else
    skip 'the committed PTX is what its source compiles to' 'no nvcc 13.0, which made it'
fi
name='hooks of cuBLAS, cuSOLVER, cuFFT and NCCL have the parameters that the headers say'
include=$(for each in ${CUDA_HOME:-/usr/local/cuda}/include /usr/local/include /usr/include; do
    [ ! -e "$each/cublas_api.h" ] || { echo "$each"; break; }
done)
if [ -n "$include" ]; then
    check "$name" test/library_prototypes.py "$include"
else
    skip "$name" 'no cublas_api.h'
fi
finish
