# train_cnn uses the CUDA runtime and cuDNN alone. It is linked with the simulated ones, which have the
# sonames and symbol versions of the real ones, so one program runs on both:
#     LD_LIBRARY_PATH=$(B)/sim build/train_cnn        with a real GPU: leave LD_LIBRARY_PATH alone
TRAIN_CNN_SOURCES := $(sort $(wildcard docs/examples/*.c))
TRAIN_CNN_OBJECTS := $(TRAIN_CNN_SOURCES:%.c=$(B)/obj/%.o)
TRAIN_CNN_LIBS ?= $(B)/sim/libcudart.so.13 $(B)/sim/libcudnn.so.9

$(TRAIN_CNN_OBJECTS): BASE_CFLAGS += $(CUDA_CFLAGS)

# The libraries' own dependencies are theirs to find, hence the undefined symbols allowed in them.
$(B)/train_cnn: $(TRAIN_CNN_OBJECTS) $(TRAIN_CNN_LIBS)
	$(call say,LINK,$@)
	$(Q)$(CC) $(SANITIZE) $(CFLAGS) $(LDFLAGS) $(TRAIN_CNN_OBJECTS) $(TRAIN_CNN_LIBS) -lm \
	    -Wl,--as-needed -Wl,--allow-shlib-undefined -o $@

ALL += $(B)/train_cnn
TESTS += test/train_cnn.sh
