#!/bin/sh
# The tables of mutants follow the sources: each script still changes something. What the mutants do is
# for `make test-mutants`, which takes long.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

scripts_of_the_library() {
    unchanged=0
    for name in $(test/mutants.sh --list); do
        test/mutants.sh --source "$name" >/dev/null || unchanged=1
    done
    return $unchanged
}
scripts_of_memory() {
    unchanged=$(test/memory_mutants.sh --unchanged)
    [ -z "$unchanged" ] || { echo "$unchanged"; return 1; }
}

plan 2
check 'every defect can be put back into the library' scripts_of_the_library
check 'every rule of virtual memory can be broken' scripts_of_memory
finish
