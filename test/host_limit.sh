#!/bin/sh
# Processes that pin host memory beside each other on the simulated GPU: together no more than one
# limit, whoever is killed.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
client=$MDNN_BUILD/test/clients/host_share
budget=$((8 * mebibyte))
export MICRODNN_MEMORY_HOST_LIMIT=$((64 * mebibyte)) MICRODNN_MEMORY_CHUNK_SIZE=2MiB

# begin NUMBER...: each in the background, with its own log and statistics
begin() {
    for number; do
        rm -f "$TMPDIR/held.$number" "$TMPDIR/go"
        (
            log=$TMPDIR/log.$number stats=$TMPDIR/stats.$number
            export MICRODNN_LOG_FILE="$log"
            under $budget "$client" "$TMPDIR/held.$number" "$TMPDIR/go"
        ) &
        eval "child_$number=\$!"
    done
}

# await NUMBER...: until each holds what it gets, or has ended
await() {
    for number; do
        eval "child=\$child_$number"
        # shellcheck disable=SC2154 # set by eval
        while [ ! -e "$TMPDIR/held.$number" ] && kill -0 "$child" 2>/dev/null; do sleep 0.05; done
        [ -e "$TMPDIR/held.$number" ] || { cat "$TMPDIR/log.$number"; return 1; }
    done
}

# beyond NUMBER...: bytes that they hold beyond their budgets, which only the host can have
beyond() {
    sum=0
    for number; do
        sum=$((sum + $(cut -d ' ' -f 1 "$TMPDIR/held.$number") - budget))
    done
    echo "$sum"
}

# finish_all NUMBER...: each ends well
finish_all() {
    touch "$TMPDIR/go"
    for number; do
        eval "child=\$child_$number"
        wait "$child" || { echo "process $number: status $?"; cat "$TMPDIR/log.$number"; return 1; }
    done
}

eight_have_one_limit() {
    begin 1 2 3 4 5 6 7 8 && await 1 2 3 4 5 6 7 8 || return 1
    all=$(beyond 1 2 3 4 5 6 7 8)
    finish_all 1 2 3 4 5 6 7 8 || return 1
    echo "$all of $MICRODNN_MEMORY_HOST_LIMIT"
    [ "$all" -le "$MICRODNN_MEMORY_HOST_LIMIT" ] && [ "$all" -ge $((MICRODNN_MEMORY_HOST_LIMIT / 2)) ]
}

it_is_said_once() {
    [ "$(cat "$TMPDIR"/log.[1-8] | grep -c 'for all processes of the user')" -ge 1 ] &&
        for number in 1 2 3 4 5 6 7 8; do
            [ "$(grep -c 'host_limit' "$TMPDIR/log.$number")" -le 1 ] || return 1
        done
}

the_killed_leave_it_to_others() {
    begin 1 && await 1 && begin 2 && await 2 || return 1
    first=$(beyond 1) second=$(beyond 2)
    kill -9 "$(cut -d ' ' -f 2 "$TMPDIR/held.1")"
    wait "$child_1"
    begin 3 && await 3 || return 1
    third=$(beyond 3)
    finish_all 2 3 || return 1
    echo "$first, then $second, then $third"
    [ "$first" -ge $((MICRODNN_MEMORY_HOST_LIMIT / 2)) ] && [ "$second" -lt "$first" ] &&
        [ "$third" -ge $((first / 2)) ] && [ $((second + third)) -le "$MICRODNN_MEMORY_HOST_LIMIT" ]
}

# The name is the one that the library has chosen before.
a_planted_registry_is_not_used() {
    registry=$(find "$TMPDIR" -maxdepth 1 -name 'microdnn-*' ! -name '*.live')
    [ -f "$registry" ] || { echo "there is none: $registry"; return 1; }
    echo precious >"$TMPDIR/victim"
    rm "$registry" && ln -s "$TMPDIR/victim" "$registry" || return 1
    LOCAL_WORLD_SIZE=4 begin 1 2 && await 1 2 || return 1
    one=$(beyond 1) all=$(beyond 1 2)
    finish_all 1 2 || return 1
    rm "$registry"
    echo "$one, together $all"
    [ "$(cat "$TMPDIR/victim")" = precious ] && [ "$one" -le $((MICRODNN_MEMORY_HOST_LIMIT / 4)) ] &&
        [ "$all" -gt 0 ] && grep -q 'cannot add up' "$TMPDIR/log.1"
}

# A folder has its name.
a_registry_that_cannot_be_made_says_why() {
    registry=$(find "$TMPDIR" -maxdepth 1 -name 'microdnn-*' ! -name '*.live' | head -n 1)
    mkdir -p "$TMPDIR/other/$(basename "$registry")" && touch "$TMPDIR/go" || return 1
    MICRODNN_MEMORY_REGISTRY="$TMPDIR/other" under $budget "$client" "$TMPDIR/held.1" "$TMPDIR/go" ||
        { cat "$log"; return 1; }
    grep -q 'cannot add up .*(Is a directory)' "$log" || { cat "$log"; return 1; }
}

without_a_registry_each_has_its_own() {
    export MICRODNN_MEMORY_REGISTRY=
    begin 1 2 && await 1 2 || return 1
    all=$(beyond 1 2)
    finish_all 1 2 || return 1
    echo "$all"
    [ "$all" -gt "$MICRODNN_MEMORY_HOST_LIMIT" ]
}

plan 6
check 'eight processes hold no more than one limit together' eight_have_one_limit
check 'who is refused says that others share it' it_is_said_once
check 'what a killed process held is there for the next' the_killed_leave_it_to_others
check 'a registry that cannot be made says why' a_registry_that_cannot_be_made_says_why
check 'what somebody planted is not used, and each takes its share' a_planted_registry_is_not_used
check 'where no registry is wanted each has a limit of its own' without_a_registry_each_has_its_own
finish
