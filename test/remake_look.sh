#!/bin/sh
# scripts/gpu/remake-look and remake_survey without a GPU: what could be remade in a record, of the simulated GPU too, and
# that nothing is left out silently.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
build=$MDNN_BUILD
survey=$build/test/tools/remake_survey

# Of $OUT/said.
says() {
    python3 - "$OUT/said" "$1" <<'END_PYTHON'
import json, sys
found = json.load(open(sys.argv[1]))
cautious, guess = found["cautious"], found["guess"]
sys.exit(0 if eval(f"({sys.argv[2]})") else repr(found)[:4000])
END_PYTHON
}

# Each operation of this period is known to read or write, so a guess changes little.
survey_of_a_record() {
    "$build/test/tools/sample_record" resnet50 256 12 >"$OUT/record" && "$survey" "$OUT/record" >"$OUT/said" &&
        says 'len(guess["runs"]) == len(cautious["runs"]) == 7 and
            all(run["peak"] <= 1.02 * run["budget"] for run in guess["runs"][:6]) and
            0 < guess["runs"][0]["ms"] < guess["runs"][4]["ms"] <= 0.3 * guess["ms"] and
            sum(band["bytes"] for band in guess["bands"]) > 0.9 * guess["peak"]' &&
        "$survey" "$OUT/record" 16 100 >"$OUT/said" &&
        says '[run["budget"] >> 30 for run in guess["runs"]] == [16, 100] and guess["runs"][1]["dropped"] == 0 and
            guess["runs"][1]["peak"] == guess["peak"]'
}

survey_of_a_run() {
    [ -e "$build/sim/libcuda.so.1" ] || { skip_reason='no simulated GPU'; return 0; }
    LD_LIBRARY_PATH=$build/sim "$build/microdnn" run --memory 64m --record "$OUT/run" -- \
        "$build/test/clients/kept_chain" >"$OUT/out" 2>&1 || { cat "$OUT/out"; return 1; }
    "$survey" "$OUT/run" 0.02 >"$OUT/said" &&
        says 'found["program"] == "kept_chain" and found["simulated"] and found["operations"] == 16 and
            guess["peak"] == 9 * 4 << 20 and guess["runs"][0]["dropped"] == 4 and
            guess["runs"][0]["peak"] == 5 * 4 << 20 and guess["runs"][0]["ms"] > 0'
}

bad_records_are_refused() {
    "$survey" 2>/dev/null
    [ $? = 2 ] || return 1
    "$survey" "$OUT/none" 2>"$OUT/err"
    [ $? = 1 ] && grep -q 'none: No such file' "$OUT/err" && head -n 20 "$OUT/record" >"$OUT/cut" || return 1
    "$survey" "$OUT/cut" 2>"$OUT/err"
    [ $? = 1 ] && grep -q 'cut:12: bad format' "$OUT/err"
}

# A launcher that records what it was told to.
make_launcher() {
    mkdir -p "$OUT/build/test/tools" && ln -sf "$survey" "$OUT/build/test/tools/" &&
        printf '#!/bin/sh\n[ "$1 $2 $4" = "run --memory --record" ] && cp "%s" "$5"\n' "$OUT/record" >"$OUT/build/microdnn" &&
        chmod +x "$OUT/build/microdnn"
}

records_are_surveyed() {
    make_launcher && scripts/gpu/remake-look --part records --build "$OUT/build" >"$OUT/printed" 2>&1 &&
        report_says remake.json '[row["network"] for row in rows] == ["resnet50", "vgg16", "densenet121", "googlenet"] and
            all(row["survey"]["guess"]["peak"] > 0 for row in rows)' &&
        grep -q '^vgg16 b128 | guess | ' "$OUT/printed"
}

left_out_is_said() {
    rm -r "$OUT/build"
    scripts/gpu/remake-look --part records --network vgg16 --build "$OUT/build" >"$OUT/printed" 2>&1
    [ $? = 1 ] && grep -q '^left out: records vgg16: ' "$OUT/printed" || return 1
    scripts/gpu/remake-look --part records --seconds -1 >"$OUT/printed" 2>&1
    [ $? = 1 ] && [ "$(grep -c 'left out: .* no time left' "$OUT/printed")" = 4 ]
}

# Of a file that a GPU wrote.
proofs_are_shown() {
    python3 - "$OUT/proofs.json" <<'END_PYTHON' && scripts/gpu/remake-look --table "$OUT/proofs.json" >"$OUT/printed" &&
import json, re, sys
names = re.findall(r'REMAKE_OUTCOME\((\w+)', open("config/remake_outcomes.def").read())
each = {f"remake_{name}{what}": 0 for name in names for what in ("", "_bytes")}
each |= {"remake_proven": 30, "remake_proven_bytes": 3 << 30, "remake_ms": 6, "remake_differs": 2, "remake_differs_bytes": 1 << 29,
         "remake_proofs": 90, "remake_differences": 2}
row = {"part": "proofs", "network": "vgg16", "batch": 128, "losses": "stock", "iterations": 24, "found": each, "each": each}
json.dump({"rows": [row], "left_out": []}, open(sys.argv[1], "w"))
END_PYTHON
        grep -q '^vgg16 b128 | stock | 32 | 30 | 3.00 | 2.00 | 2 of 90 | differs 0.50$' "$OUT/printed"
}

drops_are_shown() {
    python3 - "$OUT/drops.json" <<'END_PYTHON' && scripts/gpu/remake-look --table "$OUT/drops.json" >"$OUT/printed" &&
import json, sys
sys.path.insert(0, "scripts/gpu")
import remake_drops as drops
shown = [f"remake_{name}" for name in ("dropped_bytes", "wanted", "early", "refused", "lost")]
side = {**dict.fromkeys([*drops.COUNTS, *shown], 0), "ms": 200.0, "bits": "stock's", "out_bytes": drops.ITERATIONS << 31}
row = {"part": "drops", "network": "bert", "batch": 16, "budget": 5 << 30, "share": 0.6, "stock_ms": 60.0, "off": side,
       "checked": {**side, "ms": 100.0, "remake_dropped_bytes": drops.ITERATIONS << 30, "remake_wanted": 7, "out_bytes": 0}}
json.dump({"rows": [row, {**row, "chunk_size": "32MiB"}], "left_out": []}, open(sys.argv[1], "w"))
END_PYTHON
        grep -q '^bert b16 60%, chunks of 32MiB | 5.00 ' "$OUT/printed" &&
        grep -q "^bert b16 60% | 5.00 | 60.0 | 200.0 | 2.00, 0.00 | 100.0 | 0.00, 0.00 | 1.00 | 7, 0 | 0 | 0 | stock's, stock's\$" "$OUT/printed"
}

page_of_proofs() {
    scripts/remake-table --page "$OUT/remaking.md" && diff docs/benchmarks/remaking.md "$OUT/remaking.md"
}

proofs_without_a_build() {
    scripts/gpu/remake-look --part proofs --network vgg16 --build "$OUT/build" >"$OUT/printed" 2>&1
    [ $? = 1 ] && grep -q '^left out: proofs vgg16: ' "$OUT/printed"
}

plan 9
check "a record says what could be remade within which budget" survey_of_a_record
check "so does one that the library wrote on the simulated GPU" survey_of_a_run
check "what is no record is refused" bad_records_are_refused
check "remake-look records networks and surveys them" records_are_surveyed
check "what was left out is said" left_out_is_said
check "proofs are shown as a table" proofs_are_shown
check "drops are shown beside moves" drops_are_shown
check "docs/benchmarks/remaking.md is what scripts/remake-table writes" page_of_proofs
check "without a build they are left out" proofs_without_a_build
finish
