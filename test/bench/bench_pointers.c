/* What following pointers adds to a launch where there are some: eight operands, one of which holds a table of 16
 * pointers, among 64 allocations with tables. Medians; exit status 1 if the limit is missed. The scan of the launch
 * itself is measured by test/bench/bench_launches.c. */
#include <stdio.h>

#include "config/lock.h"
#include "offload/memory/pointer_tables.h"
#include "test/bench/samples.h"

enum { SAMPLES = 201, BATCH = 256, HOLDERS = 64, WORDS = 16, OPERANDS = 8 };
static const double limit_ns = 200;
static const uint64_t base = UINT64_C(0x700000000000), allocation_bytes = 1 << 21;
static mdnn_lock_t lock = MDNN_LOCK_INIT(POINTERS);

static bool find(void *context, uint64_t address, uint64_t *start, uint64_t *end)
{
    (void)context;
    *start = address / allocation_bytes * allocation_bytes;
    *end = *start + allocation_bytes;
    return address >= base;
}

static uint64_t generation(void *context)
{
    (void)context;
    return 1;
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    (void)context, (void)point;
    return true;
}

static void give_back(void *context, const void *words)
{
    (void)context, (void)words;
}

static bool add_tables(mdnn_pointer_tables_t *tables)
{
    mdnn_pointer_word_t words[WORDS];
    bool all = true;
    for (uint64_t i = 0; i < HOLDERS; i++) {
        for (uint64_t j = 0; j < WORDS; j++)
            words[j] = (mdnn_pointer_word_t){base + 2 * i * allocation_bytes + 8 * j,
                                             base + (1000 + 20 * i + j) * allocation_bytes};
        all = mdnn_pointer_tables_add(tables, words, WORDS, false) && all;
    }
    return all;
}

int main(void)
{
    static const mdnn_pointer_calls_t calls = {find, generation, is_done, give_back};
    mdnn_pointer_tables_t *const tables = mdnn_pointer_tables_create(&calls, NULL);
    mdnn_pointers_followed_t followed = {0};
    uint64_t operands[OPERANDS];
    double samples[SAMPLES];
    if (!tables || !add_tables(tables))
        return 1;
    for (uint64_t i = 0; i < OPERANDS; i++)
        operands[i] = base + (i == 3 ? 2 * 40 : 5000 + i) * allocation_bytes + 64;
    for (int i = 0; i < SAMPLES; i++) {
        const double start = now_ns();
        for (int j = 0; j < BATCH; j++) {
            mdnn_lock(&lock);
            mdnn_pointer_tables_follow(tables, operands, OPERANDS, 1, &followed);
            mdnn_unlock(&lock);
        }
        samples[i] = (now_ns() - start) / BATCH;
    }
    const double took_ns = median(samples, SAMPLES);
    printf("pointers of a launch are followed to %zu allocations in %.0f ns (limit %.0f)\n",
           followed.count, took_ns, limit_ns);
    return took_ns > limit_ns || followed.count != WORDS;
}
