/* Reads a finalized operation graph, as the program assembled it, as a convolution problem
 * (graph_chain.h). A piece that may have changed after it was linked, or that has an attribute
 * which has no place here, makes the graph unknown. */
#ifndef MDNN_GRAPH_ASSEMBLE_H
#define MDNN_GRAPH_ASSEMBLE_H

#include "shim/graph/graph_chain.h"
#include "shim/graph/graph_piece.h"

/* The piece to which a link leads; NULL if no piece has the link's number now. */
typedef const mdnn_piece_t *mdnn_piece_finder_t(const mdnn_piece_link_t *link);

/* *graph is untouched unless the result is RECOGNISED. */
mdnn_graph_kind_t mdnn_graph_assemble(const mdnn_piece_t *operation_graph,
                                      mdnn_piece_finder_t *find, mdnn_graph_t *graph);

#endif
