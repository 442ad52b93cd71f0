#!/bin/sh
# Arrays of pointers in calls of cuBLAS, and transforms of cuFFT, under a budget.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/library_budget.sh
. "$(dirname "$0")/library_budget.sh"

# What a graph of a call may use stays, if that fits: else one line says that it may not be there.
too_much_for_a_graph() {
    under 36MiB "$client" captured 1 "$buffers"
    [ "$(grep -c 'cublasSgemmBatched is captured: its arrays of pointers cannot be read' "$log")" = 1 ]
}

# What a library allocates for itself is virtual where it would take the room that operations need; that is told.
too_much_to_stay() {
    "$client" large_plan 1 "$buffers" && under 48MiB "$client" large_plan 1 "$buffers" &&
        holds "$in_budget and $moved and memory['peak_other_bytes'] == 0 and memory['refused'] == memory['refused_optional']" &&
        [ "$(grep -c "no room for a library's own memory" "$log")" = 1 ] && [ "$(wc -l <"$log")" = 1 ]
}

# Statistics are of the run that was asked about, or there are none.
forgets_the_run_before() {
    under 48MiB true && [ ! -e "$stats" ]
}

read="counters['pointer_arrays_read'] > 0"
unread="counters['pointer_arrays_unread'] > 0 and counters['pointer_arrays_read'] == 0"
plan 12
check "what arrays of pointers lead to is there when the kernel runs" program batches "$moved and $read"
check "no run is taken for the one before" forgets_the_run_before
check "so it is where the program looked the function up" program looked_up "$moved and $read"
check "where all is there, arrays are not read, and what they lead to stays until the kernel has run" \
    program then_short "$moved and $unread"
check "and is not handed on before" program then_freed "$unread"
check "a captured call keeps what its arrays may lead to" program captured "$moved"
check "a graph for which that is too much is told of" too_much_for_a_graph
check "what a library allocates for itself stays, in the budget, before any function of it is known" \
    program plans "$moved and memory['other_bytes'] > 0 and memory['peak_live_bytes'] < 91 << 20"
check "but not where operations then had too little room" too_much_to_stay
check "what a transform reads and writes, and its work area, are there when its kernel runs" \
    program transforms "$moved"
check "so they are in a graph" program captured_transform "$moved"
check "without a budget nothing is looked at" leaves_alone batches
finish
