#!/bin/sh
# microdnn-ilp: what it says of good and bad input, time limits, and CPLEX LP.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"

ilp=$MDNN_BUILD/microdnn-ilp
[ -x "$ilp" ] || skip_all 'microdnn-ilp is not built: there is no GLPK (libglpk-dev)'
cd "$TMPDIR" || exit 1

# problem MODEL TOTAL: three kernels in two groups
problem() {
    printf 'microdnn-ilp problem 1\nmodel %s\ntotal %s\ngroups 2\nkernels 3\n' "$1" "$2"
    printf 'kernel 0 2\n10 0\n4 60\nkernel 0 2\n10 0\n9 60\nkernel 1 2\n10 0\n5.5 60\nend\n'
}
solution() { # STATE BOUND CHOICE...
    printf 'microdnn-ilp solution 1\nstate %s\nbound %s\nchoices 3\n' "$1" "$2"
    shift 2
    printf '%s\n' "$@" end
}
same() { # wanted, found: files
    diff "$1" "$2"
}
models_differ_as_they_should() {
    { problem sum 119; problem shared 119; problem shared 120; } | "$ilp" >found || return 1
    { solution optimal 24.000000000 1 0 0; solution optimal 23.000000000 1 1 0; solution optimal 18.500000000 1 1 1; } >wanted
    same wanted found
}
a_file_is_as_good_as_standard_input() {
    problem sum 119 >file && "$ilp" file >found && "$ilp" <file | same - found
}
nothing_fits() {
    problem sum 0 | sed 's/^10 0$/10 1/' | "$ilp" >found &&
        printf 'microdnn-ilp solution 1\nstate infeasible\nchoices 0\nend\n' | same - found
}
# Two choices exceed the total by two bytes in ten billion: within GLPK's tolerance, not within ours.
a_total_holds_to_the_byte() {
    printf 'microdnn-ilp problem 1\nmodel sum\ntotal 10000000000\ngroups 1\nkernels 2\n' >close
    printf 'kernel 0 2\n10 0\n1 5000000001\nkernel 0 2\n10 0\n1 5000000001\nend\n' >>close
    "$ilp" close >found && grep -q '^state feasible$' found && grep -cx 1 found | grep -qx 1
}
lines_at_fault_are_named() {
    problem sum 119 | sed '7s/0/zero/' >bad
    ! "$ilp" bad >found 2>err && [ ! -s found ] && grep -q 'line 7 of the input' err
}
what_came_before_a_fault_is_solved() {
    { problem sum 119; echo rubbish; } >bad
    ! "$ilp" bad >found 2>err && solution optimal 24.000000000 1 0 0 | same - found && grep -q 'line 16' err
}
empty_input_is_no_success() { ! "$ilp" </dev/null >found 2>err && grep -q 'no problem' err; }
missing_files_are_named() {
    ! "$ilp" /no/such/file 2>err && grep -q '/no/such/file' err &&
        ! "$ilp" --lp /no/such/file 2>err && grep -q '/no/such/file' err &&
        ! "$ilp" --write-lp /no/such/folder/file file 2>err && grep -q '/no/such/folder/file' err
}
wrong_usage_is_2() {
    for arguments in '--time-limit 0' '--time-limit soon' '--no-such-option' 'a b' '--lp a b'; do
        # shellcheck disable=SC2086 # words on purpose
        "$ilp" $arguments >found 2>err
        [ $? -eq 2 ] && [ ! -s found ] && [ -s err ] || { echo "$arguments"; return 1; }
    done
}
a_full_disk_is_no_success() { problem sum 119 | "$ilp" >/dev/full 2>err; [ $? -eq 1 ] && grep -q write err; }
lp_is_written_and_solved_alike() {
    for model in sum shared; do
        problem "$model" 119 | "$ilp" --write-lp "$model.lp" >found || return 1
        "$ilp" --lp "$model.lp" >from_lp || return 1
        bound=$(sed -n 's/^bound //p' found)
        grep -qx "objective $bound" from_lp && grep -qx 'state optimal' from_lp || { cat from_lp; return 1; }
    done
    grep -qx 'x_0_1 1' from_lp
}
glpsol_reads_it_too() {
    glpsol --lp shared.lp --output glpsol.out >/dev/null && grep -q 'Objective:  obj = 23 ' glpsol.out
}
# Every byte is worth nearly the same: hopeless to prove in a moment.
hard_problem() {
    python3 -I -S - <<'PYTHON'
import random
random.seed(4)
print("microdnn-ilp problem 1\nmodel sum\ntotal 50000000000\ngroups 1\nkernels 60")
for _ in range(60):
    print("kernel 0 12\n100 0")
    for _ in range(11):
        size = random.randrange(10**8, 4 * 10**9)
        print(f"{100 - size / 5e7 - 3:.9f} {size}")
print("end")
PYTHON
}
time_limits_hold() {
    hard_problem >hard
    begin=$(date +%s)
    "$ilp" --time-limit 0.5 hard >found || return 1
    [ $(($(date +%s) - begin)) -lt 30 ] || return 1
    grep -q '^state feasible$' found || { grep state found; return 1; }
    python3 -I -S - hard found <<'PYTHON'
import sys
problem = open(sys.argv[1]).read().split("kernel 0 12\n")[1:]
lines = open(sys.argv[2]).read().split("\n")
count = int(lines[3].split()[1])
choices = [int(line) for line in lines[4:4 + count]]
items = [[line.split() for line in kernel.split("\n")[:12]] for kernel in problem]
time = sum(float(items[k][c][0]) for k, c in enumerate(choices))
size = sum(int(items[k][c][1]) for k, c in enumerate(choices))
bound = float(lines[2].split()[1])
assert count == 60 and size <= 50 * 10**9 and bound <= time <= 1.1 * bound, (count, size, bound, time)
PYTHON
}

plan 13
check 'the models differ as they should' models_differ_as_they_should
check 'a file is as good as standard input' a_file_is_as_good_as_standard_input
check 'a problem without a solution is an answer' nothing_fits
check 'a total holds to the byte, whatever tolerance GLPK has' a_total_holds_to_the_byte
check 'a line at fault is named' lines_at_fault_are_named
check 'what came before a fault is solved' what_came_before_a_fault_is_solved
check 'empty input is no success' empty_input_is_no_success
check 'files that cannot be read or written are named' missing_files_are_named
check 'wrong usage exits with 2 and says why' wrong_usage_is_2
check 'a full disk is no success' a_full_disk_is_no_success
check 'the LP form is written, read and solved alike' lp_is_written_and_solved_alike
if command -v glpsol >/dev/null; then
    check 'glpsol solves the LP form too' glpsol_reads_it_too
else
    skip 'glpsol solves the LP form too' 'no glpsol (glpk-utils)'
fi
check 'a time limit ends with the best solution so far' time_limits_hold
finish
