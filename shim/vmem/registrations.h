/* Memory that others may use at any time: buffers that are registered with a communicator of NCCL,
 * scalars of its operations, and memory that textures read. It stays where it is until the last
 * user that named it has ended, or until it is freed. */
#ifndef MDNN_REGISTRATIONS_H
#define MDNN_REGISTRATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* Pins, of one allocation each. NULL: none. */
typedef struct mdnn_pin mdnn_pin_t;

/* Pins each of our allocations in the bytes. CUDA_ERROR_OUT_OF_MEMORY: they do not fit beside memory that must stay,
 * and none is pinned; the log says so. Other failures leave an allocation unpinned. */
CUresult mdnn_pins_take(const void *address, size_t bytes, mdnn_pin_t **pins);
/* The same, but only if operations keep as much room as they have needed so far. */
bool mdnn_pins_take_if_spare(const void *address, size_t bytes, mdnn_pin_t **pins);
void mdnn_pins_drop(mdnn_pin_t *pins);
/* Leaves the pins in place until the memory is freed. */
void mdnn_pins_leave(mdnn_pin_t *pins);

/* Adds a registration: the pins last until the handle has ended as often as it was registered. If a buffer, or a part
 * of it, is registered already, NCCL returns the same handle again and counts the calls. Handle 0: the pins last until
 * the communicator ends. */
void mdnn_registration_add(const void *comm, uint64_t handle, mdnn_pin_t *pins);
/* The same for a handle without a count: earlier pins of the same handle, whose end was not seen,
 * are dropped. */
void mdnn_registration_replace(const void *comm, uint64_t handle, mdnn_pin_t *pins);
/* Called before the real call that ends the handle, after which another thread may get the same
 * handle. The caller drops the returned pins after the call, or adds them again if it failed. */
mdnn_pin_t *mdnn_registration_take(const void *comm, uint64_t handle);

/* The same for all pins of a communicator. */
typedef struct mdnn_registration mdnn_registration_t;
mdnn_registration_t *mdnn_registrations_take(const void *comm);
void mdnn_registrations_drop(mdnn_registration_t *registrations);
void mdnn_registrations_restore(mdnn_registration_t *registrations);

#endif
