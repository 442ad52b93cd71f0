#include "config/node/pci_switch.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The bridges above a device are folders above its own:
 * .../devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:04.0/0000:1a:00.0
 *             root       root port    upstream     downstream   the device */
enum { ABOVE_DEVICE = 2 };

/* Cuts the last folder off; returns its name, or NULL if there is none. */
static const char *cut_last(char *path)
{
    char *const slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return slash + 1;
}

static uint64_t number_of(const char *name)
{
    unsigned domain, bus, device, function;
    if (!name || sscanf(name, "%x:%x:%x.%x", &domain, &bus, &device, &function) != 4)
        return 0;
    return (uint64_t)domain << 32 | bus << 16 | device << 8 | function << 1 | 1;
}

uint64_t mdnn_pci_switch(const char *root, mdnn_pci_address_t address)
{
    char link[PATH_MAX], path[PATH_MAX];
    snprintf(link, sizeof link, "%s/sys/bus/pci/devices/%04x:%02x:%02x.0", root, address.domain,
             address.bus, address.device);
    const ssize_t bytes = readlink(link, path, sizeof path - 1);
    if (bytes <= 0)
        return 0;
    path[bytes] = '\0';
    for (int i = 0; i < ABOVE_DEVICE; i++)
        if (!cut_last(path))
            return 0;
    const uint64_t upstream = number_of(cut_last(path));
    /* What is right below the root is a root port, and no switch. */
    return number_of(cut_last(path)) != 0 ? upstream : 0;
}
