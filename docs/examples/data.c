#include "data.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "random.h"

#define DIGIT_COUNT 1797
#define DIGIT_TEST_COUNT 360
#define DIGIT_PIXELS 64

/* Seed of the split: a constant, so that every run tests on the same images. */
#define SPLIT_SEED 20

static size_t image_elements(const data_t *data)
{
    return (size_t)data->channels * (size_t)data->height * (size_t)data->width;
}

static void allocate(data_t *data)
{
    size_t count = (size_t)(data->train_count + data->test_count);
    data->images = calloc(count, multiply_bytes(image_elements(data), sizeof(float)));
    data->labels = calloc(count, sizeof *data->labels);
    data->order = calloc((size_t)data->train_count, sizeof *data->order);
    if (!data->images || !data->labels || !data->order)
        fail("out of memory for %zu images", count);
    for (int i = 0; i < data->train_count; i++)
        data->order[i] = i;
    data->next = data->train_count; /* so that the first batch begins an epoch */
}

/* The value 0 to 16 of a character of digits.txt, or -1. */
static int pixel_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'g' ? c - 'a' + 10 : -1;
}

/* One line of digits.txt; pixels come out in [-1, 1]. Returns the label, or -1 for a broken line.
 */
static int parse_digit(const char *line, float pixels[DIGIT_PIXELS])
{
    if (strlen(line) != DIGIT_PIXELS + 3 || line[DIGIT_PIXELS] != ' ' ||
        line[DIGIT_PIXELS + 2] != '\n')
        return -1;
    for (int i = 0; i < DIGIT_PIXELS; i++) {
        int value = pixel_value(line[i]);
        if (value < 0)
            return -1;
        pixels[i] = (float)value / 8.0f - 1.0f;
    }
    int label = pixel_value(line[DIGIT_PIXELS + 1]);
    return label <= 9 ? label : -1;
}

static void read_digits(data_t *data, const char *path)
{
    int places[DIGIT_COUNT];
    for (int i = 0; i < DIGIT_COUNT; i++)
        places[i] = i;
    uint64_t state = SPLIT_SEED;
    random_shuffle(&state, places, DIGIT_COUNT);

    FILE *file = fopen(path, "r");
    if (!file)
        fail("%s: %s; --data names the folder of digits.txt", path, strerror(errno));
    char line[128];
    int count = 0;
    for (; count < DIGIT_COUNT && fgets(line, sizeof line, file); count++) {
        int place = places[count];
        data->labels[place] = parse_digit(line, data->images + (size_t)place * DIGIT_PIXELS);
        if (data->labels[place] < 0)
            fail("%s:%d: not 64 characters 0-9a-g, a space and a digit", path, count + 1);
    }
    if (count != DIGIT_COUNT || fgets(line, sizeof line, file))
        fail("%s: not the %d images expected", path, DIGIT_COUNT);
    fclose(file);
}

void data_load_digits(data_t *data, const char *directory, uint64_t seed)
{
    *data = (data_t){.channels = 1,
                     .height = 8,
                     .width = 8,
                     .classes = 10,
                     .train_count = DIGIT_COUNT - DIGIT_TEST_COUNT,
                     .test_count = DIGIT_TEST_COUNT,
                     .seed = seed};
    allocate(data);
    char path[4096];
    if (snprintf(path, sizeof path, "%s/digits.txt", directory) >= (int)sizeof path)
        fail("--data: the name of the folder is too long");
    read_digits(data, path);
}

void data_make_random(data_t *data, const net_info_t *net, int batch, uint64_t seed)
{
    *data = (data_t){.channels = net->channels,
                     .height = net->height,
                     .width = net->width,
                     .classes = net->classes,
                     .train_count = batch,
                     .seed = seed};
    allocate(data);
    size_t count = image_elements(data) * (size_t)batch;
    for (size_t i = 0; i < count; i++)
        data->images[i] = random_uniform(&data->seed, 1.0f);
    for (int i = 0; i < batch; i++)
        data->labels[i] = random_below(&data->seed, data->classes);
}

void data_free(data_t *data)
{
    free(data->images);
    free(data->labels);
    free(data->order);
    *data = (data_t){0};
}

static void copy_image(const data_t *data, int from, float *images, int *labels, int to)
{
    size_t elements = image_elements(data);
    memcpy(images + (size_t)to * elements, data->images + (size_t)from * elements,
           elements * sizeof(float));
    labels[to] = data->labels[from];
}

bool data_next_batch(data_t *data, int batch, float *images, int *labels)
{
    if (data->next >= data->train_count) {
        random_shuffle(&data->seed, data->order, data->train_count);
        data->next = 0;
    }
    if (data->train_count - data->next < batch) {
        data->next = data->train_count;
        return false;
    }
    for (int i = 0; i < batch; i++)
        copy_image(data, data->order[data->next + i], images, labels, i);
    data->next += batch;
    return true;
}

void data_first_batch(const data_t *data, int batch, float *images, int *labels)
{
    for (int i = 0; i < batch; i++)
        copy_image(data, i, images, labels, i);
}

int data_test_batch(const data_t *data, int first, int batch, float *images, int *labels)
{
    int count = data->test_count - first < batch ? data->test_count - first : batch;
    for (int i = 0; i < count; i++)
        copy_image(data, data->train_count + first + i, images, labels, i);
    return count;
}
