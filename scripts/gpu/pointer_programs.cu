/* Programs whose kernels find memory through pointers, on a real GPU: more buffers than the budget has room for, which
 * the programs use in turn, so that what nobody names leaves. They know nothing of the library; check-pointers compiles
 * and starts them.
 *
 *   pointer_programs PROGRAM BUFFERS MIB
 *
 * PROGRAM: one of the list at the end. Exit status 0 and "right" if all words are as the host's model says. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda_runtime.h>

#define CUDA(call) check((call), #call, __LINE__)

enum { TABLE = 3, MOST = 256, FIRST = 6, TIMES = 2 };

static void check(cudaError_t error, const char *call, int line)
{
    if (error == cudaSuccess)
        return;
    fprintf(stderr, "line %d: %s: %s\n", line, call, cudaGetErrorString(error));
    exit(3);
}

/* ---- kernels: each word becomes three times itself and a number ---- */

__device__ static void scale(unsigned *words, size_t count, unsigned number)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        words[i] = 3 * words[i] + number;
}

/* Their names have no types, so nothing shows what they do. */
extern "C" __global__ void follow_hidden(const unsigned long long *table, size_t count)
{
    for (unsigned i = 0; i < TABLE; i++)
        scale((unsigned *)table[i], count, i + 1);
}

extern "C" __global__ void write_hidden(unsigned long long *table, unsigned long long disguised)
{
    *table = ~disguised;
}

__global__ void write_pointer(unsigned **table, unsigned *pointer, unsigned place)
{
    table[place] = pointer;
}

__global__ void displace(unsigned **to, unsigned *const *from)
{
    to[threadIdx.x] = from[threadIdx.x];
}

struct node {
    node *next;
    unsigned *buffer;
};

__global__ void follow_list(const node *at, unsigned length, size_t count)
{
    for (unsigned i = 0; i < length; i++, at = at->next)
        scale(at->buffer, count, i + 1);
}

/* ---- buffers ---- */

static unsigned *buffers[MOST], model[MOST];
static int buffer_count;
static size_t words_each;
static cudaStream_t stream;

__global__ void fill(unsigned *words, size_t count, unsigned value)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        words[i] = value;
}

static void begin(void)
{
    CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (int i = 0; i < buffer_count; i++) {
        CUDA(cudaMalloc(&buffers[i], words_each * sizeof(unsigned)));
        model[i] = 97u * (unsigned)i + 5;
        fill<<<256, 256, 0, stream>>>(buffers[i], words_each, model[i]);
        CUDA(cudaGetLastError());
    }
}

/* All but the first buffers are used, so that these leave. */
static void use_others(void)
{
    const int others = buffer_count - FIRST;
    for (int i = 0; i < TIMES * others; i++) {
        const int from = FIRST + i % others, to = FIRST + (i + 1) % others;
        CUDA(cudaMemcpyAsync(buffers[to], buffers[from], words_each * sizeof(unsigned),
                             cudaMemcpyDeviceToDevice, stream));
        model[to] = model[from];
    }
}

__global__ void count_wrong(const unsigned *words, size_t count, unsigned value,
                            unsigned long long *wrong)
{
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < count;
         i += (size_t)gridDim.x * blockDim.x)
        if (words[i] != value)
            atomicAdd(wrong, 1ull);
}

static int end(void)
{
    unsigned long long *wrong, found = 0;
    CUDA(cudaMalloc(&wrong, sizeof *wrong));
    CUDA(cudaMemsetAsync(wrong, 0, sizeof *wrong, stream));
    for (int i = 0; i < buffer_count; i++)
        count_wrong<<<256, 256, 0, stream>>>(buffers[i], words_each, model[i], wrong);
    CUDA(cudaGetLastError());
    CUDA(cudaMemcpyAsync(&found, wrong, sizeof found, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaStreamSynchronize(stream));
    printf(found ? "%llu words are wrong\n" : "right\n", found);
    return found ? 1 : 0;
}

static unsigned **new_table(void)
{
    unsigned **table;
    CUDA(cudaMalloc(&table, 4096));
    return table;
}

static void follow(unsigned *const *table)
{
    follow_hidden<<<256, 256, 0, stream>>>((const unsigned long long *)table, words_each);
    CUDA(cudaGetLastError());
    for (unsigned i = 0; i < TABLE; i++)
        model[i] = 3 * model[i] + i + 1;
}

static void write_first(unsigned **table, unsigned place)
{
    for (unsigned i = 0; i < TABLE; i++)
        write_pointer<<<1, 1, 0, stream>>>(table, buffers[i], place + i);
    CUDA(cudaGetLastError());
}

/* ---- programs ---- */

static void hidden(void)
{
    unsigned long long *const table = (unsigned long long *)new_table();
    for (int i = 0; i < TABLE; i++)
        write_hidden<<<1, 1, 0, stream>>>(table + i, ~(unsigned long long)(uintptr_t)buffers[i]);
    for (int round = 0; round < 4; round++) {
        use_others();
        follow((unsigned **)table);
    }
}

static void copied(void)
{
    unsigned **const table = new_table(), *words[TABLE];
    for (int round = 0; round < 4; round++) {
        memcpy(words, buffers, sizeof words);
        CUDA(cudaMemcpyAsync(table, words, sizeof words, cudaMemcpyHostToDevice, stream));
        use_others();
        follow(table);
    }
}

static void written(void)
{
    unsigned **const table = new_table(), **const other = new_table();
    for (int round = 0; round < 4; round++) {
        write_first(table, 0);
        displace<<<1, TABLE, 0, stream>>>(other, table);
        CUDA(cudaGetLastError());
        use_others();
        follow(round % 2 ? table : other);
    }
}

static void partly(void)
{
    const unsigned long long number = TABLE;
    unsigned **const table = new_table(), **const other = new_table();
    write_first(table, 64);
    CUDA(cudaMemcpyAsync(other, table + 64, TABLE * 8, cudaMemcpyDeviceToDevice, stream));
    CUDA(cudaMemcpyAsync(table, &number, sizeof number, cudaMemcpyHostToDevice, stream));
    use_others();
    follow(other);
    use_others();
    follow(table + 64);
}

static void round_trip(void)
{
    unsigned **words, **const table = new_table(), **const other = new_table();
    CUDA(cudaHostAlloc(&words, 4096, cudaHostAllocDefault));
    for (int round = 0; round < 4; round++) {
        memset(words, 0, 4096);
        write_first(table, 0);
        CUDA(cudaMemcpyAsync(words, table, TABLE * 8, cudaMemcpyDeviceToHost, stream));
        CUDA(cudaMemcpyAsync(other, words, TABLE * 8, cudaMemcpyHostToDevice, stream));
        CUDA(cudaMemsetAsync(table, 0, 4096, stream));
        use_others();
        follow(round % 2 ? words : other);
        CUDA(cudaStreamSynchronize(stream));
    }
}

static void pinned_chain(void)
{
    enum { NODES = 1 << 16 };
    node *nodes;
    CUDA(cudaHostAlloc(&nodes, NODES * sizeof *nodes, cudaHostAllocDefault));
    memset(nodes, 0, NODES * sizeof *nodes);
    nodes[0] = {nodes + NODES - 1, buffers[1]};
    nodes[NODES - 1].buffer = buffers[0];
    for (int round = 0; round < 4; round++) {
        use_others();
        follow_list<<<256, 256, 0, stream>>>(nodes, 2, words_each);
        CUDA(cudaGetLastError());
        model[1] = 3 * model[1] + 1;
        model[0] = 3 * model[0] + 2;
    }
}

/* A graph writes a table, which is cleared before each of its launches. */
static void graph_again(void)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    unsigned **const table = new_table();
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    write_first(table, 0);
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    for (int round = 0; round < 4; round++) {
        CUDA(cudaMemsetAsync(table, 0, 4096, stream));
        CUDA(cudaGraphLaunch(executable, stream));
        if (round == 3)
            CUDA(cudaGraphExecDestroy(executable));
        use_others();
        follow(table);
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(void);
    } programs[] = {{"hidden", hidden},         {"copied", copied},
                    {"written", written},       {"partly", partly},
                    {"round_trip", round_trip}, {"pinned_chain", pinned_chain},
                    {"graph_again", graph_again}};
    buffer_count = argc == 4 ? atoi(argv[2]) : 0;
    words_each = argc == 4 ? strtoull(argv[3], NULL, 10) << 18 : 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs && words_each > 0; i++)
        if (buffer_count > FIRST + 1 && buffer_count <= MOST && strcmp(programs[i].name, argv[1]) == 0) {
            begin();
            programs[i].run();
            return end();
        }
    fprintf(stderr, "usage: pointer_programs PROGRAM BUFFERS MIB\n");
    return 2;
}
