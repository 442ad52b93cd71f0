#!/bin/sh
# Every way by which a program can reach cuDNN leads through the library, once, and gives the same
# result as without it.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

clients=$MDNN_BUILD/test/clients
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
stats=$TMPDIR/stats.json

# field NAME: a counter of the last run
field() { sed -n 's/.*"'"$1"'": *\([0-9][0-9]*\).*/\1/p' "$stats" | head -n 1; }

preloaded() {
    rm -f "$stats"
    MICRODNN_STATS=json MICRODNN_STATS_FILE=$stats MICRODNN_LOG=warn \
        LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library "$@"
}

same_result() { # program, route, extra
    without=$("$@") || { echo "fails without the library"; return 1; }
    with=$(preloaded "$@") || { echo "fails with the library"; return 1; }
    [ "$with" = "$without" ] || { echo "checksum $without became $with"; return 1; }
}

seen_once() {
    same_result "$@" || return 1
    [ "$(field calls_forward)" = 1 ] || { echo "calls_forward is '$(field calls_forward)', not 1"; return 1; }
    [ "$(field cuda_malloc)" -ge 3 ] || { echo "cuda_malloc is '$(field cuda_malloc)'"; return 1; }
}

# The same as a graph, of whose plan the library reads what it needs, itself untracked.
graph_seen_once() {
    GRAPH=1 MICRODNN_CONVOLUTION_MEASURE_REPEATS=1 same_result "$@" || return 1
    counted="$(field calls_graph_execute) $(field calls_graph_workspace) $(field graph_plans) $(field calls_forward)"
    [ "$counted" = '1 1 1 0' ] || { echo "executions, sizes, plans, legacy calls: $counted"; return 1; }
}
graph_not_seen() { GRAPH=1 not_seen "$@"; }
graph_disabled() { GRAPH=1 disabled_says_nothing "$@"; }

not_seen() {
    same_result "$@" || return 1
    [ ! -e "$stats" ] || [ "$(field calls_forward)" = 0 ]
}

disabled_says_nothing() {
    MICRODNN_DISABLE=1 same_result "$@" && [ ! -e "$stats" ]
}

plan 19
check 'symbols bound at start go through the library' seen_once "$clients/route_linked" linked
check 'dlsym on a handle goes through the library' seen_once "$clients/route" handle
check 'a second lookup of the same name gives the same function' seen_once "$clients/route" twice
check 'dlsym on RTLD_DEFAULT goes through the library' seen_once "$clients/route_linked" default
check 'an RTLD_LOCAL extension goes through the library' seen_once "$clients/route" plugin "$clients/plugin.so"
check 'libcudnn_cnn linked directly goes through the library' seen_once "$clients/route_cnn" linked
if [ -z "${MDNN_PRELOAD_FIRST:-}" ]; then
    check 'an RTLD_DEEPBIND extension works, untracked' not_seen "$clients/route" deepbind "$clients/plugin.so"
else
    skip 'an RTLD_DEEPBIND extension works, untracked' 'no sanitizer works with RTLD_DEEPBIND'
fi
check 'a graph by symbols bound at start' graph_seen_once "$clients/route_linked" linked
check 'a graph by dlsym on a handle' graph_seen_once "$clients/route" handle
check 'a graph by names looked up twice' graph_seen_once "$clients/route" twice
check 'a graph by dlsym on RTLD_DEFAULT' graph_seen_once "$clients/route_linked" default
check 'a graph of an RTLD_LOCAL extension' graph_seen_once "$clients/route" plugin "$clients/plugin.so"
check 'a graph by libcudnn_graph linked directly' graph_seen_once "$clients/route_graph" linked
check 'a convolution of a program that links libcudnn_graph first' seen_once "$clients/route_graph" linked
if [ -z "${MDNN_PRELOAD_FIRST:-}" ]; then
    check 'a graph of an RTLD_DEEPBIND extension works, untracked' graph_not_seen "$clients/route" deepbind "$clients/plugin.so"
else
    skip 'a graph of an RTLD_DEEPBIND extension works, untracked' 'no sanitizer works with RTLD_DEEPBIND'
fi
check 'a library that forwards calls goes through the library' seen_once "$clients/route_forwarded" linked
check 'a graph by a library that forwards calls' graph_seen_once "$clients/route_forwarded" linked
check 'MICRODNN_DISABLE=1 makes the hooks of graphs transparent' graph_disabled "$clients/route" handle
check 'MICRODNN_DISABLE=1 makes every hook transparent' disabled_says_nothing "$clients/route" handle
finish
