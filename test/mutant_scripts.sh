#!/bin/sh
# Rules are broken at fault points (config/fault.def, test/fault_points.sh).
echo '1..0 # skip no script breaks a source'
