/* The object (program or library) that contains an address. We never load anything. */
#ifndef MDNN_LOADED_OBJECT_H
#define MDNN_LOADED_OBJECT_H

#include <stdbool.h>

/* The path from which the object was loaded, valid for as long as it is loaded; "" for the program itself and where there
 * is no object. From glibc 2.35 on this takes no lock, so it is cheap and may be asked while another thread loads a
 * library. */
const char *mdnn_object_path(const void *address);

/* "" if it has none. *ours: it is this very library. */
const char *mdnn_object_soname(const void *address, bool *ours);

/* The definition in the object's own scope: in itself, else in what it needs. NULL: there is none,
 * or it is ours. */
void *mdnn_object_find(const void *address, const char *symbol);

/* Prevents that the object is unloaded, since an address in it was kept. */
void mdnn_object_keep(const void *address);

#endif
