#include "shim/device/device_links.h"

#include <stdlib.h>

#include "config/log.h"
#include "config/node/pci_switch.h"

struct mdnn_device_links {
    mdnn_node_device_t *device;
};

static uint32_t attribute_of(const mdnn_driver_t *driver, CUdevice_attribute attribute,
                             CUdevice device)
{
    int value = 0;
    return driver->cuDeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS ? (uint32_t)value
                                                                                   : 0;
}

/* Equal in all processes that see the device, whatever ordinal it has there. */
static mdnn_pci_address_t address_of(const mdnn_driver_t *driver, CUdevice device)
{
    return (mdnn_pci_address_t){
        .domain = attribute_of(driver, CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, device),
        .bus = (uint8_t)attribute_of(driver, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, device),
        .device = (uint8_t)attribute_of(driver, CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, device)};
}

/* Bytes a microsecond are MB/s. */
static mdnn_node_rates_t rates_of(const mdnn_link_t *link)
{
    return (mdnn_node_rates_t){.out = (uint32_t)link->out_bytes_per_us,
                               .in = (uint32_t)link->in_bytes_per_us};
}

static void say_who_is_there(mdnn_node_device_t *device, uint64_t place)
{
    mdnn_node_peer_t peers[MDNN_NODE_PEERS];
    const size_t count = mdnn_node_device_list(device, peers, MDNN_NODE_PEERS);
    size_t near = 0;
    for (size_t i = 0; i < count && i < MDNN_NODE_PEERS; i++)
        near += !peers[i].is_own && place != 0 && peers[i].place == place;
    MDNN_LOG(MDNN_LOG_INFO, "memory",
             "devices of this machine under a budget: %zu; others behind the same switch: %zu",
             count, near);
}

mdnn_device_links_t *mdnn_device_links_create(const mdnn_driver_t *driver, CUdevice device,
                                              mdnn_node_registry_t *registry,
                                              const mdnn_link_t *alone)
{
    mdnn_device_links_t *const made = registry ? calloc(1, sizeof *made) : NULL;
    const mdnn_pci_address_t address = address_of(driver, device);
    const uint64_t number = (uint64_t)address.domain << 16 | address.bus << 8 | address.device;
    const uint64_t place = mdnn_pci_switch("", address);
    if (!made || mdnn_node_device_join(registry, number + 1, place, rates_of(alone),
                                       &made->device) != MDNN_STATUS_OK) {
        free(made);
        return NULL;
    }
    say_who_is_there(made->device, place);
    return made;
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
