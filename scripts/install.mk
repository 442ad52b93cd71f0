# make install DESTDIR= PREFIX=
MAN_PAGES := $(wildcard docs/man/*.[157])
INSTALL_DOCS := README.md LICENSE NOTICE $(wildcard docs/configuration.md docs/limits.md)
INSTALL_EXAMPLES := $(wildcard docs/examples/*.c docs/examples/*.h docs/examples/*.ini)
DOC_DIR = $(DESTDIR)$(PREFIX)/share/doc/microdnn

install: $(B)/libmicrodnn.so $(B)/microdnn
	install -d $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/bin $(DOC_DIR)/examples $(DOC_DIR)/LICENSES
	install -m 644 $(B)/libmicrodnn.so $(DESTDIR)$(PREFIX)/lib/
	install -m 755 $(B)/microdnn $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(INSTALL_DOCS) $(DOC_DIR)/
	install -m 644 LICENSES/* $(DOC_DIR)/LICENSES/
	install -m 644 $(INSTALL_EXAMPLES) $(DOC_DIR)/examples/
	$(foreach page,$(MAN_PAGES),install -D -m 644 $(page) \
	    $(DESTDIR)$(PREFIX)/share/man/man$(subst .,,$(suffix $(page)))/$(notdir $(page)) &&) true
