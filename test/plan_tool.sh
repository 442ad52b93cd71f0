#!/bin/sh
# microdnn plan: divisions from a database, without a GPU, of networks and of what ran, and figure 13
# of Oyama 2018 in shape (simulated: nothing here was measured on a P100).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

tool=$MDNN_BUILD/microdnn
data=$(cd "$(dirname "$0")/../docs/examples/data" && pwd)
cd "$TMPDIR" || exit 1
library_comes_first

tune() { # NET BATCH FILE
    MICRODNN_SIM_PROFILE=p100 MICRODNN_SIM_MODE=timing "$tool" tune --net "$1" --batch "$2" \
        --workspace-limit none --set convolution.batch_sizes=all --file "$3"
}
# plan OUT OPTION...: JSON, with no simulated GPU in reach
plan_to() {
    out=$1
    shift
    LD_LIBRARY_PATH='' "$tool" plan --json "$@" >"$out"
}
databases_are_made() { tune alexnet 256 alexnet.db && tune resnet50 32 resnet50.db; }
a_division_keeps_its_total() {
    plan_to sum.json --net alexnet --device-db alexnet.db --policy all --model sum --total 120MiB --solver internal &&
        plan_to shared.json --net alexnet --device-db alexnet.db --policy all --total 120MiB --solver internal || return 1
    python3 - <<'PYTHON'
import json
plans = {model: json.load(open(f"{model}.json")) for model in ("sum", "shared")}
for model, plan in plans.items():
    chosen = [kernel["chosen"] for kernel in plan["kernels"]]
    sizes = [point["workspace_bytes"] for point in chosen]
    assert plan["workspace_bytes"] == (sum if model == "sum" else max)(sizes) <= 120 << 20, sizes
    assert abs(plan["time_ms"] - sum(point["time_ms"] for point in chosen)) < 1e-3
    assert plan["optimal"] and plan["model"] == model and "simulated" in plan["device"]
    for kernel in plan["kernels"]:
        assert kernel["chosen"] in kernel["desirable"], kernel["name"]
        times = [point["time_ms"] for point in kernel["desirable"]]
        assert times == sorted(times, reverse=True), kernel["name"]
assert len(plans["sum"]["kernels"]) == 14
assert plans["shared"]["time_ms"] < plans["sum"]["time_ms"] < plans["sum"]["equal_shares"]["time_ms"]
PYTHON
}
both_solvers_agree() {
    for total in 8MiB 120MiB 960MiB; do
        for solver in glpk internal; do
            plan_to "$solver.json" --net resnet50 --batch 32 --device-db resnet50.db --policy all --model sum \
                --total "$total" --solver "$solver" || return 1
        done
        python3 -c '
import json
glpk, internal = (json.load(open(f"{name}.json")) for name in ("glpk", "internal"))
assert glpk["solver"] == "GLPK" and internal["solver"] == "internal"
assert glpk["optimal"] and internal["optimal"] and abs(glpk["time_ms"] - internal["time_ms"]) < 1e-5
' || return 1
    done
}
the_other_program_agrees() { # scripts/wd-paper has a dynamic program of its own
    (cd "$OLDPWD" && scripts/wd-paper --build "$MDNN_BUILD" --cases p100:resnet50:32:all:8) >page || return 1
    plan_to sum.json --net resnet50 --batch 32 --device-db resnet50.db --policy all --model sum \
        --total 1272MiB || return 1
    python3 -c '
import json
row = next(line.split(" | ") for line in open("page") if line.startswith("| 8 | "))
assert abs(json.load(open("sum.json"))["time_ms"] - float(row[5])) < 0.006, row[5]
'
}
# time NET BATCH POLICY TOTAL: of WR in equal shares
equal_shares_ms() {
    plan_to wr.json --net "$1" --batch "$2" --device-db "$1.db" --policy "$3" --total "$4" &&
        python3 -c 'import json; print(json.load(open("wr.json"))["equal_shares"]["time_ms"])'
}
wd_ms() {
    plan_to wd.json --net "$1" --batch "$2" --device-db "$1.db" --policy all --model sum --total "$3" &&
        python3 -c 'import json; print(json.load(open("wd.json"))["time_ms"])'
}
figure_13_has_its_shape() {
    alexnet=$(wd_ms alexnet 256 120MiB) && a8=$(equal_shares_ms alexnet 256 undivided $((14 * 8))MiB) &&
        a64=$(equal_shares_ms alexnet 256 undivided $((14 * 64))MiB) &&
        resnet=$(wd_ms resnet50 32 2544MiB) &&
        r16=$(equal_shares_ms resnet50 32 undivided $((158 * 16))MiB) &&
        r32=$(equal_shares_ms resnet50 32 undivided $((158 * 32))MiB) || return 1
    echo "AlexNet: WD $alexnet, WR undivided $a8 at 8 MiB, $a64 at 64 MiB; ResNet-50: WD $resnet, $r16, $r32"
    python3 -c 'import sys
wd, at8, at64, resnet, at16, at32 = map(float, sys.argv[1:])
sys.exit(not (at8 >= 1.2 * wd and at64 >= wd and at16 >= 1.05 * resnet and at32 >= resnet))
' "$alexnet" "$a8" "$a64" "$resnet" "$r16" "$r32"
}
drawings_are_xml() {
    LD_LIBRARY_PATH='' "$tool" plan --net alexnet --device-db alexnet.db --total 120MiB --svg division.svg \
        --set-svg set.svg --kernel 'conv2 forward' >table || return 1
    grep -q '^conv2 forward ' table && grep -q '^all ' table || return 1
    python3 -c '
import xml.dom.minidom as xml
division, desirable = (xml.parse(f"{name}.svg") for name in ("division", "set"))
assert len(division.getElementsByTagName("title")) == 14
assert len(desirable.getElementsByTagName("circle")) > 5
'
}
# As wide as letters can be: turned labels side by side, others in boxes, and all within the drawing.
labels_do_not_overlap() {
    LD_LIBRARY_PATH='' "$tool" plan --net resnet50 --batch 32 --device-db resnet50.db --total 2544MiB --policy all --model sum \
        --svg deep.svg >table || return 1
    python3 -c '
import itertools, math, re
import xml.dom.minidom as xml
for name in ("division", "set", "deep"):
    root = xml.parse(f"{name}.svg").documentElement
    width, height = (float(root.getAttribute(each)) for each in ("width", "height"))
    turned, boxes = [], []
    for text in root.getElementsByTagName("text"):
        size = float(text.getAttribute("font-size") or 12)
        length = 0.6 * size * len(text.firstChild.data)
        place = re.match(r"translate\(([\d.]+) ([\d.]+)\) rotate\(60\)", text.getAttribute("transform"))
        if place:
            x, y = float(place[1]), float(place[2])
            turned.append((x, size))
            assert x + length / 2 <= width and y + length * math.sin(math.pi / 3) <= height, (name, text.toxml())
            continue
        x, y = float(text.getAttribute("x")), float(text.getAttribute("y"))
        x -= {"start": 0, "middle": length / 2, "end": length}[text.getAttribute("text-anchor")]
        boxes.append((x, y - 0.8 * size, x + length, y + 0.2 * size, text.toxml()))
        assert x >= 0 and x + length <= width, (name, text.toxml())
    for (a, size), (b, _) in itertools.pairwise(sorted(turned)):
        assert (b - a) * math.sin(math.pi / 3) >= size, (name, a, b)
    for a, b in itertools.combinations(boxes, 2):
        assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1], (name, a, b)
'
}
refused() { # STATUS TEXT OPTION...
    wanted=$1 text=$2
    shift 2
    LD_LIBRARY_PATH='' "$tool" plan "$@" >out 2>err
    [ $? -eq "$wanted" ] && grep -q -- "$text" err && [ ! -s out ] && return
    cat err
    return 1
}
trouble_is_named() {
    refused 2 'are needed' --net alexnet && refused 2 'not a size' --net alexnet --total much &&
        refused 2 'give --device-db$' --net alexnet --total 1m &&
        refused 2 "no 'both'" --net alexnet --total 1m --model both --device-db alexnet.db &&
        refused 2 'number of images' --net alexnet --total 1m --batch 0 &&
        refused 1 "no network 'lexnet'" --net lexnet --total 1m --device-db alexnet.db &&
        refused 1 'not in the database' --net alexnet --batch 3 --total 1m --device-db alexnet.db &&
        refused 1 'not in the database' --net alexnet --dtype fp16 --total 1m --device-db alexnet.db &&
        refused 1 'no database yet' --net alexnet --total 1m --device-db missing.db || return 1
    LD_LIBRARY_PATH='' "$tool" plan --net alexnet --total 1m --device-db alexnet.db --set-svg x \
        --kernel conv9 >out 2>err
    [ $? -eq 1 ] && grep -q "no 'conv9'" err
}


# ---- from what ran ----

statistics_of() { # NAME ARGUMENTS OF TRAIN_CNN...: NAME.json and NAME.run.db
    name=$1
    shift
    MICRODNN_SIM_PROFILE=p100 MICRODNN_SIM_MODE=timing "$tool" tune --from-run --file "$name.run.db" \
        --set convolution.batch_sizes=all --set general.stats=json --set "general.stats_file=$name.json" -- \
        "$MDNN_BUILD/train_cnn" --quiet --data "$data" --warmup 0 --find-repeats 1 "$@"
}
# same_plan NAME NET BATCH MODEL TOTAL: the run's convolutions have what those of the network have.
# train_cnn's fully connected layers are 1x1 convolutions, which --net leaves out: in the model sum
# the network has the rest of the total.
same_plan() {
    plan_to "$1.plan" --from-run "$1.json" --device-db "$1.run.db" --policy all --model "$4" --total "$5" \
        --solver internal || return 1
    rest=$(python3 - "$1" "$4" <<'PYTHON'
import json, sys
name, model = sys.argv[1:]
plan = json.load(open(name + ".plan"))
fully = [k["chosen"]["workspace_bytes"] for k in plan["kernels"] if "x1x1 " in k["problem"] and " nhwc" in k["problem"]]
print(plan["total_bytes"] - (sum(fully) if model == "sum" else 0))
PYTHON
    ) || return 1
    plan_to net.plan --net "$2" --batch "$3" --device-db "$1.run.db" --policy all --model "$4" --total "$rest" \
        --solver internal || return 1
    python3 - "$1" <<'PYTHON'
import json, sys
run, net = (json.load(open(name + ".plan")) for name in (sys.argv[1], "net"))
names = [k["name"] for k in run["kernels"]]
assert len(set(names)) == len(names) and all(name.startswith("layer ") and "#" not in name for name in names), names
ours = [k for k in run["kernels"] if not ("x1x1 " in k["problem"] and " nhwc" in k["problem"])]
same = lambda kernels: sorted((k["name"].split()[-1], k["problem"], k["chosen"]["configuration"],
                               k["chosen"]["workspace_bytes"]) for k in kernels)
assert len(run["kernels"]) > len(ours) == len(net["kernels"]), (len(run["kernels"]), len(ours), len(net["kernels"]))
assert same(ours) == same(net["kernels"]), set(same(ours)) ^ set(same(net["kernels"]))
time = sum(k["chosen"]["time_ms"] for k in ours)
assert abs(time - net["time_ms"]) < 1e-4 and run["optimal"] and net["optimal"], (time, net["time_ms"])
assert run["network"] == "run of train_cnn" and run["device"] == net["device"]
PYTHON
}
a_run_has_the_plan_of_its_network() {
    for api in legacy graph; do
        statistics_of "$api" --net alexnet --batch 32 --iterations 4 --api "$api" || return 1
        for total in 2MiB 20MiB 300MiB; do
            same_plan "$api" alexnet 32 shared "$total" && same_plan "$api" alexnet 32 sum "$total" || return 1
        done
    done
    # The layers are numbered in the order of the network.
    python3 -c '
import json
run, net = (json.load(open(name + ".plan")) for name in ("graph", "net"))
assert [k["problem"] for k in run["kernels"]][:14] == [k["problem"] for k in net["kernels"]]
assert [k["name"] for k in run["kernels"]][:5] == ["layer 1 forward", "layer 1 backward_filter", "layer 2 forward",
    "layer 2 backward_data", "layer 2 backward_filter"]
'
}
identical_layers_are_several_kernels() {
    statistics_of vgg16 --net vgg16 --batch 2 --iterations 3 && same_plan vgg16 vgg16 2 shared 8MiB &&
        same_plan vgg16 vgg16 2 sum 64MiB || return 1
    python3 -c '
import collections, json
plan = json.load(open("vgg16.plan"))
count = collections.Counter(k["problem"] for k in plan["kernels"])
assert len(plan["kernels"]) == 47 and sorted(count.values())[-9:] == [2] * 6 + [3] * 3, count
'
}
evaluations_do_not_hide_training() {
    statistics_of lenet --net lenet --epochs 3 && same_plan lenet lenet 128 shared 1MiB &&
        same_plan lenet lenet 128 sum 1MiB || return 1
    python3 -c '
import json
run = json.load(open("lenet.json"))
ran = "".join(run["convolutions"][e[0]]["problem"][0] for e in run["executions"])
assert ran.count("ffffffffb") > 1, "no evaluation: four layers and one forward run each"
'
}
# As in PyTorch with its allocator: only weights stay where they are.
wandering_activations_do_not_matter() {
    statistics_of still --net vgg16 --batch 2 --iterations 7 && cp still.run.db wandering.run.db || return 1
    python3 - <<'PYTHON'
import json
run = json.load(open("still.json"))
first = run["executions"][0]
iteration, wandered = -1, []
for problem, stream, x, w, y in run["executions"]:
    iteration += [problem, stream, x, w, y] == first
    if run["convolutions"][problem]["problem"].startswith("backward_filter"):
        w += 1000 * (iteration % 5)
    wandered.append([problem, stream, x + 1000 * iteration, w, y + 1000 * iteration])
assert iteration >= 6
run["executions"] = wandered
json.dump(run, open("wandering.json", "w"))
PYTHON
    same_plan still vgg16 2 sum 64MiB && same_plan wandering vgg16 2 sum 64MiB && python3 -c '
import json
still, wandering = (json.load(open(name + ".plan"))["kernels"] for name in ("still", "wandering"))
assert [k["name"] for k in still] == [k["name"] for k in wandering]
assert [k["problem"] for k in still] == [k["problem"] for k in wandering]
'
}
streams_have_arenas_of_their_own() {
    statistics_of streams --net inception-tiny --batch 128 --iterations 16 --branch-streams || return 1
    for model in shared sum; do
        plan_to "$model.plan" --from-run streams.json --device-db streams.run.db --policy all --model "$model" \
            --total 4MiB || return 1
    done
    python3 -c '
import json
for model in ("shared", "sum"):
    plan = json.load(open(model + ".plan"))
    largest = {}
    for kernel in plan["kernels"]:
        arena = kernel["group"] if model == "shared" else kernel["name"]
        largest[arena] = max(largest.get(arena, 0), kernel["chosen"]["workspace_bytes"])
    assert len(plan["kernels"]) == 80, len(plan["kernels"])
    assert plan["workspace_bytes"] == sum(largest.values()) > 0, largest
    assert len({kernel["group"] for kernel in plan["kernels"]}) == 5
'
}
a_running_program_can_be_planned() {
    {
        printf '\n\n\n\n'
        for _ in $(seq 100); do
            LD_LIBRARY_PATH='' "$tool" plan --from-run live.json.live --device-db live.db --total 20MiB >live.plan &&
                break
            sleep 0.2
        done
    } 2>/dev/null | MICRODNN_SIM_PROFILE=p100 MICRODNN_SIM_MODE=timing "$tool" run --set cache.file="$PWD/live.db" \
        --set general.stats=json --set general.stats_file=live.json -- "$MDNN_BUILD/train_cnn" --quiet --data "$data" \
        --net alexnet --batch 32 --find-repeats 1 --step || return 1
    grep -q '^layer 8 backward_filter ' live.plan && [ -s live.json ] && [ ! -e live.json.live ]
}
drawings_of_a_run_name_its_layers() {
    LD_LIBRARY_PATH='' "$tool" plan --from-run legacy.json --device-db legacy.run.db --total 20MiB --svg run.svg \
        --set-svg run-set.svg --kernel 'layer 2 forward' >table || return 1
    python3 -c '
import xml.dom.minidom as xml
division = xml.parse("run.svg")
texts = [text.firstChild.data for text in division.getElementsByTagName("text")]
assert [text for text in texts if text.startswith("layer ")] == [f"layer {n}" for n in range(1, 9)], texts
assert len(division.getElementsByTagName("title")) == 23
'
}
change() { # FILE EXPRESSION: the statistics `run` of legacy.json, changed by it
    python3 -c '
import json, sys
run = json.load(open("legacy.json"))
exec(sys.argv[2])
json.dump(run, open(sys.argv[1], "w"))
' "$1" "$2"
}
other_devices_are_left_out() {
    change devices.json '
for problem in run["convolutions"]:
    problem["device"] = int("x1x1 " in problem["problem"])' && plan_to devices.plan --from-run devices.json \
        --device-db legacy.run.db --policy all --total 20MiB 2>err && grep -q 'other devices than device 0' err || return 1
    plan_to net.plan --net alexnet --batch 32 --device-db legacy.run.db --policy all --total 20MiB && python3 -c '
import json
devices, net = (json.load(open(name + ".plan")) for name in ("devices", "net"))
assert [k["chosen"] for k in devices["kernels"]] == [k["chosen"] for k in net["kernels"]]
assert devices["time_ms"] == net["time_ms"] and devices["workspace_bytes"] == net["workspace_bytes"]
'
}
# refused_run TEXT FILE: one line
refused_run() {
    refused 1 "$1" --from-run "$2" --total 1m --device-db legacy.run.db && [ "$(wc -l <err)" = 1 ] && return
    echo "$2"
    return 1
}
bad_runs_are_named() {
    MICRODNN_SIM_PROFILE=p100 MICRODNN_SIM_MODE=timing "$tool" run --set general.stats=text \
        --set general.stats_file=text.stats -- "$MDNN_BUILD/train_cnn" --quiet --data "$data" --net alexnet \
        --batch 32 --iterations 4 || return 1
    statistics_of short --net alexnet --batch 32 --iterations 1 || return 1
    head -c 5000 legacy.json >cut.json
    printf '{"microdnn_statistics": 3, "executions": [[0,0,0,0,0]]' >open.json
    change later.json 'run["microdnn_statistics"] = 99' && change old.json 'del run["executions"]' && change nothing.json 'run["executions"] = []' &&
        change beyond.json 'run["executions"][7][0] = 23' && change odd.json 'run["executions"][7][2] = -1' &&
        change fewer.json 'run["executions"][7].pop()' && change text.json 'run["executions"][7] = "text"' &&
        change streams.odd 'run["executions"][7][1] = 2000000000' &&
        change nokey.json 'run["convolutions"][3]["key"] = ""' &&
        change other.json 'run["convolutions"][3]["key"] = run["convolutions"][3]["key"].replace("p100", "v100")' ||
        return 1
    refused_run 'missing.json: No such file' missing.json && refused_run 'nor statistics as JSON' text.stats &&
        refused_run 'nor statistics as JSON' legacy.run.db && refused_run 'version 99 of statistics; this microdnn' later.json &&
        refused_run 'damaged' cut.json &&
        refused_run 'damaged' open.json && refused_run 'no sequence' old.json &&
        refused_run 'no convolution ran' nothing.json && refused_run 'damaged' beyond.json &&
        refused_run 'damaged' odd.json && refused_run 'damaged' fewer.json && refused_run 'damaged' text.json &&
        refused_run 'damaged' streams.odd && refused_run 'no key' nokey.json &&
        refused_run 'layer 4 forward (forward 32x384x13x13 .* is not in the database' other.json &&
        refused_run 'nothing repeats' short.json &&
        refused 2 'are needed' --from-run legacy.json --net alexnet --total 1m &&
        refused 2 'are for --net' --from-run legacy.json --batch 3 --total 1m
}

plan 17
check 'databases are made on the simulated GPU' databases_are_made
check 'a division keeps its total, and shared beats sum beats equal shares' a_division_keeps_its_total
if [ -x "$MDNN_BUILD/microdnn-ilp" ]; then
    check 'GLPK and the internal solver agree' both_solvers_agree
    check 'a second dynamic program comes to the same' the_other_program_agrees
else
    skip 'GLPK and the internal solver agree' 'no microdnn-ilp: there is no GLPK (libglpk-dev)'
    skip 'a second dynamic program comes to the same' 'no microdnn-ilp: there is no GLPK (libglpk-dev)'
fi
check 'figure 13 has its shape (simulated)' figure_13_has_its_shape
check 'drawings are XML with every kernel' drawings_are_xml
check 'labels of drawings do not overlap' labels_do_not_overlap
check 'trouble is named' trouble_is_named
check 'what ran has the plan of its network, by both APIs' a_run_has_the_plan_of_its_network
check 'identical layers are several kernels' identical_layers_are_several_kernels
check 'evaluations between epochs do not hide the training' evaluations_do_not_hide_training
check 'activations that wander in memory do not matter' wandering_activations_do_not_matter
check 'streams have arenas of their own' streams_have_arenas_of_their_own
check 'a running program can be planned' a_running_program_can_be_planned
check 'drawings of a run name its layers' drawings_of_a_run_name_its_layers
check 'what ran on other devices is left out' other_devices_are_left_out
check 'bad runs are named' bad_runs_are_named
finish
