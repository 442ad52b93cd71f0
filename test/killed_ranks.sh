#!/bin/sh
# Two programs that move memory side by side on the simulated GPU, of which one is killed at a random moment: the other
# one goes on and computes the right thing, and after the next start nothing of the dead one is left.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
MICRODNN_MEMORY_REGISTRY=$TMPDIR/registry
MICRODNN_MEMORY_BUDGET=$((24 * mebibyte))
MDNN_CLIENT_ROUNDS=$(few 8 16)
export MICRODNN_MEMORY_REGISTRY MICRODNN_MEMORY_BUDGET MDNN_CLIENT_ROUNDS
mkdir "$MICRODNN_MEMORY_REGISTRY" "$TMPDIR/ranks"

# kills FIRST COUNT: moments with these numbers
kills() {
    (
        preloaded=${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library
        cd "$TMPDIR/ranks" || exit 1
        python3 -I - "$client" "$MICRODNN_MEMORY_REGISTRY" "$preloaded" "$1" "$2" <<'END_OF_PYTHON'
import os, random, struct, subprocess, sys, time
client, folder, preloaded, first, count = *sys.argv[1:4], int(sys.argv[4]), int(sys.argv[5])

def start(seed):
    return subprocess.Popen([client, "rounds", str(seed), str(45 << 20)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                            env={**os.environ, "LD_PRELOAD": preloaded, "MICRODNN_SIM_SEED": str(1 + seed % 4)})

def processes():
    """Of the entries, whether they live or not."""
    found = []
    for name in (name for name in os.listdir(folder) if not name.endswith(".live")):
        with open(os.path.join(folder, name), "rb") as file:
            data = file.read()
        if len(data) < 24 or not any(data[:8]): # one of them is making it: its first word is written last
            continue
        _, _, header, size, entries = struct.unpack_from("=QIIII", data)
        found += [struct.unpack_from("=QQ", data, place) for place in range(header, header + size * entries, size)]
    return [(process & ((1 << 22) - 1), pinned) for process, pinned in found if process]

def ends_well(process, what):
    said = process.communicate()[1]
    if process.returncode:
        sys.exit(f"{what}: status {process.returncode}: {said.decode()[-500:]}")

def until_joined(process):
    while process.poll() is None and process.pid not in [number for number, _ in processes()]:
        time.sleep(0.002)

for number in range(first, first + count):
    chance = random.Random(number)
    killed, other = start(2 * number), start(2 * number + 1)
    if number % 2:
        until_joined(killed)  # from here on, or from its start on
    time.sleep(chance.uniform(0, 0.3))
    killed.kill()
    killed.communicate()
    ends_well(other, f"moment {number}, the other one")
    after = start(2 * number)
    ends_well(after, f"moment {number}, the next one")
    dead = [entry for entry in processes() if entry[0] in (killed.pid, other.pid)]
    if dead:
        sys.exit(f"moment {number}: left after the next start: {dead}")
    if os.listdir("."):
        sys.exit(f"moment {number}: files are left: {os.listdir('.')}")
END_OF_PYTHON
    )
}

plan 1
# shellcheck disable=SC2046 # words
check 'killed ranks leave nothing, and the others go on' kills $(few '1 1' '0 200')
finish
