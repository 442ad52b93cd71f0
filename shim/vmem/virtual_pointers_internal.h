/* What the files about pointers share: virtual_pointers.c keeps the words, pointer_transfers.c notes the words that
 * copies bring, and pointer_following.c names what an operation reaches through them. */
#ifndef MDNN_VIRTUAL_POINTERS_INTERNAL_H
#define MDNN_VIRTUAL_POINTERS_INTERNAL_H

#include "config/lock.h"
#include "shim/vmem/virtual_device.h"
#include "shim/vmem/virtual_pointers.h"

extern mdnn_lock_t mdnn_pointers_lock;              /* of the tables, and of the slots */
extern mdnn_pointer_tables_t *mdnn_pointers_tables; /* NULL: none were needed yet */

/* Whether there are words. Another thread may be adding some at this moment. */
bool mdnn_pointers_are_any(void);
/* Locked: called after a change. */
void mdnn_pointers_publish(void);
/* Locked: makes the tables. false without memory. */
bool mdnn_pointers_have_tables(void);
/* The allocation around the address. The lock may be held; `context` is not used. */
bool mdnn_pointers_find(void *context, uint64_t address, uint64_t *start, uint64_t *end);

/* MDNN_POINTER_UNREAD_BYTES of pinned memory, into which words are read back. NULL: there is none. */
void *mdnn_pointers_take_slot(mdnn_virtual_device_t *device);
/* Locked: called if the tables did not take the slot. */
void mdnn_pointers_give_slot(const void *slot);

void mdnn_pointers_warn_of_loss(void);

#endif
