/* Buffers of 3 MiB that a program works on, and what they must hold: more of them than the budget has room for, so that
 * what nobody names leaves. Included once in a program. */
#ifndef TEST_CLIENTS_MANY_BUFFERS_H
#define TEST_CLIENTS_MANY_BUFFERS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cuda_runtime_api.h>

#include "test/clients/check.h"

enum { WORDS = 768 << 10, MODEL_WORDS = 64, MOST = 64, MOST_ROUNDS = 24 };

/* ---- buffers: all words of one are alike but for their place, so few stand for all ---- */

static uint32_t *buffers[MOST];
static uint32_t model[MOST][MODEL_WORDS];
static int buffer_count;
static uint64_t random_state;
static cudaStream_t stream;

/* How often a program does what it does: MDNN_CLIENT_ROUNDS times, of which the quick suite asks for few. */
static int rounds = MOST_ROUNDS;

static int pick(int count)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((random_state >> 33) % (uint64_t)count);
}

static void fill(uint32_t *words, int buffer)
{
    for (uint32_t i = 0; i < WORDS; i++)
        words[i] = (i % MODEL_WORDS) * 2654435761u + (uint32_t)buffer * 97;
}

static void begin(uint64_t seed, int count)
{
    uint32_t *const host = malloc(WORDS * sizeof *host);
    CHECK(host && count >= 9 && count <= MOST);
    random_state = seed;
    buffer_count = count;
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < count; i++) {
        fill(host, i);
        memcpy(model[i], host, sizeof model[i]);
        CUDA(cudaMalloc((void **)&buffers[i], WORDS * sizeof *host));
        CUDA(cudaMemcpyAsync(buffers[i], host, WORDS * sizeof *host, cudaMemcpyHostToDevice,
                             stream));
    }
    free(host);
}

static void check_all(void)
{
    uint32_t *const host = malloc(WORDS * sizeof *host);
    CHECK(host);
    for (int i = 0; i < buffer_count; i++) {
        CUDA(cudaMemcpyAsync(host, buffers[i], WORDS * sizeof *host, cudaMemcpyDeviceToHost,
                             stream));
        CUDA(cudaStreamSynchronize(stream));
        for (uint32_t j = 0; j < WORDS; j++)
            if (host[j] != model[i][j % MODEL_WORDS]) {
                printf("buffer %d, word %u: %u instead of %u\n", i, j, host[j],
                       model[i][j % MODEL_WORDS]);
                exit(1);
            }
    }
    free(host);
}

/* `count` different buffers. */
static void choose(int *chosen, int count)
{
    for (int i = 0; i < count; i++) {
        bool again = true;
        while (again) {
            chosen[i] = pick(buffer_count);
            again = false;
            for (int j = 0; j < i; j++)
                again = again || chosen[j] == chosen[i];
        }
    }
}

/* Work that names what it uses, so that something else leaves. */
static void work(void)
{
    for (int i = 0; i < 4; i++) {
        int two[2];
        choose(two, 2);
        CUDA(cudaMemcpyAsync(buffers[two[0]], buffers[two[1]], WORDS * sizeof(uint32_t),
                             cudaMemcpyDeviceToDevice, stream));
        memcpy(model[two[0]], model[two[1]], sizeof model[0]);
    }
}

/* Programs that a client offers by name. */
typedef struct named_program {
    const char *name;
    void (*run)(uint64_t seed, int count);
} named_program_t;

/* CLIENT PROGRAM SEED BUFFERS: the exit status. */
static int run_program(const named_program_t *programs, size_t program_count, int argc, char **argv)
{
    const char *const few = getenv("MDNN_CLIENT_ROUNDS");
    if (few)
        rounds = atoi(few);
    CHECK(rounds >= 8 && rounds <= MOST_ROUNDS);
    for (size_t i = 0; argc == 4 && i < program_count; i++)
        if (strcmp(programs[i].name, argv[1]) == 0) {
            programs[i].run(strtoull(argv[2], NULL, 10), atoi(argv[3]));
            return 0;
        }
    fprintf(stderr, "usage: %s PROGRAM SEED BUFFERS\n", argv[0]);
    return 2;
}

#endif
