#!/bin/sh
# Breaks the library's rules one at a time and shows that a test notices each: config/fault.def lists the fault points and
# what notices them. They are compiled into one build of their own (FLAVOUR=faults); `make test-faults` makes it and
# runs this (TAP).
#
#   test/fault_points.sh                  every fault point
#   MDNN_SHARD=2/8 test/fault_points.sh   the second of eight parts of the list
#   test/fault_points.sh NAME...          these
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1
library=$MDNN_BUILD/libmicrodnn.so
preload=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library

# --- what notices a fault: fails while it is in; what it prints does not matter ---
limited() { # seconds of CPU time and of idleness, command...
    seconds=$1
    shift
    test/limits.py --cpu "$seconds" --idle "$seconds" "$@"
}
unit() { limited 90 env MDNN_THOROUGH=1 "$MDNN_BUILD/test/unit/$1"; }
shim() { limited 90 env LD_LIBRARY_PATH="$MDNN_BUILD/sim" "$MDNN_BUILD/test/shim/$1"; }
driver_hooks() { limited 60 test/driver_hooks.sh; }
hooks() { limited 20 test/hooks.sh "$@"; }
behaviour() { limited 60 test/behaviour.sh "$@"; }
waiting_streams() { test/waiting_streams.sh "$@"; }
magnitudes() { limited 60 test/magnitudes.sh "$@"; }
# Under policy wd: right results, in silence. One order of work may hide a missing wait.
arena() { # program, total
    rm -f "$TMPDIR/arena.log"
    for arena_seed in 1 2 3; do
        limited 60 env MICRODNN_SIM_SEED="$arena_seed" MICRODNN_SIM_PROFILE=toy \
            MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 MICRODNN_CONVOLUTION_POLICY=wd \
            MICRODNN_CONVOLUTION_TOTAL_WORKSPACE="$2" MICRODNN_LOG_FILE="$TMPDIR/arena.log" \
            LD_PRELOAD="$preload" \
            "$MDNN_BUILD/test/clients/arena" "$1" "$2" || return 1
    done
    [ "$1" = captures_in_flight ] || [ ! -s "$TMPDIR/arena.log" ]
}
# Each call of a function of the driver that the library makes for itself fails once, in no program's sight.
every_fault_below() { budget=4MiB every_fault "$@"; } # for one operation
every_fault() { # function
    limited 120 env MICRODNN_SIM_PROFILE=toy MICRODNN_MEMORY_BUDGET="${budget:-6MiB}" MICRODNN_MEMORY_TAIL=no \
        MICRODNN_LOG_FILE="$TMPDIR/every_fault.log" MICRODNN_CONVOLUTION_POLICY=off LD_PRELOAD="$preload" \
            "$MDNN_BUILD/test/clients/every_fault" "$1" >"$TMPDIR/every_fault" &&
        ! grep -v ' 0 times told$' "$TMPDIR/every_fault"
}
# A client under a budget of 48 MiB, with the library's threads; the first says nothing.
budgeted() { budgeted_aloud "$@" && [ ! -s "$TMPDIR/budgeted.log" ]; }
budgeted_aloud() { # client, program
    rm -f "$TMPDIR/budgeted.log"
    limited 60 env MICRODNN_SIM_THREADS=1 MICRODNN_MEMORY_BUDGET=48MiB MICRODNN_MEMORY_TAIL=no \
        MICRODNN_LOG_FILE="$TMPDIR/budgeted.log" MICRODNN_CONVOLUTION_POLICY=off MICRODNN_SIM_UNNAMED=1 \
        MICRODNN_SIM_DEVICES=2 LD_PRELOAD="$preload" \
            "$MDNN_BUILD/test/clients/$1" "$2"
}
ending() { # program: ends with the status of its own
    budgeted_aloud endings "$1"
    [ $? -eq 7 ] && [ ! -s "$TMPDIR/budgeted.log" ]
}
# Programs whose kernels use memory that none of their parameters names.
unnamed() { # client, program
    limited 60 env LD_LIBRARY_PATH="$MDNN_BUILD/test/libraries:$LD_LIBRARY_PATH" MICRODNN_SIM_PROFILE=toy \
        MICRODNN_SIM_UNNAMED=1 MICRODNN_MEMORY_BUDGET=48MiB MICRODNN_CONVOLUTION_POLICY=off \
        MICRODNN_LOG_FILE="$TMPDIR/unnamed.log" LD_PRELOAD="$preload" \
            "$MDNN_BUILD/test/clients/$1" "$2" 1 30
}
# Handles of the program: right within 32 MiB, as test/program_handles.sh says.
program_handles() {
    handles_tail=yes handles_host=1TiB
    [ "$1" != refused ] || handles_tail=no handles_host=256MiB
    for handles_seed in 1 2 3; do
        limited 60 env MICRODNN_SIM_PROFILE=toy MICRODNN_SIM_SEED="$handles_seed" MICRODNN_SIM_LINGER=cuMemRelease \
            MICRODNN_SIM_LIMIT=33554432 MICRODNN_MEMORY_BUDGET=32MiB \
            MICRODNN_MEMORY_TAIL=$handles_tail MICRODNN_MEMORY_HOST_LIMIT=$handles_host MICRODNN_CONVOLUTION_POLICY=off \
            MICRODNN_LOG_FILE="$TMPDIR/program_handles.log" LD_PRELOAD="$preload" \
            "$MDNN_BUILD/test/clients/program_handles" "$1" "$handles_seed" >"$TMPDIR/program_handles" || return 1
    done
}
beside_others() { # the driver needs one of 32 MiB
    limited 60 env MICRODNN_SIM_MEMORY=64MiB MICRODNN_SIM_OTHERS=32MiB MICRODNN_SIM_LIMIT=31MiB \
        MICRODNN_MEMORY_BUDGET=64MiB MICRODNN_CONVOLUTION_POLICY=off LD_PRELOAD="$preload" \
        "$MDNN_BUILD/test/clients/virtual_memory" many_streams 1 $((60 * 1048576))
}
tails() { limited 120 test/tail.sh; }
remake() { limited 120 env MDNN_THOROUGH=1 test/remake.sh; }
drops() { limited 120 test/drops.sh; }
loans() { limited 120 test/loans.sh; }
few_candidates() { limited 120 test/few_candidates.sh; }
memory_tool() { limited 120 sh test/memory_tool.sh; }
library_calls() { unnamed library_calls "$@"; }
pointer_tables() { unnamed pointer_tables "$@"; }
pointer_tables_above_the_budget() {
    MICRODNN_MEMORY_TAIL=yes unnamed pointer_tables above
}
kernel_list() {
    echo follow_table >"$TMPDIR/list"
    MICRODNN_MEMORY_KERNELS=$TMPDIR/list unnamed pointer_tables hidden
}
# Each client finds memory for its convolutions, and computes what it computes alone.
tight_workspaces() { limited 120 test/tight_workspaces.sh; }
tight() { # what, budget
    limited 60 env MICRODNN_SIM_PROFILE=toy MICRODNN_MEMORY_BUDGET="$2" MICRODNN_CONVOLUTION_POLICY=off \
        MICRODNN_MEMORY_TAIL=no MICRODNN_LOG_FILE="$TMPDIR/tight.log" LD_PRELOAD="$preload" \
            "$MDNN_BUILD/test/clients/tight_workspaces" "$1" >"$TMPDIR/tight" 2>&1
}
graph_rules() { limited 60 test/graph_rules.sh "$@"; }
routes() { limited 60 test/routes.sh; }
without_cuda() {
    env -u LD_LIBRARY_PATH LD_PRELOAD="$preload" python3 -c 'import ctypes, sys
sys.exit(hasattr(ctypes.CDLL(None), "cudaMalloc"))'
}
# The matrix up to 127 images.
matrix() {
    [ -e "$TMPDIR/record" ] || "$MDNN_BUILD/test/clients/conv_matrix" record "$TMPDIR/record" || return 1
    limited 60 env MICRODNN_SIM_PROFILE=toy MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 \
        MICRODNN_WORKSPACE_LIMIT=16384 LD_PRELOAD="$preload" \
            "$MDNN_BUILD/test/clients/conv_matrix" check \
        "$TMPDIR/record" 16384 bitwise 127
}

# --- the list ---
points() { # lines of NAME CASE, of those that are asked for
    sed -n 's/^FAULT(\([A-Z0-9_]*\), *"\([^"]*\)".*/\1 \2/p' config/fault.def | while read -r name case; do
        [ -z "$wanted" ] || case " $wanted " in *" $name "*) ;; *) continue ;; esac
        in_shard && echo "$name $case"
    done
}
passes_unharmed() { "$@"; }
notices() { # name, case...
    name=$1
    shift
    # shellcheck disable=SC2030,SC2031 # for what it runs alone
    if (export MDNN_FAULT="$name"; "$@") >"$TMPDIR/said" 2>&1; then
        cat "$TMPDIR/said"
        return 1
    fi
}

wanted=$*
shard_begins
chosen=$(points)
cases=$(echo "$chosen" | cut -d' ' -f2- | sort -u)
plan $(($(echo "$chosen" | wc -l) + $(echo "$cases" | wc -l)))
while read -r case; do
    # shellcheck disable=SC2086 # a function and its arguments
    check "without a fault $case passes" passes_unharmed $case </dev/null
done <<END
$cases
END
while read -r name case; do
    # shellcheck disable=SC2086
    check "$name is noticed by $case" notices "$name" $case </dev/null
done <<END
$chosen
END
finish
