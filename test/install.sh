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
examples=$doc/docs/examples

make_below() { # target
    make --no-print-directory "$1" FLAVOUR="$flavour" DESTDIR="$root" PREFIX=/usr
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
    for sample in "$examples"/*.ini; do
        said=$(MICRODNN_CONFIG=$sample "$top/bin/microdnn" config 2>&1 >/dev/null)
        [ -z "$said" ] || {
            echo "$said"
            return 1
        }
    done
}

# Links of pages, and the manual pages that a manual page names. What a page says of the sources is not looked at.
pages_refer_to_what_is_there() {
    python3 - "$top" <<'PYTHON'
import pathlib, re, sys
top = pathlib.Path(sys.argv[1])
pages = [*top.rglob("*.md")]
wrong = [f"{page}: {link}" for page in pages
         for link in re.findall(r"\]\(([^)#\s]+)", page.read_text()) + re.findall(r'src="([^"]+)"', page.read_text())
         if "://" not in link and not (page.parent / link).exists()]
manuals = [*(top / "share/man").rglob("*.[157]")]
ours = {page.name for page in manuals}
wrong += [f"{page}: {name}({section})" for page in manuals
          for name, section in re.findall(r"^\.Xr (\S*microdnn\S*) (\d)", page.read_text(), re.M)
          if f"{name}.{section}" not in ours]
wrong += [f"{page}: {name}" for page in manuals
          for name in re.findall(r"\b(docs/[\w./-]+\w)", page.read_text())
          if not (top / "share/doc/microdnn" / name).exists()]
print(*wrong, sep="\n")
sys.exit(bool(wrong) or len(pages) < 10 or len(manuals) < 3)
PYTHON
}

helper_is_found() {
    [ -x "$MDNN_BUILD/microdnn-ilp" ] || return 0
    said=$("$top/bin/microdnn" plan --net lenet --total 1m --solver glpk 2>&1)
    case $said in *'no microdnn-ilp'*) echo "$said" && return 1 ;; esac
    [ "$(realpath "$top/lib/microdnn/microdnn-ilp")" = "$(realpath "$top"/*/*/microdnn-ilp)" ]
}

# Every command that compiles, and the one that links the program.
flags_are_respected() {
    make --dry-run --always-make V=1 LDFLAGS=-Wl,--ours CPPFLAGS=-DOURS "build/$1" |
        sed -e ':a' -e '/\\$/N' -e 's/\\\n//' -e 'ta' >"$root/commands"
    compiled=$(grep -c -- ' -c .*\.c -o ' "$root/commands")
    with_flags=$(grep -c -- ' -DOURS .* -c .*\.c -o ' "$root/commands")
    linked=$(grep -- " -o build/$1\$" "$root/commands")
    rm "$root/commands"
    [ "$compiled" -gt 20 ] && [ "$with_flags" -eq "$compiled" ] || {
        echo "$with_flags of $compiled are compiled with CPPFLAGS"
        return 1
    }
    case $linked in *-Wl,--ours*) ;; *) echo "linked: $linked" && return 1 ;; esac
}

# A file of someone else stays, with its folder.
uninstall_leaves_nothing() {
    touch "$top/lib/other.so" && make_below uninstall && rm "$top/lib/other.so" || return 1
    left=$(find "$root" ! -type d)
    [ -z "$left" ] && [ ! -e "$doc" ] && [ ! -e "$top/lib/microdnn" ] && [ -d "$top/bin" ] || {
        find "$root"
        return 1
    }
}

plan 13
check 'install succeeds' make_below install
check 'nothing lies outside PREFIX' nothing_else
check 'library, tool, documents and licences are there' has_all "$top/lib/libmicrodnn.so" \
    "$top/bin/microdnn" "$doc/README.md" "$doc/docs/configuration.md" "$doc/docs/limits.md" "$doc/LICENSE" \
    "$top/lib/microdnn/train_cnn" "$examples/data/digits.txt" \
    "$top/share/man/man1/microdnn.1" "$top/share/man/man5/microdnn.ini.5" \
    "$top/share/man/man7/libmicrodnn.7" "$doc/NOTICE" "$doc/LICENSES/inih-BSD-3-Clause.txt" "$examples/microdnn.ini"
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
check 'pages refer to what is installed' pages_refer_to_what_is_there
check 'the tool finds its helper program' helper_is_found
check 'no installed file names the build directory' \
    sh -c '! grep -rlIF "$1" "$2"' sh "$MDNN_BUILD" "$top"
check 'the library is linked with LDFLAGS and compiled with CPPFLAGS' flags_are_respected libmicrodnn.so
check 'so is the tool' flags_are_respected microdnn
check 'uninstall removes what install made, and nothing else' uninstall_leaves_nothing
finish
