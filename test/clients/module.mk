# Client programs: use cudart and cuDNN, know nothing of us. Linked against the simulated libraries,
# whose sonames and symbol versions are the real ones, so the same binaries run on a real GPU.
CLIENT_FLAGS = $(CUDA_CFLAGS) -Wno-deprecated-declarations
CLIENT_LIBS = -L$(B)/sim -Wl,--as-needed -l:libcudart.so.13 -l:libcudnn.so.9 -Wl,--no-as-needed \
    -Wl,--allow-shlib-undefined
CLIENT_SIM = $(B)/sim/libcuda.so.1 $(B)/sim/libcudart.so.13 $(B)/sim/libcudnn.so.9
C := $(B)/test/clients

$(C)/%.o: test/clients/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) -fPIC -c $< -o $@

$(C)/reference_convolution.o: test/reference_convolution.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -c $< -o $@

$(C)/%: $(C)/%.o $(CLIENT_SIM)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) $(filter %.o,$^) $(CLIENT_LIBS) -lm -ldl -lpthread -o $@

$(C)/behaviour $(C)/arena: $(C)/reference_convolution.o
$(C)/graph_matrix: $(C)/graph_cases.o $(C)/graph_problem.o $(C)/reference_convolution.o \
    $(B)/obj/docs/examples/graph.o
$(C)/layer_errors: $(C)/elements.o $(C)/parallel.o
$(C)/virtual_memory $(C)/virtual_async $(C)/virtual_graphs $(C)/virtual_names $(C)/virtual_pins $(C)/waits $(C)/remake $(C)/drops $(C)/small_results $(C)/endings $(C)/small_stacks $(C)/every_fault $(C)/pointer_table $(C)/waiting_streams $(C)/tail: private CLIENT_LIBS += -L$(B)/sim -l:libcuda.so.1
$(C)/graph_rules $(C)/graph_faults $(C)/magnitudes: $(C)/graph_job.o $(C)/graph_cases.o $(C)/graph_problem.o \
    $(C)/reference_convolution.o $(B)/obj/docs/examples/graph.o
$(C)/graph_search: $(B)/obj/docs/examples/graph.o
$(C)/graph_witness.so: $(C)/graph_witness.o $(CLIENT_SIM)
	$(call say,LD,$@)
	$(Q)printf 'libcudnn.so.9 { global: cudnn*; witness; local: *; };\n' >$@.map
	$(Q)$(CC) $(SANITIZE) -shared -Wl,--version-script,$@.map $(filter %.o,$^) $(CLIENT_LIBS) -ldl -o $@

$(C)/route_linked.o: test/clients/route.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) -DROUTE_LINKED $(CFLAGS) -c $< -o $@
$(C)/route_linked: $(C)/one_convolution.o $(C)/one_graph.o
$(C)/route: $(C)/route.o $(C)/one_convolution.o $(C)/one_graph.o
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) $^ -ldl -o $@
# Binds libcudnn_cnn directly, as a program may that wants the legacy API only.
$(C)/route_cnn: $(C)/route_linked.o $(C)/one_convolution.o $(C)/one_graph.o $(CLIENT_SIM)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) $(filter %.o,$^) -L$(B)/sim -l:libcudart.so.13 -l:libcudnn_cnn.so.9 \
	    -l:libcudnn_ops.so.9 -l:libcudnn_graph.so.9 -Wl,--allow-shlib-undefined -ldl -o $@
# Likewise, one that wants the graph API only; the rest of the legacy API is there all the same.
$(C)/route_graph: $(C)/route_linked.o $(C)/one_convolution.o $(C)/one_graph.o $(CLIENT_SIM)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) $(filter %.o,$^) -L$(B)/sim -l:libcudart.so.13 -l:libcudnn_graph.so.9 \
	    -l:libcudnn_cnn.so.9 -l:libcudnn_ops.so.9 -Wl,--allow-shlib-undefined -ldl -o $@
$(C)/libforwarder.so: $(C)/forwarder.o
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -shared $^ -ldl -o $@
# Binds the forwarder, and nothing of CUDA.
$(C)/route_forwarded: $(C)/route_linked.o $(C)/one_convolution.o $(C)/one_graph.o $(C)/libforwarder.so
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) $(filter %.o,$^) -L$(C) -lforwarder -Wl,-rpath,'$$ORIGIN' -ldl -o $@
$(C)/plugin.so: $(C)/plugin.o $(C)/one_convolution.o $(C)/one_graph.o $(CLIENT_SIM)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) -shared $(filter %.o,$^) $(CLIENT_LIBS) -o $@

TEST_DEPS += $(addprefix $(C)/,arena behaviour conv_matrix endings host_share every_fault graph_faults graph_matrix \
    graph_rules graph_search graph_witness.so layer_errors layers magnitudes plugin.so pointer_table route route_cnn \
    route_forwarded route_graph route_linked small_stacks tail virtual_async virtual_graphs virtual_memory virtual_names virtual_pins waits waiting_streams)
TESTS += $(patsubst %,test/%.sh,database routes matrix magnitudes graph_matrix graph_limits graph_search graph_rules \
    few_candidates short_calls behaviour waiting_streams arena loans virtual_async virtual_memory virtual_names virtual_pins waits resets endings small_stacks host_limit killed_ranks shared_link every_fault safety_host strict tail)

# Launches that are made again.
TEST_DEPS += $(C)/remake $(C)/drops $(C)/small_results
TESTS += test/remake.sh test/drops.sh

# Many small allocations.
$(C)/small_allocations: private CLIENT_LIBS += -L$(B)/sim -l:libcuda.so.1
TEST_DEPS += $(C)/small_allocations
TESTS += test/small_allocations.sh

# Two threads at a program's beginning.
TEST_DEPS += $(C)/slow_start

# What is said of memory that is refused.
TEST_DEPS += $(C)/refusals $(C)/tight_workspaces
TESTS += test/refusals.sh test/tight_workspaces.sh
$(C)/tight_workspaces: $(B)/obj/docs/examples/graph.o

# Device memory that is not virtual.
$(C)/other_memory $(C)/program_handles: private CLIENT_LIBS += -L$(B)/sim -l:libcuda.so.1
TEST_DEPS += $(C)/other_memory $(C)/program_handles
TESTS += test/other_memory.sh test/program_handles.sh

# Pieces of shim/ tested alone, with a driver of the test's own.
$(B)/test/shim/test_trial: test/shim/test_trial.c shim/convolution/trial.c shim/real/capture_mode.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) \
	    -lcmocka -lm -lpthread -o $@
$(B)/test/shim/test_stopwatch: test/shim/test_stopwatch.c shim/real/stopwatch.c shim/real/capture_mode.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a -lcmocka -lpthread -o $@
$(B)/test/shim/test_graph_json: test/shim/test_graph_json.c shim/graph/graph_json.c shim/graph/graph_chain.c shim/graph/json.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) \
	    -lcmocka -lm -o $@
$(B)/test/shim/test_wd_policy: test/shim/test_wd_policy.c shim/convolution/wd_settings.c shim/real/installation.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) -lcmocka -lm -o $@
$(addprefix $(B)/test/tools/,design_data forge_costs ranks_table sample_record remake_survey): $(B)/test/tools/%: test/tools/%.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) -lm -o $@
TEST_DEPS += $(addprefix $(B)/test/tools/,design_data forge_costs ranks_table sample_record remake_survey) $(C)/kept_chain
$(B)/test/shim/test_cost_cache_check: test/shim/test_cost_cache_check.c shim/candidates/cost_cache_check.c
$(B)/test/shim/test_candidate_table: test/shim/test_candidate_table.c
$(addprefix $(B)/test/shim/test_,candidate_table cost_cache_check plan_check): $(call shim_sources,candidate_table_check)
$(B)/test/shim/test_candidate_table_check: test/shim/test_candidate_table_check.c
$(B)/test/shim/test_plan_check: test/shim/test_plan_check.c
# What a test includes is a prerequisite once it was built, and no source of its own.
$(B)/test/shim/test_candidate_table_check: private INCLUDED = shim/candidates/candidate_table_check.c
$(B)/test/shim/test_plan_check: private INCLUDED = shim/convolution/plan_check.c
TESTS += $(B)/test/shim/test_candidate_table_check $(B)/test/shim/test_plan_check
$(B)/test/shim/test_questions: test/shim/test_questions.c $(call shim_sources,arena plan plan_check plan_engines plan_questions planning candidate_table_check)
TESTS += $(B)/test/shim/test_questions
$(addprefix $(B)/test/shim/test_,candidate_table candidate_table_check cost_cache_check plan_check questions): $(call shim_sources,candidate_foresight candidate_table) $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) -Wno-deprecated-declarations $(CFLAGS) $(filter-out $(INCLUDED),$(filter %.c,$^)) $(B)/libmdnn_core.a $(CORE_LIBS) \
	    -lcmocka -lm -lpthread -o $@
$(B)/test/shim/test_search: test/shim/test_search.c optimizer/search.c
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) $(filter %.c,$^) -lcmocka -o $@
TESTS += $(B)/test/shim/test_stopwatch $(B)/test/shim/test_search $(B)/test/shim/test_candidate_table $(B)/test/shim/test_cost_cache_check $(B)/test/shim/test_wd_policy $(B)/test/shim/test_trial $(B)/test/shim/test_graph_json
# Its cuDNN is the one that the library path names.
$(B)/test/shim/test_engines: test/shim/test_engines.c $(call shim_sources,backend engine_identity engine_knobs engine_list engine_recipe engines \
    graph_build graph_chain graph_json json) $(B)/libmdnn_core.a | $(CLIENT_SIM)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) -Wno-deprecated-declarations $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) \
	    -lcmocka -lm -ldl -o $@
TESTS += $(B)/test/shim/test_engines test/shim/test_engines_real.sh

# Likewise; each call of its cuDNN is followed.
$(B)/test/shim/test_graph_follow: test/shim/test_graph_follow.c $(call shim_sources,graph_assemble graph_build \
    graph_chain graph_follow graph_json graph_piece json) $(C)/graph_cases.o $(C)/graph_problem.o \
    $(C)/reference_convolution.o $(B)/obj/docs/examples/graph.o $(B)/libmdnn_core.a | $(CLIENT_SIM)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c %.o,$^) $(B)/libmdnn_core.a $(CORE_LIBS) \
	    $(CLIENT_LIBS) $(patsubst %,-Wl$(comma)--wrap=cudnnBackend%,CreateDescriptor DestroyDescriptor \
	    Initialize Finalize SetAttribute GetAttribute) -Wl,--wrap=calloc -lcmocka -lm -ldl -lpthread -o $@
TESTS += $(B)/test/shim/test_graph_follow test/shim/test_graph_follow_real.sh

# The library with a double of virtual memory that writes down what the hooks say.
$(B)/doubled/libmicrodnn.so: $(SHIM_OBJECTS) $(CORE_OBJECTS) test/shim/virtual_double.c shim/interpose/exports.map
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) -Wno-deprecated-declarations $(CFLAGS) -fPIC -fvisibility=hidden \
	    -c test/shim/virtual_double.c -o $(@D)/virtual_double.o
	$(Q)$(CC) -shared -Wl,-soname,libmicrodnn.so -Wl,--version-script=shim/interpose/exports.map \
	    -Wl,-z,now,-z,nodelete$(if $(SANITIZE),,$(comma)-z$(comma)defs) -Wl,--exclude-libs,ALL \
	    -Wl,--as-needed $(SANITIZE) $(@D)/virtual_double.o \
	    $(filter-out $(B)/obj/shim/vmem/virtual_%.o $(B)/obj/shim/vmem/pointer_%.o $(B)/obj/shim/remake/%.o $(B)/obj/shim/handles/virtual_%.o,$(SHIM_OBJECTS)) $(CORE_OBJECTS) $(CORE_LIBS) -lm -o $@
DRIVER_HOOKS_FLAGS = $(BASE_CFLAGS) $(CUDA_CFLAGS) -Wno-deprecated-declarations $(CFLAGS)
$(B)/test/shim/test_driver_hooks: test/shim/test_driver_hooks.c $(C)/one_convolution.o $(C)/one_graph.o $(SIM_LIBS)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(DRIVER_HOOKS_FLAGS) $(filter %.c %.o,$^) -L$(B)/sim -lcudart -lcuda -lcmocka -lm -ldl -lpthread -o $@
$(B)/test/shim/test_driver_hooks_static: test/shim/test_driver_hooks.c $(C)/one_convolution.o $(C)/one_graph.o $(SIM_LIBS)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(DRIVER_HOOKS_FLAGS) $(filter %.c %.o,$^) -L$(B)/sim -l:libcudart_static.a -lcuda -lcmocka -lm -ldl -lpthread -o $@
TEST_DEPS += $(B)/doubled/libmicrodnn.so $(B)/test/shim/test_driver_hooks $(B)/test/shim/test_driver_hooks_static
TESTS += test/driver_hooks.sh test/driver_hooks_static.sh
$(B)/test/shim/print_environment: test/shim/print_environment.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) $< -ldl -o $@
TEST_DEPS += $(B)/test/shim/print_environment
$(B)/test/shim/failed_check: test/shim/failed_check.c
	@mkdir -p $(@D)
	$(call say,LD,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) $< -ldl -o $@
TEST_DEPS += $(B)/test/shim/failed_check $(B)/test/libraries/libc10_cuda.so
$(B)/test/shim/test_kernel_signature: test/shim/test_kernel_signature.c shim/real/kernel_signature.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) -lcmocka -lm -lpthread -o $@
TESTS += $(B)/test/shim/test_kernel_signature
$(B)/test/shim/test_kernel_layout: test/shim/test_kernel_layout.c $(call shim_sources,kernel_layout kernel_list kernel_signature) \
    $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) -lcmocka -lm -lpthread -o $@
TESTS += $(B)/test/shim/test_kernel_layout test/pytorch_variables.sh test/failed_checks.sh
# Hooks alone, with a driver and a virtual memory of the test's own.
HOOKS_ALONE = $(call shim_sources,failure hook_driver_copy hook_driver_graph hook_driver_launch indirect_operands kernel_layout \
    kernel_list kernel_signature last_kernels tensor_maps)
$(B)/test/shim/test_driver_nodes: test/shim/test_driver_nodes.c $(HOOKS_ALONE) $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) \
	    -lcmocka -lm -lpthread -o $@
TESTS += $(B)/test/shim/test_driver_nodes
$(B)/test/shim/test_reserved_memory: test/shim/test_reserved_memory.c shim/vmem/reserved_memory.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) \
	    -lcmocka -lm -lpthread -o $@
TESTS += $(B)/test/shim/test_reserved_memory
$(B)/test/shim/test_captures: test/shim/test_captures.c offload/memory/captures.c
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c,$^) -Wl,--wrap=realloc -lcmocka -ldl -lpthread -o $@
TESTS += $(B)/test/shim/test_captures
$(B)/test/bench/bench_launches: test/bench/bench_launches.c $(HOOKS_ALONE) $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,BENCH,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) \
	    -lm -lpthread -o $@
ifneq ($(CUDA_INCLUDE),)
BENCHES += $(B)/test/bench/bench_launches
endif


$(B)/test/shim/test_memory_device: test/shim/test_memory_device.c $(call shim_sources,memory_device copy_ways device_links device_chunks device_remaps device_waits device_timers \
    failure pinned_pool pinned_pieces link_rates timelines timeline_events timeline_streams timeline_waits context_change real loaded_object capture_mode kernels) $(B)/obj/shim/real/kernels_ptx.o $(B)/libmdnn_core.a | $(CLIENT_SIM)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c %.o,$^) $(B)/libmdnn_core.a $(CORE_LIBS) \
	    -L$(B)/sim -l:libcuda.so.1 -lcmocka -lm -ldl -lpthread -o $@
TESTS += $(B)/test/shim/test_memory_device

$(B)/test/shim/test_copy_ways: test/shim/test_copy_ways.c shim/device/copy_ways.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) $(filter %.c,$^) $(B)/libmdnn_core.a $(CORE_LIBS) -lcmocka -lm -lpthread -o $@
TESTS += $(B)/test/shim/test_copy_ways
