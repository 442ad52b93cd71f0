/* A launch that can be made again: a copy of all that the program gave the driver. Its parameters are copied bytes, so it
 * uses the same addresses. */
#ifndef MDNN_RECORDED_LAUNCH_H
#define MDNN_RECORDED_LAUNCH_H

#include "shim/real/real.h"
#include "shim/vmem/virtual_watch.h"

typedef struct mdnn_recorded_launch mdnn_recorded_launch_t;

/* NULL: attributes or parameters are not known, or memory is short. */
mdnn_recorded_launch_t *mdnn_recorded_launch_make(const mdnn_launch_t *launch);
void mdnn_recorded_launch_free(mdnn_recorded_launch_t *launch); /* accepts NULL */
/* Of its kernel, for people; NULL: not known. Valid until the process ends. */
const char *mdnn_recorded_launch_name(const mdnn_recorded_launch_t *launch);
/* Addresses in the `bytes` from `start` on become addresses from `to` on. */
typedef struct mdnn_redirect {
    uint64_t start, bytes, to;
} mdnn_redirect_t;

/* Enqueues it once more, with other addresses where a redirect says so. An attribute that lets it overlap with its
 * predecessor is left out, since that is another one now. */
CUresult mdnn_recorded_launch_replay(const mdnn_driver_t *driver,
                                     const mdnn_recorded_launch_t *launch,
                                     const mdnn_redirect_t *redirects, size_t count,
                                     CUstream stream);

/* Whether one of the words that may be an address is that one. */
bool mdnn_recorded_launch_has_word(const mdnn_recorded_launch_t *launch, uint64_t address);

/* Whether that word of a parameter lies in live memory: which of the operands that is, and how far behind its start. */
typedef bool (*mdnn_find_operand_t)(void *context, uint64_t word, uint32_t *operand,
                                    uint64_t *offset);
/* Calls `find` for each word that may be an address, in order. The key is a hash of the kernel, the shape of the launch,
 * and its parameters with such words replaced by their operands, so it is the same in each iteration. false: the launch uses
 * memory that is not virtual. */
bool mdnn_recorded_launch_key(const mdnn_recorded_launch_t *launch, mdnn_find_operand_t find,
                              void *context, uint64_t key[2]);

#endif
