# The tool `microdnn`, and the pages that are made with it.
TOOL_SOURCES := $(wildcard scripts/microdnn*.c)
# The networks of train_cnn, for `microdnn plan`; plain C but for the header that names `fail`.
TOOL_OBJECTS := $(TOOL_SOURCES:%.c=$(B)/obj/%.o) $(B)/obj/docs/examples/nets.o

ALL += $(B)/microdnn
TESTS += test/microdnn_tool.sh test/memory_tool.sh test/cache_tool.sh test/plan_tool.sh test/advise_tool.sh test/completion.sh
TESTS += test/top.sh
TESTS += test/terminal.sh test/doctor.sh test/no_silence.sh
TESTS += test/verdict_check.sh

$(B)/microdnn: $(TOOL_OBJECTS) $(B)/libmdnn_core.a
	$(call say,LINK,$@)
	$(Q)$(CC) $(SANITIZE) $(LDFLAGS) $^ $(CORE_LIBS) -lm -ldl -lpthread -o $@

# The script of `microdnn report` and `microdnn advise --plot`, as one file. Building it needs Python, but not matplotlib.
REPORT_SOURCES := $(wildcard scripts/report/*.py)
ifneq ($(shell command -v python3),)
ALL += $(B)/microdnn-report
TESTS += test/report_tool.sh
endif
$(B)/microdnn-report: $(REPORT_SOURCES)
	$(call say,ZIP,$@)
	$(Q)rm -rf $(B)/obj/report && mkdir -p $(B)/obj/report && cp $(REPORT_SOURCES) $(B)/obj/report/
	$(Q)python3 -m zipapp --python '/usr/bin/env python3' --output $@ $(B)/obj/report

.PHONY: docs
docs: $(B)/microdnn
	$(call say,DOC,docs/configuration.md)
	$(Q)$(B)/microdnn config --markdown > docs/configuration.md.new
	$(Q)mv docs/configuration.md.new docs/configuration.md

# As the other fuzzers (config/module.mk).
.PHONY: fuzz-plan_run
$(B)/fuzz/fuzz_plan_run: scripts/microdnn_plan_run.c scripts/microdnn_plan_trace.c scripts/microdnn_statistics.c optimizer/network.c optimizer/problem.c
fuzz-plan_run: fuzz-%: $(B)/fuzz/fuzz_%
	@mkdir -p $(B)/fuzz/$*
	$(B)/fuzz/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$(B)/fuzz/ -print_final_stats=1 \
	    -verbosity=0 $(B)/fuzz/$* test/fuzz/corpus/$*
