# shim/: the hooks. Compiled against the CUDA and cuDNN headers, linked with no library of theirs.
SHIM_ROOMS := real device vmem remake handles candidates convolution graph interpose # a room uses those before it (make check-layers)
SHIM_SOURCES += $(foreach room,$(SHIM_ROOMS),$(wildcard shim/$(room)/*.c shim/$(room)/*.S))
# Sources by their names, whichever room they are in.
shim_sources = $(foreach name,$(1),$(wildcard shim/*/$(name).c))
ALL += $(B)/libmicrodnn.so
CORE_LIBS += -l:libiberty.a

# Deprecated is the API that we are here to serve.
$(patsubst %.c,$(B)/obj/%.o,$(filter shim/%.c,$(SHIM_SOURCES))): EXTRA_CFLAGS += -Wno-deprecated-declarations

$(B)/libmicrodnn.so: $(SHIM_OBJECTS) $(CORE_OBJECTS) shim/interpose/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libmicrodnn.so -Wl,--version-script=shim/interpose/exports.map \
	    -Wl,-z,now,-z,nodelete$(if $(SANITIZE),,$(comma)-z$(comma)defs) -Wl,--exclude-libs,ALL -Wl,--as-needed \
	    $(SANITIZE) $(LDFLAGS) $(SHIM_OBJECTS) $(CORE_OBJECTS) $(CORE_LIBS) -lm -o $@

comma := ,

check-exports: $(B)/libmicrodnn.so
	$(Q)shim/interpose/check-exports $< $(FLAVOUR)

# Compiles and links for the other architecture, with the warnings of this one. Libraries of it need
# not be there: what they define stays open.
AARCH64_CC ?= aarch64-linux-gnu-gcc
AARCH64_OBJECTS = $(patsubst $(B)/%,build/aarch64/%,$(SHIM_OBJECTS) $(CORE_OBJECTS))
check-aarch64:
	$(MAKE) FLAVOUR=aarch64 CC='$(AARCH64_CC) -idirafter /usr/include' $(AARCH64_OBJECTS)
	$(Q)$(AARCH64_CC) -shared -Wl,--version-script=shim/interpose/exports.map $(AARCH64_OBJECTS) \
	    -o build/aarch64/libmicrodnn.so
	$(Q)readelf -W --dyn-syms build/aarch64/libmicrodnn.so | grep -q 'FUNC .* dlsym$$'
.PHONY: check-aarch64

# The committed PTX: for the oldest architecture of the compiler, in the oldest PTX version that knows
# it, so that drivers older than the compiler take it. Comments name the compiler's build: dropped.
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) nvcc)
make_ptx = $(NVCC) -ptx -arch=compute_75 -O3 -o $(2) $(1) && \
    sed -i -e '/^\/\//d' -e 's/^\.version .*/.version 6.4/' $(2)

ptx: shim/real/kernels.cu
	$(Q)$(call make_ptx,$<,shim/real/kernels.ptx)
check-ptx: shim/real/kernels.cu
	$(Q)mkdir -p $(B)/obj/shim/real && $(call make_ptx,$<,$(B)/obj/shim/real/kernels.ptx)
	$(Q)diff shim/real/kernels.ptx $(B)/obj/shim/real/kernels.ptx
$(B)/obj/shim/real/kernels_ptx.o: shim/real/kernels.ptx
.PHONY: ptx check-ptx

# As the other fuzzers (config/module.mk); it starts from plans that cuDNN wrote.
.PHONY: fuzz-graph_json
$(B)/fuzz/fuzz_graph_json: private BASE_CFLAGS += $(CUDA_CFLAGS)
$(B)/fuzz/fuzz_graph_json: shim/graph/graph_json.c shim/graph/graph_chain.c shim/graph/json.c $(filter optimizer/%,$(CORE_SOURCES))
fuzz-graph_json: fuzz-%: $(B)/fuzz/fuzz_%
	@mkdir -p $(B)/fuzz/$*
	$(B)/fuzz/fuzz_$* -max_total_time=$(FUZZ_SECONDS) -artifact_prefix=$(B)/fuzz/ -print_final_stats=1 \
	    -verbosity=0 $(B)/fuzz/$* test/data/plan-json
