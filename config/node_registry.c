#include "config/node_registry.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config/lock.h"
#include "config/quiet_write.h"
#include "config/safe_path.h"

/* ---- the layout: version 1 ---- */

enum { VERSION = 1, HEADER_BYTES = 4096, ENTRIES = 512, SPARE = 9 };
static const uint64_t magic = UINT64_C(0x45444f4e4e4e444d); /* "MDNNNODE" */

typedef struct registry_header {
    _Atomic uint64_t magic; /* written last; 0: the file is new */
    _Atomic uint32_t version;
    _Atomic uint32_t header_bytes;
    _Atomic uint32_t entry_bytes;
    _Atomic uint32_t entries;
} registry_header_t;

/* A process. Zeroed: free. */
typedef struct registry_entry {
    _Atomic uint64_t process; /* who it is (identity_of); 0: nobody */
    _Atomic uint64_t pinned_bytes;
    _Atomic uint64_t scopes[MDNN_NODE_LIMITS];
    _Atomic uint64_t spare[SPARE]; /* zero: shares of links to come */
    _Atomic uint64_t claimed;      /* 1: the rest of the entry is the process's own */
} registry_entry_t;

typedef struct registry_map {
    registry_header_t header;
    unsigned char spare[HEADER_BYTES - sizeof(registry_header_t)];
    registry_entry_t entries[ENTRIES];
} registry_map_t;

_Static_assert(sizeof(registry_entry_t) == 128, "entries of version 1 have 128 bytes");

struct mdnn_node_registry {
    mdnn_lock_t lock;
    char path[PATH_MAX];
    mdnn_node_limits_t limits;
    pid_t pid;
    uint64_t process; /* who we are */
    registry_map_t *map;
    registry_entry_t *own;
    dev_t device; /* of the file that is mapped */
    ino_t inode;
};

/* ---- who a process is ---- */

enum { PID_BITS = 22, START_BITS = 32, STACK_BITS = 10, STAT_BYTES = 2048 };

typedef struct process_facts {
    char state;
    long threads;
    unsigned long long start; /* clock ticks since the machine started */
    unsigned long stack;      /* where its stack began, which exec chooses anew; 0: not told */
} process_facts_t;

/* /proc/PID/stat (proc(5)); the name in parentheses may hold anything. */
static bool read_facts(pid_t pid, process_facts_t *facts)
{
    char path[64], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    const int descriptor = mdnn_above_standard(open(path, O_RDONLY | O_CLOEXEC));
    const ssize_t bytes = descriptor >= 0 ? read(descriptor, text, sizeof text - 1) : -1;
    if (descriptor >= 0)
        close(descriptor);
    if (bytes <= 0)
        return false;
    text[bytes] = '\0';
    const char *const after_name = strrchr(text, ')');
    return after_name &&
           sscanf(after_name + 1,
                  " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %ld %*s "
                  "%llu %*s %*s %*s %*s %*s %lu",
                  &facts->state, &facts->threads, &facts->start, &facts->stack) == 4;
}

static uint64_t bits(uint64_t value, int count)
{
    return value & ((UINT64_C(1) << count) - 1);
}

/* Pages, multiplied so that all their bits count. */
static uint64_t stack_bits(unsigned long stack)
{
    return stack == 0 ? 0 : 1 + (stack / 16 * UINT64_C(0x9e3779b97f4a7c15) >> 32) % 1023;
}

static uint64_t identity_of(pid_t pid, const process_facts_t *facts)
{
    return bits((uint64_t)pid, PID_BITS) | bits(facts->start, START_BITS) << PID_BITS |
           stack_bits(facts->stack) << (PID_BITS + START_BITS);
}

/* If the system does not report where a stack began, the start time of the process must suffice. A
 * leader that ended before its threads is not dead. */
static bool is_alive(uint64_t process)
{
    const pid_t pid = (pid_t)bits(process, PID_BITS);
    const uint64_t without_stack = bits(process, PID_BITS + START_BITS);
    process_facts_t facts;
    if (pid <= 0)
        return false;
    if (!read_facts(pid, &facts)) /* without /proc only the number is known */
        return access("/proc/self/stat", F_OK) != 0 && (kill(pid, 0) == 0 || errno == EPERM);
    if ((facts.state == 'Z' || facts.state == 'X') && facts.threads <= 1)
        return false;
    const uint64_t now = identity_of(pid, &facts);
    if (bits(now, PID_BITS + START_BITS) != without_stack)
        return false;
    return facts.stack == 0 || process == without_stack || process == now;
}

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
    for (size_t i = 0; i < ENTRIES; i++) {
        const registry_entry_t *const entry = &registry->map->entries[i];
        const uint64_t process = atomic_load(&entry->process);
        const uint64_t bytes = atomic_load(&entry->pinned_bytes);
        if (process == 0 || bytes == 0 || atomic_load(&entry->claimed) == 0 ||
            !is_in_scope(entry, scope) || (living && entry != registry->own && !is_alive(process)))
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

/* The entry is ours from the exchange on, with what its last owner left in it. */
static bool claim(mdnn_node_registry_t *registry, registry_entry_t *entry, uint64_t before)
{
    if (!atomic_compare_exchange_strong(&entry->process, &before, registry->process))
        return false;
    atomic_store(&entry->claimed, 0);
    atomic_store(&entry->pinned_bytes, 0);
    for (size_t i = 0; i < SPARE; i++)
        atomic_store(&entry->spare[i], 0);
    for (size_t i = 0; i < MDNN_NODE_LIMITS; i++)
        atomic_store(&entry->scopes[i],
                     i < registry->limits.count ? registry->limits.limits[i].scope : 0);
    return true;
}

/* Takes the entries of the dead over, keeps one and frees the others. */
static bool find_entry(mdnn_node_registry_t *registry)
{
    registry->own = NULL;
    for (size_t i = 0; i < ENTRIES; i++) {
        registry_entry_t *const entry = &registry->map->entries[i];
        const uint64_t process = atomic_load(&entry->process);
        const bool dead = process != 0 && process != registry->process && !is_alive(process);
        if ((process != 0 || registry->own) && !dead && process != registry->process)
            continue;
        if (process == 0 && registry->own)
            continue;
        if (!claim(registry, entry, process))
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
    return atomic_load(&header->magic) == magic && atomic_load(&header->version) == VERSION &&
           atomic_load(&header->header_bytes) == HEADER_BYTES &&
           atomic_load(&header->entry_bytes) == sizeof(registry_entry_t) &&
           atomic_load(&header->entries) == ENTRIES;
}

/* Whoever comes at the same time writes the same. */
static bool take_header(registry_header_t *header)
{
    if (atomic_load(&header->magic) == 0) {
        atomic_store(&header->version, VERSION);
        atomic_store(&header->header_bytes, HEADER_BYTES);
        atomic_store(&header->entry_bytes, sizeof(registry_entry_t));
        atomic_store(&header->entries, ENTRIES);
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
    if (found->st_size == 0 && mdnn_quiet_allocate(descriptor, sizeof(registry_map_t)) != 0)
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
                    (unsigned long)geteuid(), number, VERSION) < (int)sizeof registry->path;
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
}

/* ---- the outside ---- */

mdnn_status_t mdnn_node_registry_open(const char *folder, const mdnn_node_limits_t *limits,
                                      mdnn_node_registry_t **registry)
{
    process_facts_t facts;
    if (!read_facts(getpid(), &facts))
        return MDNN_STATUS_IO;
    mdnn_node_registry_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_lock_init(&made->lock, MDNN_LOCK_NODE_REGISTRY);
    made->limits = *limits;
    made->pid = getpid();
    made->process = identity_of(made->pid, &facts);
    mdnn_status_t status = name_file(made, folder) ? map_file(made) : MDNN_STATUS_OVERFLOW;
    if (status == MDNN_STATUS_OK && !find_entry(made)) {
        munmap(made->map, sizeof *made->map);
        status = MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (status != MDNN_STATUS_OK) {
        mdnn_lock_destroy(&made->lock);
        free(made);
        return status;
    }
    *registry = made;
    return MDNN_STATUS_OK;
}

void mdnn_node_registry_close(mdnn_node_registry_t *registry)
{
    if (!registry)
        return;
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
