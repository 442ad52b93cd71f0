#!/bin/sh
# Arrays of pointers in calls of cuBLAS, under a budget.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/library_budget.sh
. "$(dirname "$0")/library_budget.sh"

# What a graph of a call may use stays, if that fits: else one line says that it may not be there.
too_much_for_a_graph() {
    under 36MiB "$client" captured 1 "$buffers"
    [ "$(grep -c 'cublasSgemmBatched is captured: its arrays of pointers cannot be read' "$log")" = 1 ]
}

# Statistics are of the run that was asked about, or there are none.
forgets_the_run_before() {
    under 48MiB true && [ ! -e "$stats" ]
}

read="counters['pointer_arrays_read'] > 0"
unread="counters['pointer_arrays_unread'] > 0 and counters['pointer_arrays_read'] == 0"
plan 8
check "what arrays of pointers lead to is there when the kernel runs" program batches "$moved and $read"
check "no run is taken for the one before" forgets_the_run_before
check "so it is where the program looked the function up" program looked_up "$moved and $read"
check "where all is there, arrays are not read, and what they lead to stays until the kernel has run" \
    program then_short "$moved and $unread"
check "and is not handed on before" program then_freed "$unread"
check "a captured call keeps what its arrays may lead to" program captured "$moved"
check "a graph for which that is too much is told of" too_much_for_a_graph
check "without a budget nothing is looked at" leaves_alone batches
finish
