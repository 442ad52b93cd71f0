#!/bin/sh
# microdnn plan: divisions from a database, without a GPU, and figure 13 of 2018-micro-cudnn.txt in
# shape (simulated: nothing here was measured on a P100).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

tool=$MDNN_BUILD/microdnn
cd "$TMPDIR" || exit 1

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

plan 7
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
check 'trouble is named' trouble_is_named
finish
