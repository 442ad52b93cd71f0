#!/bin/sh
# scripts/prose finds the example of each kind of stumbling English and passes a better sentence over, and names the
# line of a text that a person reads, whatever kind of file it is in.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
prose=$(cd "$(dirname "$0")/.." && pwd)/scripts/prose

cat >"$TMPDIR/code.c" <<'C'
/* Holds the list.
 *
 * The rest of this text is fine, and this sentence
 * no longer is. */
int no_longer_found = sizeof "no longer";
C
cat >"$TMPDIR/said.c" <<'C'
const char *said = "the file is there, "
                   "and it is no longer open";
C
cat >"$TMPDIR/page.md" <<'MD'
Text, and `no longer` in code.

    no longer = 1

| what | when |
| --- | --- |
| the copy | no longer |
MD
cat >"$TMPDIR/page.py" <<'PYTHON'
#!/usr/bin/env python3
"""Says what it does."""
print("no longer")  # It no longer waits.
PYTHON
cat >"$TMPDIR/page.sh" <<'SHELL'
#!/bin/sh
echo no longer
# It waits, and then
# no longer does.
SHELL
mkdir "$TMPDIR/man"
printf '.Sh NAME\nText.\n.Pp\n.Dl no longer\nIt no longer\n.Nm waits .\n' >"$TMPDIR/man/page.1"

cat >"$TMPDIR/wanted" <<'PLACES'
code.c:4: history
said.c:2: history
page.md:7: history
page.py:3: history
page.sh:4: history
man/page.1:5: history
PLACES

# In each kind of file the one sentence is found, and none in code.
places_are_found() {
    (cd "$TMPDIR" && "$prose" code.c said.c page.md page.py page.sh man/page.1) | cut -d: -f1-3 >"$TMPDIR/found"
    diff "$TMPDIR/wanted" "$TMPDIR/found"
}

plan 2
check 'every kind finds its example and passes a better sentence over' "$prose" --self-test
check 'comments, messages and pages are read, and code is not' places_are_found
finish
