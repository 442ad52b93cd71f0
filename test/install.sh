#!/bin/sh
# `make install` puts everything below DESTDIR and PREFIX, and what it installed works from there.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

flavour=${MDNN_BUILD##*/}
[ "$flavour" != build ] || flavour=
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
top=$root/usr
doc=$top/share/doc/microdnn

install_below() {
    make --no-print-directory install FLAVOUR="$flavour" DESTDIR="$root" PREFIX=/usr
}

nothing_else() { # outside PREFIX
    [ "$(ls -A "$root")" = usr ] && [ "$(ls -Am "$top")" = 'bin, lib, share' ]
}

has_all() {
    for file; do
        [ -s "$file" ] || {
            echo "missing or empty: $file"
            return 1
        }
    done
}

man_pages_format() {
    pages=$(find "$top/share/man" -name '*.[157]')
    [ -n "$pages" ] || return 1
    for page in $pages; do
        section=${page##*.}
        case $page in */man"$section"/*) ;; *) return 1 ;; esac
        said=$(MANROFFSEQ='' man --warnings -E UTF-8 -l "$page" 2>&1 >/dev/null)
        [ -z "$said" ] || {
            echo "$said"
            return 1
        }
    done
}

# The tool finds the library beside itself: the child's environment names the installed file.
runs_with_library() {
    env -u LD_PRELOAD "$top/bin/microdnn" run -- sh -c 'echo "$LD_PRELOAD"; exit 5' >"$root/said"
    [ $? -eq 5 ] && said=$(cat "$root/said") && rm "$root/said" &&
        [ "$(realpath "$said")" = "$(realpath "$top/lib/libmicrodnn.so")" ]
}

# A configuration that `microdnn config` reads back without a message.
sample_is_valid() {
    for sample in "$doc"/examples/*.ini; do
        said=$(MICRODNN_CONFIG=$sample "$top/bin/microdnn" config 2>&1 >/dev/null)
        [ -z "$said" ] || {
            echo "$said"
            return 1
        }
    done
}

plan 8
check 'install succeeds' install_below
check 'nothing lies outside PREFIX' nothing_else
check 'library, tool, documents and licences are there' has_all "$top/lib/libmicrodnn.so" \
    "$top/bin/microdnn" "$doc/README.md" "$doc/configuration.md" "$doc/limits.md" "$doc/LICENSE" \
    "$top/lib/microdnn/train_cnn" "$doc/examples/data/digits.txt" \
    "$top/share/man/man1/microdnn.1" "$top/share/man/man5/microdnn.ini.5" \
    "$top/share/man/man7/libmicrodnn.7" "$doc/NOTICE" "$doc/LICENSES/inih-BSD-3-Clause.txt" "$doc/examples/microdnn.ini"
check 'man pages are in their sections and format without a warning' man_pages_format
name='the installed tool runs a program with the installed library'
if [ -z "${MDNN_PRELOAD_FIRST:-}" ]; then
    check "$name" runs_with_library
else
    skip "$name" "the sanitizer's run time must be loaded first"
fi
check 'the installed sample configuration is valid' sample_is_valid
check 'the installed library is the one that was built' \
    cmp "$MDNN_BUILD/libmicrodnn.so" "$top/lib/libmicrodnn.so"
check 'no installed file names the build directory' \
    sh -c '! grep -rlIF "$1" "$2"' sh "$MDNN_BUILD" "$top"
finish
