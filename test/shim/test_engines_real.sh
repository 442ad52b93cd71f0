#!/bin/sh
# test_engines.c against NVIDIA's cuDNN, where it is installed: it plans without a GPU. Of the kept plans
# every twentieth is asked about; `make test-all` asks about all.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/../tap.sh"
# shellcheck source=test/nvidia.sh
. "$(dirname "$0")/../nvidia.sh"

skip_all_without_nvidia
cd "$(dirname "$0")/../.." || exit 1
with_nvidia "$MDNN_BUILD/test/shim/test_engines" "$(few 20 1)"
