# TAP for shell tests. A test sources this file, calls `plan N` and then `check NAME COMMAND...` for
# each test: it passes if COMMAND exits 0. COMMAND's output becomes a diagnostic when it fails.
# shellcheck shell=sh
tap_count=0
tap_failed=0

plan() { printf '1..%d\n' "$1"; }

skip_all() {
    printf '1..0 # SKIP %s\n' "$1"
    exit 0
}

skip() { # name, reason
    tap_count=$((tap_count + 1))
    printf 'ok %d - %s # SKIP %s\n' "$tap_count" "$1" "$2"
}

check() { # name, command...
    tap_name=$1
    shift
    tap_count=$((tap_count + 1))
    tap_begins
    if tap_output=$("$@" 2>&1); then
        printf 'ok %d - %s\n' "$tap_count" "$tap_name"
    else
        printf 'not ok %d - %s\n' "$tap_count" "$tap_name"
        printf '%s\n' "$tap_output" | sed 's/^/# /'
        tap_failed=$((tap_failed + 1))
    fi
    tap_ends
}

# With test/run --times: the CPU time of each check, in milliseconds.
tap_begins() { :; }
tap_ends() { :; }
if [ -n "${MDNN_TIMES:-}" ]; then
    tap_cpu() { # VARIABLE: of this shell's children; not for a subshell, which has none yet
        times >"$TMPDIR/tap-times"
        eval "$1=$(awk 'NR == 2 { split($1 "m" $2, part, /[ms]+/); printf "%d", 60000 * (part[1] + part[3]) + 1000 * (part[2] + part[4]) }' \
            "$TMPDIR/tap-times")"
    }
    tap_begins() { tap_cpu tap_begun; }
    tap_ends() {
        tap_cpu tap_now
        printf '# %d ms of CPU: %s\n' $((tap_now - tap_begun)) "$tap_name"
    }
fi

# In the quick suite a test that is the same for many seeds or sizes takes a few of them, and what only
# asks more of the same is left to `make test-all` (test/run --thorough).
thorough() { [ -n "${MDNN_THOROUGH:-}" ]; }
few() { if thorough; then echo "$2"; else echo "$1"; fi; } # few, all

finish() { exit $((tap_failed > 0)); }

# For tests of programs that load the library before a sanitizer's run time, as `microdnn run` has them do.
library_comes_first() { export ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}verify_asan_link_order=0"; }

# A table of checks can be run in parts, side by side: MDNN_SHARD=2/8 is the second of eight.
shard_begins() { shard_row=0 shard_count=0; }
in_shard() { # for each row once: whether it is of this part
    shard_row=$((shard_row + 1))
    shard_of=${MDNN_SHARD:-1/1}
    [ $((shard_row % ${shard_of#*/})) -eq $((${shard_of%/*} % ${shard_of#*/})) ] || return 1
    shard_count=$((shard_count + 1))
}
