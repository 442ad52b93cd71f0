# Completion of `microdnn` for bash. The tool itself lists its commands and options.
# shellcheck shell=bash

# Completes the words from the number $1 on as a command of its own, where bash-completion is loaded.
_microdnn_program() {
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif [ "$COMP_CWORD" -eq "$1" ]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}

# Reads the options before the cursor: sets $program to the place of the program's name, or 0, and $value to what the
# option before the cursor accepts ("file": anything), or "".
_microdnn_read_options() {
    local i word entry
    program=0 value=
    for ((i = 2; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if [ -n "$value" ]; then
            [ "$i" -eq "$COMP_CWORD" ] && return
            value=
        elif [ "$word" = -- ] && [ "$i" -lt "$COMP_CWORD" ]; then
            program=$((i + 1))
            return
        elif [[ $word == -* ]]; then
            entry=$(grep -m 1 -e "^$word=" <<<"$listed") || continue
            [ "$i" -lt "$COMP_CWORD" ] || return
            value=${entry#*=}
            value=${value:-file}
        else
            program=$i
            return
        fi
    done
}

_microdnn() {
    local tool=${COMP_WORDS[0]} command=${COMP_WORDS[1]} cur=${COMP_WORDS[COMP_CWORD]}
    local listed program value words
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ] || { [ "$command" = help ] && [ "$COMP_CWORD" -eq 2 ]; }; then
        words=$("$tool" --list-options 2>/dev/null)
        [ "$COMP_CWORD" -eq 2 ] || words="$words help --help --version"
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi
    listed=$("$tool" "$command" --list-options 2>/dev/null) || return
    _microdnn_read_options
    if [ "$value" = file ]; then
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    elif [ -n "$value" ]; then
        mapfile -t COMPREPLY < <(compgen -W "${value//,/ }" -- "$cur")
    elif [[ $cur == -* ]] && [ "$program" -eq 0 ]; then
        mapfile -t COMPREPLY < <(compgen -W "$(sed 's/=.*//' <<<"$listed")" -- "$cur")
    elif [ "$command" = run ] || [ "$command" = verify ] || [ "${COMP_WORDS[program - 1]}" = -- ]; then
        _microdnn_program "$program"
    else
        words=$(grep -v '^-' <<<"$listed")
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur"; compgen -f -- "$cur")
    fi
}

complete -o filenames -o bashdefault -F _microdnn microdnn
