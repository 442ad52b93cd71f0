# Virtual GPU memory: what needs no CUDA call is part of the core, and what only the tool and the tests need is not in the
# library.
OFFLOAD_OFFLINE := offload/plan/exhaustive.c offload/plan/period_read.c offload/plan/run_record_read.c
TOOL_CORE_SOURCES += $(OFFLOAD_OFFLINE) $(wildcard offload/remake/*.c)
CORE_SOURCES += $(filter-out $(OFFLOAD_OFFLINE),$(wildcard offload/plan/*.c offload/follow/*.c offload/ranges/*.c offload/memory/*.c))
TESTS += $(addprefix $(B)/test/unit/,test_offload_history test_offload_period test_offload_replay \
    test_offload_planner test_run_record test_memory test_pointer_tables test_memory_check test_memory_drops test_memory_follower test_memory_iterations test_memory_threads test_parts test_follower test_follower_check test_ranges test_ranges_check test_slabs test_trace test_values test_survey)
TESTS += $(B)/test/unit/test_certificate $(B)/test/unit/test_plan_choices
TESTS += $(B)/test/unit/test_ranks_plan
TEST_DEPS += $(B)/test/bench/bench_sequence
TESTS += test/sequence.sh $(B)/test/unit/test_short_names
BENCHES += $(B)/test/bench/bench_pointers $(B)/test/bench/bench_memory $(B)/test/bench/bench_follower $(B)/test/bench/bench_ranges $(B)/test/bench/bench_budget $(B)/test/bench/bench_plans
# The allocator under test can be made to fail.
$(addprefix $(B)/test/unit/,test_memory test_memory_check test_memory_drops test_memory_threads test_pointer_tables \
    test_follower test_ranges test_slabs test_values): private EXTRA_CFLAGS += \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=reallocarray,--wrap=free
# The test reads the trace as others would.
$(B)/test/unit/test_trace: CORE_LIBS += -ljansson
