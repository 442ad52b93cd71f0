#!/bin/sh
# scripts/gpu-check and scripts/benchmarks-table, on the simulated GPU in its timing mode: the paper's
# networks at full size, and every figure labelled.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"

quick_check() {
    MICRODNN_SIM=1 scripts/gpu-check --build "$MDNN_BUILD" --quick --pairs 1 >"$OUT/said" 2>&1 &&
        return
    cat "$OUT/said"
    return 1
}

labelled() { grep -q '^SIMULATED: ' "$OUT/said" && ! grep -q '^measured: ' "$OUT/said"; }

rows_say() { report_says rows.json "$1"; }

page_is_labelled() {
    scripts/benchmarks-table "$OUT/rows.json" >"$OUT/page" && grep -q 'Simulated' "$OUT/page" &&
        grep -q 'alexnet b256 tf32 nchw 64MiB' "$OUT/page"
}

# layers_check ARGUMENT...: the errors of small layers alone, which only real arithmetic has.
layers_check() {
    MICRODNN_SIM=1 MICRODNN_SIM_MODE=compute MICRODNN_SIM_PROFILE=toy scripts/gpu-check \
        --build "$MDNN_BUILD" --skip correctness --skip comparison --skip pass-through "$@" \
        >"$OUT/said" 2>&1
}

layers_pass() {
    layers_check --layers tiny:fp32 --layers tiny:fp16:2-2 && rows_say \
        '[(run["passed"], run["failed"], run["status"]) for run in report["correctness"]] == [
         (6, [], 0), (3, [], 0)]'
}

left_out_is_said() {
    ! layers_check --layers tiny:fp16:2-2 --layers-seconds 0 &&
        grep -q '^FAILED: .*--layers tiny:fp16:2-2$' "$OUT/said"
}

# With other rows in each, as the second run writes rows.json anew.
both_runs_are_kept() {
    tar -C "$OUT" -xf "$OUT/0-rows.tar" 1-rows.json 2-rows.json &&
        ! cmp -s "$OUT/1-rows.json" "$OUT/2-rows.json"
}

plan 9
check 'a quick check of AlexNet passes' quick_check
check 'its table is labelled as simulated' labelled
check 'its rows say that they are simulated' rows_say 'report["simulated"] is True'
check 'convolutions ran as micro-batches' rows_say 'report["rows"][0]["split"] > 0'
check 'and were faster' rows_say 'report["rows"][0]["ratio_median"] > 1'
check 'the page made from the rows is labelled as simulated' page_is_labelled
check 'the errors of layers are checked, those asked for' layers_pass
check 'layers that there is no time for are a failure, said by name' left_out_is_said
check 'rows of every run of a command are kept apart' both_runs_are_kept
finish
