/* The switch above a device, in folders like those of sysfs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/node/pci_switch.h"

static char root[64];

static int begin(void **state)
{
    char command[256];
    (void)state;
    strcpy(root, "/tmp/mdnn-pci.XXXXXX");
    if (!mkdtemp(root))
        return 1;
    snprintf(command, sizeof command, "mkdir -p %s/sys/bus/pci/devices", root);
    return system(command);
}

static int end(void **state)
{
    char command[128];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", root);
    return system(command);
}

static void device_at(const char *name, const char *target)
{
    char path[256];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s", root, name);
    assert_int_equal(symlink(target, path), 0);
}

static uint64_t switch_of(uint8_t bus)
{
    return mdnn_pci_switch(root, (mdnn_pci_address_t){0, bus, 0});
}

static void devices_behind_one_switch_have_its_number(void **state)
{
    (void)state;
    device_at("0000:1a:00.0",
              "../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:04.0/0000:1a:00.0");
    device_at("0000:1b:00.0",
              "../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0/0000:18:05.0/0000:1b:00.0");
    device_at("0000:3a:00.0",
              "../../../devices/pci0000:16/0000:16:02.0/0000:37:00.0/0000:38:04.0/0000:3a:00.0");
    assert_int_not_equal(switch_of(0x1a), 0);
    assert_int_equal(switch_of(0x1a), switch_of(0x1b));
    assert_int_not_equal(switch_of(0x3a), 0);
    assert_int_not_equal(switch_of(0x1a), switch_of(0x3a));
}

static void a_device_at_a_root_port_is_behind_no_switch(void **state)
{
    (void)state;
    device_at("0000:5a:00.0", "../../../devices/pci0000:50/0000:50:01.0/0000:5a:00.0");
    device_at("0000:00:04.0", "../../../devices/pci0000:00/0000:00:04.0");
    device_at("0000:00:05.0", "nowhere");
    assert_int_equal(switch_of(0x5a), 0);
    assert_int_equal(mdnn_pci_switch(root, (mdnn_pci_address_t){0, 0, 4}), 0);
    assert_int_equal(mdnn_pci_switch(root, (mdnn_pci_address_t){0, 0, 5}), 0);
    assert_int_equal(switch_of(0x77), 0); /* not there */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(devices_behind_one_switch_have_its_number, begin, end),
        cmocka_unit_test_setup_teardown(a_device_at_a_root_port_is_behind_no_switch, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
