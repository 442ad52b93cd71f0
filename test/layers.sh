#!/bin/sh
# Rooms of the library use those before them only (scripts/check-layers), pages are what they should be
# (scripts/check-pages), and what breaks a rule of either is found.
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

# In a copy of the tree, breaks pages by sed scripts, and expects check-pages to print what is wrong and nothing else.
breaches_are_found() {
    mkdir "$TMPDIR/copy" && git ls-files -z | xargs -0 cp -a --parents -t "$TMPDIR/copy" && cd "$TMPDIR/copy" || return 1
    sed -i '1s/$/\n'"$(printf '%0150d' 0 | sed 's/0/\\n/g')/" docs/glossary.md
    sed -i '/^!\[/d; 1s/$/\n[see](papers.md#nowhere)/' docs/design/arena.md
    sed -i '1s/$/\n[see](nowhere.md)/' docs/design/papers.md
    sort >"$TMPDIR/expected" <<END
docs/glossary.md: $(wc -l <docs/glossary.md) lines, more than 150
docs/design/arena.md: 0 pictures, not one
docs/design/pictures/arena.svg: 0 pages show it, not one
docs/design/papers.md:2: no docs/design/nowhere.md
docs/design/arena.md:2: no heading #nowhere in docs/design/papers.md
END
    ! scripts/check-pages >"$TMPDIR/said" 2>&1 && sort "$TMPDIR/said" | diff "$TMPDIR/expected" -
}

# Pictures are drawn from the tree as it is; a build of another kind would run the same programs again.
# In the copy that breaches_are_found has made: a figure that was not measured, and a picture of other figures.
old_figures_are_found() {
    cd "$TMPDIR/copy" && sed -i 's/^| VGG-16, batch 256, fp32 | 3/&9/' README.md &&
        sed -i 's/^<!-- scripts.design-pictures: ..../&0/' docs/pictures/memory.svg || return 1
    ! scripts/readme-figures --check >"$TMPDIR/said" && grep -q '^README.md: out of date' "$TMPDIR/said" &&
        grep -q '^docs/pictures/memory.svg: out of date' "$TMPDIR/said"
}

pictures_are_those_of_the_tree() {
    [ "$MDNN_BUILD" != "$PWD/build" ] || {
        # One of them shows what is measured, which takes longer than all others.
        # shellcheck disable=SC2046 # words
        scripts/design-pictures --check --build "$MDNN_BUILD" $(thorough || basename -as .svg docs/design/pictures/*.svg | grep -vx measuring)
    }
}

old_picture_is_found() {
    cp -r docs/design/pictures "$TMPDIR/pictures" || return 1
    sed -i 's/^<!-- scripts.design-pictures: ..../&0/' "$TMPDIR/pictures/locks-and-files.svg"
    rm "$TMPDIR/pictures/papers.svg"
    ! scripts/design-pictures --check --pictures "$TMPDIR/pictures" locks-and-files papers rooms >"$TMPDIR/said" &&
        [ "$(grep -c 'out of date' "$TMPDIR/said")" = 2 ] && ! grep -q rooms "$TMPDIR/said"
}

# In the same copy, after check-pages has seen it: a page that says something else, and a picture that is too large.
old_tutorial_is_found() {
    cd "$TMPDIR/copy" && scripts/tutorial-page --check &&
        sed -i 's/iteration 0/iteration 00/' docs/tutorial/pytorch-h200.md &&
        head -c 150001 /dev/zero >docs/tutorial/pictures/report-moves.png || return 1
    ! scripts/tutorial-page --check >"$TMPDIR/said" && [ "$(wc -l <"$TMPDIR/said")" = 2 ] &&
        grep -q '^docs/tutorial/pytorch-h200.md: out of date' "$TMPDIR/said" &&
        grep -q '^docs/tutorial/pictures/report-moves.png: 150001 bytes' "$TMPDIR/said"
}

plan 12
check 'every room uses those before it only' scripts/check-layers --build "$MDNN_BUILD"
check 'one that uses a later one is found' upward_is_found
check 'two that need each other are found' cycle_is_found
check 'every file that a page or a comment names is there' scripts/check-pages
check 'a name of a file that is not there is found' missing_name_is_found "$PWD"
check 'so are a page that is too long, one without its picture, and links that lead nowhere' breaches_are_found
check 'the picture and the tables of the README show what was measured' scripts/readme-figures --check
check 'other figures are found' old_figures_are_found
check 'the page of a first run is that of its transcript' scripts/tutorial-page --check
check 'another one is found' old_tutorial_is_found
check 'each picture of the design shows what the sources say' pictures_are_those_of_the_tree
check 'a picture that is out of date, or not there, is found' old_picture_is_found
finish
