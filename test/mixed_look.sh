#!/bin/sh
# scripts/gpu/mixed-look and scripts/mixed-table without a GPU: that a process which dies takes one case with it, what
# counts as wrong, that nothing is left out silently, and that a page says all of this. A compiler of this test makes programs that answer, and a worker of
# test/fakes stands in for PyTorch.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/measuring.sh
. "$(dirname "$0")/measuring.sh"
make_stand_in
mkdir "$OUT/bin"
cat >"$OUT/bin/nvcc" <<'END'
#!/bin/sh
while [ "$1" != -o ]; do shift; done
case $2 in
*/mixed_border) cp "$OUT/border" "$2" ;;
*) printf '#!/bin/sh\necho "{\\"what\\": \\"disturbance\\", \\"alone_ms\\": 1}"\n' >"$2" ;;
esac
chmod +x "$2"
END
chmod +x "$OUT/bin/nvcc"

# Each process but the first is told which case ended the one before it.
cat >"$OUT/border" <<'END'
#!/bin/sh
row() { printf '{"begin": "%s: %s"}\n{"case": "%s", "layout": "%s", "right": %s, "gb_s": 50}\n' "$1" "$2" "$2" "$1" "$3"; }
case ${1:-} in
"") row device reads true; echo '{"begin": "half: reads"}'; kill -SEGV $$ ;;
"half: reads") row half writes true; row host reads false; exit 3 ;; # it says itself what was wrong
"host: reads") row host writes true ;;
esac
END

look() {
    PATH=$OUT/bin:$PATH scripts/gpu/mixed-look --build "$BUILD" --worker test/fakes/memory_worker.py "$@" >"$OUT/said" 2>&1
}

says() {
    report_says mixed.json "$1"
}

goes_on_behind_a_death() {
    look --part border
    [ $? = 1 ] && says '[(row["layout"], row["case"], row["right"]) for row in rows] == [
        ("device", "reads", True), ("half", "reads", False), ("half", "writes", True), ("host", "reads", False),
        ("host", "writes", True)] and "status -11" in rows[1]["error"]' &&
        grep -q '^  reads: 50.0 | WRONG ended: status -11 | - | WRONG' "$OUT/said"
}

costs_of_changes_are_no_verdict() {
    look --part backing && grep -q '^backing what disturbance, alone_ms 1$' "$OUT/said"
}

operators_compared_with_device_memory() {
    look --part operators && says 'len(rows) == 8 and all(row["right"] for row in rows)' || return 1
    FAKE_WRONG='{"sort": "bits"}' look --part operators
    [ $? = 1 ] && says '[row["bytes"] for row in rows if row["case"] == "sort"] == ["same"] + 3 * ["DIFFERENT"]'
}

worker_begins_anew() {
    FAKE_WRONG='{"product": "crash"}' look --part operators
    [ $? = 1 ] && says '[row["right"] for row in rows if row["case"] == "product"] == [True] + 3 * [False] and
        all(row["right"] for row in rows if row["case"] == "sort")'
}

networks_as_on_device_memory() {
    look --part networks && says 'len(rows) == 18 and all(row["right"] for row in rows)'
}

# Each allocator as often as there are networks, within 0.7 of what stock had at its peak.
allocators_under_a_budget() {
    look --part allocators && says 'len(rows) == 36 and all(row["right"] for row in rows) and
        {row["allocator"] for row in rows} == {"stock", "async", "native", "native, whole", "native, collected", "uncached"} and
        all(row["memory"]["budget_bytes"] == int(0.7 * row["peak"]) and row["ratio"] == 1 for row in rows if "budget" in row)' ||
        return 1
    look --part allocators --allocator uncached --allocator 'native, collected' &&
        says 'len(rows) == 18 and {row["allocator"] for row in rows} == {"stock", "native, collected", "uncached"}' || return 1
    FAKE_WRONG='{"vgg16": "bits"}' look --part allocators
    [ $? = 1 ] && says 'sum(not row["right"] for row in rows) == 5'
}

# A process that crashed says how before what it said; a hanging one takes the rest of the time.
ended_processes_are_told_apart() {
    FAKE_WRONG='{"vgg16": "crash"}' look --part allocators
    [ $? = 1 ] && grep -q '^allocator vgg16, native, whole: library .* ended during `program` with status -6' "$OUT/said" &&
        says 'sum(not row["right"] for row in rows) == 5 and not report["left_out"]' || return 1
    FAKE_WRONG='{"vgg16": "hang"}' look --part allocators --seconds 5
    [ $? = 1 ] && says 'all(row["right"] for row in rows) and len(rows) + len(report["left_out"]) == 36 and
        "allocators: async vgg16" in report["left_out"]'
}

left_out_is_said() {
    look --part networks --seconds 0
    [ $? = 1 ] && says 'len(report["left_out"]) == 18 and not rows' && grep -q '^LEFT OUT (18): ' "$OUT/said"
}

page_is_of_the_rows() {
    page=$OUT/docs/benchmarks/mixed.md
    copy_of_docs && rm "$page" && "$OUT/scripts/mixed-table" && cmp docs/benchmarks/mixed.md "$page" &&
        [ "$(wc -l <"$page")" -le 150 ]
}

page_says() { grep -q -- "$1" "$OUT/docs/benchmarks/mixed.md" || { echo "not in the page: $1" && false; }; }

# Of a device, whose git knows another commit; then of those that are kept and a part that ran again.
page_of_these_rows() {
    FAKE_WRONG='{"vgg16": "bits"}' look
    copy_of_docs && "$OUT/scripts/mixed-table" --keep rows --note 'A note.' --commit 0123abcd --device 'A device' \
        --without-row 'allocators: uncached gpt2' --without-rate 'host: writes' "$OUT/mixed.json" &&
        "$OUT/scripts/mixed-table" && page_says '^A device, .* source 0123abcd, ' && page_says '^- A note' &&
        page_says '^| border | .* | 3 | 2 | 0 | 0 | 0 |$' && page_says '^- Wrong: reads (half): ended: status -11' &&
        page_says '^| writes | - | 50.0 | - | - |$' && page_says '^| sort | 1.00 | 1.00 | 1.00 | 1.00 | same |' &&
        page_says '^| vgg16 | .*WRONG, 1.00, ' && page_says '^| gpt2 | .*| 1.00, 0 GiB | not run |$' || return 1
    look --part networks && "$OUT/scripts/mixed-table" --keep rows "$OUT/docs/benchmarks/data/h200-mixed.json" \
        "$OUT/mixed.json" && "$OUT/scripts/mixed-table" && page_says '^| allocators | ' &&
        page_says '^| networks | .* | 18 | 0 '
}

without_a_build() {
    rm "$BUILD/libmicrodnn.so"
    look --part allocators
    [ $? = 2 ]
}

plan 11
check "a process that dies takes one case with it" goes_on_behind_a_death
check "what changes cost is shown" costs_of_changes_are_no_verdict
check "operations are compared with the same on device memory" operators_compared_with_device_memory
check "a worker that dies begins anew" worker_begins_anew
check "networks are compared with the same on device memory" networks_as_on_device_memory
check "each allocator trains each network under a budget" allocators_under_a_budget
check "a process that crashed is wrong, one that the end of the time cut off is left out" ended_processes_are_told_apart
check "what there was no time for is said" left_out_is_said
check "the page in docs is made of the kept rows, and short" page_is_of_the_rows
check "a page is made of such rows" page_of_these_rows
check "without a build nothing is measured" without_a_build
finish
