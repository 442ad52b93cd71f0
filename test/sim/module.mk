# The simulated GPU: libcuda.so.1 (the engine) and libcudart.so.13, and their tests, which are programs
# linked with them as with the real ones. $(SIM_LINK) links such a program; run it with
# LD_LIBRARY_PATH=$(B)/sim. cudnn.mk adds libcudnn.so.9.

SIM_DRIVER_SOURCES := $(addprefix test/sim/,accumulate.c array.c capture.c clock.c compare.c copy.c copy_kernel.c device.c engine.c entry.c fault.c hold.c \
    graph_memory.c map.c memory.c module.c pool.c schedule.c share.c stream.c tensor_map.c texture.c value.c vmm.c work.c)
SIM_RUNTIME_SOURCES := $(addprefix test/sim/,runtime.c runtime_driver.c runtime_memory.c runtime_own.c)
SIM_DRIVER_OBJECTS := $(SIM_DRIVER_SOURCES:%.c=$(B)/sim/obj/%.o)
SIM_RUNTIME_OBJECTS := $(SIM_RUNTIME_SOURCES:%.c=$(B)/sim/obj/%.o)
SIM_SHARED := -shared $(if $(SANITIZE),,-Wl,-z,defs) -Wl,-z,now -Wl,-Bsymbolic
SIM_LIBS := $(B)/sim/libcuda.so $(B)/sim/libcudart.so $(B)/sim/libcudart_static.a

$(B)/sim/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) -fPIC $(SIM_CFLAGS) $(CFLAGS) -c $< -o $@

$(B)/sim/libcuda.so.1: $(SIM_DRIVER_OBJECTS) test/sim/libcuda.map
	$(call say,LD,$@)
	$(Q)$(CC) $(SIM_SHARED) $(SANITIZE) -Wl,-soname,libcuda.so.1 \
	    -Wl,--version-script=test/sim/libcuda.map $(SIM_DRIVER_OBJECTS) -lm -lpthread -o $@

$(B)/sim/libcudart.so.13: $(SIM_RUNTIME_OBJECTS) test/sim/libcudart.map
	$(call say,LD,$@)
	$(Q)$(CC) $(SIM_SHARED) $(SANITIZE) -Wl,-soname,libcudart.so.13 \
	    -Wl,--version-script=test/sim/libcudart.map $(SIM_RUNTIME_OBJECTS) -ldl -lpthread -o $@

$(B)/sim/libcudart_static.a: $(SIM_RUNTIME_OBJECTS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

$(B)/sim/libcuda.so: $(B)/sim/libcuda.so.1
	$(Q)ln -sf $(<F) $@

$(B)/sim/libcudart.so: $(B)/sim/libcudart.so.13
	$(Q)ln -sf $(<F) $@

ifneq ($(CUDA_INCLUDE),)
ALL += $(SIM_LIBS)
endif

-include test/sim/cudnn.mk

# The tests reach the simulator as any program reaches CUDA.
SIM_TESTS := $(patsubst test/sim/%.c,$(B)/test/sim/%,$(sort $(wildcard test/sim/test_sim_*.c))) \
    $(B)/test/sim/test_sim_memory_static
ifneq ($(CUDA_INCLUDE),)
TESTS += $(SIM_TESTS)
endif

$(B)/test/sim/test_sim_%: test/sim/test_sim_%.c $(SIM_LIBS)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) $(CFLAGS) $< -L$(B)/sim -lcudart -lcuda -lcmocka -lm -ldl \
	    -lpthread -o $@

# The same through a static copy of the runtime, as cuDNN and cuBLAS contain one.
$(B)/test/sim/test_sim_memory_static: test/sim/test_sim_memory.c $(SIM_LIBS)
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(CUDA_CFLAGS) $(CFLAGS) $< -L$(B)/sim -l:libcudart_static.a -lcuda -lcmocka \
	    -lm -ldl -lpthread -o $@
