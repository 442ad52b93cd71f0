/* What a host has set on one descriptor of the backend API, by value. Links to other descriptors
 * are kept with the number of what they were when they were set: a descriptor that is destroyed,
 * initialized again or filled anew has another, so nothing is ever taken for what it was not. One
 * thread at a time. */
#ifndef MDNN_GRAPH_PIECE_H
#define MDNN_GRAPH_PIECE_H

#include <stdbool.h>
#include <stdint.h>

#include <cudnn.h>

typedef struct mdnn_piece_link {
    cudnnBackendDescriptor_t descriptor;
    uint64_t number; /* 0: of nothing that we know, or not finalized then */
} mdnn_piece_link_t;

typedef union mdnn_piece_value {
    int64_t integer; /* also enumerators and truths */
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
    bool gap; /* something was set that is not among the attributes, or not surely so */
    mdnn_piece_attribute_t *attributes; /* owned */
} mdnn_piece_t;

/* Forgets the attributes. */
void mdnn_piece_clear(mdnn_piece_t *piece);

/* Whether an attribute says what a graph computes: others are not kept. What is not known does. */
bool mdnn_piece_matters(cudnnBackendAttributeName_t name);
/* A copy for mdnn_piece_add, links without numbers. NULL for what is not known, or without memory.
 */
mdnn_piece_attribute_t *mdnn_piece_copy(cudnnBackendAttributeName_t name,
                                        cudnnBackendAttributeType_t type, int64_t count,
                                        const void *elements);
bool mdnn_piece_is_link(const mdnn_piece_attribute_t *attribute);
/* Takes the attribute; NULL, or one that is there and said something else, is a gap. */
void mdnn_piece_add(mdnn_piece_t *piece, mdnn_piece_attribute_t *attribute);

/* NULL if it was not set. */
const mdnn_piece_attribute_t *mdnn_piece_find(const mdnn_piece_t *piece,
                                              cudnnBackendAttributeName_t name);

#endif
