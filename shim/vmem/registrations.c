#include "shim/vmem/registrations.h"

#include <stdlib.h>

#include "config/lock.h"
#include "shim/vmem/virtual_untracked.h"

struct mdnn_pin {
    mdnn_pin_t *next;
    mdnn_live_pin_t pin;
};

struct mdnn_registration {
    mdnn_registration_t *next;
    const void *comm;
    uint64_t handle, count;
    mdnn_pin_t *pins; /* each allocation once */
};

static mdnn_lock_t lock = MDNN_LOCK_INIT(REGISTRATIONS); /* of `all` */
static mdnn_registration_t *all;

/* ---- pins ---- */

void mdnn_pins_drop(mdnn_pin_t *pins)
{
    for (mdnn_pin_t *each = pins, *next; each; each = next) {
        next = each->next;
        mdnn_virtual_unpin_live(each->pin);
        free(each);
    }
}

void mdnn_pins_leave(mdnn_pin_t *pins)
{
    for (mdnn_pin_t *each = pins, *next; each; each = next) {
        next = each->next;
        free(each);
    }
}

/* Without memory for the note it stays until it is freed. */
static CUresult pin(uint64_t start, mdnn_pin_t **pins)
{
    mdnn_live_pin_t taken;
    const CUresult result = mdnn_virtual_pin_live(start, &taken);
    mdnn_pin_t *const made = result == CUDA_SUCCESS ? malloc(sizeof *made) : NULL;
    if (made) {
        *made = (mdnn_pin_t){*pins, taken};
        *pins = made;
    }
    return result;
}

static CUresult take(const void *address, size_t bytes, bool only_if_spare, mdnn_pin_t **pins)
{
    uint64_t at = (uintptr_t)address, start, length;
    const uint64_t end = bytes < UINT64_MAX - at ? at + bytes : UINT64_MAX;
    int device;
    *pins = NULL;
    while (at < end && mdnn_virtual_owns(at) && mdnn_virtual_find(at, &start, &length, &device)) {
        if ((only_if_spare && !mdnn_virtual_can_stay(start)) ||
            pin(start, pins) == CUDA_ERROR_OUT_OF_MEMORY) {
            mdnn_pins_drop(*pins);
            *pins = NULL;
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
        at = start + length;
    }
    return CUDA_SUCCESS;
}

CUresult mdnn_pins_take(const void *address, size_t bytes, mdnn_pin_t **pins)
{
    return take(address, bytes, false, pins);
}

bool mdnn_pins_take_if_spare(const void *address, size_t bytes, mdnn_pin_t **pins)
{
    return take(address, bytes, true, pins) == CUDA_SUCCESS;
}

static bool has(const mdnn_pin_t *pins, mdnn_live_pin_t pin)
{
    while (pins && (pins->pin.address != pin.address || pins->pin.number != pin.number))
        pins = pins->next;
    return pins != NULL;
}

/* Adds what `to` does not have; returns the rest. */
static mdnn_pin_t *merge(mdnn_pin_t **to, mdnn_pin_t *pins)
{
    mdnn_pin_t *twice = NULL;
    for (mdnn_pin_t *each = pins, *next; each; each = next) {
        next = each->next;
        mdnn_pin_t **const list = has(*to, each->pin) ? &twice : to;
        each->next = *list;
        *list = each;
    }
    return twice;
}

/* ---- registrations ---- */

static mdnn_registration_t **find(const void *comm, uint64_t handle)
{
    mdnn_registration_t **at = &all;
    while (*at && ((*at)->comm != comm || (*at)->handle != handle))
        at = &(*at)->next;
    return at;
}

static mdnn_registration_t *make(const void *comm, uint64_t handle)
{
    mdnn_registration_t *const made = malloc(sizeof *made);
    if (made) {
        *made = (mdnn_registration_t){.next = all, .comm = comm, .handle = handle};
        all = made;
    }
    return made;
}

void mdnn_registration_add(const void *comm, uint64_t handle, mdnn_pin_t *pins)
{
    mdnn_pin_t *twice = NULL;
    mdnn_lock(&lock);
    mdnn_registration_t *each = *find(comm, handle);
    if (!each && pins)
        each = make(comm, handle);
    if (each) {
        each->count++;
        twice = merge(&each->pins, pins);
    }
    mdnn_unlock(&lock);
    if (!each)
        mdnn_pins_leave(pins); /* without memory for it they stay until they are freed */
    mdnn_pins_drop(twice);
}

void mdnn_registration_replace(const void *comm, uint64_t handle, mdnn_pin_t *pins)
{
    mdnn_pins_drop(mdnn_registration_take(comm, handle));
    if (pins)
        mdnn_registration_add(comm, handle, pins);
}

mdnn_pin_t *mdnn_registration_take(const void *comm, uint64_t handle)
{
    mdnn_pin_t *pins = NULL;
    mdnn_lock(&lock);
    mdnn_registration_t **const at = find(comm, handle), *const each = *at;
    if (each && --each->count == 0) {
        pins = each->pins;
        *at = each->next;
        free(each);
    }
    mdnn_unlock(&lock);
    return pins;
}

mdnn_registration_t *mdnn_registrations_take(const void *comm)
{
    mdnn_registration_t *taken = NULL;
    mdnn_lock(&lock);
    for (mdnn_registration_t **at = &all; *at;) {
        mdnn_registration_t *const each = *at;
        if (each->comm != comm) {
            at = &each->next;
            continue;
        }
        *at = each->next;
        each->next = taken;
        taken = each;
    }
    mdnn_unlock(&lock);
    return taken;
}

void mdnn_registrations_drop(mdnn_registration_t *registrations)
{
    for (mdnn_registration_t *each = registrations, *next; each; each = next) {
        next = each->next;
        mdnn_pins_drop(each->pins);
        free(each);
    }
}

void mdnn_registrations_restore(mdnn_registration_t *registrations)
{
    mdnn_lock(&lock);
    for (mdnn_registration_t *each = registrations, *next; each; each = next) {
        next = each->next;
        each->next = all;
        all = each;
    }
    mdnn_unlock(&lock);
}
