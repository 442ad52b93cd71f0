#!/bin/sh
# Kernels that follow pointers which nothing shows, under a budget: `microdnn verify` finds them, and they are served from
# then on (shim/real/kernel_list.h).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/library_budget.sh
. "$(dirname "$0")/library_budget.sh"
client=$MDNN_BUILD/test/clients/pointer_tables
buffers=$(few 16 30) room=$(few 26MiB 48MiB)
microdnn=$MDNN_BUILD/microdnn
HOME=$TMPDIR/home
list=$HOME/.cache/microdnn/kernels
export HOME
unset MICRODNN_MEMORY_KERNELS
library_comes_first
mkdir "$HOME"

hidden() { under $room "$client" hidden "${1:-1}" "$buffers"; }
shows_log() { cat "$log"; return 1; }

fails_and_says_why() {
    rm -rf "$HOME/.cache"
    ! hidden 2>/dev/null && [ "$(grep -c 'illegal access' "$log")" = 1 ] &&
        grep -q 'latest first: \(hide_pointer, \)*follow_table, .*safety = host' "$log" &&
        ! grep -q 'does not describe' "$log" && [ ! -e "$list" ] || shows_log
}

verify() {
    MICRODNN_LOG_FILE=stderr "$microdnn" verify --memory 1GiB -- "$client" hidden 1 "$buffers" >"$log" 2>&1
}

is_learned() {
    rm -rf "$HOME/.cache"
    ! verify && [ "$(cat "$list")" = follow_table ] && grep -q "follow_table reaches memory .*$list" "$log" &&
        verify && grep -q 'verify: clean' "$log" && [ "$(cat "$list")" = follow_table ] || shows_log
}

is_served() {
    echo follow_table >"$TMPDIR/list"
    for seed in $(few 1 '1 2 3 4 5'); do
        MICRODNN_SIM_SEED=$seed MICRODNN_MEMORY_KERNELS=$TMPDIR/list hidden "$seed" &&
            holds "$in_budget and $moved" && [ "$(wc -l <"$log")" = 1 ] &&
            grep -q 'follow_table is in the list .* as with safety = host' "$log" ||
            { echo "seed $seed"; shows_log; return 1; }
    done
}

is_served_after_a_reset() {
    echo follow_table >"$TMPDIR/list"
    MICRODNN_MEMORY_KERNELS=$TMPDIR/list under $room "$client" hidden_again 1 "$buffers" && [ "$(wc -l <"$log")" = 1 ] ||
        shows_log
}

needs_no_other_way_where_all_fits() {
    echo follow_table >"$TMPDIR/list"
    MICRODNN_MEMORY_KERNELS=$TMPDIR/list under 256MiB "$client" hidden 1 "$buffers" && holds "$in_budget" && said_nothing
}

is_not_for_fast() {
    echo follow_table >"$TMPDIR/list"
    ! MICRODNN_MEMORY_SAFETY=fast MICRODNN_MEMORY_KERNELS=$TMPDIR/list hidden 2>/dev/null
}

names_bad_lines() {
    printf '# of mine\n\nfollow_table\nthis is no name\n' >"$TMPDIR/list"
    MICRODNN_MEMORY_KERNELS=$TMPDIR/list hidden && grep -q "$TMPDIR/list:4: one kernel's name" "$log" || shows_log
}

needs_no_list() {
    for path in '' "$TMPDIR/none" "$TMPDIR"; do
        MICRODNN_MEMORY_KERNELS=$path under $room "$client" nine 1 9 || { shows_log; return 1; }
    done
    grep -q "kernels: $TMPDIR: Is a directory" "$log" || shows_log
}

needs_no_home() {
    for home in relative ''; do
        HOME=$home under $room "$client" nine 1 9 && said_nothing || return 1
    done
    long=$(printf '%01000d' 0)
    for path in "$HOME/$long" "$long/$long"; do
        MICRODNN_MEMORY_KERNELS=$path under $room "$client" nine 1 9 || { shows_log; return 1; }
    done
    printf 'one\r\nfollow_table\r\ntwo' >"$TMPDIR/list"
    MICRODNN_MEMORY_KERNELS=$TMPDIR/list hidden && ! grep -q ':[0-9]*: one' "$log" || shows_log
}

# At the path that nobody named; a folder cannot be read, not even by root.
is_missed_by_nobody() {
    mkdir -p "$TMPDIR/another/.cache/microdnn/kernels"
    (
        unset MICRODNN_MEMORY_KERNELS
        export HOME="$TMPDIR/another"
        under $room "$client" nine 1 9 && said_nothing || exit 1
        MICRODNN_LOG=info under $room "$client" nine 1 9 &&
            grep -q "kernels: $HOME/.cache/microdnn/kernels: Is a directory" "$log" || shows_log
    )
}

cannot_be_kept() {
    ! MICRODNN_MEMORY_KERNELS=$TMPDIR/none/list verify &&
        grep -q 'follow_table .* cannot be kept: .*none/list: No such file' "$log" || shows_log
}

plan 11
check "a kernel that strays ends with a line that names the last kernels, and what would serve them" fails_and_says_why
check "verify adds it to the list, and is clean from then on" is_learned
check "a kernel of the list is served, although not all fits" is_served
check "so it is after a reset of the device" is_served_after_a_reset
check "nothing changes where all fits" needs_no_other_way_where_all_fits
check "safety = fast does without the list" is_not_for_fast
check "a line that is no name is named, and the others count" names_bad_lines
check "a list that is not there, or cannot be read, is no trouble" needs_no_list
check "neither is a home that is none, nor a path that is too long; a list may be of Windows" needs_no_home
check "one that nobody named is only for those who want to know" is_missed_by_nobody
check "a list that cannot be written is said" cannot_be_kept
finish
