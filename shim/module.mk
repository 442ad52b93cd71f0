# shim/: the doors. Compiled against the CUDA and cuDNN headers, linked with no library of theirs.
SHIM_SOURCES += $(patsubst ./%,%,$(wildcard shim/*.c)) $(wildcard shim/*.S)
ALL += $(B)/libmicrodnn.so

# Deprecated is the API that we are here to serve.
$(patsubst %.c,$(B)/obj/%.o,$(filter shim/%.c,$(SHIM_SOURCES))): EXTRA_CFLAGS += -Wno-deprecated-declarations

$(B)/libmicrodnn.so: $(SHIM_OBJECTS) $(CORE_OBJECTS) shim/exports.map
	$(call say,LD,$@)
	$(Q)$(CC) -shared -Wl,-soname,libmicrodnn.so -Wl,--version-script=shim/exports.map \
	    -Wl,-z,now,-z,nodelete$(if $(SANITIZE),,$(comma)-z$(comma)defs) -Wl,--exclude-libs,ALL -Wl,--as-needed \
	    $(SANITIZE) $(SHIM_OBJECTS) $(CORE_OBJECTS) $(CORE_LIBS) -lm -o $@

comma := ,

check-exports: $(B)/libmicrodnn.so
	$(Q)shim/check-exports $< $(FLAVOUR)
