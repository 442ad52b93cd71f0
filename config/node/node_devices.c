#include "config/node/node_devices.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "config/node/node_registry_internal.h"

static uint64_t packed(mdnn_node_rates_t rates)
{
    return (uint64_t)rates.out << 32 | rates.in;
}

static mdnn_node_rates_t unpacked(uint64_t word)
{
    return (mdnn_node_rates_t){.out = (uint32_t)(word >> 32), .in = (uint32_t)word};
}

static uint64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

/* ---- own entries ---- */

static void fill(mdnn_node_device_t *device, registry_entry_t *entry)
{
    for (size_t i = 0; i < WORDS; i++)
        atomic_store(&entry->words[i], device->words[i]);
    atomic_store(&entry->claimed, 1);
    device->entry = entry;
}

/* A free entry, or that of a dead process. False: all are in use. */
static bool find(mdnn_node_registry_t *registry, mdnn_node_device_t *device)
{
    for (size_t i = 0; i < NODE_ENTRIES; i++) {
        registry_entry_t *const entry = &registry->map->entries[i];
        const uint64_t process = atomic_load(&entry->process);
        if (process != 0 && (process == registry->process || mdnn_node_is_alive(process)))
            continue;
        if (!mdnn_node_claim(registry, entry, process))
            continue;
        fill(device, entry);
        return true;
    }
    return false;
}

static void give_up(mdnn_node_device_t *device)
{
    if (device->entry) {
        atomic_store(&device->entry->claimed, 0);
        atomic_store(&device->entry->process, 0);
    }
    device->entry = NULL;
}

mdnn_status_t mdnn_node_device_join(mdnn_node_registry_t *registry, uint64_t device, uint64_t place,
                                    mdnn_node_rates_t alone, mdnn_node_device_t **joined)
{
    mdnn_node_device_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    made->registry = registry;
    made->words[WORD_DEVICE] = device;
    made->words[WORD_PLACE] = place;
    made->words[WORD_ALONE] = packed(alone);
    made->words[WORD_JOINED] = now_ns();
    mdnn_lock(&registry->lock);
    const bool found = registry->pid == getpid() && find(registry, made);
    if (found) {
        made->next = registry->devices;
        registry->devices = made;
    }
    mdnn_unlock(&registry->lock);
    if (!found) {
        free(made);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    *joined = made;
    return MDNN_STATUS_OK;
}

void mdnn_node_device_leave(mdnn_node_device_t *device)
{
    if (!device)
        return;
    mdnn_node_registry_t *const registry = device->registry;
    mdnn_lock(&registry->lock);
    mdnn_node_device_t **link = &registry->devices;
    while (*link != device)
        link = &(*link)->next;
    *link = device->next;
    if (registry->pid == getpid())
        give_up(device);
    mdnn_unlock(&registry->lock);
    free(device);
}

void mdnn_node_devices_move(mdnn_node_registry_t *registry)
{
    for (mdnn_node_device_t *device = registry->devices; device; device = device->next) {
        give_up(device);
        (void)find(registry, device); /* without an entry the others do not see it */
    }
}

void mdnn_node_devices_end(mdnn_node_registry_t *registry)
{
    while (registry->devices) {
        mdnn_node_device_t *const device = registry->devices;
        registry->devices = device->next;
        if (registry->pid == getpid())
            give_up(device);
        free(device);
    }
}

/* ---- what it does ---- */

static void set(mdnn_node_device_t *device, size_t word, uint64_t value)
{
    if (!device || device->words[word] == value || device->registry->pid != getpid())
        return;
    mdnn_lock(&device->registry->lock);
    device->words[word] = value;
    if (device->entry)
        atomic_store(&device->entry->words[word], value);
    mdnn_unlock(&device->registry->lock);
}

void mdnn_node_device_moves(mdnn_node_device_t *device, bool out, bool in)
{
    set(device, WORD_MOVES, (out ? 1 : 0) | (in ? 2 : 0));
}

void mdnn_node_device_together(mdnn_node_device_t *device, mdnn_node_rates_t rates)
{
    set(device, WORD_TOGETHER, packed(rates));
}

void mdnn_node_device_works(mdnn_node_device_t *device, uint64_t work)
{
    set(device, WORD_WORK, work);
}

/* ---- all of them ---- */

/* False: it is no device's, or it changed hands while it was read. */
static bool read_entry(const registry_entry_t *entry, mdnn_node_peer_t *peer)
{
    uint64_t words[WORDS];
    const uint64_t process = atomic_load(&entry->process);
    if (process == 0 || atomic_load(&entry->claimed) == 0)
        return false;
    for (size_t i = 0; i < WORDS; i++)
        words[i] = atomic_load(&entry->words[i]);
    if (words[WORD_DEVICE] == 0 || atomic_load(&entry->claimed) == 0 ||
        atomic_load(&entry->process) != process)
        return false;
    *peer = (mdnn_node_peer_t){.process = process,
                               .device = words[WORD_DEVICE],
                               .place = words[WORD_PLACE],
                               .alone = unpacked(words[WORD_ALONE]),
                               .together = unpacked(words[WORD_TOGETHER]),
                               .work = words[WORD_WORK],
                               .joined = words[WORD_JOINED],
                               .moves_out = words[WORD_MOVES] & 1,
                               .moves_in = words[WORD_MOVES] & 2};
    return true;
}

/* Puts it behind those that joined before it or at the same moment. */
static void insert(mdnn_node_peer_t *peers, size_t count, size_t capacity, mdnn_node_peer_t peer)
{
    size_t at = count < capacity ? count : capacity;
    while (at > 0 && peers[at - 1].joined > peer.joined)
        at--;
    if (at == capacity)
        return;
    for (size_t i = count < capacity ? count : capacity - 1; i > at; i--)
        peers[i] = peers[i - 1];
    peers[at] = peer;
}

size_t mdnn_node_device_list(mdnn_node_device_t *device, mdnn_node_peer_t *peers, size_t capacity)
{
    mdnn_node_registry_t *const registry = device->registry;
    size_t count = 0;
    mdnn_lock(&registry->lock);
    for (size_t i = 0; i < NODE_ENTRIES; i++) {
        mdnn_node_peer_t peer;
        const registry_entry_t *const entry = &registry->map->entries[i];
        if (!read_entry(entry, &peer) ||
            (peer.process != registry->process && !mdnn_node_is_alive(peer.process)))
            continue;
        peer.is_own = entry == device->entry;
        insert(peers, count++, capacity, peer);
    }
    mdnn_unlock(&registry->lock);
    return count;
}
