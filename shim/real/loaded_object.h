/* The object (program or library) that contains an address. We never load anything. */
#ifndef MDNN_LOADED_OBJECT_H
#define MDNN_LOADED_OBJECT_H

#include <stdbool.h>

/* The path from which the object was loaded, valid for as long as it is loaded; "" for the program itself and where
 * there is no object. From glibc 2.35 on this takes no lock, so it is cheap and may be asked while another thread loads
 * a library. */
const char *mdnn_object_path(const void *address);

/* The soname of the object; "" if it has none. *ours is true if the object is this very library. */
const char *mdnn_object_soname(const void *address, bool *ours);

/* The definition of the symbol in the object's own scope: in the object itself, or else in the objects that it needs.
 * NULL: there is none, or it is ours. */
void *mdnn_object_find(const void *address, const char *symbol);

/* Keeps the object from being unloaded, because we keep an address in it. */
void mdnn_object_keep(const void *address);

#endif
