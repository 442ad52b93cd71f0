# Clients whose kernels are made again. Sourced by their tests, after budget.sh.
# shellcheck shell=sh

# as_alone MIB EXPRESSION COMMAND...: it prints the same sum with the library as without, whatever the seed; and what the
# statistics must say
as_alone() {
    room=$1 expression=$2
    shift 2
    wanted=$("$@") || { echo "wrong by itself"; return 1; }
    for seed in $(few 1 '1 2 3 4 5'); do
        found=$(export MICRODNN_SIM_SEED="$seed" && under $((room * mebibyte)) "$@") ||
            { echo "seed $seed: $?"; cat "$log"; return 1; }
        [ "$found" = "$wanted" ] || { echo "seed $seed: $found, not $wanted"; return 1; }
        holds "$in_budget and memory['refused'] == 0 and ($expression)" && said_nothing ||
            { echo "seed $seed"; cat "$log"; return 1; }
    done
}
