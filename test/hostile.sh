#!/bin/sh
# Random programs that are hard to serve give the same bytes with and without the library, end, and
# stay within their budgets (test/hostile/hostile.h); `make test-hostile` runs as many as one likes.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
here=$(dirname "$0")/hostile
[ -e "$MDNN_BUILD/test/hostile/hostile" ] || skip_all "there is no simulated GPU in this build"
without=$(cat "$here/without" 2>/dev/null)

# A few that are quick.
few_programs=$(few '1004 1012 1024 1058' "$(seq 1000 1059)")
few_above=$(few '1002 1003' "$(seq 1000 1099)")
programs() { # features that they are without, seeds
    all_without=$1
    shift
    "$here/run" --build "$MDNN_BUILD" --jobs 1 --most-failures 3 --without "$all_without" "$@"
}

# A program that is held up for ever, and one whose bytes are wrong, are found.
is_found() { # cause, switch
    said=$(HOSTILE_DEFECT=$2 "$here/run" --build "$MDNN_BUILD" --jobs 1 --no-shrink --asleep 2 1)
    printf '%s\n' "$said" | grep -q "$1" && printf '%s\n' "$said" | tail -n 1 | grep -q '^0 passed, 1 failed$' ||
        { printf '%s\n' "$said"; return 1; }
}

plan $(few 4 5)
! thorough || check "programs that once failed" "$here/run" --build "$MDNN_BUILD" --jobs 1 --seeds "$here/seeds"
# shellcheck disable=SC2086 # words
check "random programs" programs "$without${without:+,}tails" $few_programs
# shellcheck disable=SC2086
check "random programs with operations above the budget" programs "$without" --with tails $few_above
check "a program that hangs is found" is_found hangs hang
check "a program whose bytes differ is found" is_found 'other bytes' bytes
finish
