/* Images and labels on the host: the handwritten digits from a file, or random ones. */
#ifndef TRAIN_CNN_DATA_H
#define TRAIN_CNN_DATA_H

#include <stdint.h>

#include "nets.h"

typedef struct data {
    int channels, height, width, classes;
    int train_count, test_count; /* images; test ones follow the training ones */
    float *images;               /* n c h w, packed */
    int *labels;
    int *order;    /* of the training images in this epoch */
    int next;      /* in order */
    uint64_t seed; /* state of the shuffles */
} data_t;

/* digits.txt in `directory`, split into 1437 training and 360 test images in an order that is
 * always the same; `seed` orders each epoch. Ends the program if the file is not right. */
void data_load_digits(data_t *data, const char *directory, uint64_t seed);

/* As many training images as one batch, random in [-1, 1), with random labels. */
void data_make_random(data_t *data, const net_info_t *net, int batch, uint64_t seed);

void data_free(data_t *data);

/* Writes the next `batch` training images and labels; returns false, and has written nothing, when
 * the epoch has no full batch left. The next call begins a new epoch in a new order. */
bool data_next_batch(data_t *data, int batch, float *images, int *labels);

/* Writes the first `batch` training images of the file, whatever the epoch's order; changes
 * nothing. */
void data_first_batch(const data_t *data, int batch, float *images, int *labels);

/* Writes test images from the `first` on, at most `batch`; returns how many. */
int data_test_batch(const data_t *data, int first, int batch, float *images, int *labels);

#endif
