#!/bin/sh
# The runner itself: what it counts as passed, failed and skipped, and what programs see.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
sources=$(cd "$(dirname "$0")/.." && pwd)
runner=$sources/test/run
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1

program() { # name, shell text
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

# Last line and status of a run over the named programs. MICRODNN_DISABLE must not reach them.
outcome() { # status, last line, program...
    expected_status=$1
    expected_line=$2
    shift 2
    MICRODNN_DISABLE=1 "$runner" --timeout 2 --build "$scratch" "$@" >outcome.txt 2>&1
    status=$?
    [ "$status" -eq "$expected_status" ] && [ "$(tail -n 1 outcome.txt)" = "$expected_line" ] &&
        return
    echo "status $status"
    cat outcome.txt
    return 1
}

shows() { grep -q -- "$1" outcome.txt; }

program good 'echo 1..2; echo "ok 1 - a"; echo "ok 2 - b"'
program groups 'echo 1..1; echo "ok 1 - a"; echo "# ok - group"; echo 1..1; echo "ok 1 - b"'
program bad 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 - b is wrong"; echo "# why"; exit 1'
program short 'echo 1..3; echo "ok 1 - a"'
program crash 'echo 1..1; echo "ok 1 - a"; kill -SEGV $$'
program silent 'exit 0'
program status 'echo 1..1; echo "ok 1 - a"; exit 4'
program slow 'echo 1..1; echo "ok 1 - a"; sleep 30'
program skips 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 # SKIP no GPU"'
program none 'echo "1..0 # SKIP no GPU at all"'
program clean 'env | grep -q "^MICRODNN_" && exit 1
[ -z "$(ls -A "$XDG_CONFIG_HOME")" ] && [ -d "$TMPDIR" ] && echo 1..1 && echo "ok 1 - $MDNN_BUILD"'

# Scripts of mutants are a target of their own.
every_script_is_run() {
    (cd "$sources" && make --no-print-directory list-tests) >listed.txt || return 1
    (cd "$sources" && find test -name '*.sh' -perm -u+x) | grep -v 'mutants\.sh$' >scripts.txt
    [ "$(wc -l <scripts.txt)" -gt 30 ] && ! grep -vxFf listed.txt scripts.txt
}

plan 14
check 'passed tests are counted' outcome 0 '2 passed, 0 failed, 0 skipped' ./good
check 'several groups of one program add up' outcome 0 '2 passed, 0 failed, 0 skipped' ./groups
check 'a failed test fails the run' outcome 1 '3 passed, 1 failed, 0 skipped' ./good ./bad
check 'a failed test is named with its output' shows 'FAILED: b is wrong'
check 'fewer tests than planned is a failure' outcome 1 '1 passed, 1 failed, 0 skipped' ./short
check 'a crash is a failure' outcome 1 '1 passed, 1 failed, 0 skipped' ./crash
check 'a program without a plan is a failure' outcome 1 '0 passed, 1 failed, 0 skipped' ./silent
check 'a bad exit status is a failure' outcome 1 '1 passed, 1 failed, 0 skipped' ./status
check 'a program that hangs is a failure' outcome 1 '1 passed, 1 failed, 0 skipped' ./slow
check 'skipped tests are counted apart' outcome 0 '1 passed, 0 failed, 1 skipped' ./skips
check 'the reason of a skip is shown' shows 'skipped: no GPU'
check 'a run that passes nothing fails' outcome 1 '0 passed, 0 failed, 1 skipped' ./none
check 'every test script is run' every_script_is_run
check 'programs see a clean environment' outcome 0 '1 passed, 0 failed, 0 skipped' ./clean
finish
