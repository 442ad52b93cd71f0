# Libraries of the simulated GPU that use memory that no kernel's parameters name, under the real ones'
# sonames; programs find them by LD_LIBRARY_PATH. As the real ones each has its own copy of the runtime.
LIBRARIES := $(B)/test/libraries
LIBRARY_LINK = $(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) $(CFLAGS) -fPIC -shared -Wl,-soname,$(@F) -MF $@.d \
    -Wl,--version-script,$@.map $< -L$(B)/sim -l:libcudart_static.a -l:libcuda.so.1 -ldl -lpthread -o $@

$(LIBRARIES)/libcublas.so.13: test/libraries/fake_cublas.c $(SIM_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)printf '%s { global: cublas*; local: *; };\n' $(@F) >$@.map
	$(Q)$(LIBRARY_LINK)
$(LIBRARIES)/libnccl.so.2: test/libraries/fake_nccl.c $(SIM_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)printf '{ global: nccl*; local: *; };\n' >$@.map
	$(Q)$(LIBRARY_LINK)
$(LIBRARIES)/libcufft.so.12: test/libraries/fake_cufft.c $(SIM_LIBS)
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)printf '%s { global: cufft*; local: *; };\n' $(@F) >$@.map
	$(Q)$(LIBRARY_LINK)
-include $(wildcard $(LIBRARIES)/*.d)

$(C)/library_calls: $(addprefix $(LIBRARIES)/,libcublas.so.13 libnccl.so.2 libcufft.so.12)
$(C)/library_calls: private CLIENT_LIBS += -L$(LIBRARIES) -l:libcublas.so.13 -l:libnccl.so.2 -l:libcufft.so.12 \
    -L$(B)/sim -l:libcuda.so.1

$(C)/pointer_tables: private CLIENT_LIBS += -L$(B)/sim -l:libcuda.so.1

# Copies of cuBLAS, and libraries that call each: with the version that the real one has, with another
# name (as tools that bundle libraries make it), and within the library that uses it.
COPIES := $(LIBRARIES)/copies
COPY_LINK = $(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) $(CFLAGS) -fPIC -shared -MF $@.d
$(COPIES)/libcublas.so.12 $(COPIES)/libcublas.so.13 $(COPIES)/libcublas-0f2c.so.13: test/libraries/copy_of_cublas.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)printf 'libcublas.so%s { global: cublas*; local: *; };\n' $(suffix $@) >$@.map
	$(Q)$(COPY_LINK) -Wl,-soname,$(@F) -Wl,--version-script,$@.map $< -o $@
$(COPIES)/user_12.so: $(COPIES)/libcublas.so.12
$(COPIES)/user_13.so: $(COPIES)/libcublas.so.13
$(COPIES)/user_renamed.so: $(COPIES)/libcublas-0f2c.so.13
$(COPIES)/user_12.so $(COPIES)/user_13.so $(COPIES)/user_renamed.so: test/libraries/user_of_cublas.c
	$(call say,LD,$@)
	$(Q)$(COPY_LINK) $(filter %.c,$^) -Wl,-rpath,'$$ORIGIN' $(filter-out %.c,$^) -o $@
$(COPIES)/static.so: test/libraries/user_of_cublas.c test/libraries/copy_of_cublas.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(COPY_LINK) $^ -o $@
-include $(wildcard $(COPIES)/*.d)
$(C)/library_copies: | $(patsubst %,$(COPIES)/%.so,user_12 user_13 user_renamed static)

# PyTorch's, as far as failed checks go.
$(LIBRARIES)/libc10.so: test/libraries/fake_c10.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -fPIC -shared -Wl,-soname,$(@F) $< -o $@
$(LIBRARIES)/libc10_cuda.so: test/libraries/fake_c10.c $(LIBRARIES)/libc10.so
	$(call say,LD,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -DFAKE_CALLER -fPIC -shared -Wl,-soname,$(@F) $^ -Wl,-rpath,'$$ORIGIN' -o $@

$(B)/test/shim/test_plain_memory: test/shim/test_plain_memory.c shim/real/plain_memory.c shim/real/loaded_object.c $(B)/libmdnn_core.a | $(LIBRARIES)/libnccl.so.2
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a -lcmocka -ldl -lpthread -o $@

ifneq ($(CUDA_INCLUDE),)
TEST_DEPS += $(C)/library_calls $(C)/library_copies $(C)/pointer_tables
TESTS += test/pointer_tables.sh test/kernel_list.sh test/library_calls.sh test/nccl_calls.sh test/library_copies.sh $(B)/test/shim/test_plain_memory
endif
