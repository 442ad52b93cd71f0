#!/bin/sh
# As test/driver_hooks.sh, for a program with a copy of the runtime inside.
exec "$(dirname "$0")/driver_hooks.sh" _static
