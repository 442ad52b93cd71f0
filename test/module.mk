# The last fragment: ALL, TESTS and TEST_DEPS are complete here.
TESTS += $(patsubst %,test/%.sh,runner exports layers prose interface locks innocent install packages demo page_commands page_marks fault_list gpu_check \
    memory_check mixed_look pytorch_bench each_convolution wd_check check_matrix check_ranks bench_ranks papers)

# Sweeps over every call, matrices, the example's own training, and the scripts that measure: of no use twice an hour.
LONG_TESTS := $(patsubst %,test/%.sh,every_fault packages demo page_commands train_cnn plan_tool gpu_check memory_check mixed_look \
    pytorch_bench each_convolution wd_check check_matrix check_ranks bench_ranks papers matrix graph_matrix magnitudes wd_paper \
    sim/test_backend_real shim/test_engines_real shim/test_graph_follow_real)
QUICK_TESTS = $(filter-out $(LONG_TESTS),$(TESTS))

TEST_DEPS += $(patsubst %,$(B)/test/bench/bench_%,verdict records plans)
TESTS += test/forecasts.sh test/packing_look.sh test/remake_look.sh test/plans_table.sh
LONG_TESTS += test/packing_look.sh test/remake_look.sh test/plans_table.sh

# Compiled of several sources at once, these have no list of their headers.
$(filter $(B)/test/shim/%,$(TESTS) $(TEST_DEPS)): $(wildcard config/*.h config/*.def config/node/*.h optimizer/*.h offload/*/*.h \
    shim/*/*.h shim/*/*.def test/*/*.h test/*.h)

# Every behaviour, with a few seeds and sizes.
test: $(ALL) $(TEST_DEPS) $(TESTS)
	@echo 'left to make test-thorough: $(LONG_TESTS)'
	@test/run --build $(B) $(TEST_OPTIONS) $(QUICK_TESTS)

# With every seed and size. Scripts that measure are shown a library that computes wrong results, too.
test-thorough: $(ALL) $(TEST_DEPS) $(TESTS)
	$(Q)$(MAKE) FLAVOUR=faults build/faults/libmicrodnn.so
	@test/run --build $(B) --thorough $(TEST_OPTIONS) $(TESTS)
# All that there is, sanitizers and random programs, too; some parts or a shard: scripts/test-all --help.
test-all:
	@scripts/test-all
.PHONY: test-thorough test-all

# The tests of one source or header: make test-of FILE=offload/ranges/slabs.c
test-of: TESTS_OF = $(patsubst build/test/%,$(B)/test/%,$(shell scripts/test-map --of $(FILE)))
test-of: $(ALL) $(TEST_DEPS)
	@$(if $(TESTS_OF),,exit 1;) $(MAKE) --no-print-directory $(filter $(B)/test/%,$(TESTS_OF)) && \
	    test/run --build $(B) $(TEST_OPTIONS) $(TESTS_OF)
# Which those are, for test/README.md.
test-map:
	$(Q)rm -rf build/cov/counts; mkdir -p build/cov; $(MAKE) FLAVOUR=cov TEST_OPTIONS='--cpu 1800 --coverage build/cov/counts' \
	    test-library >build/cov/counts.log; tail -n 1 build/cov/counts.log
	$(Q)scripts/test-map --collect build/cov/counts build/cov/counts.log
.PHONY: test-of test-map

# What is not in it never runs: test/runner.sh compares.
list-tests:
	@printf '%s\n' $(TESTS)
.PHONY: list-tests

# Without the tests of the simulated GPU, of the example and of scripts.
LIBRARY_TESTS = $(filter-out $(B)/test/sim/% test/sim/% $(patsubst %,test/%.sh,runner exports innocent install completion \
    gpu_check train_cnn),$(QUICK_TESTS))
test-library: $(ALL) $(TEST_DEPS) $(TESTS)
	@test/run --build $(B) $(TEST_OPTIONS) $(LIBRARY_TESTS)
.PHONY: test-library

bench: $(ALL) $(BENCHES)
	@for program in $(BENCHES); do $$program || exit 1; done

# A build in which each rule of config/fault.def can be broken. SHARD=2/8 is the second of eight parts.
test-faults:
	$(Q)$(MAKE) FLAVOUR=faults run-faults
run-faults: $(ALL) $(TEST_DEPS) $(addprefix $(B)/test/unit/,test_memory test_follower test_offload_history test_memory_follower test_ranges test_slabs test_pointer_tables test_values) \
    $(B)/test/shim/test_memory_device
	@test/run --build $(B) --cpu 7200 $(if $(SHARD),--shard $(SHARD),--shards 2) test/fault_points.sh
.PHONY: test-faults run-faults

# Every fuzzer for a while each: make -j2 fuzz FUZZ_SECONDS=30
fuzz: $(addprefix fuzz-,options environment statistics database database_file ilp_text graph_json plan_run)
.PHONY: fuzz

# The papers' experiments and the simulator's errors, as pages in docs/benchmarks; all of it simulated.
.PHONY: bench-papers
bench-papers: $(ALL) $(TEST_DEPS) $(B)/test/sim/test_calibration
	scripts/bench-papers --build $(B)
	scripts/bench-ranks --build $(B)
