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
    MICRODNN_DISABLE=1 "$runner" --cpu "${cpu:-60}" --idle "${idle:-60}" --build "$scratch" "$@" >outcome.txt 2>&1
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
program spins 'echo 1..1; echo "ok 1 - a"; while :; do :; done'
program breeds 'echo 1..1; while :; do sh -c "i=0; while [ \$i -lt 5000 ]; do i=\$((i + 1)); done"; done'
program waits 'echo 1..1; echo "ok 1 - a"; sleep 3600'
program polls 'echo 1..1; echo "ok 1 - a"; exec python3 -c "
import time
while True:
    time.sleep(0.001)"'
program orphans 'echo 1..1; echo "ok 1 - a"; setsid sleep 3600 & echo $! >orphan; sleep 3600'
program takes_three_seconds 'echo 1..1
read -r now rest </proc/uptime
end=$((${now%.*} + 4))
while read -r now rest </proc/uptime && [ "${now%.*}" -lt "$end" ]; do :; done
echo "ok 1 - a"'
program skips 'echo 1..2; echo "ok 1 - a"; echo "not ok 2 # SKIP no GPU"'
program none 'echo "1..0 # SKIP no GPU at all"'
program clean 'env | grep "^MICRODNN_" | grep -vqx -e "MICRODNN_MEMORY_REGISTRY=$TMPDIR" -e MICRODNN_CACHE_FILE=none && exit 1
[ -z "$(ls -A "$XDG_CONFIG_HOME")" ] && [ -d "$TMPDIR" ] && echo 1..1 && echo "ok 1 - $MDNN_BUILD"'

limited() { # CPU seconds, idle seconds, outcome's arguments
    cpu=$1 idle=$2
    shift 2
    outcome "$@"
    limited_result=$?
    unset cpu idle
    return "$limited_result"
}

# What is in other sessions: the kernel shares a CPU among these, whatever they run.
on_a_busy_cpu() { # command...
    free=$(taskset -pc $$ | sed 's/.*: *\([0-9]*\).*/\1/')
    busy=
    for _ in 1 2 3 4 5 6 7 8; do
        setsid taskset -c "$free" sh -c 'while :; do :; done' &
        busy="$busy $!"
    done
    printf '#!/bin/sh\nexec taskset -c %s ./takes_three_seconds\n' "$free" >starved
    chmod +x starved
    "$@" ./starved
    busy_result=$?
    # shellcheck disable=SC2086 # several numbers
    kill $busy
    return "$busy_result"
}

# Nobody may have asked for its status yet.
has_ended() { # file with its number
    ended_pid=$(cat "$1") && [ -n "$ended_pid" ] &&
        ! grep -v '^State:.*zombie' "/proc/$ended_pid/status" 2>/dev/null | grep '^State'
}

status_is() { # status, command...
    status_expected=$1
    shift
    "$@"
    [ $? -eq "$status_expected" ]
}

# Fault points have a build and a target of their own.
every_script_is_run() {
    (cd "$sources" && make --no-print-directory list-tests) >listed.txt || return 1
    (cd "$sources" && find test -name '*.sh' -perm -u+x) | grep -vx test/fault_points.sh >scripts.txt
    [ "$(wc -l <scripts.txt)" -gt 30 ] && ! grep -vxFf listed.txt scripts.txt
}

plan 24
check 'passed tests are counted' outcome 0 '2 passed, 0 failed, 0 skipped' ./good
check 'several groups of one program add up' outcome 0 '2 passed, 0 failed, 0 skipped' ./groups
check 'a failed test fails the run' outcome 1 '3 passed, 1 failed, 0 skipped' ./good ./bad
check 'a failed test is named with its output' shows 'FAILED: b is wrong'
check 'fewer tests than planned is a failure' outcome 1 '1 passed, 1 failed, 0 skipped' ./short
check 'a crash is a failure' outcome 1 '1 passed, 1 failed, 0 skipped' ./crash
check 'a program without a plan is a failure' outcome 1 '0 passed, 1 failed, 0 skipped' ./silent
check 'a bad exit status is a failure' outcome 1 '1 passed, 1 failed, 0 skipped' ./status
check 'a program that computes for ever is ended' limited 0.2 60 1 '1 passed, 1 failed, 0 skipped' ./spins
check 'and named with its limit' shows 'FAILED: was ended: used 0.2 s of CPU time'
check 'the programs that it runs count' limited 0.2 60 1 '0 passed, 1 failed, 0 skipped' ./breeds
check 'a program that waits for ever is ended' limited 60 1 1 '1 passed, 1 failed, 0 skipped' ./waits
check 'and named with its limit' shows 'FAILED: was ended: waited for 1 s while nothing of it could run'
check 'so is one that wakes all the time' limited 60 1 1 '1 passed, 1 failed, 0 skipped' ./polls
check 'and one whose other sessions wait' limited 60 1 1 '1 passed, 1 failed, 0 skipped' ./orphans
check 'they end with it' has_ended orphan
check 'a program that others keep from the CPU is not' \
    on_a_busy_cpu limited 60 1 0 '1 passed, 0 failed, 0 skipped'
check 'a limit for one command gives its status' status_is 4 "$sources/test/limits.py" sh -c 'exit 4'
check 'or 124' status_is 124 "$sources/test/limits.py" --idle 1 sleep 3600
check 'skipped tests are counted apart' outcome 0 '1 passed, 0 failed, 1 skipped' ./skips
check 'the reason of a skip is shown' shows 'skipped: no GPU'
check 'a run that passes nothing fails' outcome 1 '0 passed, 0 failed, 1 skipped' ./none
check 'every test script is run' every_script_is_run
check 'programs see a clean environment' outcome 0 '1 passed, 0 failed, 0 skipped' ./clean
finish
