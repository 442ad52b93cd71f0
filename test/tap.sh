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
    if tap_output=$("$@" 2>&1); then
        printf 'ok %d - %s\n' "$tap_count" "$tap_name"
    else
        printf 'not ok %d - %s\n' "$tap_count" "$tap_name"
        printf '%s\n' "$tap_output" | sed 's/^/# /'
        tap_failed=$((tap_failed + 1))
    fi
}

# In the quick suite a test that is the same for many seeds or sizes takes a few of them, and what only
# asks more of the same is left to `make test-all` (test/run --thorough).
thorough() { [ -n "${MDNN_THOROUGH:-}" ]; }
few() { if thorough; then echo "$2"; else echo "$1"; fi; } # few, all

finish() { exit $((tap_failed > 0)); }

# A table of checks can be run in parts, side by side: MDNN_SHARD=2/8 is the second of eight.
shard_begins() { shard_row=0 shard_count=0; }
in_shard() { # for each row once: whether it is of this part
    shard_row=$((shard_row + 1))
    shard_of=${MDNN_SHARD:-1/1}
    [ $((shard_row % ${shard_of#*/})) -eq $((${shard_of%/*} % ${shard_of#*/})) ] || return 1
    shard_count=$((shard_count + 1))
}
