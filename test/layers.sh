#!/bin/sh
# Rooms of the library use those before them only (scripts/check-layers), and a reference that runs up is found.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1
[ -d "$MDNN_BUILD/obj/shim/interpose" ] || skip_all "the shim is not in this build"

# An object of the first room that uses one of the last.
upward_is_found() {
    mkdir -p "$TMPDIR/up"
    cp -rl "$MDNN_BUILD/obj" "$TMPDIR/up/obj" 2>/dev/null || cp -r "$MDNN_BUILD/obj" "$TMPDIR/up/obj" || return 1
    printf 'extern int mdnn_driver_enter(void);\nint mdnn_up(void);\nint mdnn_up(void) { return mdnn_driver_enter(); }\n' \
        >"$TMPDIR/up.c"
    rm "$TMPDIR/up/obj/config/text.o"
    ${CC:-cc} -c "$TMPDIR/up.c" -o "$TMPDIR/up/obj/config/text.o" || return 1
    ! scripts/check-layers --build "$TMPDIR/up" >"$TMPDIR/said" &&
        grep -q 'runs up: .*config/text.o uses mdnn_driver_enter of .*interpose/driver.o' "$TMPDIR/said" &&
        grep -q '^1 rules broken' "$TMPDIR/said"
}

# A page beside ours that names a file which is not there.
missing_page_is_found() {
    git clone -q --depth 1 "file://$PWD" "$TMPDIR/pages" || return 1
    echo 'See shim/real/nowhere.c.' >>"$TMPDIR/pages/README.md"
    ! (cd "$TMPDIR/pages" && "$1/scripts/check-pages") >"$TMPDIR/said" &&
        [ "$(cat "$TMPDIR/said" | sed 's/[0-9]\{1,\}/N/')" = 'README.md:N: no shim/real/nowhere.c' ]
}

plan 4
check 'every room uses those before it only' scripts/check-layers --build "$MDNN_BUILD"
check 'one that uses a later one is found' upward_is_found
check 'every file that a page or a comment names is there' scripts/check-pages
if [ -e .git ]; then
    check 'a name of a file that is not there is found' missing_page_is_found "$PWD"
else
    skip 'a name of a file that is not there is found' 'not a checkout'
fi
finish
