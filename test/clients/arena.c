/* Programs under policy wd: what they compute is compared with a reference, and the device memory
 * that they see go is compared with the total. Run by test/arena.sh, which looks at the statistics.
 *
 *   arena PROGRAM TOTAL_BYTES [FAULT]    one of the list at the end; exit status 0 if all was
 * right. FAULT, like cuEventRecord:3, makes that call of the driver fail once algorithms are
 * chosen; "reaps" has a thread wait for children the while: there must be none. */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include <cuda_runtime_api.h>
#include <cudnn.h>

#include "test/clients/check.h"
#include "test/reference_convolution.h"
#include "test/sim/sim.h"

#define CUDNN(call) CHECK((call) == CUDNN_STATUS_SUCCESS)

enum { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, DIRECTIONS, RESULTS = 16, LAYERS = 3 };
enum { C = 4, SIDE = 8, K = 8, KERNEL = 5, PAD = 2, BATCH = 16, ODD_BATCH = 7 };
enum { PAGE = 4096 }; /* of the simulated device: no allocation takes less */

static size_t total_bytes, free_at_begin;
static const char *fault = "";

static size_t free_now(void)
{
    size_t now, total;
    CUDA(cudaMemGetInfo(&now, &total));
    return now;
}

/* ---- a layer: inputs that stay, outputs of its own in each direction ---- */

typedef struct layer {
    cudnnTensorDescriptor_t x_desc, y_desc;
    cudnnFilterDescriptor_t w_desc;
    cudnnConvolutionDescriptor_t conv;
    int n, algos[DIRECTIONS];
    size_t counts[DIRECTIONS]; /* of y, x, w */
    float *inputs[DIRECTIONS], *outputs[DIRECTIONS];
    const double *truth[DIRECTIONS]; /* the outputs are this by truth_factor */
    double truth_factor;
} layer_t;

typedef struct model {
    layer_t layers[LAYERS];
} model_t;

/* A thread's way to the device. */
typedef struct lane {
    cudnnHandle_t handle;
    cudaStream_t stream;
} lane_t;

static void lane_open(lane_t *lane)
{
    CUDA(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking));
    CUDNN(cudnnCreate(&lane->handle));
    CUDNN(cudnnSetStream(lane->handle, lane->stream));
}

static void lane_close(lane_t *lane)
{
    CUDNN(cudnnDestroy(lane->handle));
    CUDA(cudaStreamDestroy(lane->stream));
}

static void make_descriptors(layer_t *layer)
{
    CUDNN(cudnnCreateTensorDescriptor(&layer->x_desc));
    CUDNN(cudnnCreateTensorDescriptor(&layer->y_desc));
    CUDNN(cudnnCreateFilterDescriptor(&layer->w_desc));
    CUDNN(cudnnCreateConvolutionDescriptor(&layer->conv));
    CUDNN(cudnnSetTensor4dDescriptor(layer->x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, layer->n,
                                     C, SIDE, SIDE));
    CUDNN(cudnnSetTensor4dDescriptor(layer->y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, layer->n,
                                     K, SIDE, SIDE));
    CUDNN(cudnnSetFilter4dDescriptor(layer->w_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, K, C,
                                     KERNEL, KERNEL));
    CUDNN(cudnnSetConvolution2dDescriptor(layer->conv, PAD, PAD, 1, 1, 1, 1,
                                          CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
    CUDNN(cudnnSetConvolutionMathType(layer->conv, CUDNN_FMA_MATH));
}

/* Numbers of the tensors of one batch size, which each layer holds by a factor of its own, and what the reference
 * makes of them. */
typedef struct base {
    double *inputs[DIRECTIONS], *truth[DIRECTIONS];
} base_t;

enum { MOST_IMAGES = 4 * BATCH + 1 };

static const base_t *base_of(const layer_t *layer, reference_convolution_t *reference)
{
    static base_t bases[MOST_IMAGES + 1];
    static unsigned long long state = 42;
    CHECK(layer->n <= MOST_IMAGES);
    base_t *const base = &bases[layer->n];
    if (base->truth[0])
        return base;
    for (int i = 0; i < DIRECTIONS; i++) {
        base->inputs[i] = malloc(layer->counts[i] * sizeof *base->inputs[i]);
        base->truth[i] = malloc(layer->counts[i] * sizeof *base->truth[i]);
        CHECK(base->inputs[i] && base->truth[i]);
        for (size_t j = 0; j < layer->counts[i]; j++)
            base->inputs[i][j] = reference_random(&state);
    }
    for (int i = 0; i < DIRECTIONS; i++) {
        double *arrays[DIRECTIONS] = {base->inputs[0], base->inputs[1], base->inputs[2]};
        arrays[i] = base->truth[i];
        reference->direction = (reference_direction_t)i;
        reference_convolution(reference, 1.0, 0.0, arrays[1], arrays[2], arrays[0]);
    }
    return base;
}

/* No two layers hold the same, or have the same results. */
static void fill(layer_t *layer, reference_convolution_t *reference)
{
    static int layers;
    const double factor = 1 + ++layers / 16.0;
    const base_t *const base = base_of(layer, reference);
    for (int i = 0; i < DIRECTIONS; i++) {
        const size_t count = layer->counts[i];
        float *const narrow = malloc(count * sizeof *narrow);
        CHECK(narrow);
        for (size_t j = 0; j < count; j++)
            narrow[j] = (float)(factor * base->inputs[i][j]);
        layer->truth[i] = base->truth[i];
        layer->truth_factor = factor * factor;
        CUDA(cudaMalloc((void **)&layer->inputs[i], count * sizeof(float)));
        CUDA(cudaMalloc((void **)&layer->outputs[i], count * sizeof(float)));
        CUDA(cudaMemcpy(layer->inputs[i], narrow, count * sizeof *narrow, cudaMemcpyHostToDevice));
        free(narrow);
    }
}

static void layer_open(layer_t *layer, int n)
{
    reference_convolution_t reference = {.groups = 1,
                                         .pad = {0, PAD, PAD},
                                         .stride = {1, 1, 1},
                                         .dilation = {1, 1, 1},
                                         .x = {.dims = {n, C, 1, SIDE, SIDE}},
                                         .w = {.dims = {K, C, 1, KERNEL, KERNEL}},
                                         .y = {.dims = {n, K, 1, SIDE, SIDE}}};
    reference_pack(&reference.x, false);
    reference_pack(&reference.w, false);
    reference_pack(&reference.y, false);
    layer->n = n;
    layer->counts[FORWARD] = reference_span(&reference.y);
    layer->counts[BACKWARD_DATA] = reference_span(&reference.x);
    layer->counts[BACKWARD_FILTER] = reference_span(&reference.w);
    make_descriptors(layer);
    fill(layer, &reference);
}

/* Layers of a model have one problem in common but for every second one. */
static void model_open(model_t *model, int n)
{
    memset(model, 0, sizeof *model);
    for (int i = 0; i < LAYERS; i++)
        layer_open(&model->layers[i], n + i % 2);
}

/* ---- what programs call ---- */

/* What some programs use instead of the answer: the backward algorithms that give the same bits each time. */
static bool same_bits;

static int chosen(int direction, int answered)
{
    return same_bits && direction != FORWARD ? 1 : answered;
}

static size_t needed_workspace(const lane_t *lane, const layer_t *layer, int direction)
{
    const int algo = layer->algos[direction];
    size_t bytes = 1;
    if (direction == FORWARD)
        CUDNN(cudnnGetConvolutionForwardWorkspaceSize(lane->handle, layer->x_desc, layer->w_desc,
                                                      layer->conv, layer->y_desc,
                                                      (cudnnConvolutionFwdAlgo_t)algo, &bytes));
    else if (direction == BACKWARD_DATA)
        CUDNN(cudnnGetConvolutionBackwardDataWorkspaceSize(
            lane->handle, layer->w_desc, layer->y_desc, layer->conv, layer->x_desc,
            (cudnnConvolutionBwdDataAlgo_t)algo, &bytes));
    else
        CUDNN(cudnnGetConvolutionBackwardFilterWorkspaceSize(
            lane->handle, layer->x_desc, layer->y_desc, layer->conv, layer->w_desc,
            (cudnnConvolutionBwdFilterAlgo_t)algo, &bytes));
    return bytes;
}

/* As a program chooses; the answer must be that no workspace is needed. */
static void choose(const lane_t *lane, layer_t *layer)
{
    for (int i = 0; i < DIRECTIONS; i++) {
        cudnnConvolutionFwdAlgoPerf_t results[RESULTS];
        int count = 0;
        if (i == FORWARD)
            CUDNN(cudnnFindConvolutionForwardAlgorithm(lane->handle, layer->x_desc, layer->w_desc,
                                                       layer->conv, layer->y_desc, RESULTS, &count,
                                                       results));
        else if (i == BACKWARD_DATA)
            CUDNN(cudnnGetConvolutionBackwardDataAlgorithm_v7(
                lane->handle, layer->w_desc, layer->y_desc, layer->conv, layer->x_desc, RESULTS,
                &count, (cudnnConvolutionBwdDataAlgoPerf_t *)results));
        else
            CUDNN(cudnnFindConvolutionBackwardFilterAlgorithm(
                lane->handle, layer->x_desc, layer->y_desc, layer->conv, layer->w_desc, RESULTS,
                &count, (cudnnConvolutionBwdFilterAlgoPerf_t *)results));
        CHECK(count > 0 && results[0].memory == 0);
        layer->algos[i] = chosen(i, (int)results[0].algo);
        CHECK(needed_workspace(lane, layer, i) == 0);
    }
}

static void choose_all(const lane_t *lane, model_t *model)
{
    for (int i = 0; i < LAYERS; i++)
        choose(lane, &model->layers[i]);
}

/* As it chooses what it has chosen before for `like`, which has the same problems. */
static void choose_alike(const lane_t *lane, model_t *model, const model_t *like)
{
    for (int i = 0; i < LAYERS; i++)
        for (int direction = 0; direction < DIRECTIONS; direction++) {
            model->layers[i].algos[direction] = like->layers[i].algos[direction];
            CHECK(needed_workspace(lane, &model->layers[i], direction) == 0);
        }
}

static void run(const lane_t *lane, const layer_t *layer, int direction)
{
    const float one = 1.0F, zero = 0.0F;
    CUDA(cudaMemsetAsync(layer->outputs[direction], 0xFF, layer->counts[direction] * sizeof(float),
                         lane->stream));
    if (direction == FORWARD)
        CUDNN(cudnnConvolutionForward(lane->handle, &one, layer->x_desc, layer->inputs[1],
                                      layer->w_desc, layer->inputs[2], layer->conv,
                                      (cudnnConvolutionFwdAlgo_t)layer->algos[direction], NULL, 0,
                                      &zero, layer->y_desc, layer->outputs[0]));
    else if (direction == BACKWARD_DATA)
        CUDNN(cudnnConvolutionBackwardData(lane->handle, &one, layer->w_desc, layer->inputs[2],
                                           layer->y_desc, layer->inputs[0], layer->conv,
                                           (cudnnConvolutionBwdDataAlgo_t)layer->algos[direction],
                                           NULL, 0, &zero, layer->x_desc, layer->outputs[1]));
    else
        CUDNN(cudnnConvolutionBackwardFilter(
            lane->handle, &one, layer->x_desc, layer->inputs[1], layer->y_desc, layer->inputs[0],
            layer->conv, (cudnnConvolutionBwdFilterAlgo_t)layer->algos[direction], NULL, 0, &zero,
            layer->w_desc, layer->outputs[2]));
}

static void evaluate(const lane_t *lane, const model_t *model)
{
    for (int i = 0; i < LAYERS; i++)
        run(lane, &model->layers[i], FORWARD);
}

static void train(const lane_t *lane, const model_t *model)
{
    evaluate(lane, model);
    for (int i = LAYERS - 1; i >= 0; i--) {
        run(lane, &model->layers[i], BACKWARD_FILTER);
        run(lane, &model->layers[i], BACKWARD_DATA);
    }
}

static void check_output(const layer_t *layer, int direction)
{
    const size_t count = layer->counts[direction];
    float *const narrow = malloc(count * sizeof *narrow);
    double difference = 0, norm = 0;
    CHECK(narrow);
    CUDA(cudaMemcpy(narrow, layer->outputs[direction], count * sizeof *narrow,
                    cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < count; i++) {
        const double expected = layer->truth_factor * layer->truth[direction][i];
        const double error = (double)narrow[i] - expected;
        difference += error * error;
        norm += expected * expected;
    }
    free(narrow);
    if (!(difference <= 1e-10 * norm))
        printf("direction %d: squared error %g of %g\n", direction, difference, norm);
    CHECK(difference <= 1e-10 * norm);
}

/* After the device has come to rest, and memory has not gone beyond the total. */
static void check_model(const model_t *model, int directions)
{
    for (int i = 0; i < LAYERS; i++)
        for (int direction = 0; direction < directions; direction++)
            check_output(&model->layers[i], direction);
}

static void check_memory(void)
{
    CHECK(free_at_begin - free_now() <= (total_bytes + PAGE - 1) / PAGE * PAGE);
}

static void train_and_check(const lane_t *lane, const model_t *model, int times)
{
    for (int i = 0; i < times; i++)
        train(lane, model);
    CUDA(cudaStreamSynchronize(lane->stream));
    check_model(model, DIRECTIONS);
    check_memory();
}

/* Tensors are there: from here on only the library takes memory. */
static void begin(void)
{
    CUDA(cudaDeviceSynchronize());
    free_at_begin = free_now();
}

static const sim_api_t *simulator(void)
{
    void *const cuda = dlopen("libcuda.so.1", RTLD_NOW);
    void *const symbol = cuda ? dlsym(cuda, "sim_api") : NULL;
    sim_api_function_t get;
    CHECK(symbol);
    memcpy(&get, &symbol, sizeof get);
    return get();
}

/* Algorithms are chosen: from here on only running convolutions makes calls of the driver. */
static void inject_fault(void)
{
    char name[64];
    unsigned long long nth;
    if (sscanf(fault, "%63[^:]:%llu", name, &nth) == 2)
        simulator()->inject(name, nth, CUDA_ERROR_OUT_OF_MEMORY);
}

/* ---- programs ---- */

static void trains(void)
{
    static model_t model;
    lane_t lane;
    model_open(&model, BATCH);
    lane_open(&lane);
    begin();
    choose_all(&lane, &model);
    for (int i = 0; i < 10; i++)
        train_and_check(&lane, &model, 1);
    lane_close(&lane);
}

static void asks_for_the_same_bits(void)
{
    same_bits = true;
    trains();
}

static void switches_models(void)
{
    static model_t models[2];
    lane_t lane;
    size_t after_one = 0;
    model_open(&models[0], BATCH);
    model_open(&models[1], BATCH + 4);
    lane_open(&lane);
    begin();
    choose_all(&lane, &models[0]);
    for (int i = 0; i < 4; i++) {
        choose_all(&lane, &models[i % 2]);
        train_and_check(&lane, &models[i % 2], 10);
        if (i == 0)
            after_one = free_now();
        CHECK(free_now() == after_one);
    }
    lane_close(&lane);
}

/* In turns, as a generator and its adversary; once it has settled, nothing grows any more. */
static void alternates_models(void)
{
    enum { SETTLED = 20, ROUNDS = 60, SLACK_BYTES = 4096 };
    static model_t models[2];
    lane_t lane;
    size_t device = 0, host = 0;
    for (int i = 0; i < 2; i++)
        model_open(&models[i], BATCH + 4 * i);
    lane_open(&lane);
    begin();
    for (int i = 0; i < 2; i++)
        choose_all(&lane, &models[i]);
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < 2; i++)
            train_and_check(&lane, &models[i], 1);
        if (round == SETTLED) {
            device = free_now();
            host = mallinfo2().uordblks;
        }
    }
    CHECK(free_now() == device && mallinfo2().uordblks <= host + SLACK_BYTES);
    lane_close(&lane);
}

/* Each epoch ends with an odd last batch of the same problem sizes elsewhere, and an evaluation. */
static void runs_epochs(void)
{
    static model_t model, last;
    lane_t lane;
    model_open(&model, BATCH);
    model_open(&last, ODD_BATCH);
    lane_open(&lane);
    begin();
    choose_all(&lane, &model);
    choose_all(&lane, &last);
    for (int epoch = 0; epoch < 4; epoch++) {
        train_and_check(&lane, &model, 8);
        train_and_check(&lane, &last, 1);
        for (int i = 0; i < 14; i++)
            evaluate(&lane, &model);
        CUDA(cudaStreamSynchronize(lane.stream));
        check_model(&model, 1);
    }
    check_memory();
    lane_close(&lane);
}

typedef struct work {
    lane_t lane;
    model_t model;
    bool waits; /* after each iteration */
} work_t;

static void *work_in_thread(void *argument)
{
    work_t *const work = argument;
    for (int i = 0; i < 12; i++) {
        train(&work->lane, &work->model);
        if (work->waits && i % 3 == 0)
            CUDA(cudaStreamSynchronize(work->lane.stream));
    }
    return NULL;
}

static void run_threads(work_t *work, int count)
{
    pthread_t threads[8];
    begin();
    for (int i = 0; i < count; i++)
        choose_all(&work[i].lane, &work[i].model);
    inject_fault();
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < count; i++)
            CHECK(pthread_create(&threads[i], NULL, work_in_thread, &work[i]) == 0);
        for (int i = 0; i < count; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
        CUDA(cudaDeviceSynchronize());
        for (int i = 0; i < count; i++)
            check_model(&work[i].model, DIRECTIONS);
        check_memory();
    }
}

static void two_models_in_two_threads(void)
{
    static work_t work[2];
    for (int i = 0; i < 2; i++) {
        model_open(&work[i].model, BATCH + 3 * i);
        lane_open(&work[i].lane);
        work[i].waits = i == 1;
    }
    run_threads(work, 2);
}

/* Two handles, two threads, one stream: kernels of both would mix. */
static void two_threads_on_one_stream(void)
{
    static work_t work[2];
    for (int i = 0; i < 2; i++) {
        model_open(&work[i].model, BATCH);
        lane_open(&work[i].lane);
    }
    CUDNN(cudnnSetStream(work[1].lane.handle, work[0].lane.stream));
    work[1].lane.stream = work[0].lane.stream;
    run_threads(work, 2);
}

/* Streams come and go, more of them than there are groups, and some are destroyed with work on
 * them. */
static void many_streams(void)
{
    enum { STREAMS = 20, SIZES = 3 };
    static model_t models[STREAMS];
    lane_t lanes[STREAMS];
    for (int i = 0; i < STREAMS; i++)
        model_open(&models[i], BATCH + i % SIZES);
    lane_open(&lanes[0]);
    begin();
    for (int i = 0; i < SIZES; i++)
        choose_all(&lanes[0], &models[i]);
    for (int i = SIZES; i < STREAMS; i++)
        choose_alike(&lanes[0], &models[i], &models[i % SIZES]);
    lane_close(&lanes[0]);
    inject_fault();
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < STREAMS; i++) {
            lane_open(&lanes[i]);
            train(&lanes[i], &models[i]);
            if (i % 2)
                lane_close(&lanes[i]);
        }
        for (int i = 0; i < STREAMS; i += 2)
            lane_close(&lanes[i]);
        CUDA(cudaDeviceSynchronize());
        for (int i = 0; i < STREAMS; i++)
            check_model(&models[i], DIRECTIONS);
        check_memory();
    }
}

static void many_streams_of_the_same_bits(void)
{
    same_bits = true;
    many_streams();
}

/* As Inception: the layers of a module run side by side, and join. */
static void branches(void)
{
    static model_t model;
    lane_t lanes[LAYERS];
    cudaEvent_t fork, joins[LAYERS];
    model_open(&model, BATCH);
    CUDA(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    for (int i = 0; i < LAYERS; i++) {
        lane_open(&lanes[i]);
        CUDA(cudaEventCreateWithFlags(&joins[i], cudaEventDisableTiming));
    }
    begin();
    choose_all(&lanes[0], &model);
    for (int iteration = 0; iteration < 24; iteration++) {
        CUDA(cudaEventRecord(fork, lanes[0].stream));
        for (int i = 0; i < LAYERS; i++) {
            CUDA(cudaStreamWaitEvent(lanes[i].stream, fork, 0));
            for (int direction = 0; direction < DIRECTIONS; direction++)
                run(&lanes[i], &model.layers[i], direction);
            CUDA(cudaEventRecord(joins[i], lanes[i].stream));
            CUDA(cudaStreamWaitEvent(lanes[0].stream, joins[i], 0));
        }
        if (iteration % 6)
            continue;
        CUDA(cudaDeviceSynchronize());
        check_model(&model, DIRECTIONS);
        check_memory();
    }
    CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < LAYERS; i++) {
        lane_close(&lanes[i]);
        CUDA(cudaEventDestroy(joins[i]));
    }
    CUDA(cudaEventDestroy(fork));
}

static cudaGraphExec_t capture_training(const lane_t *lane, const model_t *model)
{
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    CUDA(cudaStreamBeginCapture(lane->stream, cudaStreamCaptureModeGlobal));
    train(lane, model);
    CUDA(cudaStreamEndCapture(lane->stream, &graph));
    CUDA(cudaGraphInstantiate(&executable, graph, 0));
    CUDA(cudaGraphDestroy(graph));
    return executable;
}

/* Two graphs, captured one after the other on one stream, run side by side and beside other work.
 */
static void captures(void)
{
    static model_t models[3];
    lane_t lanes[3];
    cudaGraphExec_t graphs[2];
    for (int i = 0; i < 3; i++) {
        model_open(&models[i], BATCH);
        lane_open(&lanes[i]);
    }
    begin();
    choose_all(&lanes[0], &models[0]);
    for (int i = 1; i < 3; i++)
        memcpy(models[i].layers[0].algos, models[0].layers[0].algos,
               sizeof models[0].layers[0].algos);
    for (int i = 0; i < 3; i++)
        choose_all(&lanes[0], &models[i]);
    train_and_check(&lanes[0], &models[2], 10);
    const size_t before = free_now();
    for (int i = 0; i < 2; i++)
        graphs[i] = capture_training(&lanes[0], &models[i]);
    CHECK(free_now() == before);
    for (int round = 0; round < 8; round++) {
        CUDA(cudaGraphLaunch(graphs[0], lanes[0].stream));
        CUDA(cudaGraphLaunch(graphs[1], lanes[1].stream));
        train(&lanes[2], &models[2]);
        if (round % 2)
            continue;
        CUDA(cudaDeviceSynchronize());
        for (int i = 0; i < 3; i++)
            check_model(&models[i], DIRECTIONS);
    }
    CUDA(cudaDeviceSynchronize());
    check_memory();
    for (int i = 0; i < 2; i++)
        CUDA(cudaGraphExecDestroy(graphs[i]));
    for (int i = 0; i < 3; i++)
        lane_close(&lanes[i]);
}

/* It begins while work that uses the arena is under way. */
static void captures_in_flight(void)
{
    enum { ROUNDS = 4 };
    static model_t models[2];
    lane_t lanes[2];
    cudaGraphExec_t graphs[ROUNDS];
    for (int i = 0; i < 2; i++) {
        model_open(&models[i], 4 * BATCH);
        lane_open(&lanes[i]);
    }
    begin();
    for (int i = 0; i < 2; i++)
        choose_all(&lanes[0], &models[i]);
    for (int round = 0; round < ROUNDS; round++) {
        train(&lanes[0], &models[0]);
        graphs[round] = capture_training(&lanes[1], &models[1]);
        CUDA(cudaGraphLaunch(graphs[round], lanes[1].stream));
        train(&lanes[0], &models[0]);
        CUDA(cudaDeviceSynchronize());
        for (int i = 0; i < 2; i++)
            check_model(&models[i], DIRECTIONS);
    }
    check_memory();
    for (int round = 0; round < ROUNDS; round++)
        CUDA(cudaGraphExecDestroy(graphs[round]));
    for (int i = 0; i < 2; i++)
        lane_close(&lanes[i]);
}

static const struct {
    const char *name;
    void (*run)(void);
} programs[] = {
    {"trains", trains},
    {"asks_for_the_same_bits", asks_for_the_same_bits},
    {"switches_models", switches_models},
    {"alternates_models", alternates_models},
    {"runs_epochs", runs_epochs},
    {"two_models_in_two_threads", two_models_in_two_threads},
    {"two_threads_on_one_stream", two_threads_on_one_stream},
    {"many_streams", many_streams},
    {"many_streams_of_the_same_bits", many_streams_of_the_same_bits},
    {"branches", branches},
    {"captures", captures},
    {"captures_in_flight", captures_in_flight},
};

static atomic_bool reaping;

static void *reap(void *unused)
{
    while (atomic_load(&reaping))
        CHECK(waitpid(-1, NULL, WNOHANG) < 0);
    return unused;
}

static void run_and_reap(void (*program)(void))
{
    pthread_t reaper;
    atomic_store(&reaping, true);
    CHECK(pthread_create(&reaper, NULL, reap, NULL) == 0);
    program();
    atomic_store(&reaping, false);
    CHECK(pthread_join(reaper, NULL) == 0);
}

/* Without the fault that was asked for, results say nothing of it. */
static void run_with_fault(void (*program)(void))
{
    program();
    CHECK(simulator()->faults_fired() == (*fault != 0));
}

int main(int argc, char **argv)
{
    if (argc >= 3)
        total_bytes = strtoull(argv[2], NULL, 10);
    if (argc >= 4)
        fault = argv[3];
    for (size_t i = 0; argc >= 3 && i < sizeof programs / sizeof *programs; i++)
        if (strcmp(argv[1], programs[i].name) == 0) {
            (strcmp(fault, "reaps") == 0 ? run_and_reap : run_with_fault)(programs[i].run);
            return 0;
        }
    fprintf(stderr, "usage: arena PROGRAM TOTAL_BYTES [FUNCTION:NTH | reaps]\n");
    return 2;
}
