CORE_SOURCES += $(addprefix offload/,ranges.c slabs.c)
TESTS += $(B)/test/unit/test_ranges
# The allocator under test can be made to fail.
$(B)/test/unit/test_ranges: private EXTRA_CFLAGS += \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=reallocarray,--wrap=free
