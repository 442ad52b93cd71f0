# Programs under a memory budget on the simulated GPU: how they run, and what is asked of their
# statistics. Sourced by their tests, after tap.sh.
# shellcheck shell=sh
# shellcheck source=test/preloaded.sh
. "$(dirname "$0")/preloaded.sh"
client=$MDNN_BUILD/test/clients/virtual_memory
graphs=$MDNN_BUILD/test/clients/virtual_graphs
MICRODNN_CONVOLUTION_POLICY=off
MICRODNN_LOG_FILE=$log
export MICRODNN_CONVOLUTION_POLICY MICRODNN_LOG_FILE

mebibyte=1048576
held=$((60 * mebibyte)) within=$((32 * mebibyte)) # what clients hold, and what they get

# under BUDGET COMMAND...: the library's lines go to $log
under() {
    budget=$1
    shift
    : >"$log"
    rm -f "$stats"
    (
        export MICRODNN_MEMORY_BUDGET="$budget"
        preload_library
        exec "$@"
    )
}

# What is no matter of the library's, that a client is right without it, is left to the whole suite.
by_itself() { # command...
    ! thorough || "$@" || { echo "wrong by itself"; return 1; }
}

# holds EXPRESSION: of `memory`, the statistics of device 0, `memories`, those of all, `counters`, and of a and b, the
# results of two runs
holds() {
    python3 -I -S - "$stats" "$TMPDIR" "$1" <<'PYTHON'
# Without json, whose import takes longer than all else here, and without what ends an interpreter.
import posix, sys
def load(path):
    with open(path) as file:
        return eval(file.read(), {"true": True, "false": False, "null": None})
def load_if_any(path):
    try:
        return load(path)
    except FileNotFoundError:
        return {}
statistics = load(sys.argv[1])
counters, memories = statistics["counters"], statistics["memory"]
memory = memories[0] if memories else None
a, b = (load_if_any(f"{sys.argv[2]}/{name}.json") for name in "ab")
if eval(f"({sys.argv[3]})"):
    posix._exit(0)
sys.exit(f"not so: {sys.argv[3]}\n{memory}\n{a.get('losses')}\n{b.get('losses')}")
PYTHON
}

in_budget="memory['peak_resident_bytes'] <= memory['budget_bytes']"

each_in_budget="len(memories) == 2 and all(each['peak_resident_bytes'] <= each['budget_bytes'] and
    each['out_bytes'] > 0 for each in memories)"

train() { # file
    "$train_cnn" --data "$data" --quiet --find-repeats 1 --search heuristic --batch 160 \
        --iterations 3 --seed 3 --workspace-limit 1MiB --deterministic --json "$1"
}

# trains_under BUDGET SEED POLICY [EXPRESSION]: with the losses of a.json
trains_under() {
    : >"$log"
    rm -f "$stats"
    (
        export MICRODNN_SIM_SEED="$2" MICRODNN_MEMORY_POLICY="$3" MICRODNN_MEMORY_BUDGET="$1"
        preload_library
        train "$TMPDIR/b.json"
    ) || { cat "$log"; return 1; }
    holds "a['losses'] == b['losses'] and len(a['losses']) == 3 and $in_budget${4:+ and ($4)}" && said_nothing
}
