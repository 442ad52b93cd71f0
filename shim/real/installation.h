/* Programs of ours that are installed with the library. */
#ifndef MDNN_INSTALLATION_H
#define MDNN_INSTALLATION_H

#include <stdbool.h>
#include <stddef.h>

/* Path of the program `name` beside the file that this library was loaded from, or in the folder
 * microdnn/ beside that file. The kernel knows where the library lies, so neither the current
 * directory nor PATH matters. False if there is none that only root, the user or the owner of the
 * library can have written. Thread-safe. */
bool mdnn_installation_find(const char *name, char *path, size_t bytes);

#endif
