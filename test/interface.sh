#!/bin/sh
# What programs, scripts and files of users rely on is what was agreed upon: a change there is meant,
# comes with a line in CHANGELOG.md, and with the new text (scripts/interface > test/data/interface.txt).
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1
library_comes_first

plan 1
check 'exports, options, statistics, the schema of the database and the commands are the agreed ones' \
    sh -c "scripts/interface --build '$MDNN_BUILD' | diff -u test/data/interface.txt -"
finish
