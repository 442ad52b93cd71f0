CORE_SOURCES += $(addprefix optimizer/,cost_memory.c costs.c database.c database_codec.c \
    database_file.c database_place.c database_rows.c database_system.c deterministic.c front.c ilp_child.c ilp_text.c knapsack.c \
    network.c problem.c resident_tree.c search.c trial_times.c wd.c wd_policy.c wr.c)
TOOL_CORE_SOURCES += optimizer/database_tool.c optimizer/desirable.c
CORE_LIBS += -l:libsqlite3.a -lm
TESTS += $(addprefix $(B)/test/unit/,test_wr test_problem test_database test_database_owners test_database_place test_knapsack test_wd test_ilp_text \
    test_ilp_agreement test_ilp_child test_desirable test_deterministic test_network) test/ilp_tool.sh test/wd_paper.sh
BENCHES += $(B)/test/bench/bench_wr $(B)/test/bench/bench_wd

# A program of its own, under the GPL as GLPK is (libglpk-dev); without GLPK the rest does not miss it.
ifneq ($(shell printf '\043include <glpk.h>\n' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes),)
ALL += $(B)/microdnn-ilp
endif
$(B)/microdnn-ilp: $(B)/obj/optimizer/microdnn_ilp.o $(B)/libmdnn_core.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) $^ -lglpk -lm -o $@

# Times of the solvers alone.
.PHONY: bench-wd
bench-wd: $(ALL) $(B)/test/bench/bench_wd
	$(B)/test/bench/bench_wd $(B)/microdnn-ilp

# The allocator of the core under test can be made to fail.
$(addprefix $(B)/test/unit/,test_wr test_knapsack test_desirable): private EXTRA_CFLAGS += \
    -Wl,--wrap=malloc,--wrap=calloc,--wrap=reallocarray,--wrap=free
# The tests meet file systems that are not mounted here.
$(addprefix $(B)/test/unit/,test_database test_database_place): private EXTRA_CFLAGS += -Wl,--wrap=statfs

# As the other fuzzers (config/module.mk), with the optimizer linked in.
.PHONY: fuzz-database fuzz-database_file fuzz-ilp_text
$(B)/fuzz/fuzz_database $(B)/fuzz/fuzz_database_file $(B)/fuzz/fuzz_ilp_text: $(filter optimizer/%,$(CORE_SOURCES)) optimizer/database_tool.c
fuzz-database fuzz-database_file: fuzz-%: $(B)/fuzz/fuzz_%
	@mkdir -p $(B)/fuzz/$*
	$(B)/fuzz/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$(B)/fuzz/ -print_final_stats=1 \
	    -verbosity=0 $(B)/fuzz/$* test/fuzz/corpus/database
fuzz-ilp_text: $(B)/fuzz/fuzz_ilp_text
	@mkdir -p $(B)/fuzz/ilp_text
	$< -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$(B)/fuzz/ -print_final_stats=1 -verbosity=0 \
	    $(B)/fuzz/ilp_text test/fuzz/corpus/ilp_text
