/* Memory that others may use at any time: what is registered with a communicator of NCCL, scalars
 * of its operations, and what textures read. It stays where it is until the last one that named it
 * has ended, or it is freed. */
#ifndef MDNN_REGISTRATIONS_H
#define MDNN_REGISTRATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

/* Pins, of one allocation each. NULL: none. */
typedef struct mdnn_pin mdnn_pin_t;

/* Pins each allocation of ours in the bytes. CUDA_ERROR_OUT_OF_MEMORY, which the log tells of: they
 * do not fit beside what must stay, and none is pinned. Other trouble leaves an allocation as it
 * is. */
CUresult mdnn_pins_take(const void *address, size_t bytes, mdnn_pin_t **pins);
/* Likewise, if operations have as much room as they needed so far, beside it. */
bool mdnn_pins_take_if_spare(const void *address, size_t bytes, mdnn_pin_t **pins);
void mdnn_pins_drop(mdnn_pin_t *pins);
/* They last until the memory is freed. */
void mdnn_pins_leave(mdnn_pin_t *pins);

/* The pins last until the handle ends once more than now. NCCL gives the same handle for a buffer,
 * or a part of it, that is registered already, and counts. Handle 0: until the communicator ends.
 */
void mdnn_registration_add(const void *comm, uint64_t handle, mdnn_pin_t *pins);
/* Likewise, of a handle that counts nothing: what it had before, or had when its end was not seen,
 * is dropped. */
void mdnn_registration_replace(const void *comm, uint64_t handle, mdnn_pin_t *pins);
/* Before the real call that ends it, after which another thread may get the same handle. What is
 * returned is to be dropped after it, or added again if it failed. */
mdnn_pin_t *mdnn_registration_take(const void *comm, uint64_t handle);

/* Likewise all of a communicator. */
typedef struct mdnn_registration mdnn_registration_t;
mdnn_registration_t *mdnn_registrations_take(const void *comm);
void mdnn_registrations_drop(mdnn_registration_t *registrations);
void mdnn_registrations_restore(mdnn_registration_t *registrations);

#endif
