#!/bin/bash
# Completion for bash knows what the tool knows.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1
PATH=$MDNN_BUILD:$PATH
. scripts/completion.bash

# What a person is offered who has typed these words, the last of them in part.
offered() {
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    _microdnn
    printf '%s\n' "${COMPREPLY[@]}" | sort | tr '\n' ' '
}

offers() { # what, words...
    expected=$1
    shift
    said=$(offered "$@")
    [ "$said" = "$expected " ] || {
        echo "$*: $said"
        return 1
    }
}

every_command_lists_itself() {
    commands=$(microdnn --list-options) || return 1
    for command in $commands; do
        microdnn "$command" --list-options >"$TMPDIR/listed" && grep -qx -- --help "$TMPDIR/listed" &&
            microdnn "$command" --help >"$TMPDIR/help" || {
            echo "$command"
            return 1
        }
        # No option is missing that the help explains.
        for option in $(grep -o '^  --[a-z-]*' "$TMPDIR/help"); do
            grep -q "^$option\(=\|$\)" "$TMPDIR/listed" || {
                echo "$command $option"
                return 1
            }
        done
    done
    [ "$(echo "$commands" | wc -l)" -gt 7 ] && ! grep -l 'getopt_long(' scripts/microdnn*.c | grep -v microdnn_completion.c
}

files_are_offered() {
    mkdir "$TMPDIR/files" && touch "$TMPDIR/files/mine.json" || return 1
    offers "$TMPDIR/files/mine.json" microdnn stats "$TMPDIR/files/mi" &&
        offers "$TMPDIR/files/mine.json" microdnn run --config "$TMPDIR/files/mi" &&
        offers "$TMPDIR/files/mine.json" microdnn cache export "$TMPDIR/files/mi"
}

# Behind the program's name, options are the program's.
programs_are_offered() {
    mkdir "$TMPDIR/bin" && printf '#!/bin/sh\n' >"$TMPDIR/bin/mdnn-train" && chmod +x "$TMPDIR/bin/mdnn-train" || return 1
    PATH=$TMPDIR/bin:$PATH
    offers mdnn-train microdnn run mdnn-tr && offers mdnn-train microdnn run --policy wd --memory 2g mdnn-tr &&
        offers mdnn-train microdnn run -- mdnn-tr && offers mdnn-train microdnn doctor -- mdnn-tr &&
        offers '' microdnn run mdnn-train --pol
}

plan 7
check 'each command lists its options, and all of them' every_command_lists_itself
check 'commands' offers 'verify' microdnn ver
check 'commands behind help' offers 'verify' microdnn help ver
check 'options' offers '--memory --memory-policy' microdnn run --policy wd --mem
check 'words that an option accepts' offers 'wd wr' microdnn run --policy w
check 'actions of the cache, and files' files_are_offered
check 'programs' programs_are_offered
finish
