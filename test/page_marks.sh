#!/bin/sh
# Each block of code in the README, the tutorials and the recipes says who runs it, and scripts/page-commands notices
# what does not work.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

# A page that has the given lines, what scripts/page-commands says of it, and its exit status.
page_says() { # status, pattern, line...
    status=$1 pattern=$2
    shift 2
    printf '%s\n' "$@" >"$TMPDIR/page.md"
    scripts/page-commands ${gpu:-} --build "$MDNN_BUILD" "$TMPDIR/page.md" >"$TMPDIR/said"
    [ $? -eq "$status" ] && grep -q -- "$pattern" "$TMPDIR/said" || {
        cat "$TMPDIR/said"
        return 1
    }
}

for_a_gpu() { gpu=--gpu page_says "$@"; }

plan 10
check 'every block has a mark' scripts/page-commands --check README.md docs/tutorial/*.md docs/recipes/*.md
check 'a command that works is one' page_says 0 '^ok 1 - .*:3 true' '<!-- run -->' '' '    true'
check 'one that fails is not' page_says 1 '^not ok 1' '<!-- run -->' '' '    false' '    true'
check 'nor is one in a pipe' page_says 1 '^not ok 1' '<!-- run -->' '' '    false | cat'
check 'nor a block without a mark' page_says 1 '^not ok 1' 'Type:' '' '    true'
check 'nor one behind other words' page_says 1 '^not ok 1' '<!-- run -->' 'Type:' '' '    true'
check 'nor one whose test is not there' page_says 1 '^not ok 1' '<!-- elsewhere: test/nowhere.sh -->' '' '    true'
check 'what a machine lacks is skipped' page_says 0 '# SKIP there is no nowhere$' '<!-- run: needs sh, nowhere -->' '' '    nowhere'
check 'files and the tool are there' page_says 0 '^ok 1' '<!-- file: a/b.ini -->' '' '```' '[cache]' 'file = none' '```' \
    '<!-- run -->' '' '    MICRODNN_CONFIG=a/b.ini microdnn config | grep "^file = none"'
check 'on a GPU, its own blocks are run' for_a_gpu 1 '^not ok 1 - .*:7 false' '<!-- run -->' '' '    true' '<!-- gpu -->' '' '' '    false'
finish
