# The simulated cuDNN: a dispatcher and three sub-libraries, with cuDNN 9's sonames, run paths and
# version nodes (NAME@@SONAME). driver.c and elements.c are a copy in each, as cuDNN's runtime is;
# both APIs of convolutions contain the sums.
SIM_CUDNN_conv := conv_algorithms conv_geometry conv_launch conv_step conv_sum
SIM_CUDNN_graph := graph $(patsubst %,backend_%,api attributes engine execute finalize graph json \
    names parse) json_tree $(SIM_CUDNN_conv) driver elements
SIM_CUDNN_ops := batch_norm descriptors dropout elementwise pooling softmax driver elements
SIM_CUDNN_cnn := conv_descriptor conv_api conv_bias $(SIM_CUDNN_conv) driver elements
SIM_CUDNN_objects = $(patsubst %,$(B)/obj/test/sim/cudnn/%.o,$(1))
SIM_CUDNN_LIBRARIES := $(patsubst %,$(B)/sim/libcudnn%.so.9,_graph _ops _cnn) $(B)/sim/libcudnn.so.9

SIM_CUDNN_OBJECTS := $(call SIM_CUDNN_objects,dispatcher \
    $(sort $(SIM_CUDNN_graph) $(SIM_CUDNN_ops) $(SIM_CUDNN_cnn)))
$(SIM_CUDNN_OBJECTS): PIC := -fPIC
$(SIM_CUDNN_OBJECTS): BASE_CFLAGS += $(CUDA_CFLAGS) -ffp-contract=off

# Bound to themselves (SYMBOLIC) like the real ones; calls between the libraries go by PLT.
define SIM_CUDNN_LINK
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)printf '%s { global: cudnn*; $(1)local: *; };\n' $(@F) > $@.map
	$(Q)$(CC) -shared $(SANITIZE) $(CFLAGS) $(LDFLAGS) $(filter %.o %.so.9,$^) -ldl -lm -lpthread \
	    -Wl,-soname,$(@F) -Wl,--version-script,$@.map -Wl,-Bsymbolic -Wl,-rpath,'$$ORIGIN' \
	    -Wl,--enable-new-dtags $(if $(SANITIZE),,-Wl,-z,defs) -o $@
endef

$(B)/sim/libcudnn_graph.so.9: $(call SIM_CUDNN_objects,$(SIM_CUDNN_graph))
	$(call SIM_CUDNN_LINK,sim_cudnn_fail; )

$(B)/sim/libcudnn_ops.so.9: $(call SIM_CUDNN_objects,$(SIM_CUDNN_ops)) $(B)/sim/libcudnn_graph.so.9
	$(call SIM_CUDNN_LINK,)

$(B)/sim/libcudnn_cnn.so.9: $(call SIM_CUDNN_objects,$(SIM_CUDNN_cnn)) $(B)/sim/libcudnn_ops.so.9 \
    $(B)/sim/libcudnn_graph.so.9
	$(call SIM_CUDNN_LINK,)

$(B)/sim/libcudnn.so.9: $(call SIM_CUDNN_objects,dispatcher) | $(B)/sim/libcudnn_graph.so.9 \
    $(B)/sim/libcudnn_ops.so.9 $(B)/sim/libcudnn_cnn.so.9
	$(call SIM_CUDNN_LINK,)

# Tests: programs that use the driver API and cuDNN, as a client would, and a script.
SIM_CUDNN_TESTS := $(patsubst %,$(B)/test/sim/test_cudnn_%,convolution graph ops)
SIM_CUDNN_CLIENT := $(patsubst %,$(B)/obj/test/%.o,sim/cudnn_client sim/graph_client reference_convolution)
$(SIM_CUDNN_CLIENT): BASE_CFLAGS += $(CUDA_CFLAGS)

$(B)/test/sim/test_cudnn_%: test/sim/test_cudnn_%.c $(SIM_CUDNN_CLIENT) $(SIM_CUDNN_LIBRARIES) \
    $(B)/sim/libcuda.so.1
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) $(CFLAGS) $< $(SIM_CUDNN_CLIENT) $(B)/sim/libcuda.so.1 \
	    $(B)/sim/libcudnn.so.9 -lcmocka -ljansson -lm -ldl -o $@

# Linked with cuDNN alone: they run with the real one, too.
$(B)/test/sim/test_backend_rules $(B)/test/tools/plan_graphs: $(B)/test/%: test/%.c $(B)/sim/libcudnn.so.9
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) -DDATA_FOLDER='"$(CURDIR)/test/data"' $(CFLAGS) $< \
	    $(B)/sim/libcudnn.so.9 -lcmocka -o $@

$(B)/test/sim/cudnn_count_dlsym.so: test/sim/cudnn_count_dlsym.c
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CFLAGS) -fPIC -shared $< -ldl -o $@

# The cost model beside measured convolutions, without a simulated GPU around it. `make calibrate`
# prints costs that fit calibration.tsv best, `make calibration-tables` how near those in use come.
SIM_CALIBRATION := $(B)/obj/test/sim/calibration.o $(call SIM_CUDNN_objects,conv_algorithms elements)
$(B)/obj/test/sim/calibration.o: BASE_CFLAGS += $(CUDA_CFLAGS)
SIM_CALIBRATION_LINK = $(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) \
    -DCALIBRATION_FOLDER='"$(CURDIR)/test/sim"' $(CFLAGS) $< $(SIM_CALIBRATION) -lcmocka -lm -o $@

$(B)/test/sim/test_calibration $(B)/test/sim/calibrate: $(B)/test/sim/%: test/sim/%.c $(SIM_CALIBRATION)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(SIM_CALIBRATION_LINK)

.PHONY: calibrate calibration-tables
calibrate: $(B)/test/sim/calibrate
	$(Q)$< h200 test/sim/calibration.tsv
calibration-tables: $(B)/test/sim/test_calibration
	$(Q)$< tables test/sim/calibration.tsv test/sim/calibration_check.tsv

ifneq ($(CUDA_INCLUDE),)
ALL += $(SIM_CUDNN_LIBRARIES)
TESTS += $(B)/test/sim/test_calibration
TESTS += $(SIM_CUDNN_TESTS) test/sim/test_cudnn_structure.sh
TESTS += $(B)/test/sim/test_backend_rules test/sim/test_backend_real.sh
TEST_DEPS += $(SIM_CUDNN_TESTS) $(B)/test/sim/cudnn_count_dlsym.so $(B)/test/tools/plan_graphs
endif
