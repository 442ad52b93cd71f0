#include "config/node/node_registry_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/quiet_write.h"
#include "config/safe_path.h"

static const uint64_t magic = UINT64_C(0x45444f4e4e4e444d); /* "MDNNNODE" */

/* ---- adding up ---- */

static bool is_in_scope(const registry_entry_t *entry, uint64_t scope)
{
    for (size_t i = 0; scope != 0 && i < MDNN_NODE_LIMITS; i++)
        if (atomic_load(&entry->scopes[i]) == scope)
            return true;
    return scope == 0;
}

/* `living`: only what processes hold that live, which takes a look at each. */
static uint64_t add_up(const mdnn_node_registry_t *registry, uint64_t scope, bool living)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < NODE_ENTRIES; i++) {
        const registry_entry_t *const entry = &registry->map->entries[i];
        const uint64_t process = atomic_load(&entry->process);
        const uint64_t bytes = atomic_load(&entry->pinned_bytes);
        if (process == 0 || bytes == 0 || atomic_load(&entry->claimed) == 0 ||
            !is_in_scope(entry, scope) ||
            (living && entry != registry->own && !mdnn_node_is_alive(process)))
            continue;
        if (__builtin_add_overflow(sum, bytes, &sum))
            return UINT64_MAX;
    }
    return sum;
}

/* `more` bytes beyond what is counted. */
static bool is_within(const mdnn_node_registry_t *registry, uint64_t more)
{
    for (size_t i = 0; i < registry->limits.count; i++) {
        const mdnn_node_limit_t *const limit = &registry->limits.limits[i];
        if (more > limit->bytes || (add_up(registry, limit->scope, false) > limit->bytes - more &&
                                    add_up(registry, limit->scope, true) > limit->bytes - more))
            return false;
    }
    return true;
}

/* ---- entries ---- */

/* Takes the entries of the dead over, keeps one and frees the others. */
static bool find_entry(mdnn_node_registry_t *registry)
{
    registry->own = NULL;
    for (size_t i = 0; i < NODE_ENTRIES; i++) {
        registry_entry_t *const entry = &registry->map->entries[i];
        const uint64_t process = atomic_load(&entry->process);
        const bool dead =
            process != 0 && process != registry->process && !mdnn_node_is_alive(process);
        if ((process != 0 || registry->own) && !dead && process != registry->process)
            continue;
        if (process == 0 && registry->own)
            continue;
        if (!mdnn_node_claim(registry, entry, process))
            continue;
        if (registry->own)
            atomic_store(&entry->process, 0);
        else
            registry->own = entry;
    }
    if (registry->own)
        atomic_store(&registry->own->claimed, 1);
    return registry->own != NULL;
}

/* ---- the file ---- */

static bool has_layout(const registry_header_t *header)
{
    return atomic_load(&header->magic) == magic && atomic_load(&header->version) == NODE_VERSION &&
           atomic_load(&header->header_bytes) == NODE_HEADER_BYTES &&
           atomic_load(&header->entry_bytes) == sizeof(registry_entry_t) &&
           atomic_load(&header->entries) == NODE_ENTRIES;
}

/* Whoever comes at the same time writes the same. */
static bool take_header(registry_header_t *header)
{
    if (atomic_load(&header->magic) == 0) {
        atomic_store(&header->version, NODE_VERSION);
        atomic_store(&header->header_bytes, NODE_HEADER_BYTES);
        atomic_store(&header->entry_bytes, sizeof(registry_entry_t));
        atomic_store(&header->entries, NODE_ENTRIES);
        atomic_store(&header->magic, magic);
    }
    return has_layout(header);
}

/* Its memory is allocated at once: a hole that cannot be filled would end the process later. */
static mdnn_status_t map_descriptor(int descriptor, struct stat *found, registry_map_t **map)
{
    if (fstat(descriptor, found) != 0)
        return MDNN_STATUS_IO;
    if (!S_ISREG(found->st_mode) || found->st_uid != geteuid() || found->st_nlink > 1)
        return MDNN_STATUS_UNSUPPORTED;
    if ((found->st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return MDNN_STATUS_BAD_FORMAT;
    if (found->st_size != 0 && found->st_size != (off_t)sizeof(registry_map_t))
        return MDNN_STATUS_BAD_FORMAT;
    if (found->st_size == 0 &&
        (errno = mdnn_quiet_allocate(descriptor, sizeof(registry_map_t))) != 0)
        return MDNN_STATUS_IO;
    void *const made =
        mmap(NULL, sizeof(registry_map_t), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (made == MAP_FAILED)
        return MDNN_STATUS_IO;
    *map = made;
    if (take_header(&(*map)->header))
        return MDNN_STATUS_OK;
    munmap(made, sizeof(registry_map_t));
    return MDNN_STATUS_BAD_FORMAT;
}

static mdnn_status_t map_once(mdnn_node_registry_t *registry, const mdnn_safe_path_t *place)
{
    struct stat found, now;
    registry_map_t *map = NULL;
    const int descriptor = mdnn_safe_file_open(place, O_RDWR | O_CREAT, S_IRUSR | S_IWUSR);
    if (descriptor < 0)
        return errno == EPERM || errno == EACCES || errno == ELOOP ? MDNN_STATUS_UNSUPPORTED
                                                                   : MDNN_STATUS_IO;
    const mdnn_status_t status = map_descriptor(descriptor, &found, &map);
    const int error = errno;
    close(descriptor);
    if (status == MDNN_STATUS_OK) {
        registry->map = map;
        registry->device = found.st_dev;
        registry->inode = found.st_ino;
    }
    /* Our own, but no registry: out of the way. */
    if (status == MDNN_STATUS_BAD_FORMAT &&
        fstatat(place->folder, place->name, &now, AT_SYMLINK_NOFOLLOW) == 0 &&
        now.st_ino == found.st_ino && now.st_dev == found.st_dev)
        (void)unlinkat(place->folder, place->name, 0);
    errno = error;
    return status;
}

static mdnn_status_t map_file(mdnn_node_registry_t *registry)
{
    mdnn_safe_path_t place;
    if (!mdnn_safe_path_open(registry->path, false, &place))
        return errno == ELOOP ? MDNN_STATUS_UNSUPPORTED : MDNN_STATUS_IO;
    mdnn_status_t status = map_once(registry, &place);
    if (status == MDNN_STATUS_BAD_FORMAT)
        status = map_once(registry, &place);
    mdnn_safe_path_close(&place);
    return status;
}

/* Processes see one another's numbers within a namespace only. */
static bool name_file(mdnn_node_registry_t *registry, const char *folder)
{
    struct stat space;
    const unsigned long long number =
        stat("/proc/self/ns/pid", &space) == 0 ? (unsigned long long)space.st_ino : 0;
    return snprintf(registry->path, sizeof registry->path, "%s/microdnn-%lu-%llx.%d", folder,
                    (unsigned long)geteuid(), number, NODE_VERSION) < (int)sizeof registry->path;
}

/* The file may be removed while processes work (a session that ends takes a user's shared memory with
 * it): who comes then would count alone. So before something is taken, the file under the name is
 * looked at; the old mapping stays, since other threads may be reading there. */
static bool is_replaced(const mdnn_node_registry_t *registry)
{
    struct stat now;
    return lstat(registry->path, &now) != 0 || now.st_ino != registry->inode ||
           now.st_dev != registry->device;
}

static void move_to_new_file(mdnn_node_registry_t *registry)
{
    mdnn_node_registry_t fresh = *registry;
    if (map_file(&fresh) != MDNN_STATUS_OK || !find_entry(&fresh))
        return;
    atomic_store(&fresh.own->pinned_bytes, atomic_load(&registry->own->pinned_bytes));
    atomic_store(&registry->own->process, 0);
    registry->map = fresh.map;
    registry->own = fresh.own;
    registry->device = fresh.device;
    registry->inode = fresh.inode;
    mdnn_node_devices_move(registry);
}

/* ---- the outside ---- */

mdnn_status_t mdnn_node_registry_open(const char *folder, const mdnn_node_limits_t *limits,
                                      mdnn_node_registry_t **registry)
{
    const uint64_t process = mdnn_node_own_process();
    if (process == 0)
        return MDNN_STATUS_IO;
    mdnn_node_registry_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_lock_init(&made->lock, MDNN_LOCK_NODE_REGISTRY);
    made->limits = *limits;
    made->pid = getpid();
    made->process = process;
    mdnn_status_t status = name_file(made, folder) ? map_file(made) : MDNN_STATUS_OVERFLOW;
    if (status == MDNN_STATUS_OK && !find_entry(made)) {
        munmap(made->map, sizeof *made->map);
        status = MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (status != MDNN_STATUS_OK) {
        const int error = errno;
        mdnn_lock_destroy(&made->lock);
        free(made);
        errno = error;
        return status;
    }
    *registry = made;
    return MDNN_STATUS_OK;
}

void mdnn_node_registry_close(mdnn_node_registry_t *registry)
{
    if (!registry)
        return;
    mdnn_node_devices_end(registry);
    if (registry->pid == getpid()) {
        atomic_store(&registry->own->pinned_bytes, 0);
        atomic_store(&registry->own->process, 0);
    }
    munmap(registry->map, sizeof *registry->map);
    mdnn_lock_destroy(&registry->lock);
    free(registry);
}

bool mdnn_node_registry_take(mdnn_node_registry_t *registry, uint64_t bytes)
{
    if (registry->pid != getpid())
        return false;
    mdnn_lock(&registry->lock);
    if (is_replaced(registry))
        move_to_new_file(registry);
    (void)atomic_fetch_add(&registry->own->pinned_bytes, bytes);
    const bool within = is_within(registry, 0);
    if (!within)
        (void)atomic_fetch_sub(&registry->own->pinned_bytes, bytes);
    mdnn_unlock(&registry->lock);
    return within;
}

void mdnn_node_registry_give(mdnn_node_registry_t *registry, uint64_t bytes)
{
    if (registry->pid != getpid())
        return;
    mdnn_lock(&registry->lock);
    (void)atomic_fetch_sub(&registry->own->pinned_bytes, bytes);
    mdnn_unlock(&registry->lock);
}

bool mdnn_node_registry_has_room(mdnn_node_registry_t *registry, uint64_t bytes)
{
    if (registry->pid != getpid())
        return false;
    mdnn_lock(&registry->lock);
    const bool within = is_within(registry, bytes);
    mdnn_unlock(&registry->lock);
    return within;
}

uint64_t mdnn_node_registry_bytes(mdnn_node_registry_t *registry, uint64_t scope)
{
    mdnn_lock(&registry->lock);
    const uint64_t sum = add_up(registry, scope, true);
    mdnn_unlock(&registry->lock);
    return sum;
}
