CORE_SOURCES += $(addprefix config/,status.c numbers.c options.c option_checks.c options_table.c choices.c options_reader.c \
    options_ini.c options_env.c paths.c quiet_write.c log.c progress.c live_files.c statistics.c \
    statistics_file.c statistics_print.c statistics_verdict.c memory_statistics.c memory_statistics_print.c text.c text_output.c whole_file.c lock.c rule.c safe_path.c \
    standard_error.c sizes.c own_thread.c fault.c)
CORE_LIBS += -l:libinih.a
TESTS += $(addprefix $(B)/test/unit/,test_status test_options test_log test_statistics test_statistics_verdict test_live_files test_host_memory test_lock test_rule \
    test_planted_files test_node_registry test_own_thread test_sizes)
CORE_SOURCES += $(addprefix config/node/,node_entries.c node_registry.c node_devices.c pci_switch.c host_memory.c)
TESTS += $(addprefix $(B)/test/unit/,test_node_devices test_pci_switch)

# The tests read JSON as others would.
$(B)/test/unit/test_statistics: CORE_LIBS += -ljansson

# libFuzzer: make fuzz-options fuzz-environment fuzz-statistics [FUZZ_SECONDS=60]. What it finds goes to build/fuzz; a
# case worth keeping is copied to test/fuzz/corpus by hand.
FUZZ_SECONDS ?= 60
FUZZ_CORE := $(filter config/%,$(CORE_SOURCES))
.PHONY: fuzz-options fuzz-environment fuzz-statistics
$(B)/fuzz/fuzz_%: test/fuzz/fuzz_%.c $(FUZZ_CORE)
	@mkdir -p $(@D)
	$(call say,FUZZ,$@)
	$(Q)clang $(filter-out -MMD -MP,$(BASE_CFLAGS)) -g -O2 -fsanitize=fuzzer,address,undefined \
	    -fno-sanitize-recover=undefined $^ $(CORE_LIBS) -o $@
fuzz-options fuzz-environment fuzz-statistics: fuzz-%: $(B)/fuzz/fuzz_%
	@mkdir -p $(B)/fuzz/$*
	$(B)/fuzz/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$(B)/fuzz/ -print_final_stats=1 \
	    -verbosity=0 $(B)/fuzz/$* test/fuzz/corpus/$*
