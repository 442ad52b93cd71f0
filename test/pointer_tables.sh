#!/bin/sh
# Pointers that copies bring to device memory, under a budget: what they lead to is there when a kernel follows them
# (test/clients/pointer_tables.c).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/library_budget.sh
. "$(dirname "$0")/library_budget.sh"
client=$MDNN_BUILD/test/clients/pointer_tables
buffers=$(few 16 30) room=$(few 26MiB 48MiB)

# What cannot be there at once is left as it is, which is told.
too_large() {
    "$client" too_large 1 "$buffers" && MICRODNN_MEMORY_TAIL=no under $room "$client" too_large 1 "$buffers" &&
        holds "$in_budget and $moved and memory['refused'] == 0" && [ "$(wc -l <"$log")" = 1 ] &&
        grep -q "does not fit in the budget at once" "$log" || { cat "$log"; return 1; }
}

above() {
    by_itself "$client" above 1 "$buffers" || return 1
    MICRODNN_MEMORY_TAIL=yes under $room "$client" above 1 "$buffers" &&
        holds "$in_budget and memory['tail_operations'] == 3 and memory['refused'] == 0" &&
        [ "$(wc -l <"$log")" = 1 ] && grep -q "names more than the budget" "$log" || { cat "$log"; return 1; }
}

unread="counters['pointer_arrays_read'] == 0"
plan 23
check "tables from pageable memory, by copies of all forms" program pageable "$moved and $unread"
check "tables from pinned memory, which change before their copy runs" \
    program pinned "$moved and counters['pointer_arrays_read'] > 0"
check "and where the stream writes that memory, what leads anywhere waits for nobody while all is there" \
    program swapped "$moved and counters['pointer_arrays_read'] > 0"
check "pointers in structures, in memory and among a kernel's parameters" program structures "$moved and $unread"
check "lists, that end in a cycle" program chains "$moved and $unread"
check "a table that is overwritten by an earlier call, and later than the launch" program overwritten "$moved and $unread"
check "tables of one stream for launches in another" program streams "$moved and $unread"
check "tables that a graph copies, and tables that change between its launches" program captured "$moved and $unread"
check "tables that are copied on the device" program moved "$moved and $unread"
check "tables in pinned memory of the host that kernels read there" program host "$moved and $unread"
check "tables that are packed with numbers" program packed "$moved"
check "tables that kernels write" program written "$moved and $unread"
check "tables that kernels take from tables that are not read back yet" \
    program unread_source "$moved and counters['pointer_arrays_read'] > 0"
check "a part of a table that kernels write is copied, another part overwritten" program partly "$moved"
check "a table that a graph writes again after it was cleared" program graph_again "$moved"
check "the ninth table of a kernel" program nine "$moved"
check "the twelfth table in pinned memory" program many "$moved"
check "tables in pinned memory that lead to others there" program pinned_chain "$moved"
check "a table that is copied to the host and back" program round_trip "$moved"
check "a table whose memory is freed leads nowhere" \
    program freed "$moved and $unread and memory['largest_operation_bytes'] < 16 << 20"
check "a table that leads to more than fits" too_large
check "a table that leads to more than fits is followed with a tail" above
check "copies of numbers from pinned memory cost nothing" program labels "$moved and $unread and memory['host_waits'] >= 0"
finish
