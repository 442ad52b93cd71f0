#!/bin/sh
# `microdnn cache` and `microdnn tune`.
# shellcheck disable=SC2016,SC2317  # code for other programs; functions are called through check
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1

[ -e "$MDNN_BUILD/sim/libcudnn.so.9" ] || skip_all "there is no simulated GPU in this build"
tool=$MDNN_BUILD/microdnn
train=$MDNN_BUILD/train_cnn
work=$TMPDIR
good=$work/good.db
export MICRODNN_SIM_PROFILE=toy MICRODNN_SIM_MODE=timing MICRODNN_CONVOLUTION_MEASURE_REPEATS=1

same() { # expected, actual
    [ "$1" = "$2" ] || { printf 'expected: %s\nactual:   %s\n' "$1" "$2"; return 1; }
}
exits() { # status, command...
    expected=$1
    shift
    "$@" > "$work/out" 2> "$work/err"
    same "$expected" "$?" || { cat "$work/out" "$work/err"; return 1; }
}
says() { # file, text
    grep -qF -- "$2" "$work/$1" || { printf 'no "%s" in:\n' "$2"; cat "$work/$1"; return 1; }
}
refuses() { # status, text, arguments of the tool
    status=$1 text=$2
    shift 2
    exits "$status" "$tool" "$@" && says err "$text"
}
cache() { # action, database, arguments...: exit 0
    action=$1 file=$2
    shift 2
    exits 0 "$tool" cache "$action" --file "$file" "$@"
}
problems() { "$tool" cache list --file "$1" | sed -n 's/^\([0-9]*\) problems, .*/\1/p'; }
sql() { # file, statement
    python3 -I -S -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database: database.executescript(sys.argv[2])' "$@"
}

# ---- cache ----

list_is_a_table_by_device() {
    cache list "$good" && says out 'toy (simulated), driver unknown, CUDA 13.0, cuDNN 9.19.0' &&
        grep -q '^ *[1-9][0-9]*  *[0-9]*  forward 8x1x8x8 \* 32x1x5x5 pad 2 float' "$work/out" &&
        same 1 "$(grep -c '^toy' "$work/out")" && [ "$(problems "$good")" -ge 10 ]
}
list_tells_versions_apart() {
    cp "$good" "$work/versions.db"
    sql "$work/versions.db" "UPDATE microdnn_problem SET
        key=replace(replace(key, 'cudnn=91900', 'cudnn=8907'), 'tf32=none', 'tf32=1:0'),
        title=replace(title, 'cuDNN 91900', 'cuDNN 8907') WHERE id<=3"
    cache list "$work/versions.db" && says out 'cuDNN 8.9.7, NVIDIA_TF32_OVERRIDE=0' &&
        says out 'cuDNN 9.19.0' && same "$(problems "$good")" "$(problems "$work/versions.db")"
}
list_speaks_json() {
    cache list "$good" --json && python3 -I -S - "$work/out" "$(problems "$good")" <<'P'
import json, sys
listing = json.load(open(sys.argv[1]))
assert len(listing["problems"]) == int(sys.argv[2])
first = listing["problems"][0]
assert first["device"] == "toy (simulated)" and first["cudnn"] == 91900 and first["cuda"] == 13000
assert first["sizes"] > 0 and first["tf32_override"] is None and " pad " not in first["device"]
P
}
list_prints_no_control_characters() {
    cp "$good" "$work/odd.db"
    sql "$work/odd.db" "UPDATE microdnn_problem SET title=char(27)||'[2J'||title, key=char(27)||key"
    cache list "$work/odd.db" && ! grep -q "$(printf '\033')" "$work/out" && says out 'unknown device' &&
        cache list "$work/odd.db" --json && ! grep -q "$(printf '\033')" "$work/out" &&
        python3 -I -S -m json.tool "$work/out" > /dev/null
}
export_makes_a_new_file() {
    cache export "$good" "$work/copy.db" && same "$(problems "$good")" "$(problems "$work/copy.db")" &&
        refuses 1 'exists already' cache export --file "$good" "$work/copy.db"
}
failed_export_leaves_nothing() {
    refuses 1 'there is no such database' cache export --file "$work/none.db" "$work/new.db" &&
        refuses 1 'cannot add' cache export --file "$good" "$work/no/such/new.db" &&
        [ ! -e "$work/new.db" ]
}
import_adds_what_is_missing() {
    cache import "$work/fresh.db" "$good" && same "$(problems "$good")" "$(problems "$work/fresh.db")" &&
        cache import "$work/fresh.db" "$good" && says out ' 0 rows added'
}
merge_takes_many_and_names_the_bad() {
    cache export "$good" "$work/a.db" && cp "$good" "$work/b.db" &&
        sql "$work/b.db" "UPDATE microdnn_problem SET key=key||'x'" &&
        refuses 1 '/etc/passwd: not a database' cache merge "$work/all.db" "$work/a.db" /etc/passwd \
            "$work/b.db" &&
        same $((2 * $(problems "$good"))) "$(problems "$work/all.db")" &&
        refuses 1 'both files are the same' cache merge "$work/a.db" "$work/a.db"
}
clear_wants_a_yes() {
    cp "$good" "$work/clear.db"
    exits 1 "$tool" cache clear --file "$work/clear.db" < /dev/null && says err '--yes' &&
        same "$(problems "$good")" "$(problems "$work/clear.db")" &&
        cache clear "$work/clear.db" --yes && same 0 "$(problems "$work/clear.db")"
}
files_of_others_are_left_alone() {
    echo 'a letter to a friend, long enough to be more than the header of a database would be, and \
    so not taken for the beginning of one' > "$work/letter"
    sql "$work/others.db" 'CREATE TABLE t(a); INSERT INTO t VALUES(1)'
    for file in "$work/letter" "$work/others.db"; do
        before=$(cksum "$file")
        refuses 1 "$file: not a database of microdnn" cache list --file "$file" &&
            refuses 1 "$file: not a database of microdnn" cache clear --yes --file "$file" &&
            refuses 1 "$file: not a database of microdnn" cache import --file "$work/x.db" "$file" &&
            refuses 1 "cannot add" cache import --file "$file" "$good" &&
            refuses 1 "$file: not a database of microdnn" tune --file "$file" --net lenet &&
            same "$before" "$(cksum "$file")" || return 1
    done
    [ ! -e "$work/x.db" ]
}
newer_files_are_left_alone() {
    cp "$good" "$work/newer.db" && sql "$work/newer.db" 'PRAGMA user_version=99' &&
        before=$(cksum "$work/newer.db") &&
        refuses 1 'newer version' cache list --file "$work/newer.db" &&
        refuses 1 'newer version' cache clear --yes --file "$work/newer.db" &&
        refuses 1 'newer version' cache merge "$work/y.db" "$work/newer.db" &&
        refuses 1 'newer version' cache merge "$work/newer.db" "$good" &&
        same "$before" "$(cksum "$work/newer.db")"
}
a_busy_database_is_said() {
    python3 -I -S - "$good" "$tool" <<'P'
import sqlite3, subprocess, sys
database = sqlite3.connect(sys.argv[1])
database.execute("BEGIN EXCLUSIVE")
for command in (["list"], ["clear", "--yes"]):
    done = subprocess.run([sys.argv[2], "cache", *command, "--file", sys.argv[1], "--wait", "0.1"],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "busy" in done.stderr, done
P
}
the_option_names_the_database() {
    refuses 2 'no database is named' cache list && refuses 2 'no database is named' tune --net lenet &&
        MICRODNN_CACHE_FILE=$good exits 0 "$tool" cache list && says out " in $good" &&
        (cd "$work" && MICRODNN_CACHE_FILE=good.db exits 0 "$tool" cache list && says out " in $good")
}
run_makes_the_database_absolute() {
    "$MDNN_BUILD/microdnn" run --library "$work/marker.so" --set cache.file=x.db \
        --set cache.import=/y.db sh -c 'echo "$MICRODNN_CACHE_FILE $MICRODNN_CACHE_IMPORT"' > "$work/out"
    says out "$PWD/x.db /y.db"
}
cache_wrong_usage() {
    exits 2 "$tool" cache && exits 0 "$tool" cache --help && says out 'merge INTO FROM' &&
        refuses 2 "there is no 'fly'" cache fly && refuses 2 'which file?' cache export --file "$good" &&
        refuses 2 'too many' cache list --file "$good" x && refuses 2 'does not take' cache list --yes &&
        refuses 2 'number of seconds' cache list --wait soon && refuses 2 'unrecognized' cache list --xml
}

# ---- tune: what it runs ----

# A library that does nothing, a program that only tells how it was called, a driver with two models.
cat > "$work/marker.c" <<'C'
static const char what[] __attribute__((used)) = "@(#)libmicrodnn 9.9.9";
C
${CC:-gcc} -shared -fPIC -o "$work/marker.so" "$work/marker.c" || exit 1
cat > "$work/teller" <<'S'
#!/bin/sh
echo "[$CUDA_VISIBLE_DEVICES] $* limit $MICRODNN_CONVOLUTION_WORKSPACE_LIMIT file $MICRODNN_CACHE_FILE" >> "$LOG"
[ -z "$MEET" ] || { # with the program on the other device
    : > "$MEET.$CUDA_VISIBLE_DEVICES"
    tries=0
    while [ ! -e "$MEET.0" ] || [ ! -e "$MEET.1" ]; do
        tries=$((tries + 1))
        [ "$tries" -lt 300 ] || exit 9
        sleep 0.1
    done
    echo met >> "$LOG"
}
S
chmod +x "$work/teller"
export LOG="$work/log" MEET=

tells() { # status, arguments: runs the teller in place of train_cnn
    rm -f "$LOG"
    status=$1
    shift
    exits "$status" "$tool" tune --library "$work/marker.so" --program "$work/teller" \
        --file "$work/tune.db" "$@"
}
every_combination_runs_once() {
    cp "$good" "$work/tune.db"
    tells 1 --net lenet --net alexnet --batch 8 --dtype fp16 --workspace-limit 1.5k \
        --workspace-limit none && same 4 "$(wc -l < "$LOG")" &&
        same 4 "$(sort -u "$LOG" | grep -c -- '--batch 8')" &&
        same 2 "$(grep -c -- '--net alexnet' "$LOG")" &&
        same 2 "$(grep -c -- '--workspace-limit 1536 .*limit 1536' "$LOG")" &&
        same 2 "$(grep -c -- '--workspace-limit none .*limit none' "$LOG")" &&
        grep -q -- '--iterations 1 .* --dtype fp16' "$LOG"
}
a_program_without_convolutions_is_said() {
    tells 1 --net lenet && says err 'the library saw no convolution' &&
        says out '0 problems and 0 sizes added'
}
a_path_is_no_pattern() {
    cp "$good" "$work/100%p.db" && tells 1 --net lenet --file "$work/100%p.db" &&
        says out "$work/100%p.db: 0 problems" && grep -qF "file $work/100%%p.db" "$LOG"
}
devices_work_at_the_same_time() {
    MICRODNN_SIM_DEVICES=2 MEET=$work/meet tells 1 --net a --net b --net c --devices all &&
        same 3 "$(grep -c met "$LOG")" && grep -q '^\[0\]' "$LOG" && grep -q '^\[1\]' "$LOG"
}
devices_are_chosen_among_the_visible() {
    MICRODNN_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=GPU-a,7 tells 1 --net a --devices 1 &&
        grep -q '^\[7\]' "$LOG" && MICRODNN_SIM_DEVICES=2 CUDA_VISIBLE_DEVICES=3 tells 2 --net a \
        --devices all && says err 'no entry for device 1'
}
wrong_devices_are_refused() {
    export MICRODNN_SIM_DEVICES=2
    for list in 0,x ',0' '0,' '' -1 0-1; do
        tells 2 --net a "--devices=$list" && says err "is not a list of devices" || return 1
    done
    tells 2 --net a --devices 2 && says err 'there is no device 2' &&
        tells 2 --net a --devices 1,1 && says err 'twice device 1' &&
        MICRODNN_SIM_DEVICES=0 tells 2 --net a --devices all && [ ! -e "$LOG" ]
}
different_models_are_refused() {
    mkdir -p "$work/driver" && cat > "$work/driver.c" <<'C'
#include <string.h>
int cuInit(unsigned flags) { return (int)flags; }
int cuDeviceGetCount(int *count) { return *count = 2, 0; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, 0; }
int cuDeviceGetName(char *name, int bytes, int device)
{ return strncpy(name, device ? "Tesla P100" : "NVIDIA H200", (size_t)bytes), 0; }
C
    ${CC:-gcc} -shared -fPIC -o "$work/driver/libcuda.so.1" "$work/driver.c" || return 1
    LD_LIBRARY_PATH=$work/driver tells 2 --net a --devices all && says err '0 is NVIDIA H200' &&
        says err '1 is Tesla P100' && [ ! -e "$LOG" ] &&
        LD_LIBRARY_PATH=$work/driver tells 1 --net a --devices 1 && grep -q '^\[1\]' "$LOG"
}
tune_refuses_what_cannot_be() {
    refuses 2 '--net NAME, or --from-run' tune && refuses 2 'which program?' tune --from-run &&
        refuses 2 'a program needs --from-run' tune --net a prog &&
        refuses 2 '--net and what goes with it are' tune --from-run --net a -- true &&
        refuses 2 "'64q' is not a size" tune --net a --workspace-limit 64q --program "$work/teller" \
            --file "$good" &&
        refuses 2 'cannot find /nonexistent' tune --net a --program /nonexistent --file "$good" &&
        refuses 2 'names one file per process' tune --from-run --set cache.file=/tmp/x.%p -- true &&
        refuses 1 'cannot be made' tune --from-run --file "$work/no/such.db" -- true &&
        refuses 1 'switched off' tune --from-run --file "$good" --set convolution.policy=off -- true &&
        MICRODNN_SIM_DEVICES=2 refuses 2 'one program runs on one device' tune --from-run --file "$good" --devices 0,1 -- true
}
failures_of_programs_are_told() {
    for program in 'exit 3' 'kill -9 $$' /nonexistent; do
        exits 1 "$tool" tune --library "$work/marker.so" --from-run --file "$good" -- \
            sh -c "$program" || return 1
        case $program in exit*) says err 'exited with 3' ;; kill*) says err 'signal 9' ;;
        *) says err 'exited with 127' ;; esac || return 1
    done
}
nothing_stays_behind() {
    [ -z "$(find "$work" -name 'microdnn-tune.*')" ]
}

# ---- tune: with the library ----

networks_fill_the_database() {
    exits 0 "$tool" tune --file "$work/net.db" --net lenet --batch 8 --workspace-limit 16k &&
        says out 'net lenet, batch 8, workspace-limit 16384: ' &&
        [ "$(problems "$work/net.db")" -ge 10 ] &&
        says out "$work/net.db: $(problems "$work/net.db") problems and"
}
what_is_known_is_not_measured() {
    before=$("$tool" cache list --file "$work/net.db")
    exits 0 "$tool" tune --file "$work/net.db" --net lenet --batch 8 --workspace-limit 16k \
        --set general.log=debug && says out ': 0 problems and 0 sizes added' &&
        same "$before" "$("$tool" cache list --file "$work/net.db")" &&
        MICRODNN_CACHE_FILE=$work/net.db MICRODNN_STATS=text MICRODNN_STATS_FILE=$work/stats \
            "$tool" run --workspace-limit 16k "$train" --net lenet --batch 8 --iterations 1 \
            --warmup 0 --find-repeats 1 --workspace-limit 16k --quiet &&
        ! grep 'candidates timed' "$work/stats"
}
programs_fill_the_database() {
    exits 0 "$tool" tune --from-run --file "$work/run.db" -- sh -c "cd /; '$train' --net lenet \
        --data '$PWD/docs/examples/data' --batch 8 --iterations 1 --warmup 0 --workspace-limit 16k" &&
        says out 'lenet, batch 8' && [ "$(problems "$work/run.db")" -ge 10 ] &&
        same 1 "$(grep -c ': [1-9][0-9]* problems, [0-9.]* s measuring' "$work/out")"
}
several_devices_write_one_database() {
    MICRODNN_SIM_DEVICES=2 exits 0 "$tool" tune --file "$work/two.db" --net lenet --batch 4 \
        --batch 8 --workspace-limit 16k --devices 0,1 && says out 'on device 0: ' &&
        says out 'on device 1: ' && "$tool" cache list --file "$work/two.db" | grep -q ' 4x1x8x8 ' &&
        "$tool" cache list --file "$work/two.db" | grep -q ' 8x1x8x8 '
}
with_the_library() { # name, command
    if [ -z "${MDNN_PRELOAD_FIRST:-}" ]; then
        check "$@"
    else
        skip "$1" "the sanitizer's run time must be loaded first"
    fi
}

# Every test below works on what one run of the library kept.
MICRODNN_CACHE_FILE=$good LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$MDNN_BUILD/libmicrodnn.so \
    "$train" --net lenet --batch 8 --iterations 1 --warmup 0 --find-repeats 1 --workspace-limit 16k --quiet ||
    exit 1
library_comes_first

plan 30
check 'cache list: a table by device and versions' list_is_a_table_by_device
check 'cache list: other versions and settings stand apart' list_tells_versions_apart
check 'cache list: --json is JSON' list_speaks_json
check 'cache list: control characters of a file are not printed' list_prints_no_control_characters
check 'cache export: makes a new file and overwrites none' export_makes_a_new_file
check 'cache export: leaves nothing when it fails' failed_export_leaves_nothing
check 'cache import: adds what is missing, once' import_adds_what_is_missing
check 'cache merge: takes many, names a bad one and goes on' merge_takes_many_and_names_the_bad
check 'cache clear: wants a yes, then forgets all' clear_wants_a_yes
check 'cache: files of others are left alone' files_of_others_are_left_alone
check 'cache: files of a newer version are left alone' newer_files_are_left_alone
check 'cache: a busy database is said' a_busy_database_is_said
check 'cache: the option names the database, or nothing does' the_option_names_the_database
check 'cache: wrong usage exits 2 with advice' cache_wrong_usage
check 'run: relative databases become absolute' run_makes_the_database_absolute
check 'tune: every combination runs once' every_combination_runs_once
check 'tune: a program without convolutions is said' a_program_without_convolutions_is_said
check 'tune: the path of --file is no pattern' a_path_is_no_pattern
check 'tune: devices work at the same time' devices_work_at_the_same_time
check 'tune: devices are chosen among the visible' devices_are_chosen_among_the_visible
check 'tune: wrong devices are refused' wrong_devices_are_refused
check 'tune: different models are refused' different_models_are_refused
check 'tune: what cannot be is refused before anything runs' tune_refuses_what_cannot_be
check 'tune: failures of programs are told' failures_of_programs_are_told
with_the_library 'tune: networks fill the database' networks_fill_the_database
with_the_library 'tune: what is known is not measured again' what_is_known_is_not_measured
with_the_library 'tune: programs fill the database' programs_fill_the_database
with_the_library 'tune: several devices write one database' several_devices_write_one_database
check 'tune: nothing stays behind' nothing_stays_behind
check 'cache and tune: help fits a terminal' sh -c '
    for command in cache tune; do
        "$0" "$command" --help > "$1" && [ "$(wc -l < "$1")" -lt 24 ] &&
            [ "$(awk "length > 100" "$1" | wc -l)" = 0 ] || exit 1
    done' "$tool" "$work/out"
finish
