# Tests of what measures on a GPU (scripts/gpu, scripts/gpu-check), where there is none. Sourced after
# tap.sh; goes to the root of the sources. The scripts write to $OUT, which is removed at the end.
# shellcheck shell=sh
cd "$(dirname "$0")/.." || exit 1

[ -z "${MDNN_PRELOAD_FIRST:-}" ] ||
    skip_all "the sanitizer's run time must be loaded first, also into Python"
OUT=$(mktemp -d)
export OUT
trap 'rm -rf "$OUT"' EXIT

# $BUILD gets a library that can be preloaded, for workers of test/fakes, which play its part.
make_stand_in() {
    command -v gcc >/dev/null || skip_all "no gcc, which makes the stand-in"
    BUILD=$OUT/build
    mkdir "$BUILD"
    printf 'int stands_in;\n' | gcc -shared -fPIC -x c - -o "$BUILD/libmicrodnn.so"
}

# In $OUT, for scripts that write pages.
copy_of_docs() { rm -rf "$OUT/docs" "$OUT/scripts" && cp -r scripts docs "$OUT"; }

# report_says FILE EXPRESSION: of `report`, the JSON in $OUT/FILE, and `rows`, what it has of these
report_says() {
    python3 - "$OUT/$1" "$2" <<'END'
import json, sys
report = json.load(open(sys.argv[1]))
rows = report["rows"]
sys.exit(0 if eval(f"({sys.argv[2]})") else repr(report)[:4000])
END
}
