/* Costs and configurations as bytes: fixed little-endian fields, so that a file can be carried between machines.
 * Decoding accepts only what encoding can have written. */
#ifndef MDNN_DATABASE_CODEC_H
#define MDNN_DATABASE_CODEC_H

#include "optimizer/micro_batch.h"
#include "optimizer/wr.h"

enum {
    MDNN_ENGINE_BYTES = 8 + 8 * MDNN_ENGINE_KNOBS,
    MDNN_COST_BYTES = 28 + MDNN_ENGINE_BYTES,
    MDNN_COSTS_BYTES = MDNN_COST_BYTES * MDNN_COSTS_PER_SIZE,
    MDNN_RUN_BYTES = 16 + MDNN_COST_BYTES
};

/* Writes count * MDNN_COST_BYTES bytes; count <= MDNN_COSTS_PER_SIZE. */
void mdnn_costs_encode(const mdnn_cost_t *costs, size_t count, unsigned char *bytes);

/* Reads the costs into `costs`, which has room for MDNN_COSTS_PER_SIZE. BAD_FORMAT. */
mdnn_status_t mdnn_costs_decode(const unsigned char *bytes, size_t size, mdnn_cost_t *costs,
                                size_t *count);

/* Equal parts in a row are one record of MDNN_RUN_BYTES. *bytes is malloc'ed. OUT_OF_MEMORY. */
mdnn_status_t mdnn_parts_encode(const mdnn_configuration_t *configuration, unsigned char **bytes,
                                size_t *size);

/* Rebuilds the configuration; its parts are malloc'ed. BAD_FORMAT if it does not cover the request's batch by the
 * request's rules within `limit_bytes`. */
mdnn_status_t mdnn_parts_decode(const unsigned char *bytes, size_t size,
                                const mdnn_wr_request_t *request, uint64_t limit_bytes,
                                mdnn_configuration_t *configuration);

#endif
