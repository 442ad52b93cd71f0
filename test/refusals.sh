#!/bin/sh
# What is said of memory that is refused under a budget: what the program needs, what that request would have
# needed, and of a workspace that it is optional. The log and the statistics agree. On the simulated GPU.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
client=$MDNN_BUILD/test/clients/refusals
MICRODNN_SIM_MODE=timing
MICRODNN_MEMORY_TAIL=no
export MICRODNN_SIM_MODE MICRODNN_MEMORY_TAIL
size='[0-9.]* [KMG]iB'

# refusals STATUS WHAT PATTERN: a program with this status, and one line with this figure in brackets
refusals() {
    under $((24 * mebibyte)) "$client" "$2" $((100 * mebibyte)) >"$TMPDIR/said"
    refusals_status=$?
    [ "$refusals_status" = "$1" ] && [ "$(wc -l <"$log")" = 1 ] && grep -q "$3" "$log" && return
    echo "status $refusals_status"
    cat "$log" "$TMPDIR/said"
    return 1
}

# needs PATTERN EXPRESSION WHAT: the figure of the line is what the statistics say is needed at least, and it is so of `memory`
needs() {
    figure=$(sed -n "s/$1/\1/p" "$log")
    holds "$2" && MICRODNN_STATS=text under $((24 * mebibyte)) "$client" "$3" $((100 * mebibyte)) >/dev/null 2>&1
    grep -q "needs at least  *$figure, as far as is known" "$stats" || { cat "$log" "$stats"; return 1; }
}

workspaces() {
    refusals 0 workspace "$size refused within the budget of 24.0 MiB: an optional workspace, a smaller one will do" &&
        needs ".* will do; at least \($size\) are needed for what ran so far.*" \
            "memory['refused'] == memory['refused_optional'] > 0 and memory['smallest_budget_bytes'] < memory['budget_bytes']" \
            workspace
}

gone_without() {
    refusals 0 without "100 MiB refused: .* at least $size are needed for it, $size for what ran so far" &&
        needs ".* for it, \($size\) for what ran so far.*" \
            "memory['refused'] == memory['refused_optional'] == 1 and memory['smallest_budget_bytes'] < memory['budget_bytes']" \
            without
}

needed() {
    refusals 3 needed "100 MiB refused: .* at least $size are needed for it, $size for what ran so far" &&
        needs ".* at least \($size\) are needed for it.*" \
            "memory['refused_optional'] == 0 and memory['smallest_budget_bytes'] > 100 * 2**20" needed
}

plan 4
check "a workspace that is refused is said to be optional" workspaces
check "what the program goes on without is not needed" gone_without
check "what the program ends without is" needed
check "what nobody can have is said once" refusals 0 endless " refused: nothing more can leave"
finish
