# Programs with the library on the simulated GPU: where it is, its statistics and its lines. Sourced by
# their tests, after tap.sh.
# shellcheck shell=sh disable=SC2034 # these are for them
train_cnn=$MDNN_BUILD/train_cnn
data=$(dirname "$0")/../docs/examples/data
stats=$TMPDIR/stats.json
log=$TMPDIR/log
library=${MDNN_LIBRARY:-$MDNN_BUILD/libmicrodnn.so}
MICRODNN_SIM_PROFILE=toy
MICRODNN_STATS=json
MICRODNN_STATS_FILE=$stats
MICRODNN_MEMORY_KERNELS= # what the user has learned is no matter of tests
export MICRODNN_SIM_PROFILE MICRODNN_STATS MICRODNN_STATS_FILE MICRODNN_MEMORY_KERNELS

[ -e "$MDNN_BUILD/sim/libcudnn.so.9" ] || skip_all "there is no simulated GPU in this build"

# For what follows in this subshell.
preload_library() { export LD_PRELOAD="${MDNN_PRELOAD_FIRST:+$MDNN_PRELOAD_FIRST:}$library"; }

said_nothing() { [ ! -s "$log" ] || { cat "$log"; return 1; }; }
