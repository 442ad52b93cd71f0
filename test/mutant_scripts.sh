#!/bin/sh
# The table of mutants follows the sources: each script still changes something. test/mutants.sh runs them.
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

plan 1
check 'every defect can be put back into the library' scripts_of_the_library
finish
