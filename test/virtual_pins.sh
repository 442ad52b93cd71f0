#!/bin/sh
# Memory under a budget that others refer to without keeping it alive: textures, descriptors, nodes
# (test/clients/virtual_pins.c). It stays meanwhile, and no longer.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
# shellcheck source=test/budget.sh
. "$(dirname "$0")/budget.sh"
pins=$MDNN_BUILD/test/clients/virtual_pins
MICRODNN_SIM_UNNAMED=1
export MICRODNN_SIM_UNNAMED

# pinned PROGRAM: right without the library, and where little more than one of its buffers fits
pinned() {
    by_itself "$pins" "$1" || return 1
    for seed in $(few 1 '1 2 3'); do
        MICRODNN_SIM_SEED=$seed under $((48 * mebibyte)) "$pins" "$1" || { echo "seed $seed"; cat "$log"; return 1; }
        holds "$in_budget and memory['live_bytes'] == 0 and memory['pinned_live_bytes'] <= 4 * 2**20" ||
            { echo "seed $seed"; return 1; }
    done
}
quietly() { pinned "$1" && said_nothing; }

plan 11
check "an attribute of memory ends with it, or when the driver refuses it" quietly attribute
check "a descriptor for other devices pins memory until it is freed" quietly descriptor
check "memory has no handle of the virtual memory API" quietly allocation_handle
check "questions about an address need no room" pinned questions
check "a texture's memory stays until either ends" quietly texture
check "the end of a texture says nothing of what came after its memory" pinned texture_after_texture
check "a free waits for what uses the memory through a texture" quietly freed_in_use
check "an executable's node holds memory until that is freed" quietly executable_node
check "a node of an unknown graph holds memory until that is freed" quietly graph_node
check "a free waits for what uses the memory through such a node" quietly graph_node_in_use
check "a node that was refused holds nothing" quietly refused_node
finish
