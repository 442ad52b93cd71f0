/* Programs whose kernels follow pointers that copies have brought to device memory, in each way that there is. A model on
 * the host foretells what the buffers hold. Run by test/pointer_tables.sh with MICRODNN_SIM_UNNAMED=1, with and without
 * the library under test; they know nothing of it.
 *
 *   pointer_tables PROGRAM SEED BUFFERS
 *
 * PROGRAM: one of the list at the end; buffers of 3 MiB. Exit status 0 if all was right. */
#include "test/libraries/kernels.h"

#include "test/clients/many_buffers.h"

enum { TABLE = 3, TABLE_BYTES = TABLE * 8 };

/* ---- kernels: each word becomes three times itself and a number ---- */

static void scale(uint64_t address, uint32_t number)
{
    uint32_t *const words = simulator->memory(address, WORDS * sizeof(uint32_t));
    for (uint32_t i = 0; words && i < WORDS; i++)
        words[i] = 3 * words[i] + number;
}

/* Buffers that `count` pointers at `table` lead to, `step` bytes apart. */
static void run_table(void *const *parameters)
{
    const uint64_t table = *(uint64_t *)parameters[0];
    const uint32_t count = *(uint32_t *)parameters[1], step = *(uint32_t *)parameters[2];
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *const at = simulator->memory(table + (uint64_t)i * step, sizeof *at);
        if (at)
            scale(*at, i + 1);
    }
}

typedef struct node {
    uint64_t next, buffer;
} node_t;

/* `count` nodes of a list. */
static void run_list(void *const *parameters)
{
    uint64_t next = *(uint64_t *)parameters[0];
    const uint32_t count = *(uint32_t *)parameters[1];
    for (uint32_t i = 0; i < count; i++) {
        const node_t *const node = simulator->memory(next, sizeof *node);
        if (!node)
            return;
        scale(node->buffer, i + 1);
        next = node->next;
    }
}

/* A structure among the parameters. */
typedef struct by_value {
    uint32_t count, padding;
    uint64_t tables[2];
} by_value_t;

static void run_by_value(void *const *parameters)
{
    const by_value_t *const value = parameters[0];
    for (uint32_t i = 0; i < value->count; i++) {
        const uint64_t *const at = simulator->memory(value->tables[i], sizeof *at);
        if (at)
            scale(*at, i + 1);
    }
}

/* void write_pointer(unsigned **table, unsigned *pointer, unsigned place) */
static void run_write(void *const *parameters)
{
    const uint32_t place = *(uint32_t *)parameters[2];
    uint64_t *const at =
        simulator->memory(*(uint64_t *)parameters[0] + (uint64_t)place * 8, sizeof *at);
    if (at)
        *at = *(uint64_t *)parameters[1];
}

/* void displace(unsigned **to, unsigned *const *from, unsigned count) */
static void run_displace(void *const *parameters)
{
    const uint32_t count = *(uint32_t *)parameters[2];
    uint64_t *const to = simulator->memory(*(uint64_t *)parameters[0], (uint64_t)count * 8);
    const uint64_t *const from = simulator->memory(*(uint64_t *)parameters[1], (uint64_t)count * 8);
    if (to && from)
        memcpy(to, from, (size_t)count * 8);
}

static const sim_kernel_parameter_t of_table[] = {{0, 8}, {8, 4}, {12, 4}};
static const sim_kernel_parameter_t of_list[] = {{0, 8}, {8, 4}};
static const sim_kernel_parameter_t of_value[] = {{0, sizeof(by_value_t)}};
static const sim_kernel_parameter_t of_written[] = {{0, 8}, {8, 8}, {16, 4}};
static const sim_kernel_t kernels[] = {{"follow_table", 3, of_table, run_table},
                                       {"follow_list", 2, of_list, run_list},
                                       {"follow_value", 1, of_value, run_by_value},
                                       {"_Z13write_pointerPPjS_j", 3, of_written, run_write},
                                       {"_Z8displacePPjPKS_j", 3, of_written, run_displace},
                                       {"hide_pointer", 3, of_written, run_write}};
static CUfunction follow_table, follow_list, follow_value, write_pointer, displace, hide_pointer;

static void begin_all(uint64_t seed, int count)
{
    CUDA(cudaFree(NULL));
    follow_table = find_kernel(&kernels[0]);
    follow_list = find_kernel(&kernels[1]);
    follow_value = find_kernel(&kernels[2]);
    write_pointer = find_kernel(&kernels[3]);
    displace = find_kernel(&kernels[4]);
    hide_pointer = find_kernel(&kernels[5]);
    begin(seed, count);
}

/* ---- tables ---- */

static void launch_table(const void *table, uint32_t count, uint32_t step, cudaStream_t in)
{
    uint64_t address = (uintptr_t)table;
    void *parameters[] = {&address, &count, &step};
    CHECK(launch_kernel(follow_table, (CUstream)in, parameters) == 0);
}

static void table_model(const int *chosen, int count)
{
    for (int i = 0; i < count; i++)
        for (int j = 0; j < MODEL_WORDS; j++)
            model[chosen[i]][j] = 3 * model[chosen[i]][j] + (uint32_t)i + 1;
}

static void follow(const void *table, const int *chosen)
{
    launch_table(table, TABLE, 8, stream);
    table_model(chosen, TABLE);
}

static void pointers_to(const int *chosen, void *words, int count)
{
    for (int i = 0; i < count; i++) {
        const uint64_t word = (uintptr_t)buffers[chosen[i]];
        memcpy((char *)words + (size_t)i * sizeof word, &word, sizeof word); /* at any address */
    }
}

/* From memory that is not there any more when the copy runs. */
static void write_table(void *table, const int *chosen)
{
    uint64_t words[TABLE];
    pointers_to(chosen, words, TABLE);
    CUDA(cudaMemcpyAsync(table, words, sizeof words, cudaMemcpyHostToDevice, stream));
    memset(words, 0, sizeof words);
}

static void *new_table(void)
{
    void *table;
    CUDA(cudaMalloc(&table, 4096));
    return table;
}

/* Tables by copies of all forms. */
static void copy_form(int form, void *table, const uint64_t *words)
{
    const CUdeviceptr to = (uintptr_t)table;
    CUDA_MEMCPY2D box = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                         .srcHost = words,
                         .srcPitch = 8,
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = to,
                         .dstPitch = 8,
                         .WidthInBytes = 8,
                         .Height = TABLE};
    CUDA_MEMCPY3D_BATCH_OP many = {
        .src = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = (uintptr_t)words},
        .dst = {.type = CU_MEMCPY_OPERAND_TYPE_POINTER, .op.ptr.ptr = to},
        .extent = {TABLE_BYTES, 1, 1},
        .srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
    CUDA_MEMCPY3D deep = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                          .srcHost = words,
                          .srcPitch = 8,
                          .srcHeight = 1,
                          .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                          .dstDevice = to,
                          .dstPitch = 8,
                          .dstHeight = 1,
                          .WidthInBytes = 8,
                          .Height = 1,
                          .Depth = TABLE};
    CUdeviceptr destinations[TABLE], sources[TABLE];
    size_t sizes[TABLE], first = 0;
    CUmemcpyAttributes attributes = {.srcAccessOrder = CU_MEMCPY_SRC_ACCESS_ORDER_DURING_API_CALL};
    for (int i = 0; i < TABLE; i++) {
        destinations[i] = to + (CUdeviceptr)i * 8;
        sources[i] = (uintptr_t)(words + i);
        sizes[i] = 8;
    }
    switch (form) {
    case 4:
        DRIVER(cuMemcpy3DBatchAsync(1, &many, 0, (CUstream)stream));
        break;
    case 5:
        DRIVER(cuMemcpyBatchAsync(destinations, sources, sizes, TABLE, &attributes, &first, 1,
                                  (CUstream)stream));
        break;
    case 6:
        DRIVER(cuMemcpy3DAsync(&deep, (CUstream)stream));
        break;
    case 7: /* what was there before is gone */
        DRIVER(cuMemsetD2D8Async(to, 8, 0, 8, TABLE, (CUstream)stream));
        CUDA(cudaStreamSynchronize(stream));
        DRIVER(cuMemcpy(to, (uintptr_t)words, TABLE_BYTES));
        CUDA(cudaStreamSynchronize(NULL));
        break;
    case 0:
        CUDA(cudaMemcpyAsync(table, words, TABLE_BYTES, cudaMemcpyHostToDevice, stream));
        break;
    case 1:
        CUDA(cudaMemcpyAsync(table, words, TABLE_BYTES, cudaMemcpyDefault, stream));
        break;
    case 2:
        CUDA(cudaStreamSynchronize(stream)); /* the default stream does not wait for it */
        CUDA(cudaMemcpy(table, words, TABLE_BYTES, cudaMemcpyHostToDevice));
        CUDA(cudaStreamSynchronize(NULL));
        break;
    default:
        DRIVER(cuMemcpy2DAsync(&box, (CUstream)stream));
    }
}

static void pageable(uint64_t seed, int count)
{
    enum { FORMS = 8 };
    int chosen[TABLE];
    uint64_t words[TABLE];
    begin_all(seed, count);
    void *const table = new_table();
    for (int round = 0; round < rounds; round++) {
        choose(chosen, TABLE);
        pointers_to(chosen, words, TABLE);
        copy_form(round % FORMS, table, words);
        memset(words, 0, sizeof words);
        if (pick(2) == 0)
            work();
        follow(table, chosen);
        work();
    }
    check_all();
}

/* What the stream does before the copy runs. */
typedef struct change {
    uint64_t *words, now[TABLE];
} change_t;

static void CUDART_CB change_words(void *context)
{
    const change_t *const change = context;
    memcpy(change->words, change->now, sizeof change->now);
}

static void pinned(uint64_t seed, int count)
{
    static change_t changes[MOST_ROUNDS];
    int before[TABLE], chosen[TABLE];
    begin_all(seed, count);
    void *const table = new_table();
    for (int round = 0; round < rounds; round++) {
        change_t *const change = &changes[round];
        CUDA(cudaHostAlloc((void **)&change->words, TABLE_BYTES, cudaHostAllocDefault));
        choose(before, TABLE);
        choose(chosen, TABLE);
        pointers_to(before, change->words, TABLE);
        pointers_to(pick(2) == 0 ? before : chosen, change->now, TABLE);
        if (memcmp(change->words, change->now, TABLE_BYTES) == 0)
            memcpy(chosen, before, sizeof chosen);
        CUDA(cudaLaunchHostFunc(stream, change_words, change));
        CUDA(cudaMemcpyAsync(table, change->words, TABLE_BYTES, cudaMemcpyHostToDevice, stream));
        follow(table, chosen);
        work();
    }
    check_all();
}

/* Pinned memory that the stream itself writes, so that no stream waits for the host: the words at the call are others.
 * Where all is there nothing waits for them; what makes memory leave comes behind the launches. */
static void swapped(uint64_t seed, int count)
{
    enum { FEW = 9, TABLES = 4 };
    uint64_t *words;
    int before[TABLE], chosen[TABLE];
    begin_all(seed, count > FEW ? FEW : count);
    char *const table = new_table(), *const source = new_table();
    CUDA(cudaHostAlloc((void **)&words, TABLES * TABLE_BYTES, cudaHostAllocDefault));
    for (int round = 0; round < rounds; round++) {
        CUDA(cudaStreamSynchronize(stream));
        for (int i = 0; i < TABLES; i++) {
            choose(before, TABLE);
            choose(chosen, TABLE);
            pointers_to(before, words + TABLE * i, TABLE);
            write_table(source, chosen);
            CUDA(cudaMemcpyAsync(words + TABLE * i, source, TABLE_BYTES, cudaMemcpyDeviceToHost,
                                 stream));
            CUDA(cudaMemcpyAsync(table, words + TABLE * i, TABLE_BYTES, cudaMemcpyHostToDevice,
                                 stream));
            follow(table, chosen);
        }
        for (; round % 4 == 3 && buffer_count < count; buffer_count++) {
            CUDA(cudaMalloc((void **)&buffers[buffer_count], WORDS * sizeof(uint32_t)));
            CUDA(cudaMemsetAsync(buffers[buffer_count], 7, WORDS * sizeof(uint32_t), stream));
            memset(model[buffer_count], 7, sizeof model[0]);
        }
        while (round % 4 == 0 && buffer_count > FEW)
            CUDA(cudaFree(buffers[--buffer_count]));
    }
    check_all();
}

/* Pointers between other members, in memory and among a kernel's parameters. */
static void structures(uint64_t seed, int count)
{
    struct {
        uint32_t kind, length;
        uint64_t buffer;
        float scale, offset;
    } records[TABLE];
    int chosen[TABLE], two[2];
    begin_all(seed, count);
    char *const table = new_table(), *const first = new_table(), *const second = new_table();
    for (int round = 0; round < rounds; round++) {
        choose(chosen, TABLE);
        for (int i = 0; i < TABLE; i++) {
            memset(&records[i], 0x7f, sizeof records[i]);
            records[i].buffer = (uintptr_t)buffers[chosen[i]];
        }
        CUDA(cudaMemcpyAsync(table, records, sizeof records, cudaMemcpyHostToDevice, stream));
        work();
        launch_table(table + 8, TABLE, sizeof records[0], stream);
        table_model(chosen, TABLE);
        choose(two, 2);
        CUDA(cudaMemcpyAsync(first, &buffers[two[0]], 8, cudaMemcpyHostToDevice, stream));
        CUDA(cudaMemcpyAsync(second, &buffers[two[1]], 8, cudaMemcpyHostToDevice, stream));
        work();
        by_value_t value = {2, 0, {(uintptr_t)first, (uintptr_t)second}};
        void *parameters[] = {&value};
        CHECK(launch_kernel(follow_value, (CUstream)stream, parameters) == 0);
        table_model(two, 2);
    }
    check_all();
}

/* Lists whose nodes lie in memory that leaves, too; they end in a cycle. */
static void chains(uint64_t seed, int count)
{
    enum { NODES = 3, LENGTH = 4 };
    char *cells[NODES];
    int chosen[LENGTH];
    begin_all(seed, count);
    for (int i = 0; i < NODES; i++)
        CUDA(cudaMalloc((void **)&cells[i], WORDS * sizeof(uint32_t)));
    for (int round = 0; round < rounds; round++) {
        choose(chosen, NODES);
        for (int i = 0; i < NODES; i++) {
            const node_t node = {(uintptr_t)(cells[(i + 1) % NODES] + 1024),
                                 (uintptr_t)buffers[chosen[i]]};
            CUDA(cudaMemcpyAsync(cells[i] + 1024, &node, sizeof node, cudaMemcpyHostToDevice,
                                 stream));
        }
        work();
        work();
        uint64_t head = (uintptr_t)(cells[0] + 1024);
        uint32_t length = LENGTH;
        void *parameters[] = {&head, &length};
        CHECK(launch_kernel(follow_list, (CUstream)stream, parameters) == 0);
        chosen[NODES] = chosen[0];
        table_model(chosen, LENGTH);
    }
    check_all();
}

/* Overwritten by a call that is made before a launch which still finds the old table: the stream of the copy waits for a
 * word that the other one writes behind the launch. */
static void overwritten(uint64_t seed, int count)
{
    int chosen[TABLE], next[TABLE];
    cudaStream_t other;
    CUdeviceptr flag;
    begin_all(seed, count);
    void *const table = new_table(), *const fresh = new_table();
    CUDA(cudaMalloc((void **)&flag, 256));
    CUDA(cudaMemset((void *)(uintptr_t)flag, 0, 256));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    for (int round = 0; round < rounds / 2; round++) {
        choose(chosen, TABLE);
        choose(next, TABLE);
        write_table(table, chosen);
        write_table(fresh, next);
        work();
        CUDA(cudaStreamSynchronize(stream));
        DRIVER(cuStreamWaitValue32((CUstream)other, flag, (cuuint32_t)round + 1,
                                   CU_STREAM_WAIT_VALUE_GEQ));
        CUDA(cudaMemcpyAsync(table, fresh, TABLE_BYTES, cudaMemcpyDeviceToDevice, other));
        follow(table, chosen);
        DRIVER(cuStreamWriteValue32((CUstream)stream, flag, (cuuint32_t)round + 1, 0));
        CUDA(cudaStreamSynchronize(other));
        work();
        follow(table, next);
    }
    check_all();
}

/* Host code that runs ahead: many tables, and launches behind them in another stream. */
static void streams(uint64_t seed, int count)
{
    enum { TABLES = 4 };
    void *tables[TABLES];
    cudaStream_t other;
    cudaEvent_t event;
    int chosen[TABLE];
    begin_all(seed, count);
    CUDA(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (int i = 0; i < TABLES; i++)
        tables[i] = new_table();
    for (int round = 0; round < rounds; round++) {
        void *const table = tables[round % TABLES];
        choose(chosen, TABLE);
        write_table(table, chosen);
        CUDA(cudaEventRecord(event, stream));
        CUDA(cudaStreamWaitEvent(other, event, 0));
        launch_table(table, TABLE, 8, other);
        table_model(chosen, TABLE);
        CUDA(cudaEventRecord(event, other));
        CUDA(cudaStreamWaitEvent(stream, event, 0));
        work();
    }
    CUDA(cudaStreamSynchronize(other));
    CUDA(cudaEventDestroy(event));
    check_all();
}

/* A graph of a copy and a launch behind it, and one of a launch alone, whose table changes between its launches. */
static void captured(uint64_t seed, int count)
{
    int chosen[TABLE], again[TABLE];
    uint64_t *words;
    cudaGraph_t graphs[2];
    cudaGraphExec_t executables[2];
    begin_all(seed, count);
    void *const table = new_table(), *const other = new_table();
    CUDA(cudaHostAlloc((void **)&words, TABLE_BYTES, cudaHostAllocDefault));
    choose(chosen, TABLE);
    pointers_to(chosen, words, TABLE);
    CUDA(cudaMemsetAsync(other, 0, 4096, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < 2; i++) {
        CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
        if (i == 0)
            CUDA(cudaMemcpyAsync(table, words, TABLE_BYTES, cudaMemcpyHostToDevice, stream));
        launch_table(i == 0 ? table : other, TABLE, 8, stream);
        CUDA(cudaStreamEndCapture(stream, &graphs[i]));
        CUDA(cudaGraphInstantiate(&executables[i], graphs[i], 0));
        CUDA(cudaGraphDestroy(graphs[i]));
    }
    for (int round = 0; round < rounds; round++) {
        work();
        CUDA(cudaGraphLaunch(executables[0], stream));
        table_model(chosen, TABLE);
        choose(again, TABLE);
        write_table(other, again);
        work();
        CUDA(cudaGraphLaunch(executables[1], stream));
        table_model(again, TABLE);
    }
    check_all();
}

/* Tables that are copied on the device, in steps, and moved to memory of another allocation. */
static void moved(uint64_t seed, int count)
{
    int chosen[TABLE];
    begin_all(seed, count);
    char *const table = new_table(), *const second = new_table();
    char *third;
    CUDA(cudaMalloc((void **)&third, WORDS * sizeof(uint32_t)));
    for (int round = 0; round < rounds; round++) {
        choose(chosen, TABLE);
        write_table(table, chosen);
        CUDA(cudaMemcpyAsync(second + 512, table, 64, cudaMemcpyDeviceToDevice, stream));
        CUDA(cudaMemsetAsync(third, 0, 4096, stream)); /* ends the table of the round before */
        CUDA(
            cudaMemcpyAsync(third + 8 * round, second + 512, 64, cudaMemcpyDeviceToDevice, stream));
        CUDA(cudaMemsetAsync(table, 0, 64, stream));
        CUDA(cudaMemsetAsync(second, 0, 4096, stream));
        work();
        follow(third + 8 * round, chosen);
    }
    check_all();
}

/* What is pointed to, and what holds the pointers, is freed, and their memory serves others. */
static void freed(uint64_t seed, int count)
{
    int chosen[TABLE];
    begin_all(seed, count);
    for (int round = 0; round < rounds; round++) {
        void *const table = new_table();
        choose(chosen, TABLE);
        write_table(table, chosen);
        work();
        follow(table, chosen);
        CUDA(cudaStreamSynchronize(stream));
        CUDA(cudaFree(table));
        uint32_t *const gone = buffers[chosen[0]];
        CUDA(cudaFree(gone));
        CUDA(cudaMalloc((void **)&buffers[chosen[0]], WORDS * sizeof(uint32_t)));
        CUDA(cudaMemsetAsync(buffers[chosen[0]], round, WORDS * sizeof(uint32_t), stream));
        for (int j = 0; j < MODEL_WORDS; j++)
            memset(&model[chosen[0]][j], round, sizeof(uint32_t));
    }
    check_all();
}

/* A table of all buffers, which have no room at once; the kernel follows the part that was written last. */
static void too_large(uint64_t seed, int count)
{
    int all[MOST], chosen[TABLE];
    uint64_t words[MOST];
    begin_all(seed, count);
    uint64_t *const table = new_table();
    for (int i = 0; i < count; i++)
        all[i] = i;
    pointers_to(all, words, count);
    CUDA(cudaMemcpyAsync(table, words, (size_t)count * 8, cudaMemcpyHostToDevice, stream));
    for (int round = 0; round < 4; round++) {
        choose(chosen, TABLE);
        write_table(table + TABLE * round, chosen);
        work();
        follow(table + TABLE * round, chosen);
    }
    check_all();
}

/* The same, and the kernel follows all of it. */
static void above(uint64_t seed, int count)
{
    int all[MOST];
    uint64_t words[MOST];
    begin_all(seed, count);
    uint64_t *const table = new_table();
    for (int i = 0; i < count; i++)
        all[i] = i;
    pointers_to(all, words, count);
    for (int round = 0; round < 3; round++) {
        CUDA(cudaMemcpyAsync(table, words, (size_t)count * 8, cudaMemcpyHostToDevice, stream));
        work();
        launch_table(table, (uint32_t)count, 8, stream);
        table_model(all, count);
    }
    check_all();
}

/* Tables in pinned memory of the host that no copy brings to the device, as MAGMA's batched routines have them, of both
 * kinds. What lies behind them is followed too, so only the latest are there: all must fit. */
static void host(uint64_t seed, int count)
{
    static uint64_t own[512];
    uint64_t *tables[2] = {NULL, own};
    int chosen[TABLE], two[2];
    begin_all(seed, count);
    CUDA(cudaHostAlloc((void **)&tables[0], sizeof own, cudaHostAllocDefault));
    CUDA(cudaHostRegister(own, sizeof own, cudaHostRegisterDefault));
    for (int round = 0; round < rounds; round++) {
        uint64_t *const table = tables[pick(2)] + pick(32);
        choose(chosen, TABLE);
        CUDA(cudaStreamSynchronize(stream));
        memset(tables[0], 0, sizeof own);
        memset(own, 0, sizeof own);
        pointers_to(chosen, table, TABLE);
        work();
        follow(table, chosen);
        choose(two, 2);
        CUDA(cudaStreamSynchronize(stream));
        pointers_to(two, table + 64, 2);
        by_value_t value = {2, 0, {(uintptr_t)(table + 64), (uintptr_t)(table + 65)}};
        void *parameters[] = {&value};
        work();
        CHECK(launch_kernel(follow_value, (CUstream)stream, parameters) == 0);
        table_model(two, 2);
    }
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaFreeHost(tables[0]));
    CUDA(cudaHostUnregister(own));
    /* A number that looks like the address of memory that is gone. */
    by_value_t value = {0, 0, {(uintptr_t)tables[0], (uintptr_t)tables[0]}};
    void *parameters[] = {&value};
    CHECK(launch_kernel(follow_value, (CUstream)stream, parameters) == 0);
    check_all();
}

/* Parameters one by one, or in one piece. */
static void launch_written(CUfunction function, const void *table, const void *from,
                           uint32_t number)
{
    struct {
        uint64_t table, from;
        uint32_t number;
    } piece = {(uintptr_t)table, (uintptr_t)from, number};
    size_t bytes = 20;
    void *parameters[] = {&piece.table, &piece.from, &piece.number};
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &piece, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    if (pick(2) == 0)
        CHECK(launch_kernel(function, (CUstream)stream, parameters) == 0);
    else
        DRIVER(cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, (CUstream)stream, NULL, extra));
}

/* Kernels write pointers into one table, and take them from it, or from one of the host's, into another. */
static void written(uint64_t seed, int count)
{
    uint64_t *own;
    int chosen[TABLE], others[TABLE];
    begin_all(seed, count);
    CUDA(cudaHostAlloc((void **)&own, TABLE_BYTES, cudaHostAllocDefault));
    for (int round = 0; round < rounds / 2; round++) {
        void *const tables[3] = {new_table(), new_table(), new_table()};
        choose(chosen, TABLE);
        choose(others, TABLE);
        CUDA(cudaStreamSynchronize(stream));
        pointers_to(others, own, TABLE);
        for (uint32_t i = 0; i < TABLE; i++)
            launch_written(write_pointer, tables[0], buffers[chosen[i]], i);
        work();
        launch_written(displace, tables[1], tables[0], TABLE);
        launch_written(displace, tables[2], own, TABLE);
        work();
        follow(tables[pick(2)], chosen);
        work();
        follow(tables[2], others);
        for (int i = 0; i < 3; i++)
            CUDA(cudaFree(tables[i]));
    }
    check_all();
}

/* Pointers at the beginning and at the end of a copy of numbers, from pageable and from pinned memory. */
static void packed(uint64_t seed, int count)
{
    enum { BYTES_OF_COPY = 300 << 10, LATER = 290 << 10 };
    int first[TABLE], later[TABLE];
    char *sources[2] = {calloc(1, BYTES_OF_COPY), NULL};
    begin_all(seed, count);
    CUDA(cudaHostAlloc((void **)&sources[1], BYTES_OF_COPY, cudaHostAllocDefault));
    memset(sources[1], 0, BYTES_OF_COPY);
    for (int round = 0; round < rounds / 2; round++) {
        char *const source = sources[pick(2)], *table;
        const size_t odd = (size_t)pick(3) * 4;
        CUDA(cudaMalloc((void **)&table, BYTES_OF_COPY + 8));
        choose(first, TABLE);
        choose(later, TABLE);
        CUDA(cudaStreamSynchronize(stream));
        pointers_to(first, source + 8 - odd % 8, TABLE);
        pointers_to(later, source + LATER + 8 - odd % 8, TABLE);
        CUDA(cudaMemcpyAsync(table + odd, source, BYTES_OF_COPY - 8, cudaMemcpyHostToDevice,
                             stream));
        work();
        follow(table + odd + 8 - odd % 8, first);
        work();
        follow(table + odd + LATER + 8 - odd % 8, later);
        CUDA(cudaFree(table));
    }
    free(sources[0]);
    check_all();
}

/* A kernel whose name says nothing writes a table. Stray accesses end this, unless a list has the kernel that follows;
 * what the first table leads to has left by then, as much other memory was in use since. */
static void hidden(uint64_t seed, int count)
{
    enum { MUCH = 12 };
    int chosen[TABLE];
    begin_all(seed, count);
    void *const table = new_table();
    for (int round = 0; round < rounds; round++) {
        choose(chosen, TABLE);
        for (uint32_t i = 0; i < TABLE; i++)
            launch_written(hide_pointer, table, buffers[chosen[i]], i);
        for (int i = round == 0 ? MUCH : pick(2); i > 0; i--)
            work();
        follow(table, chosen);
        work();
    }
    check_all();
}

/* The same on the device as it is after a reset. */
static void hidden_again(uint64_t seed, int count)
{
    for (int life = 0; life < 2; life++) {
        hidden(seed, count);
        CUDA(cudaDeviceReset());
    }
}

/* All other memory is used, so that the first six buffers leave. */
static void use_others(void)
{
    enum { FIRST = 6 };
    for (int i = FIRST; i < buffer_count; i++) {
        const int from = FIRST + i % (buffer_count - FIRST);
        const int to = FIRST + (i + 1) % (buffer_count - FIRST);
        CUDA(cudaMemcpyAsync(buffers[to], buffers[from], WORDS * sizeof(uint32_t),
                             cudaMemcpyDeviceToDevice, stream));
        memcpy(model[to], model[from], sizeof model[0]);
    }
}

/* The first buffers, whose pointers kernels write into the table from this place on. */
static void write_first(void *table, uint32_t place, int *chosen)
{
    for (int i = 0; i < TABLE; i++) {
        chosen[i] = i;
        launch_written(write_pointer, table, buffers[i], place + (uint32_t)i);
    }
}

/* A kernel takes pointers from a table whose words came from pinned memory that the stream itself had written: no copy
 * knows these words, as a kernel wrote them whose name does not say so. Where all is there, nothing waits for them. */
static void unread_source(uint64_t seed, int count)
{
    enum { FEW = 9 };
    uint64_t *words;
    char *much;
    int before[TABLE], chosen[TABLE];
    begin_all(seed, FEW);
    char *const table = new_table(), *const source = new_table(), *const other = new_table();
    CUDA(cudaHostAlloc((void **)&words, TABLE_BYTES, cudaHostAllocDefault));
    CUDA(cudaHostAlloc((void **)&much, WORDS * sizeof(uint32_t), cudaHostAllocDefault));
    for (int i = 0; i < TABLE; i++) {
        before[i] = i;
        chosen[i] = i + TABLE;
        launch_written(hide_pointer, source, buffers[chosen[i]], (uint32_t)i);
    }
    pointers_to(before, words, TABLE);
    CUDA(cudaMemcpyAsync(table, words, TABLE_BYTES, cudaMemcpyHostToDevice, stream));
    CUDA(cudaStreamSynchronize(stream));
    for (int i = 0; i < 50; i++) /* the link is busy for some time */
        CUDA(cudaMemcpyAsync(much, buffers[0], WORDS * sizeof(uint32_t), cudaMemcpyDeviceToHost,
                             stream));
    CUDA(cudaMemcpyAsync(words, source, TABLE_BYTES, cudaMemcpyDeviceToHost, stream));
    CUDA(cudaMemcpyAsync(table, words, TABLE_BYTES, cudaMemcpyHostToDevice, stream));
    launch_written(displace, other, table, TABLE);
    CUDA(cudaStreamSynchronize(stream));
    for (; buffer_count < count; buffer_count++) {
        CUDA(cudaMalloc((void **)&buffers[buffer_count], WORDS * sizeof(uint32_t)));
        CUDA(cudaMemsetAsync(buffers[buffer_count], 7, WORDS * sizeof(uint32_t), stream));
        memset(model[buffer_count], 7, sizeof model[0]);
    }
    use_others();
    follow(other, chosen);
    check_all();
}

/* A part of a table that a kernel wrote is copied; its first word is overwritten with a number. */
static void partly(uint64_t seed, int count)
{
    const uint64_t number = TABLE;
    int chosen[TABLE];
    begin_all(seed, count);
    char *const table = new_table(), *const other = new_table();
    write_first(table, 64, chosen);
    CUDA(cudaMemcpyAsync(other, table + 512, TABLE_BYTES, cudaMemcpyDeviceToDevice, stream));
    CUDA(cudaMemcpyAsync(table, &number, sizeof number, cudaMemcpyHostToDevice, stream));
    use_others();
    follow(other, chosen);
    use_others();
    follow(table + 512, chosen);
    check_all();
}

/* A graph writes two tables, by kernels and by a copy, which are cleared before each of its launches. */
static void graph_again(uint64_t seed, int count)
{
    int chosen[TABLE];
    uint64_t words[TABLE];
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    begin_all(seed, count);
    void *const tables[2] = {new_table(), new_table()};
    CUDA(cudaStreamSynchronize(stream));
    CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    write_first(tables[0], 0, chosen);
    pointers_to(chosen, words, TABLE);
    CUDA(cudaMemcpyAsync(tables[1], words, sizeof words, cudaMemcpyHostToDevice, stream));
    CUDA(cudaStreamEndCapture(stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 2; i++)
            CUDA(cudaMemsetAsync(tables[i], 0, 4096, stream));
        CUDA(cudaGraphLaunch(executable, stream));
        if (round == 3) /* what it brought stays */
            CUDA(cudaGraphExecDestroy(executable));
        use_others();
        follow(tables[round % 2], chosen);
    }
    check_all();
}

static void run_nine(void *const *parameters)
{
    uint64_t *const at = simulator->memory(*(uint64_t *)parameters[8], sizeof *at);
    if (at)
        *at = *(uint64_t *)parameters[9];
}

/* A kernel has nine tables and writes the last one. */
static void nine(uint64_t seed, int count)
{
    static const sim_kernel_parameter_t of[] = {{0, 8},  {8, 8},  {16, 8}, {24, 8}, {32, 8},
                                                {40, 8}, {48, 8}, {56, 8}, {64, 8}, {72, 8}};
    static const sim_kernel_t kernel = {"_Z4ninePPjS0_S0_S0_S0_S0_S0_S0_S0_S_", 10, of, run_nine};
    int chosen[TABLE];
    uint64_t values[10];
    void *parameters[10];
    begin_all(seed, count);
    const CUfunction function = find_kernel(&kernel);
    uint64_t *const table = new_table();
    for (int i = 0; i < 10; i++) {
        values[i] = (uintptr_t)(i < 8 ? new_table() : NULL);
        parameters[i] = &values[i];
    }
    for (int i = 0; i < TABLE; i++) {
        chosen[i] = i;
        values[8] = (uintptr_t)(table + i);
        values[9] = (uintptr_t)buffers[i];
        CHECK(launch_kernel(function, (CUstream)stream, parameters) == 0);
    }
    use_others();
    follow(table, chosen);
    check_all();
}

typedef struct many {
    uint64_t tables[12];
} many_t;

static void run_many(void *const *parameters)
{
    const many_t *const many = parameters[0];
    const uint64_t *const at = simulator->memory(many->tables[11], TABLE_BYTES);
    for (uint32_t i = 0; at && i < TABLE; i++)
        scale(at[i], i + 1);
}

/* A structure of twelve tables in pinned memory, of which the last one leads to buffers. */
static void many(uint64_t seed, int count)
{
    enum { APART = 8192, MEMORY_BYTES = 12 * APART * 8 };
    static const sim_kernel_parameter_t of[] = {{0, sizeof(many_t)}};
    static const sim_kernel_t kernel = {"many", 1, of, run_many};
    int chosen[TABLE];
    uint64_t *words;
    many_t of_all;
    void *parameters[] = {&of_all};
    begin_all(seed, count);
    CUDA(cudaHostAlloc((void **)&words, MEMORY_BYTES, cudaHostAllocDefault));
    memset(words, 0, MEMORY_BYTES);
    for (int i = 0; i < 12; i++)
        of_all.tables[i] = (uintptr_t)(words + (size_t)i * APART);
    for (int i = 0; i < TABLE; i++)
        chosen[i] = i;
    pointers_to(chosen, words + (size_t)11 * APART, TABLE);
    use_others();
    CHECK(launch_kernel(find_kernel(&kernel), (CUstream)stream, parameters) == 0);
    table_model(chosen, TABLE);
    check_all();
}

/* A list whose nodes lie far apart in pinned memory. */
static void pinned_chain(uint64_t seed, int count)
{
    enum { NODES = 1 << 16, LENGTH = 2 };
    int chosen[LENGTH];
    uint64_t head;
    uint32_t length = LENGTH;
    void *parameters[] = {&head, &length};
    node_t *nodes;
    begin_all(seed, count);
    CUDA(cudaHostAlloc((void **)&nodes, NODES * sizeof *nodes, cudaHostAllocDefault));
    memset(nodes, 0, NODES * sizeof *nodes);
    head = (uintptr_t)nodes;
    for (int round = 0; round < rounds; round++) {
        choose(chosen, LENGTH);
        nodes[0] = (node_t){(uintptr_t)&nodes[NODES - 1], (uintptr_t)buffers[chosen[0]]};
        nodes[NODES - 1].buffer = (uintptr_t)buffers[chosen[1]];
        use_others();
        CHECK(launch_kernel(follow_list, (CUstream)stream, parameters) == 0);
        table_model(chosen, LENGTH);
        CUDA(cudaStreamSynchronize(stream));
    }
    check_all();
}

/* A table that a kernel wrote is copied to the host, and back to another place; kernels read it there, too. */
static void round_trip(uint64_t seed, int count)
{
    int chosen[TABLE];
    uint64_t *words;
    begin_all(seed, count);
    char *const table = new_table(), *const other = new_table();
    CUDA(cudaHostAlloc((void **)&words, 4096, cudaHostAllocDefault));
    for (int round = 0; round < 3; round++) {
        memset(words, 0, 4096);
        write_first(table, 0, chosen);
        CUDA(cudaMemcpyAsync(words, table, TABLE_BYTES, cudaMemcpyDeviceToHost, stream));
        CUDA(cudaMemcpyAsync(other, words, TABLE_BYTES, cudaMemcpyHostToDevice, stream));
        CUDA(cudaMemsetAsync(table, 0, 4096, stream));
        use_others();
        follow(round == 1 ? (void *)words : other, chosen);
        CUDA(cudaStreamSynchronize(stream));
    }
    CUDA(cudaFreeHost(words));
    check_all();
}

/* Labels and small numbers, as every program copies them from pinned memory: nothing is read back. */
static void labels(uint64_t seed, int count)
{
    uint64_t *words;
    begin_all(seed, count);
    char *const small = new_table();
    CUDA(cudaHostAlloc((void **)&words, 4096, cudaHostAllocDefault));
    for (uint64_t i = 0; i < 512; i++)
        words[i] = i * 7;
    for (int round = 0; round < rounds; round++) {
        CUDA(cudaMemcpyAsync(small, words, 4096, cudaMemcpyHostToDevice, stream));
        work();
    }
    check_all();
}

int main(int argc, char **argv)
{
    static const named_program_t programs[] = {{"pageable", pageable},
                                               {"pinned", pinned},
                                               {"swapped", swapped},
                                               {"structures", structures},
                                               {"chains", chains},
                                               {"overwritten", overwritten},
                                               {"streams", streams},
                                               {"captured", captured},
                                               {"moved", moved},
                                               {"freed", freed},
                                               {"too_large", too_large},
                                               {"above", above},
                                               {"labels", labels},
                                               {"host", host},
                                               {"written", written},
                                               {"packed", packed},
                                               {"unread_source", unread_source},
                                               {"partly", partly},
                                               {"graph_again", graph_again},
                                               {"nine", nine},
                                               {"many", many},
                                               {"pinned_chain", pinned_chain},
                                               {"round_trip", round_trip},
                                               {"hidden", hidden},
                                               {"hidden_again", hidden_again}};
    return run_program(programs, sizeof programs / sizeof *programs, argc, argv);
}
