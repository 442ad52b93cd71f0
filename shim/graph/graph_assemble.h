/* A finalized operation graph, as its host put it together, as a convolution problem
 * (graph_chain.h). A piece that is not known to be what it was when it was linked, or with an
 * attribute that has no place here, makes the graph unknown. */
#ifndef MDNN_GRAPH_ASSEMBLE_H
#define MDNN_GRAPH_ASSEMBLE_H

#include "shim/graph/graph_chain.h"
#include "shim/graph/graph_piece.h"

/* The piece that a link means; NULL if there is none of that number any more. */
typedef const mdnn_piece_t *mdnn_piece_finder_t(const mdnn_piece_link_t *link);

/* *graph is untouched unless it is RECOGNISED. */
mdnn_graph_kind_t mdnn_graph_assemble(const mdnn_piece_t *operation_graph,
                                      mdnn_piece_finder_t *find, mdnn_graph_t *graph);

#endif
