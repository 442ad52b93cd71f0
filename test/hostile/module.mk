# Random programs that are hard to serve (test/hostile/hostile.h), and who runs them.
H := $(B)/test/hostile
HOSTILE_OBJECTS = $(patsubst test/hostile/%.c,$(H)/obj/%.o,$(filter-out %/soak.c,$(wildcard test/hostile/*.c)))
$(H)/obj/%.o: test/hostile/%.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE_CFLAGS) $(CLIENT_FLAGS) $(CFLAGS) -c $< -o $@
$(H)/hostile: $(HOSTILE_OBJECTS) $(C)/one_convolution.o $(CLIENT_SIM)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) $(filter %.o,$^) -L$(B)/sim -Wl,--as-needed -l:libcudart.so.13 -l:libcuda.so.1 \
	    -Wl,--allow-shlib-undefined -lm -ldl -lpthread -o $@
$(H)/soak: $(H)/obj/soak.o $(H)/obj/random.o $(H)/obj/kernels.o $(CLIENT_SIM)
	$(call say,LD,$@)
	$(Q)$(CC) $(SANITIZE) $(filter %.o,$^) -L$(B)/sim -Wl,--as-needed -l:libcuda.so.1 -lm -ldl -lpthread -o $@
ifneq ($(CUDA_INCLUDE),)
TEST_DEPS += $(H)/hostile $(H)/soak
TESTS += test/hostile.sh
endif

# As many as one likes: make test-hostile HOSTILE_PROGRAMS=20000 HOSTILE_SEED=1; FLAVOUR=tsan and the like.
HOSTILE_PROGRAMS ?= 20000
HOSTILE_SEED ?= 1
HOSTILE_WITHOUT ?= $(shell cat test/hostile/without 2>/dev/null)
test-hostile: $(ALL) $(H)/hostile
	@test/hostile/run --build $(B) --programs $(HOSTILE_PROGRAMS) --seed $(HOSTILE_SEED) \
	    --without "$(HOSTILE_WITHOUT)" --seeds test/hostile/seeds

# A million operations in one process, whose host memory stays as it is.
SOAK_OPERATIONS ?= 1000000
test-soak: $(ALL) $(H)/soak
	@LD_LIBRARY_PATH=$(B)/sim LD_PRELOAD=$(B)/libmicrodnn.so $(H)/soak $(SOAK_OPERATIONS) 48MiB
.PHONY: test-hostile test-soak
