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

finish() { exit $((tap_failed > 0)); }
