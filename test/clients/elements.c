#include "test/clients/elements.h"

#include <math.h>
#include <string.h>

#include "test/clients/bail.h"
#include "test/clients/parallel.h"

__extension__ typedef _Float16 half_t;

enum {
    TILE_ELEMENTS = 16384, /* of a tile with all its channels; so it stays in a processor's cache */
    TILE_PIXELS = 32,      /* at least: rows of whole cache lines in logical order */
    MOST_PIECES = 512
};

size_t shape_count(shape_t shape)
{
    return (size_t)shape.n * (size_t)shape.c * (size_t)shape.h * (size_t)shape.w;
}

size_t element_bytes(cudnnDataType_t type)
{
    if (type != CUDNN_DATA_DOUBLE && type != CUDNN_DATA_FLOAT && type != CUDNN_DATA_HALF)
        BAIL("neither double, float nor half");
    return type == CUDNN_DATA_DOUBLE ? 8 : type == CUDNN_DATA_FLOAT ? 4 : 2;
}

/* A loop over rows of neighbours in logical order, which lie `channels` elements apart in storage.
 * What is stored in logical order is one image of one channel. */
typedef struct walk {
    cudnnDataType_t type;
    char *memory;
    size_t images, channels, pixels, tile; /* tile: pixels, of all channels */
    int pieces;
    /* to fill */
    uint32_t seed;
    size_t first;
    int as_half;
    /* to compare; the sums are one for each piece */
    const double *truth;
    double difference[MOST_PIECES], norm[MOST_PIECES];
} walk_t;

static size_t tiles_of(const walk_t *walk)
{
    return (walk->pixels + walk->tile - 1) / walk->tile;
}

static void walk_open(walk_t *walk, storage_t storage, void *memory)
{
    const size_t pixels = (size_t)storage.shape.h * (size_t)storage.shape.w;
    const int apart = storage.format == CUDNN_TENSOR_NHWC && pixels > 1;
    memset(walk, 0, sizeof *walk);
    walk->type = storage.type;
    walk->memory = memory;
    walk->images = apart ? (size_t)storage.shape.n : 1;
    walk->channels = apart ? (size_t)storage.shape.c : 1;
    walk->pixels = apart ? pixels : shape_count(storage.shape);
    walk->tile = TILE_ELEMENTS / walk->channels;
    if (walk->tile < TILE_PIXELS)
        walk->tile = TILE_PIXELS;
    const size_t tiles = walk->images * tiles_of(walk);
    walk->pieces = tiles < MOST_PIECES ? (int)tiles : MOST_PIECES;
}

/* A row: `count` elements from logical index `index` on, the first at `memory`. */
typedef void row_t(walk_t *walk, int piece, size_t index, char *memory, size_t count);

static void each_row(walk_t *walk, int piece, row_t *row)
{
    const size_t per_image = tiles_of(walk), tiles = walk->images * per_image;
    const size_t begin = tiles * (size_t)piece / (size_t)walk->pieces;
    const size_t end = tiles * ((size_t)piece + 1) / (size_t)walk->pieces;
    for (size_t i = begin; i < end; i++) {
        const size_t image = i / per_image * walk->pixels * walk->channels;
        const size_t pixel = i % per_image * walk->tile, rest = walk->pixels - pixel;
        for (size_t c = 0; c < walk->channels; c++)
            row(walk, piece, image + c * walk->pixels + pixel,
                walk->memory + (image + pixel * walk->channels + c) * element_bytes(walk->type),
                rest < walk->tile ? rest : walk->tile);
    }
}

/* A hash of the index (two multiplications, three shifts), as 24 bits below the binary point. */
static inline float random_value(uint32_t seed, size_t index)
{
    uint32_t bits = (uint32_t)index + seed * 0x9E3779B9U;
    bits = (bits ^ bits >> 16) * 0x21F0AAADU;
    bits = (bits ^ bits >> 15) * 0x735A2D97U;
    bits ^= bits >> 15;
    return (float)(int32_t)(bits >> 8) * 0x1p-24F - 0.5F;
}

/* An input rounded to half: what is left of it after 11 significant bits goes (Veltkamp's split).
 * Inputs below half's normal range are multiples of 2^-24, so exact there, and so is this. */
static inline float rounded(float value)
{
    const float wide = value * 8193.0F;
    return wide - (wide - value);
}

/* Bits of the half that equals a rounded input. Without the processor's help a conversion to half
 * is a call, ten times as dear as all the rest. */
static inline uint16_t half_bits(float value)
{
    const float magnitude = fabsf(value);
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t sign = bits >> 16 & 0x8000U;
    if (magnitude < 0x1p-14F)
        return (uint16_t)(sign | (uint32_t)(magnitude * 0x1p24F));
    return (uint16_t)(sign | ((bits >> 13 & 0x3FFFFU) - (112U << 10)));
}

static void fill_row(walk_t *walk, int piece, size_t index, char *memory, size_t count)
{
    const size_t stride = walk->channels;
    const uint32_t seed = walk->seed;
    (void)piece;
    index += walk->first;
    if (walk->type == CUDNN_DATA_HALF)
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)(void *)memory)[i * stride] =
                half_bits(rounded(random_value(seed, index + i)));
    else if (walk->type == CUDNN_DATA_FLOAT)
        for (size_t i = 0; i < count; i++)
            ((float *)(void *)memory)[i * stride] = random_value(seed, index + i);
    else if (walk->as_half)
        for (size_t i = 0; i < count; i++)
            ((double *)(void *)memory)[i * stride] = (double)rounded(random_value(seed, index + i));
    else
        for (size_t i = 0; i < count; i++)
            ((double *)(void *)memory)[i * stride] = (double)random_value(seed, index + i);
}

/* Values of all halves: without the processor's help a conversion is a call. */
static float halves[1 << 16];

static void list_halves(void)
{
    if (halves[1] > 0)
        return;
    for (uint32_t i = 0; i < 1 << 16; i++) {
        const uint16_t bits = (uint16_t)i;
        half_t value;
        memcpy(&value, &bits, sizeof value);
        halves[i] = (float)value;
    }
}

#define SUM_ROW(element)                                                                           \
    for (size_t i = 0; i < count; i++) {                                                           \
        const double error = (element)-truth[i];                                                   \
        difference += error * error;                                                               \
        norm += truth[i] * truth[i];                                                               \
    }

static void compare_row(walk_t *walk, int piece, size_t index, char *memory, size_t count)
{
    const size_t stride = walk->channels;
    const double *const truth = walk->truth + index;
    double difference = 0, norm = 0;
    if (walk->type == CUDNN_DATA_HALF)
        SUM_ROW((double)halves[((const uint16_t *)(const void *)memory)[i * stride]])
    else if (walk->type == CUDNN_DATA_FLOAT)
        SUM_ROW((double)((const float *)(const void *)memory)[i * stride])
    else
        SUM_ROW(((const double *)(const void *)memory)[i * stride])
    walk->difference[piece] += difference;
    walk->norm[piece] += norm;
}

static void fill_piece(void *walk, int piece)
{
    each_row(walk, piece, fill_row);
}

static void compare_piece(void *walk, int piece)
{
    each_row(walk, piece, compare_row);
}

void elements_fill(storage_t storage, void *memory, uint32_t seed, size_t first, int as_half)
{
    walk_t walk;
    walk_open(&walk, storage, memory);
    walk.seed = seed;
    walk.first = first;
    walk.as_half = as_half;
    parallel_for(walk.pieces, fill_piece, &walk);
}

double elements_error(storage_t storage, const void *memory, const double *truth)
{
    walk_t walk;
    double difference = 0, norm = 0;
    walk_open(&walk, storage, (void *)(uintptr_t)memory);
    walk.truth = truth;
    if (storage.type == CUDNN_DATA_HALF)
        list_halves();
    parallel_for(walk.pieces, compare_piece, &walk);
    for (int i = 0; i < walk.pieces; i++) {
        difference += walk.difference[i];
        norm += walk.norm[i];
    }
    return isfinite(difference) && isfinite(norm) ? sqrt(difference / norm) : INFINITY;
}
