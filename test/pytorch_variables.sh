#!/bin/sh
# Under a budget PyTorch is told not to keep freed memory, in the way that is still possible, and never
# against the user. What CUDA programs see is asked by a client that looks up the resolver as the CUDA
# runtime does.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
client=$MDNN_BUILD/test/shim/print_environment
unset PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF PYTORCH_NO_CUDA_MEMORY_CACHING
printf '[memory]\nbudget = 1GiB\n' >"$TMPDIR/budget.ini"

# Prints PyTorch's variables in a program that uses CUDA (or not: no argument) after $settings.
variables() {
    # shellcheck disable=SC2086 # several settings, none with a space
    env $settings LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library" "$client" "$@"
}

are() { # settings, what is expected, client's argument
    settings=$1
    expected=$2
    shift 2
    found=$(variables "$@" 2>"$TMPDIR/said") || { echo 'the client fails'; return 1; }
    [ "$found" = "$expected" ] || { echo "'$found', not '$expected'"; return 1; }
}

silent() { are "$@" && [ ! -s "$TMPDIR/said" ]; }
said_once() { # what, then as for are
    what=$1
    shift
    are "$@" && [ "$(grep -c "$what" "$TMPDIR/said")" -eq 1 ]
}

async=PYTORCH_ALLOC_CONF=backend:cudaMallocAsync
uncached=PYTORCH_NO_CUDA_MEMORY_CACHING=1
budget=MICRODNN_MEMORY_BUDGET=1GiB
file=MICRODNN_CONFIG=$TMPDIR/budget.ini

plan 14
check 'no budget: nothing is set' silent '' '' cuda
check 'a budget in the environment: the asynchronous allocator, from the start' silent "$budget" "$async"
check 'a budget in the environment: nothing more at the first use of CUDA' silent "$budget" "$async" cuda
check 'the budget none: nothing is set' silent MICRODNN_MEMORY_BUDGET=none '' cuda
check 'a budget by its short name: the asynchronous allocator' silent MICRODNN_MEMORY=80% "$async" cuda
check 'the full name of a budget wins' silent 'MICRODNN_MEMORY=1GiB MICRODNN_MEMORY_BUDGET=none' '' cuda
check 'an empty budget: nothing is set' silent MICRODNN_MEMORY_BUDGET= '' cuda
check 'MICRODNN_DISABLE: nothing is set' silent "$budget MICRODNN_DISABLE=1" '' cuda
check 'a budget in a file: nothing before CUDA is used' silent "$file" ''
check 'a budget in a file: no cache, from the first lookup of the resolver' silent "$file" "$uncached" cuda
check "the user's allocator is kept, and that is said" \
    said_once PYTORCH_ALLOC_CONF "$budget PYTORCH_ALLOC_CONF=max_split_size_mb:64" PYTORCH_ALLOC_CONF=max_split_size_mb:64 cuda
check "the user's allocator by its old name is kept, and that is said" \
    said_once PYTORCH_CUDA_ALLOC_CONF "$file PYTORCH_CUDA_ALLOC_CONF=a:b" PYTORCH_CUDA_ALLOC_CONF=a:b cuda
check "the user's choice not to cache is kept" silent "$budget $uncached" "$uncached" cuda
check "the user's asynchronous allocator is kept" silent "$file $async" "$async" cuda
finish
