# libmicrodnn: build, test, bench, install. GNU make.
#   make                    the library, the tool, the example, the simulated GPU
#   make test               every behaviour once: minutes
#   make test-of FILE=...   the tests of one source (test/README.md)
#   make test-thorough      every test that needs no GPU, with every seed and size
#   make asan ubsan tsan    `make test` in a sanitizer build (each in build/<flavour>)
#   make debug              `make test` where the library checks itself (MDNN_DEBUG), as those do
#   make test-all           all of these, fault points, random programs and fuzzers: scripts/test-all, hours
#   make check-exports      exports, dependencies, symbol versions and the dlsym stub against their rules
#   make check-layers       which rooms of the library use which
#   make check-aarch64      compiles the library for the other architecture
#   make test-hostile       thousands of random programs (HOSTILE_PROGRAMS=, HOSTILE_SEED=, FLAVOUR=)
#   make test-soak          a million operations in one process, whose host memory must stay as it is
#   make coverage           how many lines of the library `make test` runs
#   make test-faults        breaks one rule after the other and shows that a test notices each
#   make check-format       names C files that `make format` would change
#   make install            and install-strip, uninstall: DESTDIR= PREFIX= LIBDIR= (scripts/install.mk)
#   make wheel deb          packages for pip and for Debian or Ubuntu, in build/packages
#   make bench format       V=1 shows the commands

.DEFAULT_GOAL := all
.DELETE_ON_ERROR:
.SECONDARY:

FLAVOUR ?=
B := build$(if $(FLAVOUR),/$(FLAVOUR))
PREFIX ?= /usr/local
VERSION := 0.1.0

CC ?= cc
ifeq ($(origin CC),default)
CC := gcc
endif
Q := $(if $(V),,@)
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)')

# CUDA and cuDNN headers only: a toolkit if there is one, else what scripts/setup unpacked.
CUDA_INCLUDE ?= $(firstword $(patsubst %/cudnn.h,%,$(wildcard \
    build/cuda/include/cudnn.h /usr/local/cuda/include/cudnn.h /usr/include/cudnn.h)))

WARNINGS := -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes \
    -Wformat=2 $(if $(CI),-Werror)
SANITIZE_asan := -fsanitize=address -fno-omit-frame-pointer
SANITIZE_ubsan := -fsanitize=undefined -fno-sanitize-recover=undefined
SANITIZE_tsan := -fsanitize=thread
SANITIZE_cov := --coverage
SANITIZE := $(SANITIZE_$(FLAVOUR))
DEBUG := $(if $(filter debug cov asan ubsan tsan,$(FLAVOUR)),-DMDNN_DEBUG)$(if $(filter faults,$(FLAVOUR)),-DMDNN_FAULTS)
OPTIMIZE ?= $(if $(filter cov,$(FLAVOUR)),-O1,-O2)
CFLAGS ?= $(OPTIMIZE) -g
BASE_CFLAGS := -std=c11 -D_GNU_SOURCE -DMDNN_VERSION='"$(VERSION)"' $(WARNINGS) -MMD -MP -I. $(DEBUG) $(SANITIZE)
CUDA_CFLAGS := $(if $(CUDA_INCLUDE),-isystem $(CUDA_INCLUDE))

# Filled by the fragments.
CORE_SOURCES :=      # config/ and optimizer/: plain C, linked into the library, the tool and unit tests
TOOL_CORE_SOURCES := # the same for the tool and the tests alone: not in the library
SHIM_SOURCES :=      # shim/: CUDA headers allowed; .c and .S
CORE_LIBS :=         # static, hidden archives that CORE_SOURCES need (-l:libinih.a ...)
ALL :=               # what `make all` builds
TESTS :=             # programs and scripts that speak TAP; run by test/run
TEST_DEPS :=         # what the tests need built
BENCHES :=           # programs that `make bench` runs
CLEAN :=

# Recursive on purpose: a fragment may use them after the fragments that it builds on.
CORE_OBJECTS = $(CORE_SOURCES:%.c=$(B)/obj/%.o)
TOOL_CORE_OBJECTS = $(TOOL_CORE_SOURCES:%.c=$(B)/obj/%.o)
SHIM_OBJECTS = $(patsubst %.c,$(B)/obj/%.o,$(patsubst %.S,$(B)/obj/%.o,$(SHIM_SOURCES)))

include config/module.mk
include optimizer/module.mk
include offload/module.mk
include shim/module.mk
include test/sim/module.mk
include docs/examples/module.mk
include scripts/module.mk
include scripts/install.mk
include test/standin/module.mk
include test/clients/module.mk
include test/libraries/module.mk
include test/hostile/module.mk
include test/module.mk

all: $(ALL)

$(CORE_OBJECTS) $(TOOL_CORE_OBJECTS) $(SHIM_OBJECTS): PIC := -fPIC -fvisibility=hidden -fno-semantic-interposition
$(SHIM_OBJECTS): BASE_CFLAGS += $(CUDA_CFLAGS)
# Threads of the program may have small stacks. Sanitizers and coverage need more.
FRAME := $(if $(SANITIZE),,-Wframe-larger-than=10240)
$(CORE_OBJECTS) $(SHIM_OBJECTS): BASE_CFLAGS += $(FRAME)

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE_CFLAGS) $(PIC) $(EXTRA_CFLAGS) $(CPPFLAGS) $(CFLAGS) -c $< -o $@

$(B)/obj/%.o: %.S
	@mkdir -p $(@D)
	$(call say,AS,$<)
	$(Q)$(CC) -MMD -MP -I. -c $< -o $@

# Everything below shim/ as one archive, for the tool and the unit tests.
$(B)/libmdnn_core.a: $(CORE_OBJECTS) $(TOOL_CORE_OBJECTS)
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcs $@ $^

# A unit test is test/unit/NAME.c: cmocka, linked with the core. Register it with
# TESTS += $(B)/test/unit/NAME in the fragment of the directory that it tests.
$(B)/test/unit/%: test/unit/%.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,TEST,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(EXTRA_CFLAGS) $(CFLAGS) $< $(B)/libmdnn_core.a $(CORE_LIBS) -lcmocka -lm -ldl -lpthread -o $@

# A bench is test/bench/NAME.c, linked alike. Register it with BENCHES += $(B)/test/bench/NAME.
$(B)/test/bench/%: test/bench/%.c $(B)/libmdnn_core.a
	@mkdir -p $(@D)
	$(call say,BENCH,$@)
	$(Q)$(CC) $(BASE_CFLAGS) $(EXTRA_CFLAGS) $(CFLAGS) $< $(B)/libmdnn_core.a $(CORE_LIBS) -lm -ldl -lpthread -o $@

check-layers: $(ALL)
	$(Q)scripts/check-layers --build $(B)

.PHONY: all test bench format check-format check-layers check-exports asan ubsan tsan debug coverage clean

# TSan runs the simulated GPU up to fifteen times slower.
asan ubsan tsan debug:
	$(MAKE) FLAVOUR=$@ TEST_OPTIONS='--cpu 3600' test

# Line coverage by the tests of the library, in a build that checks itself as `make debug` does, which does not count;
# `make coverage DEBUG=` is without the checks (threads count together without atomics, so a branch may come
# out at -1, which is no error of the tests; atomic counters take three times as long); exit status 1 below the limit. Earlier runs do not count.
COVERAGE_MINIMUM := 90
coverage:
	$(Q)find build/cov -name '*.gcda' -delete 2>/dev/null; true
	$(MAKE) FLAVOUR=cov TEST_OPTIONS='--cpu 1800' test-library
	$(Q)gcovr --root . --gcov-ignore-parse-errors --filter config/ --filter optimizer/ --filter shim/ --filter offload/ \
	    --exclude ".*_check\.c" --print-summary \
	    --fail-under-line $(COVERAGE_MINIMUM) build/cov/obj

format:
	$(Q)scripts/format
check-format:
	$(Q)scripts/format --check

clean:
	rm -rf build/obj build/test build/sim build/asan build/ubsan build/tsan build/debug build/cov build/aarch64 build/standin build/faults build/deb build/packages \
	    build/wheel-tools $(CLEAN)

-include $(shell find $(B)/obj $(B)/test $(B)/sim -name '*.d' 2>/dev/null)
