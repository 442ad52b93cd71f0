/* The exported entries. For every hook and every version node there is one function, generated from
 * shim/interpose/hooks.def, that calls the hook with the library to which it was bound. */
#ifndef MDNN_ENTRIES_H
#define MDNN_ENTRIES_H

#include "shim/real/real.h"

/* False if `name` is not hooked. This scans the list, which is fast enough because each name is looked up once. */
bool mdnn_hook_of_name(const char *name, mdnn_hook_id_t *hook);
const char *mdnn_hook_name(mdnn_hook_id_t hook);
/* Address of the entry, NULL if `hook` has none for `library`. */
void *mdnn_entry_of(mdnn_hook_id_t hook, mdnn_library_t library);

#endif
