# make install, install-strip, uninstall. DESTDIR= and PREFIX= as usual; LIBDIR= where the library goes (a multiarch
# folder, for example), LIBEXECDIR= for programs that only the library and the tool start.
BINDIR ?= $(PREFIX)/bin
LIBDIR ?= $(PREFIX)/lib
LIBEXECDIR ?= $(LIBDIR)/microdnn
MANDIR ?= $(PREFIX)/share/man
COMPLETIONDIR ?= $(PREFIX)/share/bash-completion/completions
DOCDIR ?= $(PREFIX)/share/doc/microdnn

# Where there was GLPK to build it with.
INSTALL_ILP = $(filter $(B)/microdnn-ilp,$(ALL))
# Pages and examples keep their places to each other, since they refer to each other.
INSTALL_DOCS := README.md CHANGELOG.md CONTRIBUTING.md LICENSE NOTICE $(wildcard LICENSES/* docs/*.md docs/*/*.md \
    docs/*/*.svg docs/*/*/*.svg docs/*/*/*.png docs/examples/*.[ch] docs/examples/*.ini docs/examples/Makefile) \
    docs/examples/data/digits.txt docs/examples/data/README.md

# What is installed, as MODE:FOLDER:FILE; `make uninstall` removes the same.
rows = $(foreach file,$(3),$(1):$(2):$(file))
folder_of = $(patsubst %/,%,$(DOCDIR)/$(filter-out ./,$(dir $(1))))
INSTALL_PROGRAMS = $(call rows,755,$(BINDIR),$(B)/microdnn) $(call rows,644,$(LIBDIR),$(B)/libmicrodnn.so) \
    $(call rows,755,$(LIBEXECDIR),$(B)/train_cnn $(INSTALL_ILP))
INSTALL_REPORT = $(filter $(B)/microdnn-report,$(ALL))
INSTALL_FILES = $(call rows,755,$(LIBEXECDIR),$(INSTALL_REPORT)) $(foreach page,$(wildcard docs/man/*.[157]),$(call rows,644,$(MANDIR)/man$(patsubst .%,%,$(suffix $(page))),$(page))) \
    $(foreach file,$(INSTALL_DOCS),$(call rows,644,$(call folder_of,$(file)),$(file)))

# For each row: $mode, $folder (below DESTDIR), $file
each_row = for row in $(1); do mode=$${row%%:*} rest=$${row\#*:} && folder='$(DESTDIR)'$${rest%:*} file=$${rest\#\#*:} && $(2) || exit 1; done

install: strip :=
install-strip: strip := -s
install install-strip: $(B)/libmicrodnn.so $(B)/microdnn $(B)/train_cnn $(INSTALL_ILP) $(INSTALL_REPORT)
	$(call say,INST,$(DESTDIR)$(PREFIX))
	$(Q)$(call each_row,$(INSTALL_PROGRAMS),install -D $(strip) -m $$mode "$$file" "$$folder/$${file##*/}")
	$(Q)$(call each_row,$(INSTALL_FILES),install -D -m $$mode "$$file" "$$folder/$${file##*/}")
	$(Q)install -D -m 644 scripts/completion.bash '$(DESTDIR)$(COMPLETIONDIR)/microdnn'

# Folders go if nothing else is in them and they are of our name.
uninstall:
	$(call say,UNIN,$(DESTDIR)$(PREFIX))
	$(Q)$(call each_row,$(INSTALL_PROGRAMS) $(INSTALL_FILES),rm -f "$$folder/$${file##*/}")
	$(Q)rm -f '$(DESTDIR)$(COMPLETIONDIR)/microdnn'
	$(Q)for folder in '$(DESTDIR)$(DOCDIR)' '$(DESTDIR)$(LIBEXECDIR)'; do \
	    [ ! -d "$$folder" ] || find "$$folder" -depth -type d -empty -delete; done
.PHONY: install install-strip uninstall

# The tool finds the installed library from where it lies itself.
LIBRARY_FOLDER := $(shell realpath -m --relative-to='$(BINDIR)' '$(LIBDIR)')
$(B)/obj/scripts/microdnn_library.o: private EXTRA_CFLAGS += -DMDNN_LIBRARY_FOLDER='"$(LIBRARY_FOLDER)"'
$(B)/obj/scripts/microdnn_library.o: $(B)/obj/library_folder
$(B)/obj/library_folder: $(if $(filter-out $(LIBRARY_FOLDER),$(file <$(B)/obj/library_folder)),FORCE)
	@mkdir -p $(@D)
	$(Q)printf %s '$(LIBRARY_FOLDER)' >$@
FORCE:
.PHONY: FORCE

# Packages in build/packages; scripts/setup --packages installs what making them needs.
wheel: $(ALL)
	scripts/packages/make-wheel
deb:
	scripts/packages/make-deb
.PHONY: wheel deb
