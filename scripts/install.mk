# make install DESTDIR= PREFIX=
MAN_PAGES := $(wildcard docs/man/*.[157])
INSTALL_DOCS := README.md LICENSE NOTICE $(wildcard docs/configuration.md docs/limits.md)
INSTALL_EXAMPLES := $(wildcard docs/examples/*.c docs/examples/*.h docs/examples/*.ini)
DOC_DIR = $(DESTDIR)$(PREFIX)/share/doc/microdnn

# Where there was GLPK to build it with.
INSTALL_ILP := $(filter $(B)/microdnn-ilp,$(ALL))

install: $(B)/libmicrodnn.so $(B)/microdnn $(B)/train_cnn $(INSTALL_ILP)
	install -d $(DESTDIR)$(PREFIX)/lib/microdnn $(DESTDIR)$(PREFIX)/bin $(DOC_DIR)/examples/data \
	    $(DOC_DIR)/LICENSES
	install -m 644 $(B)/libmicrodnn.so $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(B)/microdnn $(INSTALL_ILP) $(DESTDIR)$(PREFIX)/bin/
	install -m 755 $(B)/train_cnn $(DESTDIR)$(PREFIX)/lib/microdnn/
	install -m 644 $(INSTALL_DOCS) $(DOC_DIR)/
	install -m 644 LICENSES/* $(DOC_DIR)/LICENSES/
	install -m 644 $(INSTALL_EXAMPLES) $(DOC_DIR)/examples/
	install -m 644 docs/examples/data/README.md docs/examples/data/digits.txt $(DOC_DIR)/examples/data/
	$(foreach page,$(MAN_PAGES),install -D -m 644 $(page) \
	    $(DESTDIR)$(PREFIX)/share/man/man$(subst .,,$(suffix $(page)))/$(notdir $(page)) &&) true
