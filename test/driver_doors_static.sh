#!/bin/sh
# As test/driver_doors.sh, for a program with a copy of the runtime inside.
exec "$(dirname "$0")/driver_doors.sh" _static
