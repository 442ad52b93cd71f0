#!/bin/sh
# `microdnn doctor`: faults that users meet, planted one at a time. A check names the fault; it must be found with its
# severity, and nothing like it without the fault.
# shellcheck disable=SC2016,SC2317  # programs for others; functions are called through check
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
export MICRODNN_SIM_MODE=timing # what is computed does not matter here
[ -e "$MDNN_BUILD/sim/libcuda.so.1" ] || skip_all 'there is no simulated GPU in this build'
tool=$MDNN_BUILD/microdnn
work=$TMPDIR
sim=$MDNN_BUILD/sim
cc=${CC:-gcc}
library_comes_first
unset MICRODNN_CACHE_FILE MICRODNN_MEMORY_REGISTRY CUDA_VISIBLE_DEVICES PYTORCH_ALLOC_CONF PYTORCH_CUDA_ALLOC_CONF \
    PYTORCH_NO_CUDA_MEMORY_CACHING XLA_PYTHON_CLIENT_PREALLOCATE PYTHONPATH
export XDG_CACHE_HOME="$work/cache" MICRODNN_MEMORY_REGISTRY="$work" LD_LIBRARY_PATH="$sim"
mkdir "$XDG_CACHE_HOME"

doctor() { # arguments: its output in $work/out, its status in $status
    "$tool" doctor "$@" >"$work/out" 2>"$work/err"
    status=$?
}
says() { # WARN or FAIL, what
    grep -F -- "$2" "$work/out" | grep -q "^$1 " || { echo "no $1 with '$2' in:"; cat "$work/out" "$work/err"; return 1; }
}
says_not() { # what
    ! grep -F -- "$1" "$work/out" | grep -v '^ok ' || { echo "said without the fault"; return 1; }
}
# finds SEVERITY TEXT [NAME=VALUE...] [arguments of doctor]: in this environment, and not without it
finds() {
    severity=$1 text=$2
    shift 2
    (
        while [ $# -gt 0 ]; do
            case $1 in [A-Z]*=*) export "$1" && shift ;; *) break ;; esac
        done
        doctor "$@"
        says "$severity" "$text" || exit 1
        if [ "$severity" = FAIL ]; then [ $status = 2 ]; else [ $status -ge 1 ]; fi || { echo "status $status"; exit 1; }
    ) || return 1
    if thorough; then doctor; else cp "$work/sound" "$work/out"; fi # of the same machine
    says_not "$text"
}
compile() { # output, program text, options of the compiler...
    output=$1
    printf '%s\n' "$2" >"$work/source.c"
    shift 2
    $cc -w -o "$output" "$work/source.c" "$@"
}

a_sound_machine_is_fine() {
    doctor && cp "$work/out" "$work/sound" && [ $status = 0 ] && [ "$(tail -n 1 "$work/out")" = 'Everything is in order.' ] &&
        MICRODNN_SIM_MEMORY=2g MICRODNN_MEMORY=1g doctor -- /bin/sh && [ $status = 0 ] || { cat "$work/out" "$work/err"; return 1; }
}

# ---- the machine ----

no_driver() {
    (
        unset LD_LIBRARY_PATH
        ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' && exit 0 # a real driver cannot be taken away
        doctor
        says FAIL 'no program can use a GPU here' && [ $status = 2 ] && ! grep -q 'should work' "$work/out" &&
            [ "$(grep -c '^FAIL' "$work/out")" = 1 ]
    )
}
driver() { # body of cuInit, then finds' arguments
    mkdir -p "$work/driver"
    body=$1
    shift
    compile "$work/driver/libcuda.so.1" "int cuInit(unsigned f) { $body }
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuDeviceGetCount(int *c) { *c = 1; return 0; }
int cuDeviceGet(int *d, int o) { *d = o; return 0; }
int cuDeviceGetName(char *n, int b, int d) { n[0] = 'X'; n[1] = 0; return 0; }
int cuDeviceTotalMem_v2(unsigned long *b, int d) { *b = 8ul << 30; return 0; }
int cuDeviceGetAttribute(int *v, int a, int d) { *v = 0; return 0; }" -shared -fPIC || return 1
    finds "$@"
}
driver_without_gpu() { driver 'return 100;' FAIL 'error 100, there is no GPU' "LD_LIBRARY_PATH=$work/driver:$sim"; }
driver_mismatch() { driver 'return 803;' FAIL 'of different versions' "LD_LIBRARY_PATH=$work/driver:$sim"; }
driver_is_a_stub() {
    mkdir -p "$work/stubs" && cp "$sim/libcuda.so.1" "$work/stubs/" &&
        finds FAIL 'is a stub for linking' "LD_LIBRARY_PATH=$work/stubs:$sim"
}
no_virtual_memory() {
    driver 'return 0;' FAIL 'X has no virtual memory in its driver' "LD_LIBRARY_PATH=$work/driver:$sim" MICRODNN_MEMORY=1g
}
all_gpus_hidden() { finds FAIL 'hides all GPUs' CUDA_VISIBLE_DEVICES=; }
runtime_too_new() {
    driver 'return 0;' WARN 'the driver is too old for it' "LD_LIBRARY_PATH=$work/driver:$sim"
}
address_space_limited() {
    [ -z "$MDNN_PRELOAD_FIRST" ] || return 0 # a sanitizer reserves more than any limit
    (ulimit -v 8000000 && MICRODNN_MEMORY=1g doctor && says FAIL 'the address space is limited to') || return 1
    MICRODNN_MEMORY=1g doctor
    says_not 'address space'
}
# A statvfs that tells of another file system.
pretend() { # blocks of 4096, flags (8 is ST_NOEXEC)
    compile "$work/statvfs.so" "#include <sys/statvfs.h>
#include <string.h>
static int fill(struct statvfs *s) { memset(s, 0, sizeof *s);
  s->f_frsize = s->f_bsize = 4096; s->f_blocks = s->f_bavail = $1; s->f_flag = $2; return 0; }
int statvfs(const char *p, struct statvfs *s) { return fill(s); }
int statvfs64(const char *p, struct statvfs *s) { return fill(s); }" -shared -fPIC
}
shared_memory_too_small() {
    pretend 16384 0 && finds WARN 'too little for data loaders' MICRODNN_MEMORY=1g "LD_PRELOAD=$work/statvfs.so"
}
shared_memory_full() { pretend 4 0 && finds WARN 'is full' MICRODNN_MEMORY=1g "LD_PRELOAD=$work/statvfs.so"; }
registry_missing() { finds WARN 'cannot add up their pinned memory there' MICRODNN_MEMORY=1g MICRODNN_MEMORY_REGISTRY=/nowhere; }
little_host_memory() {
    finds WARN 'at most 1.00 GiB is pinned' MICRODNN_MEMORY=1g MICRODNN_MEMORY_HOST_LIMIT=1g
}

# ---- the library ----

library_missing() { finds FAIL 'cannot find the library' --library "$work/none.so"; }
library_for_another_machine() {
    cp "$MDNN_BUILD/libmicrodnn.so" "$work/other.so" && printf '\363\000' | # RISC-V
        dd of="$work/other.so" bs=1 seek=18 conv=notrunc 2>/dev/null &&
        finds FAIL 'is not a shared library for this machine (it is for riscv64)' --library "$work/other.so"
}
library_of_something_else() { finds FAIL 'is not libmicrodnn' --library "$sim/libcuda.so.1"; }
library_not_executable() {
    pretend 1000000 8 && finds FAIL 'mounted noexec' "LD_PRELOAD=$work/statvfs.so"
}
library_needs_what_is_missing() {
    printf 'int cannot_be_there(void); __attribute__((used)) static const char v[] = "@(#)libmicrodnn %s";\n' \
        "$("$tool" --version | cut -d' ' -f2)" >"$work/new.c"
    compile "$work/libdep.so" 'int gone;' -shared -fPIC -Wl,-soname,libgone.so.7 &&
        $cc -w -shared -fPIC -o "$work/libmicrodnn.so" -Wl,--no-as-needed "$work/new.c" "$work/libdep.so" || return 1
    finds FAIL 'libgone.so.7 => not found' --library "$work/libmicrodnn.so" -- /bin/sh
}
preload_path_wrong() { finds WARN "$work/nowhere.so: No such file" "LD_PRELOAD=$work/nowhere.so"; }
preload_twice() {
    mkdir -p "$work/copy" && cp "$MDNN_BUILD/libmicrodnn.so" "$work/copy/" &&
        finds FAIL 'would hook each other' "LD_PRELOAD=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$MDNN_BUILD/libmicrodnn.so:$work/copy/libmicrodnn.so"
}
preload_with_a_rival() {
    compile "$work/rival.so" 'int cuMemAlloc_v2(void) { return 0; }' -shared -fPIC &&
        finds WARN "rival.so replaces cuMemAlloc_v2, too" "LD_PRELOAD=$work/rival.so"
}

# ---- options and files ----

ini_with_mistakes() {
    printf '[memory]\nbudgett = 1g\n' >"$work/bad.ini" && finds WARN '1 mistakes' "MICRODNN_CONFIG=$work/bad.ini"
}
budget_unreadable() { finds FAIL 'a budget for memory cannot be read' MICRODNN_MEMORY=12gigs; }
budget_too_small() { finds FAIL 'is less than a chunk of memory' MICRODNN_MEMORY=1m; }
budget_too_large() { finds WARN 'it limits nothing' MICRODNN_MEMORY=900g; }
switched_off() { finds WARN 'the library is switched off' MICRODNN_DISABLE=1; }
trace_without_budget() { finds WARN 'memory.trace has no effect' "MICRODNN_TRACE=$work/t.json"; }
unwritable_log() { finds WARN 'cannot be written: No such file or directory' MICRODNN_LOG_FILE=/nowhere/log; }
unwritable_cache() {
    : >"$work/file" && finds WARN 'cannot be written: Not a directory' "XDG_CACHE_HOME=$work/file" &&
        finds WARN '/nowhere/c.db cannot be written' MICRODNN_CACHE_FILE=/nowhere/c.db
}
foreign_cache() { echo 'Dear diary, this is no database.' >"$work/diary" && finds WARN 'not a database of microdnn' "MICRODNN_CACHE_FILE=$work/diary"; }
no_home() { finds WARN 'neither XDG_CACHE_HOME nor HOME' XDG_CACHE_HOME= HOME=; }

# ---- variables of others ----

pytorch_caches() { finds WARN 'only whole segments of it can leave' MICRODNN_MEMORY=1g PYTORCH_ALLOC_CONF=expandable_segments:True; }
pytorch_contradicts_itself() { finds WARN 'differ: it depends on' PYTORCH_ALLOC_CONF=a:b PYTORCH_CUDA_ALLOC_CONF=a:c; }
reduce_overhead_with_the_async_allocator() {
    echo 'model = torch.compile(model, mode="reduce-overhead")' >"$work/train.py"
    finds FAIL 'which PYTORCH_ALLOC_CONF=backend:cudaMallocAsync does not support' \
        PYTORCH_ALLOC_CONF=backend:cudaMallocAsync -- /bin/sh "$work/train.py"
}
jax_preallocates() { finds WARN 'XLA_PYTHON_CLIENT_PREALLOCATE=true is set' MICRODNN_MEMORY=1g XLA_PYTHON_CLIENT_PREALLOCATE=true; }
launches_block() { finds WARN 'each launch waits for its end' CUDA_LAUNCH_BLOCKING=1; }
profiler_injected() { finds WARN 'a profiler or debugger is injected' CUDA_INJECTION64_PATH=/x.so; }

# ---- programs ----

program_missing() { finds FAIL 'No such file' -- "$work/no-program"; }
program_setuid() {
    cp "$(command -v env)" "$work/privileged" && chmod u+s "$work/privileged" &&
        finds FAIL 'the loader ignores LD_PRELOAD' -- "$work/privileged"
}
program_static() {
    compile "$work/static" 'int main(void) { return 0; }' -static 2>/dev/null || return 0 # no static libc here
    finds FAIL 'is linked statically' -- "$work/static"
}
program_for_another_machine() {
    compile "$work/strange" 'int main(void) { return 0; }' && printf '\363\000' |
        dd of="$work/strange" bs=1 seek=18 conv=notrunc 2>/dev/null &&
        finds FAIL 'is not a program for this machine (it is for riscv64)' -- "$work/strange"
}
program_for_musl() {
    compile "$work/alpine" 'int main(void) { return 0; }' -Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1 &&
        finds FAIL 'for the C library musl' -- "$work/alpine"
}
program_lacks_a_library() {
    compile "$work/libgone.so" 'int gone(void) { return 0; }' -shared -fPIC &&
        compile "$work/lacks" 'int gone(void); int main(void) { return gone(); }' -L"$work" -lgone &&
        rm "$work/libgone.so" && finds FAIL 'libgone.so => not found' -- "$work/lacks"
}
program_with_cudnn_built_in() {
    compile "$work/builtin" 'int cudnnConvolutionForward(void) { return 0; } int main(void) { return 0; }' &&
        finds FAIL 'has cuDNN built in' -- "$work/builtin"
}
program_with_static_cudart() {
    compile "$work/cudart" 'int cudaMalloc(void) { return 0; } int main(void) { return 0; }' &&
        finds WARN 'has the CUDA runtime built in' -- "$work/cudart"
}
script_sets_preload() {
    printf '#!/bin/sh\nexport LD_PRELOAD=/usr/lib/libjemalloc.so\nexec train\n' >"$work/start" && chmod +x "$work/start" &&
        finds WARN 'sets LD_PRELOAD itself' -- "$work/start" || return 1
    printf '#!/bin/sh\nexport LD_PRELOAD=/usr/lib/libjemalloc.so:$LD_PRELOAD\nexec train\n' >"$work/start"
    doctor -- "$work/start" && says_not 'sets LD_PRELOAD itself'
}
starter() { # severity, text, name
    mkdir -p "$work/bin" && printf '#!/bin/sh\n' >"$work/bin/$3" && chmod +x "$work/bin/$3" &&
        finds "$1" "$2" "PATH=$work/bin:$PATH" -- "$3" python3 train.py
}
container() { starter WARN 'docker starts its program in another place' docker; }
with_ncu() { starter WARN 'ncu runs kernels again' ncu; }
with_compute_sanitizer() { starter WARN 'compute-sanitizer does not know memory that leaves' compute-sanitizer; }
with_sudo() { starter FAIL 'sudo removes LD_PRELOAD' sudo; }

# ---- Python's packages ----

# python PACKAGE VERSION [REQUIREMENT]...: a folder of packages in $site
package() { # name, version, requirement
    mkdir -p "$site/$1-$2.dist-info"
    printf 'Metadata-Version: 2.1\nName: %s\nVersion: %s\n%s\n' "$1" "$2" "${3:+Requires-Dist: $3}" \
        >"$site/$1-$2.dist-info/METADATA"
}
torch() { # version, cuda, requirement
    site=$work/site
    rm -rf "$site" && mkdir -p "$site/torch" && : >"$site/torch/__init__.py" && package torch "$1" "$3" &&
        printf "cuda: Optional[str] = %s\nhip: Optional[str] = %s\n" "$2" "${4:-None}" >"$site/torch/version.py"
}
cudnn() { # folder, number
    mkdir -p "$1" && compile "$1/libcudnn.so.9" "unsigned long cudnnGetVersion(void) { return $2; }" -shared -fPIC \
        -Wl,-soname,libcudnn.so.9
}
sound() { # a torch that fits: then its faults
    torch 2.10.0 "'13.0'" 'nvidia-cudnn-cu13 (==9.19.0.56) ; platform_system == "Linux"' &&
        package nvidia_cudnn_cu13 9.19.0.56 && cudnn "$site/nvidia/cudnn/lib" 91900
}
in_python() { finds "$1" "$2" "PYTHONPATH=$site" "${3:-PLAIN=1}" -- python3; }

torch_is_found() {
    sound && PYTHONPATH=$site doctor -- python3 && [ $status = 0 ] &&
        grep -q '^ok .*torch 2.10.0 for CUDA 13.0' "$work/out" &&
        grep -q "^ok .*$site/nvidia/cudnn/lib/libcudnn.so.9, version 9.19.0, of the program's own" "$work/out" &&
        grep -q "^ok .*$sim/libcudnn.so.9, version 9.19.0, for programs that bring none" "$work/out" &&
        ! grep -q 'it uses this one' "$work/out" && # the simulated one is in LD_LIBRARY_PATH
        cudnn_is_in_use || { cat "$work/out"; return 1; }
}
# Where LD_LIBRARY_PATH has a driver and no cuDNN, the program's own is the one in use.
cudnn_is_in_use() {
    mkdir -p "$work/nocudnn" && cp "$sim/libcuda.so.1" "$work/nocudnn/" || return 1
    LD_LIBRARY_PATH=$work/nocudnn PYTHONPATH=$site doctor -- python3
    grep -q "^ok .*version 9.19.0, of the program's own packages: it uses this one" "$work/out"
}
torch_without_cuda() { torch 2.10.0 None && in_python FAIL 'torch 2.10.0 is built without CUDA'; }
torch_for_rocm() { torch 2.10.0 None '' "'6.4'" && in_python FAIL 'is built for ROCm 6.4'; }
torch_newer_than_the_driver() { torch 2.12.0 "'14.1'" && in_python FAIL 'the driver serves CUDA 13.0 at most'; }
torch_without_its_cudnn() {
    torch 2.10.0 "'13.0'" 'nvidia-cudnn-cu13 (==9.19.0.56)' && in_python WARN 'wants nvidia-cudnn-cu13, which is not installed'
}
torch_with_another_cudnn() {
    sound && rm -r "$site"/nvidia_cudnn* && package nvidia_cudnn_cu13 9.8.0.87 &&
        in_python WARN 'wants nvidia-cudnn-cu13 ==9.19.0.56, and 9.8.0.87 is installed'
}
torch_with_no_cudnn_at_all() {
    mkdir -p "$work/nocudnn" && cp "$sim/libcuda.so.1" "$work/nocudnn/" && torch 2.10.0 "'13.0'" || return 1
    ldconfig -p 2>/dev/null | grep -q 'libcudnn\.so' && return 0 # the loader has one
    in_python FAIL 'there is no libcudnn.so for torch to load' "LD_LIBRARY_PATH=$work/nocudnn"
}
broken_cudnn() {
    sound && echo 'no library' >"$site/nvidia/cudnn/lib/libcudnn.so.9" && in_python FAIL 'cannot be loaded'
}
shadowed_cudnn() {
    sound && cudnn "$work/old" 90100 &&
        in_python WARN "version 9.1.0, before the program's own cuDNN 9.19.0" "LD_LIBRARY_PATH=$work/old:$sim"
}
two_cudnn_packages() {
    sound && package nvidia_cudnn_cu12 9.10.2.21 && in_python WARN 'are both installed'
}
old_torch_with_a_budget() {
    torch 2.5.1 "'12.4'" && in_python WARN 'torch 2.5.1 does not know PYTORCH_ALLOC_CONF' MICRODNN_MEMORY=1g
}
jax() { # version of jaxlib, of the plugin
    site=$work/site
    rm -rf "$site" && mkdir "$site" && package jax 0.11.0 && package jaxlib "$1" && { [ -z "$2" ] || package jax_cuda13_plugin "$2"; }
}
jax_without_a_plugin() { jax 0.11.0 '' && in_python FAIL 'jax 0.11.0 has no plugin for CUDA'; }
jax_with_another_plugin() { jax 0.11.0 0.10.2 && in_python FAIL 'jax ignores the plugin'; }
tensorflow_keeps_memory() {
    site=$work/site
    rm -rf "$site" && mkdir "$site" && package tensorflow 2.20.0 &&
        in_python WARN 'takes most of the budget at once' MICRODNN_MEMORY=1g
}
python_that_says_nothing() {
    mkdir -p "$work/mute" && printf '#!/bin/sh\nexit 1\n' >"$work/mute/python3" && chmod +x "$work/mute/python3" &&
        finds WARN 'does not say which packages it has' "PATH=$work/mute:$PATH" -- python3
}

# ---- --run ----

run_sees_convolutions() {
    (
        export MICRODNN_SIM_MEMORY=2g MICRODNN_MEMORY=1g MICRODNN_SIM_PROFILE=toy MICRODNN_CACHE_FILE=none
        doctor --run -- "$MDNN_BUILD/train_cnn" --net lenet --batch 8 --iterations 1
        [ $status -le 1 ] && says 'ok ' 'the program exited with 0' && says 'ok ' "loaded $sim/libcudnn.so.9" &&
            says 'ok ' '1 process called the library: convolutions forward ' && says 'ok ' 'operations on the GPU were followed' &&
            [ -z "$(find "$work" -name 'microdnn-doctor*')" ]
    )
}
run_sees_nothing() { doctor --run -- /bin/sh -c 'echo not in the findings' && [ $status = 1 ] && says WARN 'no CUDA call was made' && ! grep -q 'not in' "$work/out"; }
run_without_the_library() {
    compile "$work/dropped" 'int main(void) { return 0; }' -static 2>/dev/null || return 0 # no static libc here
    doctor --run -- "$work/dropped"
    says FAIL 'the loader did not load the library' && [ $status = 2 ]
}
run_that_fails() {
    doctor --json --run -- /bin/sh -c 'kill -KILL $$'
    [ $status = 1 ] && python3 -c 'import json, sys
texts = [each["text"] for each in json.load(open(sys.argv[1]))["findings"] if each["subject"] == "run"]
assert texts[0] == "the program was ended by signal 9 (Killed)", texts' "$work/out" || return 1
    doctor --run -- /bin/sh -c 'exit 3' && says WARN 'the program exited with 3'
}
run_without_a_program() { doctor --run; [ $status = 2 ] && grep -q 'which program?' "$work/err"; }

plan 70
check 'a sound machine and program are fine' a_sound_machine_is_fine
for fault in no_driver driver_without_gpu driver_mismatch driver_is_a_stub no_virtual_memory all_gpus_hidden \
    runtime_too_new address_space_limited shared_memory_too_small shared_memory_full registry_missing little_host_memory \
    library_missing library_for_another_machine library_of_something_else library_not_executable \
    library_needs_what_is_missing preload_path_wrong preload_twice preload_with_a_rival ini_with_mistakes budget_unreadable \
    budget_too_small budget_too_large switched_off trace_without_budget unwritable_log unwritable_cache foreign_cache \
    no_home pytorch_caches pytorch_contradicts_itself reduce_overhead_with_the_async_allocator jax_preallocates \
    launches_block profiler_injected program_missing program_setuid program_static program_for_another_machine \
    program_for_musl program_lacks_a_library program_with_cudnn_built_in program_with_static_cudart script_sets_preload \
    container with_ncu with_compute_sanitizer with_sudo torch_without_cuda torch_for_rocm torch_newer_than_the_driver \
    torch_without_its_cudnn torch_with_another_cudnn torch_with_no_cudnn_at_all broken_cudnn shadowed_cudnn \
    two_cudnn_packages old_torch_with_a_budget jax_without_a_plugin jax_with_another_plugin tensorflow_keeps_memory \
    python_that_says_nothing; do
    check "fault: $(echo $fault | tr _ ' ')" $fault
done
check 'run: a program with convolutions is seen' run_sees_convolutions
check 'run: no CUDA call was made' run_sees_nothing
check 'run: a library that is not loaded' run_without_the_library
check 'run: a program that fails, and JSON' run_that_fails
check 'run: which program?' run_without_a_program
check "a program's own torch and cuDNN are found" torch_is_found
finish
