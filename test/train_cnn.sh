#!/bin/sh
# The example program: its command line, and training on the simulated GPU without the library.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

program=$MDNN_BUILD/train_cnn
data=$(dirname "$0")/../docs/examples/data
result=$TMPDIR/result.json

[ -e "$MDNN_BUILD/sim/libcudnn.so.9" ] || skip_all "there is no simulated GPU in this build"

train() { # arguments...
    "$program" --data "$data" "$@" || { echo "status $?"; return 1; }
}

# refuses WORD ARGUMENTS...: status 2, nothing on standard output, one message that has WORD
refuses() {
    word=$1
    shift
    output=$("$program" "$@" 2>"$TMPDIR/message")
    status=$?
    cat "$TMPDIR/message"
    [ "$status" = 2 ] || { echo "status $status"; return 1; }
    [ -z "$output" ] || { echo "printed $output"; return 1; }
    grep -q -e "$word" "$TMPDIR/message"
}

bad_values_are_refused() {
    refuses "no network 'foo'" --net foo && refuses "'0'" --batch 0 && refuses "'-3'" --epochs -3 &&
        refuses "'12x'" --iterations 12x && refuses "fp32, tf32, fp16, bf16" --dtype fp8 &&
        refuses "nchw, nhwc" --layout hwcn && refuses "64MiB" --workspace-limit 5q &&
        refuses "64MiB" --workspace-limit 99999999999999999999g && refuses "'nan'" --momentum nan &&
        refuses "legacy, graph" --api backend && refuses "exhaustive, heuristic" --search none &&
        refuses "'-1'" --seed -1 && refuses "'1'" --dropout 1
}

wrong_lines_are_refused() {
    refuses unrecognized --bogus && refuses "'stray'" stray && refuses requires --net
}

contradictions_are_refused() {
    refuses exclude --epochs 2 --iterations 3 && refuses random --net alexnet --epochs 2 &&
        refuses "none to time" --iterations 3 --warmup 3 &&
        refuses "has none" --net resnet18 --dropout 0.5 &&
        refuses "no branches" --net resnet18 --branch-streams
}

missing_data_is_named() {
    "$program" --data "$TMPDIR/nowhere" >"$TMPDIR/message" 2>&1
    [ $? = 1 ] && grep "$TMPDIR/nowhere/digits.txt" "$TMPDIR/message"
}

broken_data_is_named_by_line() {
    mkdir -p "$TMPDIR/broken"
    sed '7s/^./z/' "$data/digits.txt" >"$TMPDIR/broken/digits.txt"
    "$program" --data "$TMPDIR/broken" >"$TMPDIR/message" 2>&1
    [ $? = 1 ] && grep "digits.txt:7:" "$TMPDIR/message"
}

# holds EXPRESSION [FILE]: true if the Python expression of `run`, a result, holds
holds() {
    python3 - "${2:-$result}" "$1" <<'PYTHON'
import json, sys
run = json.load(open(sys.argv[1]))
if not eval(sys.argv[2]):
    summary = {key: run[key] for key in run if key not in ("layers",)}
    sys.exit(f"not so: {sys.argv[2]}\n{json.dumps(summary)}")
PYTHON
}

short_run() { # file, arguments...
    short_file=$1
    shift
    train --quiet --find-repeats 1 --batch 32 --iterations 16 \
        --workspace-limit 16MiB --json "$short_file" "$@"
}

loss_falls() {
    short_run "$result" && python3 -m json.tool "$result" >/dev/null &&
        holds "len(run['losses']) == 16 and run['losses'][0] > 2" &&
        holds "sum(run['losses'][-4:]) / 4 < 0.8 * run['losses'][0]"
}

result_is_complete() {
    holds "run['device']['simulated'] and run['options']['batch'] == 32" &&
        holds "run['timed_iterations'] == 14 and run['convolution_ms']['median'] > 0" &&
        holds "run['convolution_ms']['lower_quartile'] <= run['convolution_ms']['upper_quartile']" &&
        holds "run['convolution_ms']['median'] < run['iteration_ms']['median']" &&
        holds "'backward_data' not in run['layers'][0] and 'backward_data' in run['layers'][1]" &&
        holds "run['peak_bytes'] >= run['training_bytes'] > run['workspace_bytes']"
}

same_seed_same_losses() {
    short_run "$TMPDIR/first.json" --deterministic && short_run "$TMPDIR/second.json" --deterministic &&
        holds "run['losses'] == json.load(open('$TMPDIR/first.json'))['losses']" "$TMPDIR/second.json"
}

other_seed_other_losses() {
    short_run "$TMPDIR/second.json" --deterministic --seed 2 &&
        holds "run['losses'] != json.load(open('$TMPDIR/first.json'))['losses']" "$TMPDIR/second.json"
}

# near TOLERANCE ARGUMENTS...: the losses of the run are those of $result so nearly
near() {
    tolerance=$1
    shift
    short_run "$TMPDIR/other.json" "$@" &&
        holds "all(abs(a - b) <= $tolerance for a, b in
            zip(run['losses'], json.load(open('$result'))['losses']))" "$TMPDIR/other.json"
}

# The graph API gives the losses of the legacy one in each type and layout.
graph_api_trains_alike() {
    while read -r type layout tolerance; do
        short_run "$result" --dtype "$type" --layout "$layout" &&
            near "$tolerance" --api graph --dtype "$type" --layout "$layout" &&
            holds "run['options']['api'] == 'graph'" "$TMPDIR/other.json" || return 1
    done <<LINES
fp32 nchw 0.001
fp32 nhwc 0.001
tf32 nchw 0.02
tf32 nhwc 0.02
fp16 nhwc 0.03
bf16 nhwc 0.1
LINES
}

inception_trains() {
    short_run "$result" --net inception-tiny --iterations 24 &&
        holds "sum(run['losses'][-4:]) / 4 < 0.8 * run['losses'][0]" &&
        near 0.01 --net inception-tiny --iterations 24 --layout nhwc &&
        near 0.01 --net inception-tiny --iterations 24 --api graph
}

# Under several orders of work, which show a missing wait. The same bits need the same algorithms; a
# search by times may choose others among graphs, hence heuristics there.
branch_streams_train_alike() { # arguments...
    short_run "$TMPDIR/first.json" --net inception-tiny --deterministic "$@" || return 1
    for seed in 1 2 3; do
        MICRODNN_SIM_SEED=$seed short_run "$TMPDIR/second.json" --net inception-tiny --deterministic \
            --branch-streams "$@" &&
            same_losses "$TMPDIR/first.json" "$TMPDIR/second.json" || return 1
    done
}

branches_have_streams() {
    holds "run['options']['branch_streams'] and {l['stream'] for l in run['layers']} == {0, 1, 2, 3, 4}" \
        "$TMPDIR/second.json" && holds "{l['stream'] for l in run['layers']} == {0}" "$TMPDIR/first.json" &&
        holds "run['workspace_bytes'] == sum(max([layer[d]['workspace_bytes'] for layer in run['layers']
            if layer['stream'] == stream for d in ('forward', 'backward_data', 'backward_filter')
            if d in layer]) for stream in range(5))" "$TMPDIR/second.json"
}

# The simulated device shares its time between branches, so they gain nothing there but lose nothing.
timing_mode_times_branches() {
    for arguments in "" --branch-streams; do
        MICRODNN_SIM_MODE=timing train --quiet --net inception-v3 --workspace-limit 64MiB --find-repeats 1 \
            --iterations 2 --json "$TMPDIR/run$arguments.json" ${arguments:+"$arguments"} || return 1
    done
    holds "run['iteration_ms']['median'] < 1.05 * json.load(
        open('$TMPDIR/run.json'))['iteration_ms']['median']" "$TMPDIR/run--branch-streams.json"
}

# A plan's search takes the first of the heuristics, or times all of them.
heuristics_choose() { # arguments...
    short_run "$result" --iterations 2 --search heuristic "$@" &&
        holds "all(layer[d]['search_ms'] == 0 for layer in run['layers']
            for d in ('forward', 'backward_data', 'backward_filter') if d in layer)" &&
        short_run "$result" --iterations 2 "$@" &&
        holds "all(layer[d]['search_ms'] > 0 for layer in run['layers']
            for d in ('forward', 'backward_data', 'backward_filter') if d in layer)"
}

graph_is_repeatable() {
    short_run "$TMPDIR/first.json" --api graph --deterministic &&
        short_run "$TMPDIR/second.json" --api graph --deterministic &&
        same_losses "$TMPDIR/first.json" "$TMPDIR/second.json"
}

workspace_stays_in_limit() { # arguments...
    for limit in 0 4096 65536 1048576; do
        short_run "$result" --iterations 2 --workspace-limit "$limit" "$@" || return 1
        holds "run['workspace_bytes'] <= $limit and run['search_bytes'] <= $limit" || return 1
        holds "all(layer[d]['workspace_bytes'] <= $limit for layer in run['layers']
            for d in ('forward', 'backward_data', 'backward_filter') if d in layer)" || return 1
    done
}

per_layer_workspaces_add_up() {
    short_run "$result" --iterations 2 --workspace-limit 1MiB --workspace-per-layer &&
        holds "run['workspace_bytes'] == sum(max(layer[d]['workspace_bytes']
            for d in ('forward', 'backward_data', 'backward_filter') if d in layer)
            for layer in run['layers'])"
}

algorithms_are_printed() {
    train --find-repeats 1 --batch 32 --iterations 1 --workspace-limit 16MiB --algorithms >"$TMPDIR/output" &&
        grep -E '^conv2 +backward_filter +[A-Z0-9_]+ +fma ' "$TMPDIR/output" &&
        ! grep -E '^conv1 +backward_data' "$TMPDIR/output"
}

# Strict fp32 without tensor cores, TF32 with them.
engines_are_printed() {
    for type in fp32:fma tf32:tensor_op; do
        train --api graph --dtype "${type%:*}" --find-repeats 1 --batch 32 --iterations 1 \
            --workspace-limit 16MiB --algorithms >"$TMPDIR/output" &&
            grep -E "^conv2 +backward_filter +ENGINE_[0-9]+_[0-9]+ +${type#*:} " "$TMPDIR/output" || return 1
    done
    train --api graph --find-repeats 1 --batch 32 --iterations 1 --workspace-limit 16MiB --algorithms \
        >"$TMPDIR/output" && ! grep tensor_op "$TMPDIR/output"
}

epochs_test_on_test_images() {
    train --quiet --find-repeats 1 --batch 128 --epochs 2 --workspace-limit 16MiB \
        --json "$result" &&
        holds "len(run['epochs']) == 2 and len(run['losses']) == 22" &&
        holds "run['epochs'][1]['test_accuracy'] > 0.75"
}

# The geometry against which the measured tables of the real GPU were made.
alexnet_has_its_layers() {
    holds "[(l['name'], l['n'], l['c'], l['h'], l['k'], l['r'], l['stride'], l['pad'][0])
        for l in run['layers'] if l['kind'] == 'convolution'] == [
        ('conv1', 256, 3, 224, 64, 11, 4, 2), ('conv2', 256, 64, 27, 192, 5, 1, 2),
        ('conv3', 256, 192, 13, 384, 3, 1, 1), ('conv4', 256, 384, 13, 256, 3, 1, 1),
        ('conv5', 256, 256, 13, 256, 3, 1, 1)]"
}

# has_weights NUMBER NET: of its convolutions and fully connected layer, as torchvision counts them
has_weights() {
    MICRODNN_SIM_MODE=timing train --quiet --net "$2" --search heuristic --workspace-limit 64MiB \
        --iterations 1 --json "$result" &&
        holds "sum(l['k'] * l['c'] * l['r'] * l['s'] for l in run['layers']) == $1"
}

# Rows and columns of seven, each padded where it is long.
inception_has_its_layers() {
    holds "[(l['c'], l['h'], l['k'], l['r'], l['s'], l['stride'], l['pad'])
        for l in run['layers'] if l['name'].startswith('mixed6c.2')] == [
        (768, 17, 160, 1, 1, 1, [0, 0]), (160, 17, 160, 1, 7, 1, [0, 3]),
        (160, 17, 192, 7, 1, 1, [3, 0])]"
}

timing_mode_times_alexnet() {
    MICRODNN_SIM_MODE=timing train --net alexnet --workspace-limit 64MiB --dtype tf32 \
        --iterations 4 --json "$result" >"$TMPDIR/output" &&
        grep -E '^convolutions [0-9.]+ ms' "$TMPDIR/output" &&
        holds "run['convolution_ms']['median'] > 1 and run['workspace_bytes'] <= 64 << 20"
}

# Convolutions and fully connected layers of each network, so that none was lost.
timing_mode_times_every_network() { # arguments...
    for net in alexnet:8 overfeat:8 vgg16:16 resnet18:21 resnet50:54 densenet40:40 \
        densenet121:121 inception-v3:95; do
        MICRODNN_SIM_MODE=timing train --quiet --net "${net%:*}" --workspace-limit 64MiB \
            --find-repeats 1 --iterations 2 --json "$result" "$@" || return 1
        holds "len(run['layers']) == ${net#*:} and run['convolution_ms']['median'] > 1" || return 1
    done
}

# starts_even NET CLASSES: training begins with nearly even probabilities
starts_even() {
    train --quiet --net "$1" --batch 1 --find-repeats 1 --iterations 1 --workspace-limit 4096 \
        --json "$result" && holds "abs(run['losses'][0] - __import__('math').log($2)) < 1"
}

dropped() { # file, arguments...
    dropped_file=$1
    shift
    short_run "$dropped_file" --deterministic --iterations 6 "$@"
}

same_losses() { holds "run['losses'] == json.load(open('$1'))['losses']" "$2"; }

dropout_follows_the_seed() {
    dropped "$TMPDIR/half.json" --dropout 0.5 && dropped "$TMPDIR/again.json" --dropout 0.5 &&
        dropped "$TMPDIR/zero.json" --dropout 0 && dropped "$TMPDIR/none.json" &&
        same_losses "$TMPDIR/half.json" "$TMPDIR/again.json" &&
        same_losses "$TMPDIR/zero.json" "$TMPDIR/none.json" &&
        ! same_losses "$TMPDIR/half.json" "$TMPDIR/none.json"
}

# It would be far off if the test left outputs out, too, or saw them larger than training did.
a_test_uses_every_output() {
    train --quiet --find-repeats 1 --batch 128 --epochs 2 --workspace-limit 16MiB --dropout 0.5 \
        --json "$result" && holds "run['epochs'][1]['test_accuracy'] > 0.7"
}

plan 39
check "a bad value is refused with what is accepted" bad_values_are_refused
check "an unknown option, a stray word and a missing value are refused" wrong_lines_are_refused
check "options that contradict each other are refused" contradictions_are_refused
check "missing data is named" missing_data_is_named
check "broken data is named by its line" broken_data_is_named_by_line
check "the loss falls while it trains on digits" loss_falls
check "the result has options, device, quartiles, layers and bytes" result_is_complete
check "channels last gives the losses of channels first" near 0.01 --layout nhwc
check "TF32 gives nearly the losses of fp32" near 0.02 --dtype tf32
check "half precision gives nearly the losses of fp32" near 0.03 --dtype fp16 --layout nhwc
check "the same seed gives the same losses to the bit" same_seed_same_losses
check "another seed gives other losses" other_seed_other_losses
check "each convolution's workspace stays within the limit" workspace_stays_in_limit
check "each plan's workspace stays within the limit" workspace_stays_in_limit --api graph
check "the graph API gives the losses of the legacy one" graph_api_trains_alike
check "the graph API gives the same bits if they are asked for" graph_is_repeatable
check "a tiny Inception network trains, in each layout and API alike" inception_trains
check "branches on streams of their own train alike" branch_streams_train_alike
check "each branch has a stream and a workspace" branches_have_streams
check "so do their graphs" branch_streams_train_alike --api graph --search heuristic
check "and with a workspace for each layer" branch_streams_train_alike --workspace-per-layer
check "timing mode times branches" timing_mode_times_branches
check "heuristics choose without a search" heuristics_choose
check "heuristics choose graphs without a search" heuristics_choose --api graph
check "the chosen engines are printed" engines_are_printed
check "workspaces of their own are one for each layer" per_layer_workspaces_add_up
check "the chosen algorithms are printed, none for the images' gradient" algorithms_are_printed
check "an epoch ends with a test on images that were not trained on" epochs_test_on_test_images
check "timing mode times AlexNet" timing_mode_times_alexnet
check "AlexNet has the layers of the measured tables" alexnet_has_its_layers
check "DenseNet-121 has torchvision's weights" has_weights 7894208 densenet121
check "Inception v3 has torchvision's weights" has_weights 23799136 inception-v3
check "Inception v3 has its rows and columns" inception_has_its_layers
check "timing mode times every network" timing_mode_times_every_network
check "timing mode times every network's graphs" timing_mode_times_every_network --api graph
check "DenseNet-40 computes a loss" starts_even densenet40 10
check "ResNet-18 computes a loss" starts_even resnet18 1000
check "dropout masks follow the seed, and without dropout there are none" dropout_follows_the_seed
check "a test after training with dropout uses every output" a_test_uses_every_output
finish
