#include "shim/device/device_links.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "config/log.h"
#include "config/node/pci_switch.h"

struct mdnn_device_links {
    mdnn_node_device_t *device;
};

/* ---- who it is ---- */

static uint32_t attribute_of(const mdnn_driver_t *driver, CUdevice_attribute attribute,
                             CUdevice device)
{
    int value = 0;
    return driver->cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? (uint32_t)value
                                                                                   : 0;
}

static mdnn_pci_address_t address_of(const mdnn_driver_t *driver, CUdevice device)
{
    return (mdnn_pci_address_t){
        .domain = attribute_of(driver, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device),
        .bus = (uint8_t)attribute_of(driver, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device),
        .device = (uint8_t)attribute_of(driver, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device)};
}

/* Equal in all processes that see the device, whatever ordinal it has there. Simulated devices are a process's own. */
static uint64_t number_of(const mdnn_driver_t *driver, mdnn_pci_address_t address)
{
    const uint64_t process = driver->is_simulated ? (uint64_t)getpid() : 0;
    return 1 + ((uint64_t)address.device | (uint64_t)address.bus << 8 |
                (uint64_t)address.domain << 16 | process << 40);
}

/* FNV-1a. */
static uint64_t hash_of(const char *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (; *name; name++)
        hash = (hash ^ (unsigned char)*name) * UINT64_C(0x100000001b3);
    return hash ? hash : 1;
}

static uint64_t place_of(const mdnn_driver_t *driver, mdnn_pci_address_t address, const char *link)
{
    if (*link)
        return hash_of(link);
    return driver->is_simulated ? 0 : mdnn_pci_switch("", address);
}

/* Bytes a microsecond are MB/s. */
static mdnn_node_rates_t rates_of(const mdnn_link_t *link)
{
    return (mdnn_node_rates_t){.out = (uint32_t)link->out_bytes_per_us,
                               .in = (uint32_t)link->in_bytes_per_us};
}

mdnn_device_links_t *mdnn_device_links_create(const mdnn_driver_t *driver, CUdevice device,
                                              mdnn_node_registry_t *registry, const char *link,
                                              const mdnn_link_t *alone)
{
    mdnn_device_links_t *const made = registry ? calloc(1, sizeof *made) : NULL;
    const mdnn_pci_address_t address = address_of(driver, device);
    if (made &&
        mdnn_node_device_join(registry, number_of(driver, address), place_of(driver, address, link),
                              rates_of(alone), &made->device) == MDNN_STATUS_OK)
        return made;
    free(made);
    return NULL;
}

void mdnn_device_links_destroy(mdnn_device_links_t *links)
{
    if (links)
        mdnn_node_device_leave(links->device);
    free(links);
}

void mdnn_device_links_moves(mdnn_device_links_t *links, bool out, bool in)
{
    if (links)
        mdnn_node_device_moves(links->device, out, in);
}

/* ---- who shares its link ---- */

static const mdnn_node_peer_t *own_of(const mdnn_node_peer_t *peers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (peers[i].is_own)
            return &peers[i];
    return NULL;
}

static bool share_a_link(const mdnn_node_peer_t *a, const mdnn_node_peer_t *b)
{
    return a->device == b->device || (a->place != 0 && a->place == b->place);
}

typedef struct sharers {
    uint32_t count, own; /* this one among them, and its number */
    uint32_t alike;      /* that do the same work, as far as they say, this one among them */
    bool all_known;      /* each says what it repeats */
} sharers_t;

/* Without an entry of its own the device is alone. */
static sharers_t find_sharers(const mdnn_device_links_t *links)
{
    mdnn_node_peer_t peers[MDNN_NODE_PEERS];
    size_t count = mdnn_node_device_list(links->device, peers, MDNN_NODE_PEERS);
    count = count < MDNN_NODE_PEERS ? count : MDNN_NODE_PEERS;
    const mdnn_node_peer_t *const own = own_of(peers, count);
    sharers_t sharers = {.all_known = true};
    for (size_t i = 0; own && i < count; i++) {
        if (!share_a_link(own, &peers[i]))
            continue;
        if (&peers[i] == own)
            sharers.own = sharers.count;
        sharers.count++;
        sharers.alike += peers[i].work == own->work;
        sharers.all_known = sharers.all_known && peers[i].work != 0;
    }
    return sharers;
}

/* ---- what a plan takes account of ---- */

static void say(const mdnn_plan_ranks_t *ranks)
{
    if (ranks->count > 1)
        MDNN_LOG(MDNN_LOG_INFO, "memory",
                 "plans are made together for %u processes that share a link; this is number %u",
                 ranks->count, ranks->own);
    else if (ranks->others > 0)
        MDNN_LOG(MDNN_LOG_INFO, "memory",
                 "%u other processes share the link and do other work; plans use 1/%u of it",
                 ranks->others, ranks->others + 1);
}

/* Looks again and again until all are known, for so long. */
static sharers_t await_sharers(const mdnn_device_links_t *links, bool patient)
{
    enum { LOOKS = 10 };
    const struct timespec pause = {.tv_nsec = 50000000};
    sharers_t sharers = find_sharers(links);
    for (int i = 0; patient && i < LOOKS && !sharers.all_known; i++) {
        nanosleep(&pause, NULL);
        sharers = find_sharers(links);
    }
    return sharers;
}

mdnn_plan_ranks_t mdnn_device_links_ranks(mdnn_device_links_t *links, mdnn_sharing_t sharing,
                                          const mdnn_period_t *period, uint64_t budget,
                                          bool patient)
{
    mdnn_plan_ranks_t ranks = {.sharing = sharing};
    if (!links || sharing == MDNN_SHARING_NONE)
        return ranks;
    const uint64_t work = mdnn_period_shape(period) ^ budget;
    mdnn_node_device_works(links->device, work ? work : 1);
    const sharers_t sharers = await_sharers(links, patient);
    if (sharers.count > 1 && sharers.alike == sharers.count && sharers.count <= MDNN_RANKS) {
        ranks.count = sharers.count;
        ranks.own = sharers.own;
    } else if (sharers.count > 1) {
        ranks.others = sharers.count - 1;
    }
    say(&ranks);
    return ranks;
}
