/* Finds the PCIe switch above a device, as sysfs shows it. The result is only a hint, since virtual machines often hide
 * their switches. */
#ifndef MDNN_PCI_SWITCH_H
#define MDNN_PCI_SWITCH_H

#include <stdint.h>

typedef struct mdnn_pci_address {
    uint32_t domain;
    uint8_t bus, device;
} mdnn_pci_address_t;

/* The upstream port of the switch above the device, as a number that is the same for all devices behind that switch. 0:
 * the device is at a root port, or the system does not say. `root` is "" except in tests, which bring files of their
 * own. Reads one link. */
uint64_t mdnn_pci_switch(const char *root, mdnn_pci_address_t address);

#endif
