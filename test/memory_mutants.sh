#!/bin/sh
# Breaks the rules of virtual memory's mechanism, address space and follower, one at a time, and shows that
# their unit tests fail each time: I1 latest content, I2 no foreign bytes, I3 budget, I4 no endless
# wait, memory from the first use on, and reuse in order with few mappings (TAP). Part of
# `make test-mutants`; compiles one source and the test for each. With --unchanged it only names those whose
# script changes nothing.
# shellcheck source=test/tap.sh
. "$(dirname "$0")/tap.sh"
cd "$(dirname "$0")/.." || exit 1
core=${MDNN_BUILD:-build}/libmdnn_core.a
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT

# mutant NAME SOURCE SED_SCRIPT
table() {
    # --- I1: an operation finds the latest content ---
    mutant BEGIN_WAITS_FOR_NOTHING memory_names.c 's/sum.lacking ? demand_named/false ? demand_named/'
    # --- I2: no address shows other bytes ---
    mutant FREED_IS_NOT_PINNED_AGAIN memory.c 's/(!allocation->freed || allocation->pins > 0)/!allocation->freed/'
    mutant FREED_IS_PINNED_TOO_LATE memory.c 's/(!allocation->freed || allocation->pins > 0)/true/'
    mutant NAMES_WHAT_CAME_LATER memory.c 's/allocation->born < began \&\& //'
    mutant VERIFY_BEGINS_BESIDE_UNPROVED memory_quiet.c \
        's/^        MDNN_TRY(mdnn_memory_wait(memory, use));/        break;/'
    mutant VERIFY_MAPS_ALL memory_names.c 's/MDNN_TRY(mdnn_allocation_show(memory, allocation, false));//'
    # --- safety = host: each unnamed touch is served, and no write is lost ---
    mutant MOVES_WHILE_SOMETHING_RUNS memory_quiet.c 's/^    MDNN_TRY(mdnn_memory_wait_for_all(memory));//'
    mutant MOVES_WHILE_SOMETHING_BEGINS memory_quiet.c 's/^    if (memory->open > 0 .*/    if (0)/'
    mutant NOT_COVERED memory_quiet.c 's/^    for (; allocation->covered < allocation->count; allocation->covered++)/    while (0)/'
    mutant COVERED_WHILE_IT_RETURNS memory_quiet.c \
        's/^    for (; allocation->covered > 0; allocation->covered--) {/    while (0) {\n    (void)allocation;/'
    mutant BEGINS_BEFORE_MOVES_END memory_quiet.c 's/^    while (memory->quiet \&\& status == MDNN_STATUS_OK) {/    while (0) {/'
    mutant ONE_STREAM_STANDS_FOR_ALL memory_names.c 's/^    mdnn_allocation_note_use(&memory->all, end);.*//'
    mutant MOVES_AHEAD_OF_TIME memory_names.c 's/const bool moves = .*/const bool moves = true;/'
    # --- I3: the budget ---
    # --- I4: what fits runs, and every wait ends ---
    mutant RETURNS_KEEP_THEIR_CHUNKS memory_victims.c \
        's/return mdnn_allocation_can_leave(allocation) \&\&/return allocation->state != MDNN_ALLOCATION_RETURNING \&\& mdnn_allocation_can_leave(allocation) \&\&/'
    mutant PARTS_THAT_STAYED_STAY memory_victims.c 's/if (allocation->state == MDNN_ALLOCATION_ENDING)/if (allocation->state >= MDNN_ALLOCATION_AWAY)/'
    mutant WAITS_FOR_WHAT_IS_OVER memory_waits.c \
        's/^                !memory->device.is_done(memory->context, allocation->uses\[i\]))/                true)/'
    mutant LIVE_PIN_OF_ANOTHER memory_pins.c 's/allocation->number != pin.number || //'
    mutant LIVE_PIN_OF_NOBODY memory_pins.c 's/ || allocation->live_pins == 0)/)/'
    mutant SET_ASIDE_AND_USED memory_aside.c 's/= memory->aside_bytes + memory->claimed_bytes,/= 0,/'
    mutant SET_ASIDE_WITHOUT_ROOM memory_aside.c 's/^        status = shrink(memory);/        status = MDNN_STATUS_OK;/'
    mutant CLAIMED_FOR_EVER memory_aside.c 's/^        memory->claimed_bytes -= bytes;//'
    mutant DESTROYED_WHILE_USED free_runs.c 's/(lies_in(range, except) || !is_done(ranges, range))/lies_in(range, except)/'
    mutant UNTRACKED_NOT_WAITED_FOR memory_waits.c 's/= mdnn_memory_untracked_use(memory);/= NULL;/'
    mutant GIVES_UP_TOO_EARLY memory_room.c \
        's/^    status = mdnn_memory_wait_for_a_move(memory, mdnn_stretch_s);/    status = MDNN_STATUS_NOT_FOUND;/'
    mutant GIVES_UP_FOR_GOOD memory_waits.c 's/^    memory->hasty_until_us = .*/    memory->hasty_until_us = INFINITY + waited_s;/'
    mutant SLOT_NOT_WAITED_FOR memory_waits.c 's/^    if (memory->slot_busy)/    if (0)/'
    mutant SAME_VICTIM_AGAIN memory_victims.c 's/(!sent || kept_by(allocation) <= allocation->keeps)/(sent || true)/'
    # --- memory from the first use on ---
    mutant BLANK_RETURNS_ON_DEMAND memory_room.c 's/if (allocation->blank \&\& allocation->filled == 0)/if (0)/'
    mutant RESERVES_WHAT_CANNOT_BE memory_acquire.c 's/if (stuck > allowed || wanted > allowed - stuck)/if (0)/'
    mutant RESERVES_BEYOND_THE_HOST memory_acquire.c 's/return host > UINT64_MAX - room ||/return true ||/'
    mutant NEXT_TAKES_NO_MEMORY memory_acquire.c 's/if (first_use == MDNN_FIRST_USE_LATER \&\&/if (first_use != MDNN_FIRST_USE_UNKNOWN \&\&/'
    mutant LATER_TAKES_MEMORY memory_acquire.c 's/if (first_use == MDNN_FIRST_USE_LATER \&\&/if (0 \&\&/'
    mutant NEXT_SENDS_OTHERS_AWAY memory_acquire.c 's/return request->first_use != MDNN_FIRST_USE_UNKNOWN;/return false;/'
    mutant BLANK_BESIDE_UNTRACKED_WORK memory_acquire.c 's/ \&\& memory->untracked_open == 0 \&\&/ \&\&/'
    mutant BLANK_THOUGH_IT_STAYS memory_acquire.c 's/bytes >= memory->config.min_bytes \&\& bytes >/bytes >/'
    mutant RESERVED_OVER_ANOTHER ranges.c '/^static uint64_t find_bare/,/^}/s/if (range)/if (0)/'
    # --- what other streams still work on ---
    mutant NOTHING_LEAVES_INSTEAD memory_acquire.c \
        's/mdnn_memory_chunks_elsewhere(memory, false) < request->chunks) {/true) {/'
    mutant NO_LAST_RESORT memory_acquire.c 's/request->behind = was_behind || request->vain > most;/request->behind = was_behind;/'
    mutant WAITS_THOUGH_NOTHING_CAN_LEAVE memory_acquire.c \
        's/mdnn_memory_chunks_elsewhere(memory, false) < request->chunks) {/false) {/'
    # --- refusals: what the program needs ---
    mutant OPTIONAL_IS_NEEDED memory.c 's/^    if (optional)$/    if (0)/'
    mutant REFUSED_IS_NEEDED_FOR_EVER memory_accounts.c 's/memory->wanting.since >= OPERATIONS;/memory->wanting.since > UINT64_MAX - 1;/'
    mutant FREE_MEMORY_LACKS_WHAT_IS_GONE memory.c 's/(largest < live ? largest : live)/largest/'
    mutant REFUSED_IS_NOT_NEEDED memory_accounts.c 's/^    if (memory->wanting.bytes < needed_bytes)/    if (0)/'
    # --- workspaces beside what they are used with ---
    mutant STUCK_COUNTS_TWICE memory_stuck.c 's/bytes += allocation->range \&\& !is_stuck(allocation) ?/bytes += allocation->range ?/'
    mutant NAMES_COUNT_TWICE memory_stuck.c 's/ || allocation->pass == memory->passes)$/)/'
    mutant NOTHING_IS_STUCK memory_stuck.c 's/return stuck < allowed ? allowed - stuck : 0;/return allowed + 0 * stuck;/'
    mutant PINNED_OPERAND_COUNTS memory_stuck.c 's/if (is_stuck(allocation) \&\& allocation->room == room)/if (0)/'
    mutant TENSOR_TAKEN_FOR_WORKSPACE memory_stuck.c 's/^        lives_with_size(memory, bytes))/        0)/;s/^static bool lives_with_size/static __attribute__((unused)) bool lives_with_size/'
    # --- plans ---
    mutant SLOWER_PLAN_STAYS follower_periods.c 's/if (iteration_us_of(entry->plan) > AS_FAST \* iteration_us_of(entry->before))/if (0)/'
    mutant FASTER_PLAN_IS_TAKEN_BACK follower_periods.c 's/if (iteration_us_of(entry->plan) > AS_FAST \* iteration_us_of(entry->before))/if (1)/'
    mutant NEXT_IS_WHERE_THE_PROGRAM_IS follower_answers.c \
        '/^mdnn_first_use_t/,/^}/s/(follower->place.position + 1)/(follower->place.position + 0)/'
    mutant ALL_OF_A_SIZE_ARE_NEXT follower_answers.c 's/births > follower_unused_of(follower, bytes)/true/'
    # --- the address space: memory is reused in order, and mappings rarely change ---
    mutant PART_FORGETS_USERS free_runs.c 's/^    mdnn_users_join(ranges, &tail->users, &range->users);//'
    mutant NEIGHBOUR_FORGETS_USERS free_run_requests.c 's/^        mdnn_users_join(ranges, &range->users, &other->users);//'
    mutant EARLIER_MOMENT_STANDS_FOR_BOTH range_users.c 's/known->point.position < other.point.position/false/'
    mutant OWNER_NEED_NOT_HAVE_WAITED range_users.c 's/covered = covered || .*/covered = true;/'
    mutant UNMAPS_WHAT_IS_IN_USE free_runs.c \
        's/lies_in(range, except) || !is_done(ranges, range)/lies_in(range, except)/'
    mutant TAKES_FROM_ITS_OWN_PLACE free_runs.c \
        's/return window.first <= range->first \&\& range->first < window.end;/return false;/'
    mutant HOST_WAITS_FOR_FEWER_MAPPINGS free_run_requests.c \
        's/if (status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY) {/if (0) {/'
    mutant WAITS_WHERE_IT_NEED_NOT free_run_requests.c 's/mdnn_users_free_for(ranges, &range->users, stream)/true/'
    mutant HANDS_ON_WHAT_OTHERS_USE range_users.c \
        '/^bool mdnn_users_free_for/,/^}/s/return false;/return true;/'
    mutant PASSES_OVER_WHAT_IT_IS_BEHIND range_users.c 's/ || user.freed_in == stream;/;/'
    mutant ALL_ARE_BEHIND_A_FREE range_users.c 's/ || user.freed_in == stream;/ || user.freed_in != MDNN_NO_ORDER;/'
    mutant MAPS_NOTHING_INSTEAD free_run_requests.c 's/status == MDNN_STATUS_NOT_FOUND \&\& !behind)/status == MDNN_STATUS_NOT_FOUND)/'
    mutant NOT_EVEN_IDLE_MEMORY_INSTEAD free_run_requests.c \
        's/^    mdnn_status_t status = prepare_window(ranges, count, &stream, &window);/    mdnn_status_t status = MDNN_STATUS_NOT_FOUND;/'
    mutant WAITS_FOR_OTHER_PLACES range_users.c 's/^    ranges->wait_count = 0; .*//'
    mutant ADDRESSES_WANDER free_run_requests.c \
        's/search->limit = 2 \* (ranges->used + search->count);/search->limit = ranges->top;/'
    # --- slabs ---
    mutant BLOCKS_IN_USE_ELSEWHERE_SERVE slab_requests.c 's/behind ? UINT_MAX : WAIT_COST - 1/UINT_MAX/'
    mutant NOTHING_BETWEEN_BLOCKS_IN_USE slab_requests.c 's/^                consider_inside(ranges, search, run);/                (void)consider_inside;/'
    mutant BLOCKS_IN_USE_ARE_REFUSED slab_requests.c \
        '/^mdnn_status_t mdnn_slab_blocked/,/^}/s/return MDNN_STATUS_BUSY;/return otherwise;/'
    mutant EMPTY_SLABS_STAY slabs.c 's/^        if (range->slab->used == 0) {/        if (0) {/'
    mutant SLAB_IN_USE_GOES_BACK slabs.c 's/range->slab->used += used ? part : -part;/range->slab->used = used ? part : 0;/'
    mutant BLOCK_FORGETS_USERS slab_requests.c 's/^        mdnn_users_join(ranges, &first->users, &last->after->users);//'
    mutant END_OF_A_BLOCK_FORGETS_USERS slabs.c 's/^        mdnn_users_join(ranges, &tail->users, &block->users);//'
    mutant REST_OF_A_BLOCK_FORGETS_USERS slabs.c 's/^    mdnn_users_join(ranges, &made->users, &block->users);//'
    mutant EMPTY_SLAB_IS_UNMAPPED_IN_USE slabs.c '/^bool mdnn_slab_done/,/^}/s/return false;/return true;/'
    mutant BLOCKS_UNITE_WITH_OTHER_STREAMS range_users.c \
        's/if (!user_of(users, others->all\[i\].point.stream))/if (0)/'
    mutant TINY_ONES_LIE_ANYWHERE slab_requests.c 's/return room <= ranges->config.chunk_bytes .*/return 0;/'
    mutant SLABS_HOLD_ALL slab_requests.c 's/return !ranges->device.may_be_slabs ||/return true ||/'
    mutant BLOCKS_OF_POWERS_OF_TWO slab_requests.c \
        's/^    return (bytes + MDNN_GRANULE - 1) .*/    uint64_t room = 512;\n    while (room < bytes) room *= 2;\n    return room;/'
    mutant LARGE_RANGES_ARE_LOCKED_OUT memory_stuck.c 's/return memory->movable_range_bytes <= allowed - held;/return true;/'
    mutant LARGE_OPERATIONS_ARE_LOCKED_OUT memory_stuck.c 's/ + bytes + operation <=/ + bytes <=/'
    mutant LARGE_OPERATIONS_ARE_NEVER_FORGOTTEN memory_stuck.c 's/if (operation - recent->since >= STRETCH)/if (0)/'
    mutant TINY_RANGES_WASTE_ALL memory_stuck.c 's/^    if (memory->loose_bytes + .*/    if (0)/'
    mutant UNPINNED_IS_LOCKED_OUT memory_pins.c '/^void mdnn_allocation_unpin/,/^}/s/mdnn_allocation_note_movable(memory, allocation);//'
    mutant SLABS_OF_THIS_MOMENT_FOR_PLANS memory_names.c 's/mdnn_recent_most(&memory->slab_chunks)/mdnn_ranges_counts(memory->ranges).chunks_slab/'
    mutant IDLE_MEMORY_IS_USED_FIRST free_run_requests.c 's/const bool is_short = .*/const bool is_short = 0;/'
}

path_of() { find offload -name "$1"; }

fails() { # source, script
    sed -e "$2" "$(path_of "$1")" >"$work/$1"
    ! cmp -s "$(path_of "$1")" "$work/$1" || { echo "the script changes nothing in $1"; return 1; }
    case $1 in
    range_users.c | slab*) tests='test_slabs test_ranges' ;;
    range* | free_run*) tests=test_ranges ;;
    follower*) tests=test_follower ;;
    *) tests=test_memory ;;
    esac
    for test in $tests; do
        ${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -w -I. -Wl,--wrap=malloc,--wrap=calloc,--wrap=reallocarray,--wrap=free \
            "test/unit/$test.c" "$work/$1" "$core" -lcmocka -lm -o "$work/test" || return 1
        test/limits.py --cpu 90 --idle 20 "$work/test" >"$work/said" 2>&1 || return 0
    done
    return 1
}

if [ "${1:-}" = --unchanged ]; then
    mutant() { sed -e "$3" "$(path_of "$2")" | cmp -s - "$(path_of "$2")" && echo "$1"; }
    table
    exit
fi
shard_begins
mutant() { in_shard; }
table
plan $((shard_count + 4))
check "the mechanism as it is passes" "${MDNN_BUILD:-build}/test/unit/test_memory"
check "the address space as it is passes" "${MDNN_BUILD:-build}/test/unit/test_ranges"
check "slabs as they are pass" "${MDNN_BUILD:-build}/test/unit/test_slabs"
check "the plan follower as it is passes" "${MDNN_BUILD:-build}/test/unit/test_follower"
shard_begins
mutant() { ! in_shard || check "$1 is caught" fails "$2" "$3"; }
table
finish
