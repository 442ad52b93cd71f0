# Virtual GPU memory: what needs no CUDA call is part of the core.
CORE_SOURCES += $(addprefix offload/,history.c history_match.c history_period.c memory.c memory_moves.c \
    memory_names.c memory_quiet.c memory_room.c memory_rounds.c memory_stuck.c memory_unseen.c memory_aside.c parts.c period.c pilot.c pilot_plan.c planner.c policy_auto.c \
    policy_modnn.c policy_none.c policy_vdnn.c range_chunks.c range_users.c ranges.c ranges_kept.c replay.c schedule.c slab_runs.c slabs.c trace.c)
TOOL_CORE_SOURCES += offload/exhaustive.c offload/period_text.c
TESTS += $(addprefix $(B)/test/unit/,test_offload_history test_offload_period test_offload_replay \
    test_offload_planner test_memory test_memory_pilot test_memory_rounds test_memory_threads test_parts test_pilot test_ranges test_slabs test_trace)
BENCHES += $(B)/test/bench/bench_memory $(B)/test/bench/bench_pilot $(B)/test/bench/bench_ranges $(B)/test/bench/bench_budget
# The allocator under test can be made to fail.
$(addprefix $(B)/test/unit/,test_memory test_memory_threads test_pilot test_ranges test_slabs): private EXTRA_CFLAGS += \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=reallocarray,--wrap=free
# The test reads the trace as others would.
$(B)/test/unit/test_trace: CORE_LIBS += -ljansson
