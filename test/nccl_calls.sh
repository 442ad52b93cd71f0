#!/bin/sh
# Buffers of NCCL's collectives, what is registered with it, and its own memory, under a budget.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/library_budget.sh
. "$(dirname "$0")/library_budget.sh"

registers_what_fits() {
    under 48MiB "$client" all_registered 1 "$buffers" && holds "$in_budget and $moved" &&
        [ "$(grep -c 'a buffer is not registered with NCCL' "$log")" = 1 ] &&
        [ "$(wc -l <"$log")" = 1 ] || { cat "$log"; return 1; }
}

windows_are_refused() {
    made=$(under 48MiB "$client" all_windows 1 "$buffers") && holds "$in_budget" &&
        [ "$made" -gt 8 ] && [ "$made" -lt 16 ] &&
        grep -q '3.*MiB refused: nothing more can leave .* 4[89].* are needed' "$log" &&
        [ "$(wc -l <"$log")" = 1 ] || { echo "$made windows"; cat "$log"; return 1; }
}

# As the driver gives memory out.
pages="memory['resident_bytes'] % (2 << 20) == 0"
plan 15
check "buffers of collectives are there when their kernel runs, alone and in groups" \
    program collectives "$moved"
check "so they are where another thread launches it, after the call" program launched_later "$moved"
check "and where another thread asks meanwhile whether all is launched" \
    program watched "$moved"
check "and where the program never asks, and what is over is named no more" \
    program never_asked "$moved and memory['largest_operation_bytes'] < 20 << 20"
check "a group that is only estimated ends, too" program simulated "$moved"
check "a registered buffer stays" program registered "$moved"
check "one that is registered twice stays until it is no more" program registered_twice "$moved"
check "and none stays longer than its communicator" program never_deregistered "$moved"
check "where the budget has no room for more that stays, the rest is not registered, and that is told" \
    registers_what_fits
check "a window that does not fit is out of memory, and the log says what would do" windows_are_refused
check "what the collectives' library allocates for itself is plain memory, in the budget" \
    program many_comms "memory['peak_live_bytes'] < 92 << 20 and memory['created_chunks'] <= 20 and $pages"
check "and what was in its place is there again when it is freed" \
    program comms_gone "memory['peak_live_bytes'] < 92 << 20 and memory['created_chunks'] == 24"
check "where virtual memory has all of the budget, some of it leaves for that" \
    program comms_late "$moved and memory['other_bytes'] == 0 and memory['peak_other_bytes'] > 0"
check "it ends with its context" program contexts_end "$moved"
check "without a budget nothing is looked at" leaves_alone collectives
finish
