#!/bin/sh
# test_graph_follow.c against NVIDIA's cuDNN, where it is installed: it plans without a GPU.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/../tap.sh"

real=
for folder in ${CUDA_HOME:+"$CUDA_HOME/lib64"} /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu; do
    [ -n "$real" ] || [ ! -e "$folder/libcudnn_engines_precompiled.so.9" ] || real=$folder
done

[ -n "$real" ] || skip_all "NVIDIA's cuDNN is not installed"
[ "${MDNN_BUILD##*/}" != asan ] || skip_all "the real cuDNN does not run under the address sanitizer"
[ "${MDNN_BUILD##*/}" != tsan ] || skip_all "the real cuDNN does not run under the thread sanitizer"

cd "$(dirname "$0")/../.." || exit 1
LD_LIBRARY_PATH=$real:$MDNN_BUILD/sim exec "$MDNN_BUILD/test/shim/test_graph_follow"
