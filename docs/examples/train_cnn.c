/* train_cnn: trains a convolutional network with cuDNN and the CUDA runtime, and says how long its
 * convolutions took. It takes for each convolution the fastest algorithm that an exhaustive search
 * finds within the workspace limit: cuDNN's own, as Caffe and others do, or its own over the plans
 * of cuDNN's graph interface, as PyTorch does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "arguments.h"
#include "data.h"
#include "gpu.h"
#include "network.h"
#include "report.h"

typedef struct training {
    arguments_t *options;
    gpu_t gpu;
    network_t network;
    data_t data;
    results_t results;
    bool warned; /* of a loss that is no number */
} training_t;

static int iterations_per_epoch(const training_t *training)
{
    return training->data.train_count / training->options->batch;
}

static int total_iterations(const training_t *training)
{
    const arguments_t *options = training->options;
    if (options->iterations)
        return options->iterations;
    int total;
    if (__builtin_mul_overflow(options->epochs, iterations_per_epoch(training), &total))
        fail("%d epochs are too many", options->epochs);
    return total;
}

static void load_data(training_t *training)
{
    const arguments_t *options = training->options;
    if (options->net->digits)
        data_load_digits(&training->data, options->data_directory, options->seed);
    else
        data_make_random(&training->data, options->net, options->batch, options->seed);
    if (options->batch > training->data.train_count)
        fail("--batch %d: there are %d training images", options->batch,
             training->data.train_count);
}

/* Puts the next batch into the host buffers and on its way to the device; what an epoch has left
 * after its last full batch is not trained on. Random images are one batch and stay on the device.
 */
static void next_batch(training_t *training)
{
    network_t *network = &training->network;
    int batch = training->options->batch;
    if (!training->options->net->digits && training->results.iterations > 0) {
        network_upload_labels(network);
        return;
    }
    while (!data_next_batch(&training->data, batch, network->host_images, network->host_labels))
        continue;
    network_upload_images(network);
    network_upload_labels(network);
}

static void train_iteration(training_t *training)
{
    network_t *network = &training->network;
    int timer = network->timers.count - 1;
    network->timers.running = true;
    timers_begin(&network->timers, timer, training->gpu.stream);
    next_batch(training);
    network_forward(network, true);
    network_backward(network);
    network_update(network);
    timers_end(&network->timers, timer, training->gpu.stream);
    network->timers.running = false;
    network_wait(network);

    double loss = network_loss(network, training->options->batch);
    results_add_iteration(&training->results, network, loss);
    if (!isfinite(loss) && !training->warned) {
        fprintf(stderr, "train_cnn: the loss of iteration %d is no number\n",
                training->results.iterations);
        training->warned = true;
    }
}

/* Part of the test images that the network classifies rightly. A last batch that is not full is
 * filled up with what the buffers hold, which no image's result depends on. */
static double test_accuracy(training_t *training)
{
    network_t *network = &training->network;
    int batch = training->options->batch, correct = 0;
    for (int first = 0; first < training->data.test_count; first += batch) {
        int count = data_test_batch(&training->data, first, batch, network->host_images,
                                    network->host_labels);
        network_upload_images(network);
        network_forward(network, false);
        network_wait(network);
        correct += network_correct(network, count);
    }
    return (double)correct / training->data.test_count;
}

/* Sums up the iterations from `first` on. */
static void finish_epoch(training_t *training, int first)
{
    results_t *results = &training->results;
    double loss = 0, ms = 0, convolution_ms = 0;
    int count = results->iterations - first;
    for (int i = first; i < results->iterations; i++) {
        loss += results->losses[i];
        ms += (double)results->iteration_ms[i];
        convolution_ms += (double)results->convolution_ms[i];
    }
    epoch_result_t *epoch = &results->epochs[results->epoch_count++];
    epoch->loss = loss / count;
    epoch->images_per_second = ms > 0 ? 1000.0 * count * training->options->batch / ms : NAN;
    epoch->convolution_ms = convolution_ms / count;
    epoch->accuracy = test_accuracy(training);
    if (!training->options->quiet)
        report_epoch(results);
}

/* With --step: false at the end of input. */
static bool wait_for_step(const training_t *training)
{
    int c;
    if (!training->options->step)
        return true;
    while ((c = getchar()) != EOF && c != '\n')
        continue;
    return c != EOF;
}

static void report_step(const training_t *training)
{
    const results_t *results = &training->results;
    int last = results->iterations - 1;
    if (!training->options->step)
        return;
    printf("step %d %.6f %.6f\n", last, (double)results->convolution_ms[last],
           (double)results->iteration_ms[last]);
    fflush(stdout);
}

static void train(training_t *training)
{
    int total = total_iterations(training);
    bool digits = training->options->net->digits;
    int epoch_length = digits ? iterations_per_epoch(training) : total;
    for (int done = 0; done < total;) {
        int first = done;
        for (; done < total && done - first < epoch_length; done++) {
            if (!wait_for_step(training))
                return;
            train_iteration(training);
            report_step(training);
        }
        if (digits)
            finish_epoch(training, first);
    }
}

/* The default of --warmup, which depends on how many iterations there are. */
static void settle_warmup(training_t *training)
{
    arguments_t *options = training->options;
    int total = total_iterations(training);
    if (options->warmup < 0)
        options->warmup = total > 2 ? 2 : total - 1;
    if (options->warmup >= total)
        fail("--warmup %d of %d iterations leaves none to time", options->warmup, total);
}

static void prepare(training_t *training)
{
    const arguments_t *options = training->options;
    network_t *network = &training->network;
    set_activity("start");
    load_data(training);
    settle_warmup(training);
    gpu_open(&training->gpu, options->branch_streams ? 1 + options->net->branches : 1);
    network_init(network, &training->gpu, options);
    if (!options->quiet)
        report_start(network);
    int total = total_iterations(training);
    int epoch_length = options->net->digits ? iterations_per_epoch(training) : total;
    results_init(&training->results, total, total / epoch_length + 1, network->timers.count);
    data_first_batch(&training->data, options->batch, network->host_images, network->host_labels);
    network_choose_algorithms(network);
    if (options->print_algorithms)
        report_algorithms(network);
}

int main(int argc, char **argv)
{
    static training_t training;
    arguments_t options;
    arguments_parse(&options, argc, argv);
    training.options = &options;
    prepare(&training);
    train(&training);
    if (!options.quiet)
        report_end(&training.results, &training.network);
    if (options.json_file)
        report_json(&training.results, &training.network);
    network_fini(&training.network);
    gpu_close(&training.gpu);
    results_fini(&training.results);
    data_free(&training.data);
    return 0;
}
