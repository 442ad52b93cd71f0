#!/bin/sh
# `microdnn report`: the page says what the files say, asks for nothing else, and is readable in many ways.
. test/tap.sh
build=${MDNN_BUILD:-build}
[ -e "$build/sim/libcuda.so.1" ] || skip_all 'there is no simulated GPU in this build'
python3 -c 'import matplotlib' 2> /dev/null || skip_all 'there is no matplotlib here (scripts/setup --pictures)'
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
tool=$(realpath "$build/microdnn")
library_comes_first
export MICRODNN_MEMORY_KERNELS= MPLCONFIGDIR="$work/matplotlib"

run() { # name, budget
    LD_LIBRARY_PATH=$build/sim "$tool" run --memory "$2" --trace "$work/$1.trace" --record "$work/$1.record" \
        --stats json --stats-file "$work/$1.json" -- "$build/train_cnn" --net lenet --batch 256 --search heuristic \
        --workspace-limit 64k --iterations 12 > "$work/out" 2> "$work/err" || { cat "$work/err"; return 1; }
}
report() { # page, arguments...
    page=$work/$1
    shift
    "$tool" report -o "$page" "$@" > "$work/out" 2> "$work/err" && [ ! -s "$work/out" ] || { cat "$work/out" "$work/err"; return 1; }
}

python() { # a program that finds `page` (test/tools/report_page.py)
    PYTHONPATH=test/tools python3 -B - "$1" << P
import json, os, sys
from report_page import Page
base = "$work"
page = Page(sys.argv[1])
$2
P
}

# A second rank: the first one with another budget, and with times of convolutions as a larger network has them.
make_second() {
    python3 -I -S - "$work" << 'P'
import json, sys
stats = json.load(open(sys.argv[1] + "/first.json"))
stats["memory"][0]["budget_bytes"] = 22 << 20
for place, row in enumerate(stats["convolutions"]):
    row.update(configuration="4 x 64 @ 7", configuration_ms=1 + place / 8, workspace_bytes=place << 20,
               undivided_ms=None if place % 4 == 0 else 2 + place / 4)
json.dump(stats, open(sys.argv[1] + "/second.json", "w"))
P
    sed 's/^budget 20971520/budget 23068672/' "$work/first.record" > "$work/second.record"
}
a_page_is_made() {
    run first 20m && make_second && report one.html "$work/first.json" --trace "$work/first.trace" \
        --record "$work/first.record" --figures "$work/figures" &&
        report two.html "$work/first.json" "$work/second.json" --record "$work/first.record" --record "$work/second.record"
}
its_numbers_are_those_of_the_json() {
    python "$work/one.html" '
stats = json.load(open(base + "/first.json"))
assert page.json["statistics"] == [stats]
assert len(page.numbers) > 80, len(page.numbers)
for value, path, shown in page.numbers:
    found = page.json
    for step in path.split("."):
        found = found[int(step) if isinstance(found, list) else step]
    assert repr(found) == value, (path, found, value)
    assert page.is_close(found, shown), (path, found, shown)
memory = {path for _, path, _ in page.numbers}
for key in "budget_bytes peak_resident_bytes out_bytes host_wait_ms predicted_ms link_bound_ms demand_returns".split():
    assert "statistics.0.memory.0." + key in memory, key
for line in stats["verdict"]:
    assert line in page.text, line
advice = page.json["advice"][0]
assert len([path for path in memory if path.endswith("bound_ms") and path.startswith("advice")]) == len(
    [row for row in advice["rows"] if not row["gpu"] and "bound_ms" in row])'
}
convolutions_are_shown_before_and_after() {
    python "$work/two.html" '
rows = page.json["statistics"][1]["convolutions"]
assert len(rows) > 8
paths = {path: float(value) for value, path, _ in page.numbers}
for place, row in enumerate(rows):
    for key in "configuration_ms undivided_ms workspace_bytes".split():
        assert paths.get(f"statistics.1.convolutions.{place}.{key}") == row[key], (place, key)
    assert row["problem"] in page.text
assert "2.00 ×" in page.text and "only divided" in page.text # 2.25 ms in 1.125
assert "figure-convolutions" in page.ids'
}
fronts_are_shown_if_costs_are_given() {
    LD_LIBRARY_PATH=$build/sim MICRODNN_SIM_MODE=timing "$tool" run --set cache.file="$work/costs" --workspace-limit 64m \
        --stats json --stats-file "$work/third.json" -- "$build/train_cnn" --net alexnet --batch 64 --search heuristic \
        --workspace-limit 64m --iterations 6 > "$work/out" 2> "$work/err" || { cat "$work/err"; return 1; }
    report three.html "$work/third.json" --costs "$work/costs" && python "$work/three.html" '
kernels = page.json["plans"][0]["kernels"]
assert len(kernels) == len(page.json["statistics"][0]["convolutions"]) > 20
paths = {path: value for value, path, _ in page.numbers}
for place, kernel in enumerate(kernels):
    for number, point in enumerate(kernel["desirable"]):
        assert paths[f"plans.0.kernels.{place}.desirable.{number}.time_ms"] == repr(point["time_ms"])
assert max(len(kernel["desirable"]) for kernel in kernels) > 3
assert "figure-fronts" in page.ids and "figure-convolutions" in page.ids
assert [table["caption"] for table in page.tables] == [
    "Each convolution, undivided and as it runs", "What was counted, by process"] # there was no budget'
}
every_time_of_the_host_has_its_words() {
    python "$work/one.html" '
sys.path.insert(0, "scripts/report")
from words import HOST_TIMES
keys = {key[5:-3] for key in page.json["statistics"][0]["memory"][0] if key.startswith("host_") and key.endswith("_ms")}
assert keys - {"wait"} == set(HOST_TIMES), keys'
}
every_figure_is_there() {
    python "$work/one.html" '
expected = "memory-by-kind memory-of-run planned-moves seen-moves milliseconds budgets".split()
drawn = [figure["label"].replace("figure-", "") for figure in page.figures]
for name in expected:
    assert name in drawn, (name, drawn)
for name in drawn:
    svg = open(f"{base}/figures/{name}.svg").read()
    assert svg.startswith("<?xml") and "</svg>" in svg
    assert open(f"{base}/figures/{name}.png", "rb").read(8) == b"\x89PNG\r\n\x1a\n"
assert len(os.listdir(base + "/figures")) == 2 * len(drawn)
for figure in page.figures:
    assert figure["svgs"] == 2 and figure["caption"].strip(), figure # for wide and for narrow pages'
}
it_refers_to_nothing_else() {
    for name in one two; do
        python "$work/$name.html" '
assert not page.references, page.references
assert page.policy.startswith("default-src '"'none'"'"), page.policy
assert page.scripts == ["application/json"], page.scripts' || return 1
    done
}
it_can_be_read_without_a_mouse_and_aloud() {
    python "$work/two.html" '
assert page.language == "en" and page.viewport
assert len(page.ids) == len(set(page.ids)), [name for name in page.ids if page.ids.count(name) > 1]
assert not page.dangling(), page.dangling() # of links and labels
assert page.levels[0] == 1 and page.levels.count(1) == 1 and set(page.levels) == {1, 2}, page.levels
for table in page.tables:
    assert table["caption"] and table["heads"] and table["row_heads"] == table["rows"] and table["focusable"], table
assert page.skip_link == "#verdict"'
}
its_colours_have_contrast() {
    python "$work/one.html" '
pairs = page.colour_pairs()
assert len(pairs) > 5
for words, ratio in pairs:
    assert ratio >= 4.5, (words, ratio)'
}
ranks_stand_side_by_side() {
    python "$work/two.html" '
assert [row["memory"][0]["budget_bytes"] >> 20 for row in page.json["statistics"]] == [20, 22]
table = next(table for table in page.tables if table["caption"] == "Memory of the run")
assert table["heads"] == ["", "rank 0", "rank 1"], table["heads"]
assert " of weights and the like, " in page.text, page.text
assert "rank 0: at the fullest moment" in page.text.lower() and "rank 1: at the fullest moment" in page.text.lower()
paths = [path for _, path, _ in page.numbers]
assert "statistics.0.memory.0.out_bytes" in paths and "statistics.1.memory.0.out_bytes" in paths'
}

browser() { command -v chromium || command -v chromium-browser || command -v google-chrome; }
# What the page asked the browser for, one address a line. The browser has errands of its own, which have no origin.
asked_for() { # page
    timeout 120 "$(browser)" --headless=new --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
        --disable-component-update --proxy-server=http://127.0.0.1:9 --user-data-dir="$work/profile" \
        --virtual-time-budget=2000 --log-net-log="$work/net.json" --dump-dom "file://$1" > "$work/dom" 2> /dev/null ||
        { echo "the browser failed"; return 1; }
    python3 -I -S - "$work/net.json" << 'P'
import json, sys
asked = [event["params"] for event in json.load(open(sys.argv[1]))["events"] if "initiator" in event.get("params", {})]
print("\n".join({found["url"] for found in asked if found["initiator"] != "not an origin"}))
P
}
a_browser_asks_for_nothing_else() {
    echo '<img src="http://mdnn.invalid/picture.png">' > "$work/control.html"
    asked_for "$work/control.html" > "$work/asked" && [ "$(cat "$work/asked")" = http://mdnn.invalid/picture.png ] ||
        { echo 'the log of the browser does not show a request'; cat "$work/asked"; return 1; }
    asked_for "$work/one.html" > "$work/asked" || return 1
    if grep . "$work/asked"; then return 1; fi
    grep -q '<h2 id="verdict-title">Verdict</h2>' "$work/dom"
}

fails() { # pattern, arguments...: exit status 1, one line, no page
    pattern=$1 status=0
    shift
    "$tool" report -o "$work/none.html" "$@" > "$work/out" 2> "$work/err" || status=$?
    [ "$status" = 1 ] && [ ! -s "$work/out" ] && [ ! -e "$work/none.html" ] && [ "$(wc -l < "$work/err")" = 1 ] &&
        grep -q "^microdnn: $pattern" "$work/err" || { echo "$*: $status"; cat "$work/out" "$work/err"; return 1; }
}
wrong() { # pattern, arguments...: exit status 2
    pattern=$1 status=0
    shift
    "$tool" report "$@" > "$work/out" 2> "$work/err" || status=$?
    [ "$status" = 2 ] && grep -q "$pattern" "$work/err"
}
mistakes_are_named() {
    echo '{"a": 1}' > "$work/rubbish"
    fails "$work/missing: " "$work/missing" && fails "$work/rubbish: not a live file" "$work/rubbish" &&
        fails "$work/rubbish: this is not a trace" "$work/first.json" --trace "$work/rubbish" &&
        fails "$work/missing: No such file" "$work/first.json" --trace "$work/missing" &&
        fails "$work/rubbish: this is not a record" "$work/first.json" --record "$work/rubbish" &&
        wrong 'report: which statistics?' && wrong 'report: -o FILE says' "$work/first.json"
}
# A browser that prints takes long for each path with hatches, and a page grows with what it draws.
long_traces_make_small_pages() {
    PYTHONPATH=scripts/report python3 -B -c '
import data, figures
trace = data.Trace("long")
for number in range(20000):
    at = number / 10
    trace.moves.append(data.Move(number % 2 == 0, at, at + 0.15, 1))
    trace.waits.append(data.Wait(at, at + 0.01, "copy"))
    trace.operations.append(data.Operation(at, at + 0.05, "f"))
trace.resident = [(0, 1), (2000, 1)]
memory = data.Known({"device": 0, "budget_bytes": 1}, 0)
rank = data.Rank("long", {}, memory)
rank.trace = trace
svg = figures.seen_moves([rank]).svg()
assert len(svg) < 300000 and svg.count("url(#") < 20, (len(svg), svg.count("url(#"))
assert [list(span) for span in figures._merged([(5, 6), (0, 1), (1.05, 3), (0.5, 0.7)], 0.1)] == [[0, 3], [5, 6]]'
}
# Each value of the statistics in turn is missing or of another type, and so is each kind of value in a trace: there is a
# page or one line, and no trace of Python.
wrong_values_make_a_page_or_a_line() {
    MICRODNN_TOOL=$tool PYTHONPATH=scripts/report python3 -B - "$work" << 'P'
import copy, json, sys
import data, figures, page
base = sys.argv[1]
whole = json.load(open(base + "/first.json"))
whole["convolutions"], whole["executions"] = whole["convolutions"][:1], []
events = json.load(open(base + "/first.trace"))
events = events["traceEvents"] if isinstance(events, dict) else events
kinds = list({(event.get("ph"), event.get("name")): event for event in events if event.get("ph") not in ("i", "X")}.values())
kinds += [next(event for event in events if event.get("ph") == kind) for kind in ("i", "X") if kind in {e.get("ph") for e in events}]
pages = lines = 0

def places(value, path=()):
    yield from [path] if path else []
    if isinstance(value, (dict, list)):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from places(value[key], path + (key,))

def mutants(value):
    for path in list(places(value)):
        for wrong in "missing", "x", [7], None, 1e17:
            changed = copy.deepcopy(value)
            at = changed
            for step in path[:-1]:
                at = at[step]
            if wrong == "missing":
                del at[path[-1]]
            else:
                at[path[-1]] = wrong
            yield changed

def show(statistics, traces):
    global pages, lines
    try:
        ranks = data.read_all(statistics, traces, [])
        figures.all_of(ranks)
        page.make(ranks, {})
        pages += 1
    except data.Trouble as trouble:
        assert "\n" not in str(trouble), trouble
        lines += 1

for changed in mutants(whole):
    json.dump(changed, open(base + "/changed.json", "w"))
    show([base + "/changed.json"], [])
for changed in mutants(kinds):
    json.dump(changed, open(base + "/changed.trace", "w"))
    show([base + "/first.json"], [base + "/changed.trace"])
assert pages > 50 and lines > 200, (pages, lines)
P
    head -c 3000 "$work/first.json" > "$work/cut.json" && fails "$work/cut.json: these statistics are damaged: not JSON" "$work/cut.json" &&
        sed 's/"budget_bytes": [0-9]*/"budget_bytes": "x"/' "$work/first.json" > "$work/odd.json" &&
        fails "$work/odd.json: these statistics are damaged: budget_bytes is not a number" "$work/odd.json"
}
without_matplotlib_it_says_what_to_install() {
    mkdir "$work/without" && echo 'raise ImportError' > "$work/without/matplotlib.py"
    PYTHONPATH=$work/without fails 'this needs the Python package matplotlib: python3 -m pip install' "$work/first.json"
}
# The last batch of a killed process is missing, and so is the end of the file.
a_trace_without_its_end_is_shown() {
    head -c 20000 "$work/first.trace" | sed '$d' > "$work/cut.trace"
    PYTHONPATH=scripts/report python3 -B -c '
import sys, data
cut, whole = data.read_trace(sys.argv[1])[0], data.read_trace(sys.argv[2])[0]
assert 0 < len(cut.resident) < len(whole.resident) and cut.resident == whole.resident[: len(cut.resident)]
assert cut.budget == whole.budget == 20 << 20 and len(whole.moves) > len(cut.moves)' "$work/cut.trace" "$work/first.trace"
}
advice_is_drawn() {
    "$tool" advise "$work/first.record" --gpu none --plot "$work/advice.svg" > "$work/out" && grep -q '</svg>' "$work/advice.svg" &&
        grep -q 'budget' "$work/out" && ! "$tool" advise "$work/first.record" --gpu none --plot "$work/advice.xyz" > "$work/out" \
        2> "$work/err" && grep -q "can be .svg, .png or .pdf, not '.xyz'" "$work/err" && [ ! -e "$work/advice.xyz" ]
}

# The output is a FIFO, a link to one, a link to a file, or a link to nothing yet: none of them becomes a file.
in_place() { # what makes the output...: a command
    "$tool" "$@" > "$work/out" 2> "$work/err" || { cat "$work/out" "$work/err"; return 1; }
}
devices_and_links_stay() {
    mkdir "$work/places" && mkfifo "$work/places/pipe" && ln -s pipe "$work/places/to-pipe" && echo old > "$work/places/file" &&
        ln -s file "$work/places/to-file" && ln -s new "$work/places/to-new" && ln -s plot "$work/places/plot.svg" &&
        mkdir "$work/places/figures" && ln -s ../milliseconds "$work/places/figures/milliseconds.svg" || return 1
    for output in pipe to-pipe; do
        cat "$work/places/pipe" > "$work/$output.html" &
        in_place report "$work/first.json" -o "$work/places/$output" && [ -p "$work/places/pipe" ] &&
            [ -h "$work/places/to-pipe" ] || { echo "no FIFO: $output"; kill $!; return 1; }
        wait $! && [ "$(tail -n 1 "$work/$output.html")" = '</html>' ] || return 1
    done
    in_place report "$work/first.json" -o "$work/places/to-file" && in_place report "$work/first.json" -o "$work/places/to-new" \
        --figures "$work/places/figures" && in_place advise "$work/first.record" --gpu none --plot "$work/places/plot.svg" ||
        return 1
    for link in to-pipe to-file to-new plot.svg figures/milliseconds.svg; do
        [ -h "$work/places/$link" ] || { echo "$link is no link any more"; return 1; }
    done
    cmp "$work/to-pipe.html" "$work/places/file" && cmp "$work/to-pipe.html" "$work/places/new" &&
        grep -q '</svg>' "$work/places/plot" && grep -q '</svg>' "$work/places/milliseconds" &&
        [ -z "$(find "$work/places" -name '*.tmp.*')" ]
}

plan 19
check 'a page is made of statistics, traces and records' a_page_is_made
check 'its numbers are those of the JSON' its_numbers_are_those_of_the_json
check 'convolutions are shown before and after' convolutions_are_shown_before_and_after
check 'fronts are shown if costs are given' fronts_are_shown_if_costs_are_given
check 'every time of the host has its words' every_time_of_the_host_has_its_words
check 'every figure is there, as SVG and PNG too' every_figure_is_there
check 'it refers to nothing else' it_refers_to_nothing_else
check 'it can be read without a mouse, and aloud' it_can_be_read_without_a_mouse_and_aloud
check 'its colours have contrast' its_colours_have_contrast
check 'ranks stand side by side' ranks_stand_side_by_side
if ! thorough; then
    skip 'a browser asks for nothing else' 'only in make test-thorough'
elif browser > /dev/null; then
    check 'a browser asks for nothing else' a_browser_asks_for_nothing_else
else
    skip 'a browser asks for nothing else' 'there is no chromium here (apt install chromium)'
fi
check 'mistakes are named' mistakes_are_named
check 'long traces make small pages' long_traces_make_small_pages
check 'wrong values make a page or a line' wrong_values_make_a_page_or_a_line
check 'without matplotlib it says what to install' without_matplotlib_it_says_what_to_install
check 'a trace without its end is shown' a_trace_without_its_end_is_shown
check 'advice is drawn' advice_is_drawn
check 'devices and links stay what they are' devices_and_links_stay
check 'the help names every option' sh -c "'$tool' report --help | grep -q -- --figures"
finish
