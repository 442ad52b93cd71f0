#include "shim/real/loaded_object.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shim/real/real.h"

/* ---- paths ---- */

/* As <dlfcn.h> of glibc 2.35 has it. The library runs with 2.34, too, so the function is looked up. */
typedef struct found_object {
    unsigned long long flags;
    void *map_start, *map_end;
    struct link_map *map;
    void *eh_frame;
    unsigned long long reserved[8]; /* one is another member with some processors */
} found_object_t;
typedef int (*find_object_t)(void *address, found_object_t *found);

static int find_nothing(void *address, found_object_t *found)
{
    (void)address, (void)found;
    return -1;
}

/* find_nothing: this C library does not have it. */
static find_object_t find_object_function(void)
{
    static _Atomic(find_object_t) known;
    find_object_t function = atomic_load_explicit(&known, memory_order_acquire);
    if (function)
        return function;
    void *const found = dlvsym(RTLD_NEXT, "_dl_find_object", "GLIBC_2.35");
    if (found)
        memcpy(&function, &found, sizeof function);
    else
        (void)dlerror(); /* the host's next one is not ours */
    function = found ? function : find_nothing;
    atomic_store_explicit(&known, function, memory_order_release);
    return function;
}

typedef struct path_search {
    uintptr_t address;
    const char *path;
} path_search_t;

static int find_path(struct dl_phdr_info *info, size_t bytes, void *context)
{
    path_search_t *const search = context;
    (void)bytes;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
        if (info->dlpi_phdr[i].p_type == PT_LOAD &&
            search->address - start < info->dlpi_phdr[i].p_memsz)
            search->path = info->dlpi_name;
    }
    return search->path != NULL;
}

const char *mdnn_object_path(const void *address)
{
    const find_object_t find = find_object_function();
    path_search_t search = {.address = (uintptr_t)address};
    found_object_t found;
    void *wanted;
    memcpy(&wanted, &address, sizeof wanted);
    if (find != find_nothing)
        return find(wanted, &found) == 0 && found.map && found.map->l_name ? found.map->l_name : "";
    (void)dl_iterate_phdr(find_path, &search);
    return search.path ? search.path : "";
}

/* ---- names ---- */

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
