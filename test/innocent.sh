#!/bin/sh
# A process that does not use CUDA runs under LD_PRELOAD as if the library were not there: same
# output, same exit status, no file of ours, no thread or child of ours; also when statistics and a
# trace log are asked for.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

library=$MDNN_BUILD/libmicrodnn.so
[ -e "$library" ] || skip_all "no $library"
! readelf -d "$library" | grep -q 'NEEDED.*lib[a-z]*san\.so' ||
    skip_all "a sanitizer's run time comes along, which changes every program"
[ "${MDNN_BUILD##*/}" != cov ] || skip_all 'coverage is written by every program'
unset LD_LIBRARY_PATH
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
python=$(python3 -c 'import sys; print(sys.executable)')

# Everything that could make the library talk; the configuration file would say so again.
printf '[general]\nlog = trace\nlog_file = %s/log.%%p\nstats = json\nstats_file = %s/stats.%%p\n' \
    "$scratch/ours" "$scratch/ours" >"$scratch/loud.ini"
mkdir "$scratch/ours"

with_library() {
    env LD_PRELOAD="$library" MICRODNN_CONFIG="$scratch/loud.ini" MICRODNN_GENERAL_LOG=trace \
        MICRODNN_GENERAL_STATS=text "$@"
}

same() { # command...: equal output, errors and status; nothing of ours left behind
    "$@" >plain.out 2>plain.err
    plain=$?
    with_library "$@" >preload.out 2>preload.err
    preload=$?
    cmp plain.out preload.out && cmp plain.err preload.err && [ "$plain" -eq "$preload" ] &&
        [ -z "$(ls -A ours)" ] && return
    echo "status $plain without, $preload with the library; left behind: $(ls -A ours)"
    diff plain.out preload.out
    diff plain.err preload.err
    return 1
}

# Each system call that names a file or makes a process or thread: its name and the path, sorted.
# Temporary names of the compiler are made equal. A look at descriptor 2 names no file.
trace() { # output, command...; strace_options are used as they are
    trace_out=$1
    shift
    # shellcheck disable=SC2086 # several options, none with a space
    strace -f -qq $strace_options -e trace=%file,clone,clone3,fork,vfork -o "$trace_out.raw" \
        "$@" >/dev/null 2>&1
    sed -n '/ resumed>/d;/statx(2, "",/d;s/^[0-9]* *\([a-z0-9_]*\)(\([^"]*"\([^"]*\)"\)\{0,1\}.*/\1 \3/p' \
        "$trace_out.raw" | sed 's/cc[A-Za-z0-9]\{6\}\(\.[a-z]*\)*$/ccTEMPORARY/' |
        sort -u >"$trace_out"
    grep -cE '(clone3?|v?fork)\(' "$trace_out.raw" >"$trace_out.children"
}

# The loader opens the library and what it needs (libc, libm), nothing else.
loader="(open|openat) ($library|.*/lib[cm]\.so\.6)\$"

same_files() { # command...
    "$@" >/dev/null 2>&1 # caches of the command are written before the first trace
    strace_options='' trace plain.trace "$@"
    strace_options="-E LD_PRELOAD=$library -E MICRODNN_CONFIG=$scratch/loud.ini"
    trace preload.trace "$@"
    grep -q "^openat $library\$" preload.trace || {
        echo 'the library was not loaded'
        return 1
    }
    extra=$(diff plain.trace preload.trace | grep '^[<>]' | grep -Ev "^[<>] $loader")
    cmp plain.trace.children preload.trace.children && [ -z "$extra" ] && return
    echo "$extra"
    return 1
}

print_hello() {
    printf '#include <stdio.h>\nint main(void) { return puts("hello") < 0; }\n'
}

under_trace() { # name, command...
    under_name=$1
    shift
    if [ -n "$can_trace" ]; then
        check "$under_name" same_files "$@"
    else
        skip "$under_name" 'strace cannot trace here'
    fi
}

# A program that the library is linked to, with the set-group-id bit of another group: the loader
# then takes no LD_PRELOAD, AT_SECURE is set and the environment is not to be trusted.
make_secure() {
    secure_group=65534
    [ "$(id -u)" -eq 0 ] || secure_group=$(id -G | tr ' ' '\n' | grep -vxm 1 "$(id -g)")
    printf '#include <stdio.h>\n#include <sys/auxv.h>\n%s\n' \
        'int main(void) { return printf("secure %lu\n", getauxval(AT_SECURE)) < 0; }' >secure.c
    gcc -o secure secure.c -Wl,--no-as-needed "$library" "-Wl,-rpath,$MDNN_BUILD" &&
        chgrp "$secure_group" secure && chmod g+s secure && [ "$(./secure)" = 'secure 1' ]
} 2>/dev/null

secure_is_quiet() {
    with_library ./secure >secure.out 2>&1 && [ "$(cat secure.out)" = 'secure 1' ] &&
        [ -z "$(ls -A ours)" ] && return
    cat secure.out
    return 1
}

print_hello >hello.c
git init -q repository
can_trace=
if strace -qq -o /dev/null true 2>/dev/null; then
    can_trace=yes
fi
lookups='import ctypes
for name in ("cudaMalloc", "cudnnConvolutionForward", "cuInit", "cuGetProcAddress_v2", "dlsym"):
    try:
        ctypes.CDLL(None)[name]
        print(name, "found")
    except AttributeError as error:
        print(name, "missing:", str(error).partition(": ")[2])  # before it: who was asked'
print_own() { # a program with functions of its own by such names, which it exports
    cat <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
int cudaMalloc(void) { return 1; }
int cuMemAlloc_v2(void) { return 2; }
int cublasSgemmBatched(void) { return 3; }
int ncclGroupStart(void) { return 4; }
static void look(const char *name, int (*own)(void))
{
    printf("%s %d %d\n", name, dlsym(RTLD_DEFAULT, name) == (void *)own,
           dlsym(dlopen(NULL, RTLD_LAZY), name) == (void *)own);
}
int main(void)
{
    look("cudaMalloc", cudaMalloc);
    look("cuMemAlloc_v2", cuMemAlloc_v2);
    look("cublasSgemmBatched", cublasSgemmBatched);
    look("ncclGroupStart", ncclGroupStart);
}
C
}
print_own >own.c
gcc -rdynamic -o own own.c -ldl
threads='print([line for line in open("/proc/self/status") if line.startswith("Threads")])'

plan 20
check 'true is unchanged' same true
check 'false keeps its exit status' same false
check 'a signal keeps its meaning' same sh -c 'kill -TERM $$'
check 'python3 is unchanged' same "$python" -c pass
check 'python3 has as many threads as before' same "$python" -c "$threads"
check 'os._exit is unchanged' same "$python" -c 'import os; os._exit(7)'
check 'gcc says the same version' same gcc --version
check 'gcc compiles a program' same gcc -o hello hello.c
check 'the compiled program runs' same ./hello
check 'git says the same version' same git --version
check 'git status is unchanged' same git -C repository status
check 'children of children are unchanged' \
    same sh -c 'for i in 1 2; do (sh -c "echo $i; env true"); done; exec echo end'
check 'python children by fork and by spawn are unchanged' same "$python" -c '
import os, subprocess
pid = os.fork()
if pid == 0:
    os._exit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), subprocess.run(["true"]).returncode)'
check 'looking up CUDA names finds as little as before' same "$python" -c "$lookups"
check 'a program finds its own functions by CUDA names' same ./own
under_trace 'true opens no file of ours and makes no thread' true
under_trace 'python3 opens no file of ours and makes no thread' "$python" -c pass
under_trace 'gcc opens no file of ours and makes no thread' gcc -o hello hello.c
under_trace 'git opens no file of ours and makes no thread' git -C repository status
if make_secure; then
    check 'a process with raised rights is unchanged' secure_is_quiet
else
    skip 'a process with raised rights is unchanged' 'none can be made here'
fi
finish
