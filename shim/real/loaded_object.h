/* The object (program or library) that contains an address. We never load anything. */
#ifndef MDNN_LOADED_OBJECT_H
#define MDNN_LOADED_OBJECT_H

#include <stdbool.h>

/* "" if it has none. *ours: it is this very library. */
const char *mdnn_object_soname(const void *address, bool *ours);

/* The definition in the object's own scope: in itself, else in what it needs. NULL: there is none,
 * or it is ours. */
void *mdnn_object_find(const void *address, const char *symbol);

/* Prevents that the object is unloaded, since an address in it was kept. */
void mdnn_object_keep(const void *address);

#endif
