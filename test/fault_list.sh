#!/bin/sh
# config/fault.def and what it names. What the faults do is for `make test-faults`.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

names() { sed -n 's/^FAULT(\([A-Z0-9_]*\),.*/\1/p' config/fault.def; }
cases() { sed -n 's/^FAULT([A-Z0-9_]*, "\([a-z_]*\).*/\1/p' config/fault.def; }

points_are_there() {
    names | sort | uniq -d | grep . && return 1
    grep -rhoE 'MDNN_FAULT\([A-Z0-9_]+\)' --include='*.[chS]' config optimizer offload shim |
        sed 's/.*(\(.*\))/\1/' | sort -u >"$TMPDIR/points"
    names | sort >"$TMPDIR/names"
    ! comm -3 "$TMPDIR/names" "$TMPDIR/points" | grep .
}
cases_are_there() {
    [ "$(names | wc -l)" = "$(grep -c '^FAULT(' config/fault.def)" ] && [ "$(names | wc -l)" = "$(cases | wc -l)" ] ||
        return 1
    for case in $(cases | sort -u); do
        grep -q "^$case() {" test/fault_points.sh || { echo "test/fault_points.sh has no $case"; return 1; }
    done
}

plan 2
check 'each fault in the list is a point in the sources' points_are_there
check 'each fault in the list names a case' cases_are_there
finish
