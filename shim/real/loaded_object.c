#include "shim/real/loaded_object.h"

#include <dlfcn.h>
#include <link.h>
#include <stddef.h>

#include "shim/real/real.h"

static const char *soname_of(const struct link_map *map)
{
    const char *strings = NULL;
    ElfW(Xword) offset = 0;
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_STRTAB) {
            const ElfW(Addr) at = entry->d_un.d_ptr;
            strings = (const char *)(at >= map->l_addr ? at : map->l_addr + at);
        } else if (entry->d_tag == DT_SONAME) {
            offset = entry->d_un.d_val;
        }
    }
    return strings && offset ? strings + offset : "";
}

const char *mdnn_object_soname(const void *address, bool *ours)
{
    static const char here = 0;
    Dl_info info, own;
    struct link_map *map = NULL;
    *ours = false;
    if (!dladdr1(address, &info, (void **)&map, RTLD_DL_LINKMAP) || !map || !map->l_ld)
        return "";
    *ours = dladdr(&here, &own) && own.dli_fbase == info.dli_fbase;
    return soname_of(map);
}

/* NULL for the program itself, whose scope is the global one. */
static void *open_object(const void *address, int flags)
{
    Dl_info info;
    return dladdr(address, &info) && info.dli_fname
               ? dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | flags)
               : NULL;
}

void *mdnn_object_find(const void *address, const char *symbol)
{
    const mdnn_dlsym_function_t find = mdnn_real_dlsym();
    void *const scope = find ? open_object(address, 0) : NULL;
    void *const found = scope ? find(scope, symbol) : NULL;
    bool ours = false;
    if (scope)
        dlclose(scope);
    if (found)
        (void)mdnn_object_soname(found, &ours);
    else
        (void)dlerror(); /* the host's next one is not ours */
    return ours ? NULL : found;
}

void mdnn_object_keep(const void *address)
{
    void *const object = open_object(address, RTLD_NODELETE);
    if (object)
        dlclose(object);
    else
        (void)dlerror();
}
