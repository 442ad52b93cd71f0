#!/bin/sh
# The tool `microdnn`, and the pages made with it or about it.
# shellcheck disable=SC2016,SC2317  # commands for `sh -c`; functions are called through check
. test/tap.sh
build=${MDNN_BUILD:-build}
tool=$build/microdnn
work=$(mktemp -d) || exit 1
unset MICRODNN_MEMORY_REGISTRY MICRODNN_CACHE_FILE # what the tool sets is looked at
trap 'rm -rf "$work"' EXIT

# A library that only says that it is loaded, where the tool looks for ours.
root=$work/root
mkdir -p "$root/bin" "$root/lib" "$work/other dir"
cp "$tool" "$root/bin/microdnn"
cat > "$work/marker.c" <<'C'
#include <stdlib.h>
static const char what[] __attribute__((used)) = "@(#)libmicrodnn 9.9.9";
__attribute__((constructor)) static void mark(void) { setenv("MARKED", "yes", 1); }
C
${CC:-gcc} -shared -fPIC -o "$root/lib/libmicrodnn.so" "$work/marker.c" || exit 1
library=$(realpath "$root/lib/libmicrodnn.so")
cp "$library" "$work/libmicrodnn.so"
cp "$library" "$work/other.so"
cp "$library" "$work/other dir/libmicrodnn.so"
microdnn=$root/bin/microdnn

library_comes_first

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
    grep -qF -- "$2" "$1" || { printf 'no "%s" in:\n' "$2"; cat "$1"; return 1; }
}

refuses() { # text, arguments of run: exit 125, and the text in at most two lines
    text=$1
    shift
    exits 125 "$microdnn" run "$@" && says "$work/err" "$text" && [ "$(wc -l < "$work/err")" -le 2 ]
}

preload() { # existing LD_PRELOAD: what the program sees
    LD_PRELOAD=$1 "$microdnn" run sh -c 'echo "$LD_PRELOAD"' 2> "$work/err"
}

help_is_short() {
    exits 0 "$microdnn" --help && says "$work/out" 'usage: microdnn run' &&
        says "$work/out" 'doctor [--json] [--library FILE] [--run] [-- program]' && exits 0 "$microdnn" -V &&
        [ "$(wc -l < "$work/out")" -lt 24 ] && [ "$(awk 'length > 100' "$work/out" | wc -l)" = 0 ] &&
        exits 0 "$microdnn" run --help && says "$work/out" --workspace-limit &&
        [ "$(wc -l < "$work/out")" -lt 24 ]
}
every_command_has_help_with_its_defaults() {
    for command in run verify config stats doctor cache tune plan; do
        exits 0 "$microdnn" help "$command" && says "$work/out" "usage: microdnn $command" || return 1
        cp "$work/out" "$work/help"
        exits 0 "$microdnn" "$command" --help && same "$(cat "$work/help")" "$(cat "$work/out")" || return 1
    done
    exits 0 "$microdnn" run --help && says "$work/out" '(powerOfTwo)' && says "$work/out" '(stderr)' &&
        exits 2 "$microdnn" help fly && says "$work/err" "no command 'fly'"
}
# One line says what is wrong, and another one where to read on.
wrong_words_need_two_lines() {
    while read -r line; do
        # shellcheck disable=SC2086  # words of a command
        exits "${line%% *}" "$microdnn" ${line#* } && [ ! -s "$work/out" ] && [ "$(wc -l < "$work/err")" = 2 ] &&
            [ "$(grep -c '^microdnn\b' "$work/err")" = 1 ] && tail -n 1 "$work/err" | grep -q '^Try `microdnn .*--help`' ||
            { echo "$line"; cat "$work/err"; return 1; }
    done << 'END'
2 fly
2 help fly
2 stats --xml
2 doctor --xml
2 config --xml
2 top --xml
2 advise --xml
2 plan --xml
2 tune --xml
2 report --xml
2 cache list --xml
125 run --xml
125 verify --xml
END
    exits 0 "$microdnn" help help && says "$work/out" 'usage: microdnn run'
}
wrong_usage() {
    exits 2 "$microdnn" && exits 2 "$microdnn" fly && says "$work/err" "no command 'fly'" &&
        exits 2 "$microdnn" config x && exits 2 "$microdnn" stats && exits 2 "$microdnn" stats --xml
}

options_become_variables() {
    env=$("$microdnn" run --workspace-limit 64m --batch-sizes all --policy wr --stats text \
        --stats-file /s.%p --log info --log-file /l --set convolution.measure_repeats=5 env |
        grep ^MICRODNN_ | sort | tr '\n' ' ')
    same "MICRODNN_CONVOLUTION_BATCH_SIZES=all MICRODNN_CONVOLUTION_MEASURE_REPEATS=5 \
MICRODNN_CONVOLUTION_POLICY=wr MICRODNN_CONVOLUTION_WORKSPACE_LIMIT=64m MICRODNN_GENERAL_LOG=info \
MICRODNN_GENERAL_LOG_FILE=/l MICRODNN_GENERAL_STATS=text MICRODNN_GENERAL_STATS_FILE=/s.%p " "$env"
}
# The same option by its short name: an option of run beats it, and it beats a file.
short_names_are_options_of_run() {
    for option in $("$tool" run --help | grep -o '^  --[a-z-]*' | grep -vx -e '  --set'); do
        name=MICRODNN_$(echo "${option#--}" | tr a-z- A-Z_)
        env "$name=/" "$microdnn" config 2>&1 | grep 'unknown variable' && return 1
    done
    printf '[memory]\nbudget = 1g\n[convolution]\npolicy = off\n' > "$work/short.ini"
    same 'policy = wd ; environment MICRODNN_POLICY budget = 80% ; environment MICRODNN_MEMORY ' \
        "$(MICRODNN_CONFIG=$work/short.ini MICRODNN_MEMORY=80% MICRODNN_POLICY=wd "$microdnn" config |
            sed -n 's/^\(budget\|policy\) = \(80%\|wd\) *;/\1 = \2 ;/p' | tr '\n' ' ')" &&
        same 'budget = 2GiB ; environment MICRODNN_MEMORY_BUDGET' "$(MICRODNN_MEMORY=80% \
            "$microdnn" run --memory 2g "$microdnn" config | sed -n 's/^\(budget = 2GiB\) *;/\1 ;/p')" || return 1
    cp "$library" "$work/named.so"
    same "$(realpath "$work/named.so") PYTORCH_ALLOC_CONF=backend:native " "$(MICRODNN_LIBRARY=$work/named.so \
        MICRODNN_ALLOCATOR=native MICRODNN_MEMORY=1g "$microdnn" run sh -c 'printf "%s " "$LD_PRELOAD"
            env | grep ^PYTORCH_A' | tr '\n' ' ')" &&
        same "PYTORCH_NO_CUDA_MEMORY_CACHING=1 " "$(MICRODNN_ALLOCATOR=native allocator_of --allocator uncached env)" &&
        MICRODNN_ALLOCATOR=best refuses "MICRODNN_ALLOCATOR: 'best' is not an allocator of PyTorch" true
}
option_beats_short_name() {
    same "limit 64MiB ; environment MICRODNN_CONVOLUTION_WORKSPACE_LIMIT" "$(MICRODNN_WORKSPACE_LIMIT=1m \
        "$microdnn" run --workspace-limit 64m "$microdnn" config |
        sed -n 's/^workspace_\(limit\) = \(64MiB\) *;/\1 \2 ;/p')"
}
relative_files_become_absolute() {
    same "$(cd "$work" && pwd)/x.%p" \
        "$(cd "$work" && "$microdnn" run --stats text --stats-file x.%p sh -c 'echo "$MICRODNN_GENERAL_STATS_FILE"')" &&
        same stderr "$("$microdnn" run --log-file stderr sh -c 'echo "$MICRODNN_GENERAL_LOG_FILE"')"
}
config_file_is_passed_on() {
    printf '[general]\nlog = info\n' > "$work/a.ini"
    same "$(realpath "$work/a.ini")" \
        "$(cd "$work" && "$microdnn" run --config a.ini sh -c 'echo "$MICRODNN_CONFIG"')"
}
# The library says them, once, by whichever way it gets the file; the tool refuses only what cannot be read.
config_file_with_mistakes_runs() {
    printf '[general]\nlog = loud\n' > "$work/bad.ini"
    printf '[general]\nlog = info\n\000\n' > "$work/binary.ini"
    { echo '[general]'; head -c 100000 /dev/zero | tr '\0' x; echo; } > "$work/long.ini"
    for name in bad binary long; do
        exits 0 "$microdnn" run --config "$work/$name.ini" true && [ ! -s "$work/err" ] &&
            MICRODNN_CONFIG=$work/$name.ini exits 0 "$microdnn" run true && [ ! -s "$work/err" ] || { cat "$work/err"; return 1; }
        ! [ -e "$build/sim/libcuda.so.1" ] || for way in "run --config $work/$name.ini" "run --set general.log=warn"; do
            # shellcheck disable=SC2086  # words of a command
            LD_LIBRARY_PATH=$build/sim MICRODNN_CONFIG=$work/$name.ini exits 0 "$tool" $way "$build/train_cnn" --net lenet --batch 2 \
                --iterations 1 && [ "$(grep -c "$name.ini:" "$work/err")" = 1 ] || { echo "$way"; cat "$work/err"; return 1; }
        done
    done
    mkdir -p "$work/folder.ini" && refuses 'folder.ini: cannot be read: it is a directory' --config "$work/folder.ini" true
}
bad_options_are_refused() {
    refuses "--workspace-limit: '64q' is not a size; accepted: bytes" --workspace-limit 64q true &&
        refuses "--log: 'loud' is not one of its values; accepted: off, error" --log loud true &&
        refuses "--set convolution.measure_repeats: '0' is out of range; accepted: 1 to 100 runs" \
            --set convolution.measure_repeats=0 true &&
        refuses 'did you mean convolution.policy?' --set convolution.polcy=wr true &&
        refuses 'SECTION.KEY=VALUE' --set policy=wr true &&
        refuses 'cannot read /nonexistent.ini' --config /nonexistent.ini true &&
        refuses 'unrecognized option' --nonsense true &&
        refuses 'which program?' --log info
}
implausible_sizes_are_refused() {
    refuses '--memory: 12 means 12 bytes, which is less than a chunk of memory, 2MiB; did you mean 12GiB?' --memory 12 true &&
        refuses '; did you mean 2048MiB?' --memory 2048 true &&
        refuses '; did you mean 1048576KiB?' --memory 1048576 true &&
        refuses '--memory: 0 is less than a chunk of memory, 2MiB; `none` sets no limit' --memory 0 true &&
        refuses '--memory: 12KiB is less than a chunk of memory' --memory 12k true &&
        refuses '--set memory.budget: 12 means 12 bytes' --set memory.budget=12 true &&
        refuses '--workspace-limit: 64 means 64 bytes, which is next to nothing; did you mean 64MiB?' --workspace-limit 64 true &&
        refuses 'did you mean 512MiB?' --set convolution.total_workspace=512 true &&
        refuses 'did you mean 8GiB?' --set memory.host_limit=8 true &&
        refuses 'did you mean 32MiB?' --set memory.chunk_size=32 true &&
        refuses 'chunks of 1GiB, for which the budget of 512MiB has no room' \
            --memory 512m --set memory.chunk_size=1g true
}
budget_that_is_lost_is_refused() {
    printf '[memory]\nbudget = 12 gigabytes\n' > "$work/lost.ini"
    refuses "memory.budget cannot be read ($work/lost.ini:2)" --config "$work/lost.ini" true &&
        exits 0 "$microdnn" run --config "$work/lost.ini" --memory 12GiB true &&
        exits 0 "$microdnn" run --config "$work/lost.ini" --set memory.strict=no true &&
        exits 125 env MICRODNN_MEMORY_BUDGET=12 "$microdnn" run true &&
        exits 125 env MICRODNN_MEMORY_BUDGET=12GB? "$microdnn" verify true
}
small_sizes_that_mean_something_are_taken() {
    exits 0 "$microdnn" run --workspace-limit 0 --memory none --set memory.host_limit=0 --set memory.chunk_size=0 \
        --set memory.min_size=512 true && exits 0 "$microdnn" run --workspace-limit 4096 --memory 2m true
}
program_keeps_its_options() {
    same '-x --log=1 --' "$("$microdnn" run echo -x --log=1 --)" &&
        same '--help' "$("$microdnn" run -- sh -c 'echo "$1"' sh --help)"
}
exit_statuses() {
    exits 7 "$microdnn" run sh -c 'exit 7' && exits 127 "$microdnn" run /nonexistent &&
        exits 127 "$microdnn" run nonexistent-program && exits 126 "$microdnn" run /etc/passwd &&
        exits 126 "$microdnn" run /
}
program_replaces_the_tool() {
    "$microdnn" run sh -c 'echo $$' > "$work/out" &
    child=$!
    wait "$child" && same "$child" "$(cat "$work/out")"
}
library_is_loaded() {
    same "yes $library" "$("$microdnn" run sh -c 'echo "$MARKED $LD_PRELOAD"')"
}
preload_is_kept_and_ours_is_first_and_once() {
    same "$library" "$(preload '')" &&
        same "$library:$work/other.so" "$(preload "$work/other.so")" &&
        same "$library:$work/other.so" "$(preload "$work/other.so:$library")" &&
        same "$library:$work/other.so" "$(preload "$library $work/other.so $library")" &&
        same "$library:$work/other.so" "$(preload " :$work/other.so: $root/bin/../lib/libmicrodnn.so")" &&
        same '' "$(cat "$work/err")" &&
        same "$library" "$("$microdnn" run "$microdnn" run sh -c 'echo "$LD_PRELOAD"')"
}
other_copy_is_replaced() {
    same "$library" "$(preload "$work/libmicrodnn.so")" &&
        says "$work/err" "LD_PRELOAD named another copy, $work/libmicrodnn.so; using $library"
}
library_can_be_named() {
    same "$(realpath "$work/other.so")" \
        "$("$microdnn" run --library "$work/other.so" sh -c 'echo "$LD_PRELOAD"')" &&
        refuses 'is not a shared library for this machine' --library /etc/passwd true &&
        refuses 'cannot find the library' --library /nonexistent.so true &&
        refuses 'has a colon or a space' --library "$work/other dir/libmicrodnn.so" true
}
missing_library_is_told() {
    mkdir -p "$work/alone/bin" && cp "$tool" "$work/alone/bin/" &&
        exits 125 "$work/alone/bin/microdnn" run true && says "$work/err" 'name it with --library'
}

jax_variables='XLA_PYTHON_CLIENT_ALLOCATOR=cuda_async XLA_PYTHON_CLIENT_PREALLOCATE=false '
# What PyTorch and JAX see; run with none of their variables set by us.
framework_variables() { # options of run...
    "$microdnn" run "$@" env 2> "$work/err" | grep '^PYTORCH_[AC]\|^XLA_' | sort | tr '\n' ' '
}
a_budget_sets_variables_of_frameworks() {
    ours="PYTORCH_ALLOC_CONF=backend:cudaMallocAsync $jax_variables"
    printf '[memory]\nbudget = 1g\n' > "$work/budget.ini"
    same "$ours" "$(framework_variables --memory 12GiB)" && [ ! -s "$work/err" ] &&
        same "$ours" "$(framework_variables --set memory.budget=1g)" &&
        same "$ours" "$(framework_variables --config "$work/budget.ini")" &&
        same "$ours" "$(MICRODNN_MEMORY_BUDGET=1g framework_variables)" &&
        same "$ours" "$("$microdnn" run --memory 1g "$microdnn" run env 2> "$work/err" |
            grep '^PYTORCH_[AC]\|^XLA_' | sort | tr '\n' ' ')" && [ ! -s "$work/err" ]
}
no_budget_sets_nothing() {
    same '' "$(framework_variables)" && same '' "$(framework_variables --memory none)" &&
        same '' "$(MICRODNN_DISABLE=1 framework_variables --memory 1g)"
}
keeps() { # name, value, what else is there
    same "$(printf '%s\n' "$1=$2" "$3" | sort | tr '\n' ' ')" \
        "$(export "$1=$2" && framework_variables --memory 1g)" &&
        says "$work/err" "$1=$2 is set already" && same 1 "$(wc -l < "$work/err")"
}
no_caching_wins() (
    export PYTORCH_NO_CUDA_MEMORY_CACHING=1
    same "$jax_variables" "$(framework_variables --memory 1g)" &&
        says "$work/err" 'PYTORCH_NO_CUDA_MEMORY_CACHING=1 is set already'
)
variables_of_the_user_win() {
    torch=PYTORCH_ALLOC_CONF=backend:cudaMallocAsync
    jax=$(printf '%s\n' $jax_variables)
    keeps PYTORCH_ALLOC_CONF expandable_segments:True "$jax" &&
        keeps PYTORCH_CUDA_ALLOC_CONF expandable_segments:True "$jax" &&
        keeps XLA_PYTHON_CLIENT_PREALLOCATE true "$torch" &&
        keeps XLA_PYTHON_CLIENT_MEM_FRACTION .5 "$torch" &&
        keeps XLA_PYTHON_CLIENT_ALLOCATOR platform "$torch" && no_caching_wins
}
allocator_of() { # options of run, program...
    "$microdnn" run --memory 1g "$@" 2> "$work/err" | grep '^PYTORCH_[ACN]' | sort | tr '\n' ' '
}
allocators_are_chosen() {
    same 'PYTORCH_ALLOC_CONF=backend:native ' "$(allocator_of --allocator native env)" && [ ! -s "$work/err" ] &&
        same 'PYTORCH_ALLOC_CONF=backend:cudaMallocAsync ' "$(allocator_of --allocator async env)" &&
        same 'PYTORCH_NO_CUDA_MEMORY_CACHING=1 ' "$(allocator_of --allocator uncached env)" &&
        same 'PYTORCH_ALLOC_CONF=expandable_segments:True ' "$(allocator_of --allocator expandable env)" &&
        same 'PYTORCH_ALLOC_CONF=a:b ' "$(PYTORCH_ALLOC_CONF=a:b allocator_of --allocator native env)" &&
        says "$work/err" 'PYTORCH_ALLOC_CONF=a:b is set already' || return 1
    exits 125 "$microdnn" run --allocator best env && says "$work/err" 'accepted: async, native, uncached, expandable'
}
script() { # its text
    printf '%s\n' "$1" > "$work/train.py"
    echo env > "$work/show"
}
a_script_chooses_its_allocator() {
    script 'model = torch.compile(model, mode="reduce-overhead")'
    same 'PYTORCH_ALLOC_CONF=backend:native ' "$(allocator_of sh "$work/show" "$work/train.py")" &&
        says "$work/err" 'uses torch.compile(mode="reduce-overhead")' && says "$work/err" '--allocator native' &&
        same 1 "$(wc -l < "$work/err")" &&
        same 'PYTORCH_ALLOC_CONF=backend:cudaMallocAsync ' "$(allocator_of --allocator async sh "$work/show" "$work/train.py")" &&
        [ ! -s "$work/err" ] || return 1
    script 'model = torch.compile(model, mode="max-autotune-no-cudagraphs")'
    same 'PYTORCH_ALLOC_CONF=backend:cudaMallocAsync ' "$(allocator_of sh "$work/show" "$work/train.py")" &&
        same 'PYTORCH_ALLOC_CONF=backend:native ' "$(allocator_of sh -c 'env # torch.cuda.MemPool()')" &&
        same 'PYTORCH_ALLOC_CONF=backend:cudaMallocAsync ' "$(allocator_of sh "$work/show" none.py)" && [ ! -s "$work/err" ]
}
# A program that leaves the statistics of its processes, as the library would. Files in $reports.
fake_program() { # exit status or a signal's name
    cat > "$work/fake" <<S
#!/bin/sh
[ "\$MICRODNN_MEMORY_SAFETY" = verify ] || exit 99
[ "\$MICRODNN_GENERAL_STATS" = json ] || exit 98
echo "\$MICRODNN_MEMORY_BUDGET" > "$work/budget"
cp $reports "\$(dirname "\$MICRODNN_GENERAL_STATS_FILE")/"
case $1 in [0-9]*) exit $1 ;; *) kill -$1 \$\$ ;; esac
S
    chmod +x "$work/fake"
}
report() { # file, operations, unnamed accesses, the first as JSON
    printf '{"microdnn_statistics": 2,\n "memory": [\n  {"device": 0, "operations": 5, "period_operations": 77, \
"unnamed_accesses": 0, "first_unnamed": ""},\n  {"device": 1, "operations": %s, "unnamed_accesses": %s, \
"first_unnamed": "%s"}\n ]\n}\n' "$2" "$3" "$4" > "$work/$1"
}
verified() { # exit status, the last line without its beginning
    exits "$1" env "TMPDIR=$work/tmp" "$microdnn" verify --memory 1g "$work/fake" &&
        same "microdnn verify: $2" "$(tail -n 1 "$work/err")" && rmdir "$work/tmp" && mkdir "$work/tmp"
}
verify_sums_processes_and_devices() {
    mkdir "$work/tmp" && report 1.json 10 0 '' && report 2.json 20 0 '' &&
        reports="$work/1.json $work/2.json" && fake_program 0 &&
        verified 0 'clean, 40 operations' && same 1g "$(cat "$work/budget")"
}
verify_names_the_first_unnamed_access() {
    report 3.json 20 2 'kernel \"k\" \u001b at 0x7f00' && reports="$work/1.json $work/3.json" &&
        fake_program 0 && verified 1 '2 unnamed accesses, the first: kernel "k" ? at 0x7f00' &&
        fake_program 3 && verified 3 '2 unnamed accesses, the first: kernel "k" ? at 0x7f00'
}
verify_does_not_call_a_failure_clean() {
    reports="$work/1.json" && fake_program 3 &&
        verified 3 'the program exited with 3 after 15 operations; no unnamed access was recorded' &&
        fake_program SEGV &&
        verified 139 'the program was ended by signal 11 after 15 operations; no unnamed access was recorded'
}
verify_does_not_call_nothing_clean() {
    exits 1 "$microdnn" verify --memory 1g true && says "$work/err" 'nothing was checked' &&
        exits 127 "$microdnn" verify --memory 1g /nonexistent &&
        exits 125 "$microdnn" verify --memory q true && exits 125 "$microdnn" verify &&
        exits 0 "$microdnn" verify --help && says "$work/out" 'usage: microdnn verify'
}
verify_takes_all_memory_for_a_budget() {
    reports=$work/1.json && fake_program 0 &&
        LD_LIBRARY_PATH=$build/sim MICRODNN_SIM_MEMORY=3GiB exits 0 "$microdnn" verify "$work/fake" &&
        same 3221225472 "$(cat "$work/budget")"
}
verify_needs_to_know_how_much_there_is() {
    printf 'int cuInit(unsigned f) { return f != 0 ? 1 : 100; }
int cuDeviceGetCount(int *c) { return *c; }
int cuDeviceGet(int *d, int o) { return *d = o; }
int cuDeviceGetName(char *n, int b, int d) { return n[b - 1] = (char)d; }\n' > "$work/driver.c"
    mkdir -p "$work/driver" &&
        ${CC:-gcc} -shared -fPIC -o "$work/driver/libcuda.so.1" "$work/driver.c" &&
        LD_LIBRARY_PATH=$work/driver exits 125 "$microdnn" verify true &&
        says "$work/err" 'the CUDA driver reports error 100'
}
doctor_looks_at_memory() {
    LD_LIBRARY_PATH=$build/sim MICRODNN_MEMORY_BUDGET=1g "$microdnn" doctor > "$work/out"
    says "$work/out" 'virtual memory in the driver: yes, of the host: yes; budget 1GiB' &&
        says "$work/out" 'nothing is set; with a budget' || return 1
    LD_LIBRARY_PATH=$build/sim PYTORCH_CUDA_ALLOC_CONF=x "$microdnn" doctor > "$work/out"
    says "$work/out" 'PYTORCH_CUDA_ALLOC_CONF=x is set and stays'
}

config_is_an_ini_with_origins() {
    printf '[convolution]\npolicy = off\n' > "$work/c.ini"
    MICRODNN_CONFIG=$work/c.ini MICRODNN_STATS=json "$microdnn" config > "$work/first.ini" &&
        says "$work/first.ini" "; $work/c.ini:2" &&
        says "$work/first.ini" '; environment MICRODNN_STATS' &&
        MICRODNN_CONFIG=$work/first.ini "$microdnn" config > "$work/second.ini" &&
        same "$(sed 's/ *;.*//' "$work/first.ini")" "$(sed 's/ *;.*//' "$work/second.ini")"
}
config_fails_on_mistakes() {
    MICRODNN_LOG=loud exits 1 "$microdnn" config &&
        says "$work/err" 'environment MICRODNN_LOG: general.log' && says "$work/out" 'log = warn'
}
output_error_is_an_error() {
    ! "$microdnn" config > /dev/full 2> "$work/err" && says "$work/err" 'cannot write the output'
}
stats_need_a_statistics_file() {
    exits 1 "$microdnn" stats /etc/passwd && says "$work/err" '/etc/passwd: not a statistics file' &&
        exits 1 "$microdnn" stats /nonexistent && says "$work/err" '/nonexistent: No such file' &&
        exits 1 "$microdnn" stats "$work" && says "$work/err" 'it is a directory'
}
statistics() { # file, version of the format
    printf '{"microdnn_statistics": %s,\n "version": "9", "program": "p \\"q", "host": "h", "process": 7, "started": "now",
 "counters": {"calls_forward": 12, "something_new": 3, "parts": 0},
 "memory": [{"device": 1, "budget_bytes": 12884901888, "copies": [1, {"a": 2}], "operations": 371, "other": 0}],
 "convolutions": [{"problem": "forward 1x2", "configuration": "1 @ 0", "configuration_ms": 0.5, "undivided_ms": 1.5},
  {"problem": "forward 3x4", "configuration": "", "configuration_ms": null, "undivided_ms": null}], "executions": []\n}\n' \
        "$2" > "$1"
}
stats_of_json_are_text() {
    version=$(sed -n 's/.*MDNN_STATISTICS_JSON_VERSION = \([0-9]*\).*/\1/p' config/statistics_file.h)
    statistics "$work/1.json" "$version" && statistics "$work/2.json" "$version" && statistics "$work/3.json" 99
    exits 0 "$microdnn" stats "$work/1.json" && says "$work/out" 'microdnn statistics: p "q, process 7 on h, started unknown' &&
        says "$work/out" '12  cudnnConvolutionForward calls' && says "$work/out" '3  something_new' &&
        grep -qx 'virtual memory of device 1: budget 12.0 GiB' "$work/out" && grep -q '^  operations  *371$' "$work/out" &&
        says "$work/out" 'forward 1x2: 1 @ 0, workspace 0 bytes, 0.500 ms (undivided 1.500 ms, 3.00x)' &&
        grep -qx '  forward 3x4: no configuration fits, so it runs as the program asks' "$work/out" &&
        ! grep -q '_bytes\|_ms\|parts' "$work/out" || { cat "$work/out"; return 1; }
    exits 0 "$microdnn" stats --json "$work/1.json" && cmp "$work/1.json" "$work/out" &&
        exits 0 "$microdnn" stats --json "$work/1.json" "$work/2.json" &&
        same 2 "$(python3 -I -S -c 'import json, sys; print(len(json.load(open(sys.argv[1]))))' "$work/out")" || return 1
    for json in '' --json; do
        exits 1 "$microdnn" stats $json "$work/3.json" && says "$work/err" "version 99 of statistics; this microdnn reads version $version" &&
            [ ! -s "$work/out" ] || return 1
    done
    exits 1 "$microdnn" stats --json "$work/1.json" "$work/3.json" "$work/2.json" &&
        same 2 "$(python3 -I -S -c 'import json, sys; print(len(json.load(open(sys.argv[1]))))' "$work/out")" &&
        head -c 200 "$work/1.json" > "$work/cut.json" && exits 1 "$microdnn" stats "$work/cut.json" && says "$work/err" 'damaged: not JSON'
}
# An unknown or a later version is named, wherever it stands, by every command that reads such a file.
every_tool_names_the_version() {
    statistics "$work/later.json" 99 && printf 'microdnn-record 7\nprogram x\n' > "$work/later.record" &&
        printf 'MDNNSTAT\5\0\0\0%0400d' 0 > "$work/later.live" || return 1
    for command in stats 'stats --json'; do
        # shellcheck disable=SC2086  # words of a command
        for file in later.json:99:statistics later.live:5:'a live file'; do
            version=${file#*:}
            exits 1 "$microdnn" $command "$work/${file%%:*}" && [ "$(wc -l < "$work/err")" = 1 ] &&
                says "$work/err" "${file%%:*}: version ${version%:*} of ${version#*:}; this microdnn reads version" ||
                { echo "$command $file"; return 1; }
        done
    done
    exits 1 "$microdnn" advise "$work" && says "$work/err" 'it is a directory' &&
        exits 1 "$microdnn" advise "$work/later.record" && says "$work/err" 'version 7 of a record; this microdnn reads version 1'
}
# Each is one line: the file, that it is damaged, and what in it.
damaged_statistics_are_named() {
    statistics "$work/1.json" "$(sed -n 's/.*MDNN_STATISTICS_JSON_VERSION = \([0-9]*\).*/\1/p' config/statistics_file.h)"
    while IFS='|' read -r key value what; do
        python3 -I -S - "$work" "$key" "$value" << 'P' || return 1
import json, sys
stats = json.load(open(sys.argv[1] + "/1.json"))
*place, key = sys.argv[2].split(".")
at = stats
for step in place:
    at = at[int(step) if isinstance(at, list) else step]
if sys.argv[3]:
    at[int(key) if isinstance(at, list) else key] = "VALUE"
else:
    del at[key]
with open(sys.argv[1] + "/odd.json", "w") as file:
    file.write(json.dumps(stats).replace('"VALUE"', sys.argv[3]))
P
        for json in '' --json; do
            # shellcheck disable=SC2086  # nothing, or an option
            exits 1 "$microdnn" stats $json "$work/odd.json" && [ ! -s "$work/out" ] && [ "$(wc -l < "$work/err")" = 1 ] &&
                says "$work/err" "odd.json: these statistics are damaged: $what" || { echo "$key $value"; return 1; }
        done
    done << 'END'
program||program is missing
host|7|host is not a text
process|"7"|process is not a number
process|-1|process is not a whole number
counters|[]|counters is not an object
counters.parts|"x"|parts is not a whole number
memory|{}|memory is not a list
memory.0|[]|memory has something else in it
memory.0.device|900|device is not a whole number, or too large
memory.0.budget_bytes|"x"|budget_bytes is not a number
memory.0.budget_bytes|1e3|budget_bytes is not a whole number
memory.0.budget_bytes|18446744073709551616|budget_bytes is not a whole number
memory.0.round_ms|[1]|round_ms is not a number
memory.0.round_ms|-3|round_ms is not a time
memory.0.policy|3|policy is not a text
memory.0.forecast|[3]|forecast has something else in it
convolutions|null|convolutions is not a list
convolutions.1|3|convolutions has something else in it
convolutions.1.problem||problem is missing
convolutions.0.undivided_ms|true|undivided_ms is not a time
verdict|[3]|verdict has something else in it
executions|[[0, 0]]|executions has something else in it
executions|[[2, 0, 0, 0, 0]]|executions has something else in it
finished|3|finished is not true or false
END
}
doctor_speaks_json() {
    "$microdnn" doctor --json -- sh > "$work/doctor.json"
    [ $? -le 1 ] && python3 -I -S - "$work/doctor.json" <<'P'
import json, sys
report = json.load(open(sys.argv[1]))
subjects = {finding["subject"] for finding in report["findings"]}
assert {"glibc", "library", "LD_PRELOAD", "driver", "program", "configuration"} <= subjects, subjects
assert report["verdict"] in ("fine", "warning")
P
}
doctor_sees_versions() {
    exits 1 "$microdnn" doctor && says "$work/out" "$library is version 9.9.9, this tool is"
}
doctor_sees_what_cannot_be_preloaded() {
    exits 2 "$microdnn" doctor -- /nonexistent && says "$work/out" 'It will not work' &&
        exits 2 "$microdnn" doctor --library /etc/passwd &&
        cp "$(command -v env)" "$work/privileged" && chmod u+s "$work/privileged" &&
        exits 2 "$microdnn" doctor -- "$work/privileged" &&
        says "$work/out" 'the loader ignores LD_PRELOAD'
}
doctor_follows_a_script() {
    printf '#!/usr/bin/env sh\n' > "$work/script" && chmod +x "$work/script"
    "$microdnn" doctor -- "$work/script" > "$work/out"
    says "$work/out" "$work/script is a script for sh" && says "$work/out" "$(command -v sh)"
}
doctor_sees_static_programs() {
    printf 'int main(void) { return 0; }\n' > "$work/s.c"
    ${CC:-gcc} -static -o "$work/static" "$work/s.c" || return 1
    exits 2 "$microdnn" doctor -- "$work/static" && says "$work/out" 'linked statically'
}
doctor_counts_cudnn_copies() {
    mkdir -p "$work/a" "$work/b"
    printf '#include <stddef.h>\nsize_t cudnnGetVersion(void) { return 91900; }\n' > "$work/n.c"
    ${CC:-gcc} -shared -fPIC -Wl,-soname,libcudnn.so.9 -o "$work/a/libcudnn.so.9" "$work/n.c" &&
        cp "$work/a/libcudnn.so.9" "$work/b/" || return 1
    LD_LIBRARY_PATH=$work/a:$work/b "$microdnn" doctor > "$work/out"
    says "$work/out" "$work/a/libcudnn.so.9, version 9.19.0" && says "$work/out" 'different copies:' &&
        says "$work/out" "$work/b/libcudnn.so.9"
}
doctor_names_the_simulated_gpu() {
    LD_LIBRARY_PATH=$build/sim "$microdnn" doctor > "$work/out"
    says "$work/out" 'a SIMULATED GPU'
}

markdown_is_committed() {
    "$tool" config --markdown | diff -u docs/configuration.md -
}
versions_page_is_made_from_its_data() {
    mkdir -p "$work/repository/scripts" "$work/repository/docs/benchmarks" && cp scripts/cudnn-versions "$work/repository/scripts/" &&
        cp -r docs/benchmarks/data "$work/repository/docs/benchmarks/" && "$work/repository/scripts/cudnn-versions" --table &&
        diff -u docs/benchmarks/cudnn-versions.md "$work/repository/docs/benchmarks/cudnn-versions.md"
}
man_pages_are_clean() {
    mandoc -Tlint -W warning docs/man/*.[157]
}
# groff's heading loops for ever where the name of the volume, that of a section 7 above all, does not fit into the line.
man_pages_fit_narrow_terminals() {
    for page in docs/man/*.[157]; do
        for columns in 28 38; do # as man(1) asks for terminals of 30 and of 40
            (ulimit -t 10 && groff -mandoc -Tutf8 -P-cbou "-rLL=${columns}n" "-rLT=${columns}n" "$page") > "$work/out" 2> "$work/err" &&
                says "$work/out" ALSO ||
                { echo "$page, $columns columns"; cat "$work/err"; return 1; }
        done
    done
}
# Names in the list and in the page, both ways: `.It Cm key` below `.Ss [section]`.
man_page_has_every_option() {
    sed -n 's/^OPTION_[A-Z]*(\([a-z_]*\), *\([a-z_]*\),.*/\1.\2/p' config/options.def | sort > "$work/list"
    awk '/^\.Ss /{gsub(/[][]/, "", $2); section = $2} /^\.It Cm /{print section "." $3}' \
        docs/man/microdnn.ini.5 | sort > "$work/page"
    [ -s "$work/list" ] && diff "$work/list" "$work/page"
}
# Every option in the help of a command has its place below `.Ss command`.
man_page_has_every_option_of() { # commands...
    for command; do
        "$tool" "$command" --help | grep -o -- '--[a-z][a-z-]*' | sort -u > "$work/list"
        sed -n "/^\.Ss $command\$/,/^\.S[sh]/p" docs/man/microdnn.1 |
            grep -o 'Fl Fl [a-z-]*' | sed 's/Fl Fl /--/' | sort -u > "$work/page"
        missing=$(comm -23 "$work/list" "$work/page" | grep -vx -e --help -e --markdown)
        if [ ! -s "$work/list" ] || [ -n "$missing" ]; then
            echo "$command: $missing"
            return 1
        fi
    done
}

plan 56
check 'help is short and fits a terminal' help_is_short
check 'version is the project version' exits 0 "$tool" --version
check 'every command has help, with its defaults' every_command_has_help_with_its_defaults
check 'wrong usage exits 2 with advice' wrong_usage
check 'wrong words need two lines' wrong_words_need_two_lines
check 'run: options become variables by their full names' options_become_variables
check 'run: options have short names in the environment, of known precedence' short_names_are_options_of_run
check 'run: an option beats a short name in the environment' option_beats_short_name
check 'run: relative output files become absolute' relative_files_become_absolute
check 'run: the configuration file is passed on by its absolute path' config_file_is_passed_on
check 'run: mistakes in the configuration file are said and the program runs' config_file_with_mistakes_runs
check 'run: bad options are refused with what is accepted' bad_options_are_refused
check 'run: sizes that nobody can mean are refused' implausible_sizes_are_refused
check 'run: a budget that is lost is refused' budget_that_is_lost_is_refused
check 'run: small sizes that mean something are taken' small_sizes_that_mean_something_are_taken
check 'run: options after the program are the program'"'"'s' program_keeps_its_options
check 'run: exit statuses are those of a shell' exit_statuses
check 'run: the program takes the place of the tool' program_replaces_the_tool
check 'run: the library beside the tool is loaded' library_is_loaded
check 'run: LD_PRELOAD keeps its entries and has ours first and once' preload_is_kept_and_ours_is_first_and_once
check 'run: another copy of the library in LD_PRELOAD is replaced and named' other_copy_is_replaced
check 'run: the library can be named and is looked at' library_can_be_named
check 'run: a missing library is told' missing_library_is_told
check 'run: a budget sets the variables of PyTorch and JAX' a_budget_sets_variables_of_frameworks
check 'run: without a budget they are left alone' no_budget_sets_nothing
check 'run: a variable that the user has set wins and is said' variables_of_the_user_win
check "run: PyTorch's allocator can be chosen" allocators_are_chosen
check 'run: a script that needs another allocator gets it, and that is said' a_script_chooses_its_allocator
check 'verify: sums processes and devices' verify_sums_processes_and_devices
check 'verify: names the first unnamed access' verify_names_the_first_unnamed_access
check 'verify: a program that fails is not clean' verify_does_not_call_a_failure_clean
check 'verify: where nothing was checked that is said' verify_does_not_call_nothing_clean
if [ -e "$build/sim/libcuda.so.1" ]; then
    check 'verify: the budget is all memory of the GPU' verify_takes_all_memory_for_a_budget
else
    skip 'verify: the budget is all memory of the GPU' 'the simulated GPU is not built'
fi
check 'verify: without a GPU or a budget it stops' verify_needs_to_know_how_much_there_is
check 'config: prints an INI file with origins that reads back the same' config_is_an_ini_with_origins
check 'config: exits 1 when there are mistakes' config_fails_on_mistakes
check 'a full disk is an error' output_error_is_an_error
check 'stats: other files are refused' stats_need_a_statistics_file
check 'every tool names the version that it does not read' every_tool_names_the_version
check 'stats: damaged statistics are named' damaged_statistics_are_named
check 'stats: JSON becomes text, several files are one document, other versions are refused' stats_of_json_are_text
check 'doctor: --json is JSON' doctor_speaks_json
check 'doctor: a library of another version is a warning' doctor_sees_versions
check 'doctor: what cannot be preloaded is broken' doctor_sees_what_cannot_be_preloaded
check 'doctor: a script leads to its interpreter' doctor_follows_a_script
if printf 'int main(void) { return 0; }' | ${CC:-gcc} -static -x c -o "$work/probe" - 2> /dev/null; then
    check 'doctor: a static program is broken' doctor_sees_static_programs
else
    skip 'doctor: a static program is broken' 'no static libc here'
fi
check 'doctor: two cuDNN copies are counted' doctor_counts_cudnn_copies
if [ -e "$build/sim/libcuda.so.1" ]; then
    check 'doctor: the simulated GPU is named as such' doctor_names_the_simulated_gpu
    check 'doctor: looks at virtual memory and at PyTorch' doctor_looks_at_memory
else
    skip 'doctor: the simulated GPU is named as such' 'the simulated GPU is not built'
    skip 'doctor: looks at virtual memory and at PyTorch' 'the simulated GPU is not built'
fi
check 'docs/benchmarks/cudnn-versions.md is made from its data' versions_page_is_made_from_its_data
check 'so is docs/benchmarks/frameworks.md' scripts/framework-versions --check
check 'docs/configuration.md is what the tool prints' markdown_is_committed
if command -v mandoc > /dev/null; then
    check 'the man pages are clean' man_pages_are_clean
else
    skip 'the man pages are clean' 'no mandoc here'
fi
if command -v groff > /dev/null; then
    check 'the man pages fit narrow terminals' man_pages_fit_narrow_terminals
else
    skip 'the man pages fit narrow terminals' 'no groff here'
fi
check 'microdnn.ini(5) lists exactly the options' man_page_has_every_option
check 'microdnn(1) lists every option of run, cache, tune and report' man_page_has_every_option_of run cache tune report
finish
