#include "shim/real/load_order.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct look {
    mdnn_load_order_t *order;
    bool passed; /* this library was met */
} look_t;

static const char own_name[] = "libmicrodnn.so";

static const char *name_of(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static bool is_cuda(const char *name)
{
    static const char *const names[] = {"libcuda.so", "libcudart.so", "libcudnn.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return false;
}

static bool is_this(const struct dl_phdr_info *object)
{
    const uintptr_t here = (uintptr_t)own_name;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const uintptr_t start = object->dlpi_addr + object->dlpi_phdr[i].p_vaddr;
        if (object->dlpi_phdr[i].p_type == PT_LOAD && here >= start &&
            here - start < object->dlpi_phdr[i].p_memsz)
            return true;
    }
    return false;
}

static int take_object(struct dl_phdr_info *object, size_t bytes, void *context)
{
    look_t *const look = context;
    mdnn_load_order_t *const order = look->order;
    const char *const path = object->dlpi_name ? object->dlpi_name : "";
    const char *const name = name_of(path);
    (void)bytes;
    if (is_this(object)) {
        look->passed = true;
        return 0;
    }
    if (!look->passed && !order->cuda[0] && is_cuda(name))
        snprintf(order->cuda, sizeof order->cuda, "%s", path);
    if (!order->copy[0] && strcmp(name, own_name) == 0) {
        snprintf(order->copy, sizeof order->copy, "%s", path);
        order->copy_is_first = !look->passed;
    }
    return 0;
}

void mdnn_load_order_look(mdnn_load_order_t *order)
{
    look_t look = {.order = order};
    memset(order, 0, sizeof *order);
    (void)dl_iterate_phdr(take_object, &look);
}
