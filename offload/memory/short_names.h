/* Names of kernels that people can read. The short form of a mangled name (Itanium C++ ABI, 5.1) consists of the scopes
 * and the function, without types. Of the template arguments it has only one: the first named one of the function's.
 * The code that makes it skips types and arguments, while a demangler would need memory and a stack in proportion to
 * names of thousands of characters. */
#ifndef MDNN_SHORT_NAMES_H
#define MDNN_SHORT_NAMES_H

#include <stddef.h>

/* Fills `text` with the short form of a name, mangled or not; always terminated, cut to fit, and of characters that can
 * stand in a string of JSON. */
void mdnn_short_name(const char *name, char *text, size_t bytes);

/* Remembers short forms of names whose text stays where it is and never changes. */
enum { MDNN_SHORT_NAME_BYTES = 96, MDNN_SHORT_NAMES = 512 };
typedef struct mdnn_short_names {
    struct {
        const char *name;
        char text[MDNN_SHORT_NAME_BYTES];
    } known[MDNN_SHORT_NAMES];
} mdnn_short_names_t;

const char *mdnn_short_names_get(mdnn_short_names_t *names, const char *name);

#endif
