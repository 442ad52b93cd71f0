/* A piece: a copy of what the program has set on one descriptor of cuDNN's backend API. A link to another descriptor is
 * kept with the number that the other descriptor had when the link was set. A descriptor that is destroyed, initialized
 * or filled again gets another number, so it is never mistaken for its earlier state. One thread at a time. */
#ifndef MDNN_GRAPH_PIECE_H
#define MDNN_GRAPH_PIECE_H

#include <stdbool.h>
#include <stdint.h>

#include <cudnn.h>

typedef struct mdnn_piece_link {
    cudnnBackendDescriptor_t descriptor;
    uint64_t number; /* 0: unknown, or not finalized at that time */
} mdnn_piece_link_t;

typedef union mdnn_piece_value {
    int64_t integer; /* also enumerators and booleans */
    double number;
    mdnn_piece_link_t link;
} mdnn_piece_value_t;

typedef struct mdnn_piece_attribute {
    struct mdnn_piece_attribute *next;
    cudnnBackendAttributeName_t name;
    int64_t count;
    mdnn_piece_value_t values[];
} mdnn_piece_attribute_t;

typedef struct mdnn_piece {
    cudnnBackendDescriptor_t descriptor;
    cudnnBackendDescriptorType_t type;
    uint64_t number;
    bool finalized;
    bool gap; /* something was set that is not, or may not be, among the attributes */
    mdnn_piece_attribute_t *attributes; /* owned */
} mdnn_piece_t;

/* Forgets the attributes. */
void mdnn_piece_clear(mdnn_piece_t *piece);

/* Whether an attribute affects what a graph computes; others are not kept. An unknown attribute counts as one that
 * does. */
bool mdnn_piece_matters(cudnnBackendAttributeName_t name);
/* A copy of the attribute for mdnn_piece_add; its links have no numbers. NULL if the attribute is unknown, or if memory
 * is short. */
mdnn_piece_attribute_t *mdnn_piece_copy(cudnnBackendAttributeName_t name,
                                        cudnnBackendAttributeType_t type, int64_t count,
                                        const void *elements);
bool mdnn_piece_is_link(const mdnn_piece_attribute_t *attribute);
/* Takes ownership of the attribute. NULL, or an attribute that was already set to another value, makes a gap. */
void mdnn_piece_add(mdnn_piece_t *piece, mdnn_piece_attribute_t *attribute);

/* NULL if it was not set. */
const mdnn_piece_attribute_t *mdnn_piece_find(const mdnn_piece_t *piece,
                                              cudnnBackendAttributeName_t name);

#endif
