# The last fragment: ALL, TESTS and TEST_DEPS are complete here.
TESTS += test/runner.sh test/exports.sh test/innocent.sh test/install.sh test/gpu_check.sh

test: $(ALL) $(TEST_DEPS) $(TESTS)
	@test/run --build $(B) $(TEST_OPTIONS) $(TESTS)

bench: $(ALL) $(BENCHES)
	@for program in $(BENCHES); do $$program || exit 1; done

# Not part of `make test`: two minutes.
test-mutants: $(ALL) $(TEST_DEPS) $(patsubst %,$(B)/mutants/%/libmicrodnn.so,$(MUTANTS))
	@test/run --build $(B) --timeout 600 test/mutants.sh
.PHONY: test-mutants
