/* The program's handles of cuMemCreate and the addresses that it reserved (docs/design/handles.md): which handles are
 * virtual, and what is mapped where.
 *
 * Under a budget, cuMemCreate returns a number that we made up. Such a handle is virtual: it has no memory (a promise)
 * until the program has mapped it and allowed access there; then its content is an allocation that can leave the device
 * (offload/memory/memory.h). It becomes real, a handle of the driver's, when the program asks for something that only
 * the driver can do. Other handles are the driver's from the beginning, and not known here.
 *
 * A call that changes a handle claims it: until the claim is let go, no other call changes the handle or the addresses
 * to which it belongs. Thread-safe. */
#ifndef MDNN_PROGRAM_HANDLES_H
#define MDNN_PROGRAM_HANDLES_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

typedef struct mdnn_program_handle mdnn_program_handle_t;
typedef struct mdnn_program_addresses mdnn_program_addresses_t;

/* Only the call that has claimed one of these uses it. Some members are also read without a claim, for all handles or
 * addresses; these are changed only under the lock of program_handles.c. */
struct mdnn_program_handle {
    CUmemGenericAllocationHandle value; /* the number that the program has */
    CUmemGenericAllocationHandle real;  /* the driver's handle; 0: there is none */
    uint64_t bytes;
    CUdevice device;
    CUmemAllocationProp properties;
    uint64_t releases; /* calls of cuMemRelease that are still to come */
    /* Only while the handle is virtual (from here to `access`): where it is mapped, or where its content lies; NULL: it
     * was not mapped yet. */
    mdnn_program_addresses_t *place;
    bool mapped;     /* it is mapped at `place` */
    bool begun;      /* it has content at `place` */
    uint64_t access; /* devices that may use the mapping, one bit each */
    bool lost;       /* its device was reset */
    bool gone;       /* it is deleted when the claim ends */
    bool claimed;
    mdnn_program_handle_t *next;
};

struct mdnn_program_addresses {
    uint64_t start, bytes;
    bool ours;           /* a part of our reservation; else one of the driver's */
    CUdevice device;     /* if it is ours */
    bool freed;          /* by the program, but its guest's content is still there */
    bool in_parts;       /* something other than one whole virtual handle was mapped there */
    uint64_t real_bytes; /* mapped there by the driver */
    mdnn_program_handle_t *guest; /* the virtual handle whose place this is; NULL: none */
    bool gone;                    /* deleted when the claim ends */
    bool claimed;
};

/* What one call has claimed; each may be NULL. */
typedef struct mdnn_program_claim {
    mdnn_program_handle_t *handle;       /* the handle that the call names */
    mdnn_program_addresses_t *addresses; /* the reservation around the address that it names */
    mdnn_program_handle_t *guest;        /* the guest of `addresses` when they were claimed */
    mdnn_program_addresses_t *place;     /* the place of `handle` */
} mdnn_program_claim_t;

/* Whether the value is one of our numbers, which the driver does not know. True even if no handle has this number any
 * more. */
bool mdnn_program_is_ours(CUmemGenericAllocationHandle value);
/* Claims the handle (if it is not 0 and not the driver's) and the reserved addresses around `address` (if that is not
 * 0), with the place of that handle and the guest of those addresses. Waits for other calls that have claimed one of
 * these. */
mdnn_program_claim_t mdnn_program_claim(CUmemGenericAllocationHandle value, uint64_t address);
/* Ends the claim. Handles and addresses that are marked `gone` are deleted, so they must not be used after that. */
void mdnn_program_let_go(mdnn_program_claim_t claim);

/* Whether the address lies in a reservation of the program's, of whatever kind. */
bool mdnn_program_has_reserved(uint64_t address);
/* The properties of the virtual handle that is mapped there. */
bool mdnn_program_properties_at(uint64_t address, CUmemAllocationProp *properties);

/* ---- without a claim ---- */
/* Makes a virtual handle without memory. CUDA_ERROR_NOT_SUPPORTED: the caller has the driver create the handle. */
CUresult mdnn_program_create(CUmemGenericAllocationHandle *value, uint64_t bytes,
                             const CUmemAllocationProp *properties);
/* Reserves addresses of ours for the program, or returns CUDA_ERROR_NOT_SUPPORTED. */
CUresult mdnn_program_reserve(CUdeviceptr *address, uint64_t bytes, uint64_t alignment);
/* Notes that the driver has reserved addresses for the program. */
void mdnn_program_reserved(uint64_t address, uint64_t bytes);
/* For a handle `real` that the driver has just returned. If it belongs to a handle of ours, returns the number by
 * which the program knows ours; the program must then release that number once more, and the reference that the driver
 * has just given is released here. Otherwise returns `real`. */
CUmemGenericAllocationHandle mdnn_program_value_of(CUmemGenericAllocationHandle real);
/* Called before the device is reset: virtual handles there become real, or are lost. */
void mdnn_program_device_ends(CUdevice device);

/* ---- what is claimed, and virtual ---- */
/* Maps the handle virtually if this call maps the whole of it at the whole reservation. Otherwise returns false and
 * changes nothing. */
bool mdnn_program_map(mdnn_program_claim_t claim, uint64_t address, uint64_t bytes, uint64_t offset,
                      unsigned long long flags);
/* Whether the addresses have a virtual mapping. */
bool mdnn_program_is_mapped(const mdnn_program_addresses_t *addresses);
void mdnn_program_unmap(mdnn_program_addresses_t *addresses);
/* CUDA_ERROR_NOT_SUPPORTED: such access needs a real handle. */
CUresult mdnn_program_let(mdnn_program_addresses_t *addresses, const CUmemAccessDesc *access,
                          size_t count);
/* Notes that the program has released the handle once. */
void mdnn_program_release(mdnn_program_handle_t *handle);
/* Frees our addresses. CUDA_ERROR_INVALID_VALUE: something is mapped there. */
CUresult mdnn_program_free(mdnn_program_addresses_t *addresses);
/* Notes that something other than one whole virtual handle is now mapped there. */
void mdnn_program_note_parts(mdnn_program_addresses_t *addresses);
/* Notes that the driver has mapped that many more bytes there, or unmapped them if the number is negative. */
void mdnn_program_note_mapped(mdnn_program_addresses_t *addresses, int64_t bytes);
/* Waits until the driver can map something at addresses of ours that have no guest. CUDA_ERROR_NOT_SUPPORTED: a graph
 * holds what was there. */
CUresult mdnn_program_await(const mdnn_program_addresses_t *addresses);

/* Makes the handle real, that is, the driver's; NULL and handles that are already real are left as they are. After a
 * failure the handle is as before, or its content is in a real handle that is not mapped. */
CUresult mdnn_program_make_real(mdnn_program_handle_t *handle);
/* Marks the handle as gone, since nothing holds it any more: it is deleted when the claim ends. */
void mdnn_program_note_gone(mdnn_program_handle_t *handle);
/* Sets the driver's handle for which this one stands from now on; it has no place in our addresses any more. */
void mdnn_program_set_real(mdnn_program_handle_t *handle, CUmemGenericAllocationHandle real);

#endif
