# For tests that also ask NVIDIA's own cuDNN, which plans without a GPU. Sourced after tap.sh.
# shellcheck shell=sh

# Its directory, or nothing where it is not installed.
nvidia_directory() {
    for directory in ${CUDA_HOME:+"$CUDA_HOME/lib64"} /usr/local/cuda/lib64 /usr/lib/x86_64-linux-gnu; do
        [ ! -e "$directory/libcudnn_engines_precompiled.so.9" ] || { echo "$directory"; return; }
    done
}

# with_nvidia COMMAND...: with NVIDIA's cuDNN, and behind it the simulated GPU. cuDNN loads the compiler of
# kernels for every plan and unloads it again, which takes ten times as long as the plan if nobody holds it.
with_nvidia() {
    nvidia_at=$(nvidia_directory)
    LD_PRELOAD=$(echo "$nvidia_at"/libnvrtc.so.[0-9]*) LD_LIBRARY_PATH=$nvidia_at:$MDNN_BUILD/sim "$@"
}

# Ends a script that does nothing else.
skip_all_without_nvidia() {
    [ -n "$(nvidia_directory)" ] || skip_all "NVIDIA's cuDNN is not installed"
    skip_all_under_sanitizers
}

skip_all_under_sanitizers() {
    [ "${MDNN_BUILD##*/}" != asan ] || skip_all "the real cuDNN does not run under the address sanitizer"
    [ "${MDNN_BUILD##*/}" != tsan ] || skip_all "the real cuDNN does not run under the thread sanitizer"
}
