CORE_SOURCES += optimizer/costs.c optimizer/front.c optimizer/problem.c optimizer/wr.c
TESTS += $(B)/test/unit/test_wr $(B)/test/unit/test_problem
BENCHES += $(B)/test/bench/bench_wr

# The allocator of the core under test can be made to fail.
$(B)/test/unit/test_wr: private EXTRA_CFLAGS += \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=reallocarray,--wrap=free
