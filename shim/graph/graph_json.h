/* The JSON of a cuDNN execution plan (CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, schema 4) as a convolution problem
 * (graph_chain.h). Any field that is not known here makes the graph unknown.
 */
#ifndef MDNN_GRAPH_JSON_H
#define MDNN_GRAPH_JSON_H

#include "config/status.h"
#include "shim/graph/graph_chain.h"

/* *kind is always set. OK only for RECOGNISED. For all other results *graph is untouched: UNSUPPORTED for other kinds,
 * BAD_FORMAT (kind UNKNOWN) for a text that is not JSON or has another schema, OUT_OF_MEMORY (kind UNKNOWN). The text
 * need not be terminated. Any thread may call this. */
mdnn_status_t mdnn_graph_read(const char *json, size_t bytes, mdnn_graph_t *graph,
                              mdnn_graph_kind_t *kind);

#endif
