#!/bin/sh
# Every lock of the library is one of config/lock.h, with a rank in config/lock_rank.def that is used.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

only_ranked() {
    ! grep -nE 'pthread_(mutex|rwlock|cond|spin|barrier)|\b(mtx|cnd)_[a-z]+ *\(|\bsem_(init|wait|post)\b' \
        -r config optimizer offload shim --include='*.[ch]' --exclude=lock.h --exclude=lock.c
}

each_rank_is_used() {
    unused=$(sed -n 's/^MDNN_LOCK_RANK(\([A-Z_]*\),.*/\1/p' config/lock_rank.def | while read -r rank; do
        grep -rqE "MDNN_LOCK_$rank\b|MDNN_LOCK_INIT(_RECURSIVE)?\($rank\)" config optimizer offload shim \
            --include='*.c' || echo "$rank"
    done)
    echo "not used: $unused"
    [ -z "$unused" ]
}

plan 2
check 'no file but config/lock has a lock of its own' only_ranked
check 'every rank belongs to a lock' each_rank_is_used
finish
