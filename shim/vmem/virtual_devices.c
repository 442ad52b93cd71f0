#include "shim/vmem/virtual_devices.h"

#include <stdatomic.h>

#include "config/devices.h"
#include "shim/vmem/virtual_watch.h"

_Atomic(const mdnn_virtual_watch_t *) mdnn_virtual_watcher;

static _Atomic(mdnn_virtual_device_t *) devices[MDNN_DEVICES]; /* filled from the front */
/* In the place of one that was reset, until another takes it. */
static mdnn_virtual_device_t nothing = {.lock = MDNN_LOCK_INIT(DEVICE), .ordinal = -1};
static mdnn_virtual_device_t *withdrawn;              /* others may have seen them, so they stay */
static _Atomic uint64_t lowest = UINT64_MAX, highest; /* all addresses lie in there */

mdnn_virtual_device_t *mdnn_virtual_device(size_t index)
{
    return index < MDNN_DEVICES ? atomic_load_explicit(&devices[index], memory_order_acquire)
                                : NULL;
}

bool mdnn_virtual_owns(uint64_t address)
{
    return address >= atomic_load_explicit(&lowest, memory_order_relaxed) &&
           address < atomic_load_explicit(&highest, memory_order_relaxed) &&
           mdnn_virtual_device_of(address) != NULL;
}

mdnn_virtual_device_t *mdnn_virtual_device_of(uint64_t address)
{
    mdnn_virtual_device_t *device;
    for (size_t i = 0; (device = mdnn_virtual_device(i)); i++)
        if (address - device->start < device->bytes)
            return device;
    return NULL;
}

mdnn_virtual_device_t *mdnn_virtual_find_numbered(CUdevice ordinal)
{
    mdnn_virtual_device_t *device;
    size_t i = 0;
    while ((device = mdnn_virtual_device(i)) && device->ordinal != ordinal)
        i++;
    return device;
}

void mdnn_virtual_publish(mdnn_virtual_device_t *device)
{
    size_t index = 0;
    for (const mdnn_virtual_device_t *at; (at = atomic_load(&devices[index])) && at != &nothing;)
        index++; /* there are as many as ordinals */
    if (device->start < atomic_load(&lowest))
        atomic_store(&lowest, device->start);
    if (device->start + device->bytes > atomic_load(&highest))
        atomic_store(&highest, device->start + device->bytes);
    atomic_store_explicit(&devices[index], device, memory_order_release);
}

mdnn_virtual_device_t *mdnn_virtual_take_out(CUdevice ordinal)
{
    mdnn_virtual_device_t *device;
    size_t index = 0;
    while ((device = mdnn_virtual_device(index)) && device->ordinal != ordinal)
        index++;
    if (device) {
        atomic_store(&devices[index], &nothing);
        device->next_withdrawn = withdrawn;
        withdrawn = device;
    }
    return device;
}
