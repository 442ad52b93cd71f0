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

# Two objects of the first room that need each other.
cycle_is_found() {
    rm -rf "$TMPDIR/cycle"
    mkdir -p "$TMPDIR/cycle"
    cp -rl "$MDNN_BUILD/obj" "$TMPDIR/cycle/obj" 2>/dev/null || cp -r "$MDNN_BUILD/obj" "$TMPDIR/cycle/obj" || return 1
    for pair in 'text sizes' 'sizes text'; do
        # shellcheck disable=SC2086 # two words
        set -- $pair
        printf 'int mdnn_in_%s(void);\nint mdnn_in_%s(void);\nint mdnn_in_%s(void) { return mdnn_in_%s(); }\n' \
            "$1" "$2" "$1" "$2" >"$TMPDIR/$1.c"
        rm "$TMPDIR/cycle/obj/config/$1.o"
        ${CC:-cc} -c "$TMPDIR/$1.c" -o "$TMPDIR/cycle/obj/config/$1.o" || return 1
    done
    ! scripts/check-layers --build "$TMPDIR/cycle" >"$TMPDIR/said" &&
        grep -q '^a cycle of 2: config/sizes config/text$' "$TMPDIR/said" && grep -q '^1 rules broken' "$TMPDIR/said"
}

# A page that names a file which is not there.
missing_name_is_found() {
    mkdir -p "$TMPDIR/pages"
    echo 'See shim/real/nowhere.c.' >"$TMPDIR/pages/README.md"
    ! (cd "$TMPDIR/pages" && "$1/scripts/check-pages") >"$TMPDIR/said" &&
        [ "$(cat "$TMPDIR/said")" = 'README.md:1: no shim/real/nowhere.c' ]
}

plan 5
check 'every room uses those before it only' scripts/check-layers --build "$MDNN_BUILD"
check 'one that uses a later one is found' upward_is_found
check 'two that need each other are found' cycle_is_found
check 'every file that a page or a comment names is there' scripts/check-pages
check 'a name of a file that is not there is found' missing_name_is_found "$PWD"
finish
