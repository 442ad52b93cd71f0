#!/bin/sh
# Memory of the program's own handles (cuMemCreate) is virtual where it is mapped whole, and the driver's where it is not
# (test/clients/program_handles.c). The simulated GPU ends a program that has more than MICRODNN_SIM_LIMIT bytes.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
handles=$MDNN_BUILD/test/clients/program_handles
most=$((32 * mebibyte))

# right PROGRAM SEEDS [EXPRESSION]: right within the budget, in silence
right() {
    [ "$1" = refused ] || by_itself "$handles" "$1" 1 || return 1
    for seed in $2; do
        MICRODNN_SIM_LIMIT=$most MICRODNN_SIM_SEED=$seed MICRODNN_SIM_THREADS=$((seed % 2)) \
            under $most "$handles" "$1" "$seed" || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and memory['other_bytes'] == 0 and memory['live_bytes'] == 0 and ${3:-True}" ||
            { echo "seed $seed"; cat "$log"; return 1; }
    done
}

above() {
    MICRODNN_MEMORY_TAIL=yes right above "$(few 1 '1 2 3')" "memory['tail_operations'] > 0 and memory['peak_other_bytes'] == 0"
}

many() {
    right many "$(few 1 '1 2 3')" "memory['out_bytes'] > 0 and memory['peak_other_bytes'] == 0 and
        memory['refused'] == 0"
}

expandable() {
    MICRODNN_SIM_PROFILE=toy MICRODNN_MEMORY_HOST_LIMIT=1TiB right expandable "$(few '1 2' '1 2 3 4 5 6')" \
        "memory['peak_other_bytes'] > 0 and memory['refused'] > 0"
}

# What is in an array counts for good, and the line says so.
bound() {
    MICRODNN_SIM_LIMIT=$most under $most "$handles" bound 1 &&
        grep -q 'mapped into an array' "$log" && holds "$in_budget and memory['other_bytes'] > 0 and memory['live_bytes'] == 0" ||
        { cat "$log"; return 1; }
}

peers() {
    MICRODNN_SIM_DEVICES=2 MICRODNN_SIM_PEERS=1 under $most "$handles" peers 1 && said_nothing &&
        holds "memories[0]['peak_resident_bytes'] <= memories[0]['budget_bytes'] and memories[0]['out_bytes'] > 0" ||
        { cat "$log"; return 1; }
}

held() {
    right held "$(few 1 '1 2 3')" && grep -q 'that a CUDA graph has captured cannot be mapped in another way' "$log" ||
        { cat "$log"; return 1; }
}

loses() {
    right reset_all 1 && grep -q 'is reset: the content of .* is lost' "$log" || { cat "$log"; return 1; }
}

# Between the driver's release and the library's there is time for another thread.
retained() {
    MICRODNN_SIM_LINGER=cuMemRelease right retained "$(few 1 '1 2 3')"
}

# After the statistics were written.
ends_right() {
    by_itself "$handles" at_exit 1 && MICRODNN_SIM_LIMIT=$most under $most "$handles" at_exit 1 && said_nothing
}

refused() {
    MICRODNN_MEMORY_TAIL=no MICRODNN_MEMORY_HOST_LIMIT=256MiB right refused 1 "memory['refused'] == 1" &&
        grep -q 'refused: nothing more can leave within the budget' "$log"
}

# The same statuses as without the library.
errors() {
    "$handles" errors 1 >"$TMPDIR/alone" || { cat "$TMPDIR/alone"; return 1; }
    under $most "$handles" errors 1 >"$TMPDIR/with" || { cat "$TMPDIR/with"; return 1; }
    diff "$TMPDIR/alone" "$TMPDIR/with" && said_nothing
}

# Each call of FUNCTION fails once.
faulty() { # function...
    for function; do
        nth=1
        while [ $nth -lt 100 ]; do
            rm -f "$TMPDIR/fired"
            MICRODNN_SIM_FAULTS=$function:$nth:999 MICRODNN_SIM_FAULTS_FIRED=$TMPDIR/fired \
                MICRODNN_SIM_LIMIT=$most under $most "$handles" faulty 1 ||
                { echo "$function, call $nth"; cat "$log"; return 1; }
            [ -s "$TMPDIR/fired" ] || break
            holds "$in_budget and memory['live_bytes'] == 0" || { echo "$function, call $nth"; return 1; }
            nth=$((nth + $(few 12 1)))
        done
    done
}

without_moves() {
    for safety in host verify; do
        MICRODNN_MEMORY_SAFETY=$safety right random "$(few 1 '1 2')" "memory['peak_other_bytes'] > 0" ||
            { echo "$safety"; return 1; }
    done
}

plan 22
check "more memory of handles than the budget holds leaves and returns" many
check "a handle above the budget has a tail" above
check "content outlives its mapping, and addresses outlive their content" right again "$(few 1 '1 2 3')" \
    "memory['peak_other_bytes'] == 0"
check "a handle that is mapped in another way is the driver's, with its content" right parts "$(few 1 '1 2 3')" \
    "memory['peak_other_bytes'] > 0"
check "work that was queued before is in the driver's handle" right early "$(few '1 2 3' '1 2 3 4 5 6 7 8')"
check "what can never be held is refused when it is created" refused
check "wrong calls fail as they do without the library" errors
check "less access than reading and writing is the driver's" right access 1 "memory['peak_other_bytes'] > 0"
check "threads change handles side by side" right threads "$(few '1 2' '1 2 3 4')"
check "parts of a reservation larger than the device are the driver's, and refused by cuMemCreate only" \
    expandable
check "memory that is exported has its content, and counts" right exported "$(few 1 '1 2 3')" \
    "memory['peak_other_bytes'] > 0"
check "so does what is bound to multicast objects, and put into arrays" bound
check "another device works on it" peers
check "a handle is retained beside its last release" retained
check "exit handlers go on with handles" ends_right
check "a graph runs again after its memory was mapped anew" right graph 1
check "what a graph names has no second mapping before the graph is gone" held
check "memory outlives a reset" right reset 1
check "what the budget has no room for is lost, and a line says so" loses
check "random programs with mappings that change are right" right random "$(few '1 2' '1 2 3 4 5 6 7 8 9 10 11 12')" \
    "memory['out_bytes'] > 0"
# shellcheck disable=SC2046 # words
check "a failure of the driver's is told once at most, and no content is lost" faulty \
    $(few cuMemMap 'cuMemMap cuMemCreate cuMemRelease cuMemUnmap cuMemSetAccess
        cuMemAddressReserve cuMemAddressFree cuMemcpyDtoDAsync_v2 cuStreamCreateWithPriority cuStreamSynchronize
        cuEventRecord')
check "with safety = host or verify all of it is the driver's" without_moves
finish
