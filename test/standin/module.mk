# Stand-ins for the three libraries: what benches of hooks and tests of their calls run on.
# They are real shared libraries with the real names; programs find them by LD_LIBRARY_PATH.
STANDIN := $(B)/standin
STANDIN_LIBS := $(STANDIN)/libcuda.so.1 $(STANDIN)/libcudart.so.13 $(STANDIN)/libcudnn.so.9

STANDIN_LINK = $(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) -Wno-deprecated-declarations $(CFLAGS) -fPIC -shared \
    -Wl,-soname,$(@F) -MF $@.d $(filter %.c %.so.1,$^)

$(STANDIN)/libcuda.so.1: test/standin/standin_cuda.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(STANDIN_LINK) -o $@
$(STANDIN)/libcudart.so.13: test/standin/standin_cudart.c $(STANDIN)/libcuda.so.1
	$(call say,LD,$@)
	$(Q)printf '%s { global: cuda*; local: *; };\n' $(@F) >$@.map
	$(Q)$(STANDIN_LINK) -Wl,--version-script,$@.map -o $@
$(STANDIN)/libcudnn.so.9: test/standin/standin_cudnn.c test/standin/standin_graph.c $(STANDIN)/libcuda.so.1
	$(call say,LD,$@)
	$(Q)printf '%s { global: cudnn*; local: *; };\n' $(@F) >$@.map
	$(Q)$(STANDIN_LINK) -Wl,--version-script,$@.map -o $@
-include $(wildcard $(STANDIN)/*.d)

STANDIN_CLIENT = $(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) -Wno-deprecated-declarations $(CFLAGS) -rdynamic $< \
    -MF $@.d -L$(STANDIN) -l:libcudnn.so.9 -l:libcudart.so.13 -l:libcuda.so.1 -ldl -Wl,-rpath,'$$ORIGIN/../../standin' -o $@

ifneq ($(CUDA_INCLUDE),)
BENCHES += $(B)/test/bench/bench_hooks
endif
$(B)/test/bench/bench_hooks: test/bench/bench_hooks.c $(STANDIN_LIBS)
	@mkdir -p $(@D)
	$(call say,BENCH,$@)
	$(Q)$(STANDIN_CLIENT)

$(B)/test/clients/hook_rules: test/clients/hook_rules.c $(STANDIN_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(STANDIN_CLIENT)
ifneq ($(CUDA_INCLUDE),)
TEST_DEPS += $(B)/test/clients/hook_rules
TESTS += test/hooks.sh test/faults.sh
endif
