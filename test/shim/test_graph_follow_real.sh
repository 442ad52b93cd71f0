#!/bin/sh
# test_graph_follow.c against NVIDIA's cuDNN, where it is installed: it plans without a GPU.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/../tap.sh"
# shellcheck source=test/nvidia.sh
. "$(dirname "$0")/../nvidia.sh"

skip_all_without_nvidia
cd "$(dirname "$0")/../.." || exit 1
with_nvidia "$MDNN_BUILD/test/shim/test_graph_follow"
