#include "report.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count ? count : 1, size);
    if (!memory)
        fail("out of memory for the results");
    return memory;
}

void results_init(results_t *results, int iterations, int epochs, int timer_count)
{
    size_t rows = (size_t)iterations;
    *results = (results_t){.iterations_capacity = iterations,
                           .epoch_capacity = epochs,
                           .timer_count = timer_count,
                           .losses = allocate(rows, sizeof(double)),
                           .iteration_ms = allocate(rows, sizeof(float)),
                           .convolution_ms = allocate(rows, sizeof(float)),
                           .fc_ms = allocate(rows, sizeof(float)),
                           .timer_ms = allocate(rows, (size_t)timer_count * sizeof(float)),
                           .epochs = allocate((size_t)epochs, sizeof(epoch_result_t))};
}

void results_fini(results_t *results)
{
    free(results->losses);
    free(results->iteration_ms);
    free(results->convolution_ms);
    free(results->fc_ms);
    free(results->timer_ms);
    free(results->epochs);
    *results = (results_t){0};
}

void results_add_iteration(results_t *results, network_t *network, double loss)
{
    int row = results->iterations++;
    float *ms = results->timer_ms + (size_t)row * (size_t)results->timer_count;
    timers_read(&network->timers, ms);
    results->losses[row] = loss;
    results->iteration_ms[row] = ms[results->timer_count - 1];
    for (int i = 0; i < network->count; i++)
        for (int direction = 0; direction < DIRECTION_COUNT; direction++) {
            float *sum = network->layers[i].spec->kind == LAYER_FC ? &results->fc_ms[row]
                                                                   : &results->convolution_ms[row];
            *sum += ms[i * DIRECTION_COUNT + direction];
        }
}

/* ---- quartiles over the timed iterations ---- */

typedef struct quartiles {
    double lower, median, upper;
} quartiles_t;

static int compare_floats(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Between neighbours it interpolates, as numpy's default does. */
static double quantile(const float *sorted, int count, double part)
{
    double place = part * (count - 1);
    int below = (int)place, above = below + 1 < count ? below + 1 : below;
    double weight = place - below;
    return (1 - weight) * (double)sorted[below] + weight * (double)sorted[above];
}

/* Of every `stride`-th number of `values`, the first `skip` rows left out. */
static quartiles_t quartiles(const results_t *results, const float *values, int stride, int skip)
{
    int count = results->iterations - skip;
    if (count < 1)
        return (quartiles_t){NAN, NAN, NAN};
    float *sorted = allocate((size_t)count, sizeof *sorted);
    for (int i = 0; i < count; i++)
        sorted[i] = values[(size_t)(skip + i) * (size_t)stride];
    qsort(sorted, (size_t)count, sizeof *sorted, compare_floats);
    quartiles_t q = {quantile(sorted, count, 0.25), quantile(sorted, count, 0.5),
                     quantile(sorted, count, 0.75)};
    free(sorted);
    return q;
}

static double timer_median(const results_t *results, const network_t *network, int timer)
{
    return quartiles(results, results->timer_ms + timer, results->timer_count,
                     network->options->warmup)
        .median;
}

static double images_per_second(const results_t *results, const network_t *network)
{
    double ms = quartiles(results, results->iteration_ms, 1, network->options->warmup).median;
    return ms > 0 ? 1000.0 * network->options->batch / ms : NAN;
}

/* ---- lines for people ---- */

static const char *format_bytes(char text[32], size_t bytes)
{
    if (bytes >= (size_t)1 << 30)
        snprintf(text, 32, "%.2f GiB", (double)bytes / (1 << 30));
    else
        snprintf(text, 32, "%.2f MiB", (double)bytes / (1 << 20));
    return text;
}

void report_start(const network_t *network)
{
    const arguments_t *options = network->options;
    char limit[32];
    printf("%s, batch %d, %s, %s, %s API, workspace limit %s%s%s; %s, cuDNN %zu.%zu.%zu\n",
           options->net->name, options->batch, type_name(options->type),
           layout_name(options->layout), api_name(options->api),
           options->workspace_limit_bytes == NO_LIMIT
               ? "none"
               : format_bytes(limit, options->workspace_limit_bytes),
           options->workspace_per_layer ? " per layer" : "",
           options->branch_streams ? ", branch streams" : "", network->gpu->name,
           network->gpu->cudnn_version / 10000, network->gpu->cudnn_version / 100 % 100,
           network->gpu->cudnn_version % 100);
}

void report_algorithms(const network_t *network)
{
    printf("%-16s %-15s %-22s %-10s %12s %10s\n", "layer", "direction", "algorithm", "math",
           "workspace", "ms");
    for (int i = 0; i < network->count; i++) {
        const layer_t *layer = &network->layers[i];
        for (int d = 0; d < DIRECTION_COUNT && layer_is_convolution(layer); d++) {
            const convolution_choice_t *choice = &layer->convolution.choices[d];
            char bytes[32];
            if (choice->made)
                printf("%-16s %-15s %-22s %-10s %12s %10.4f\n", layer->spec->name,
                       direction_name((direction_t)d), choice->algorithm, choice->math,
                       format_bytes(bytes, choice->workspace_bytes), (double)choice->search_ms);
        }
    }
}

void report_epoch(const results_t *results)
{
    const epoch_result_t *epoch = &results->epochs[results->epoch_count - 1];
    printf("epoch %2d  loss %.4f  test accuracy %5.2f %%  %8.0f images/s  convolutions %.3f ms\n",
           results->epoch_count, epoch->loss, 100 * epoch->accuracy, epoch->images_per_second,
           epoch->convolution_ms);
    fflush(stdout);
}

void report_end(const results_t *results, const network_t *network)
{
    int skip = network->options->warmup;
    quartiles_t convolution = quartiles(results, results->convolution_ms, 1, skip);
    quartiles_t iteration = quartiles(results, results->iteration_ms, 1, skip);
    char training[32], workspace[32], peak[32];
    printf("loss %.4f at first, %.4f at last\n", results->losses[0],
           results->losses[results->iterations - 1]);
    printf("convolutions %.3f ms (quartiles %.3f to %.3f) of %.3f ms an iteration, %.0f images/s\n",
           convolution.median, convolution.lower, convolution.upper, iteration.median,
           images_per_second(results, network));
    printf("device memory %s in training, workspace %s of it; %s at most, in the search\n",
           format_bytes(training, network->training_bytes),
           format_bytes(workspace, network->workspace_bytes),
           format_bytes(peak, network->gpu->peak_bytes));
}

/* ---- JSON ---- */

static void json_string(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *c = (const unsigned char *)text; *c; c++) {
        if (*c == '"' || *c == '\\')
            fprintf(out, "\\%c", *c);
        else if (*c < 0x20)
            fprintf(out, "\\u%04x", *c);
        else
            fputc(*c, out);
    }
    fputc('"', out);
}

/* JSON has no infinities and no NaN. */
static void json_number(FILE *out, double number)
{
    if (isfinite(number))
        fprintf(out, "%.12g", number);
    else
        fputs("null", out);
}

static void json_bytes_or_null(FILE *out, size_t bytes)
{
    if (bytes == NO_LIMIT)
        fputs("null", out);
    else
        fprintf(out, "%zu", bytes);
}

static const char *json_bool(bool value)
{
    return value ? "true" : "false";
}

static void json_options(FILE *out, const arguments_t *options)
{
    fprintf(out,
            "  \"options\": {\"net\": \"%s\", \"batch\": %d, \"iterations\": %d, \"epochs\": %d, "
            "\"warmup\": %d, \"find_repeats\": %d, \"dtype\": \"%s\", \"layout\": \"%s\",\n"
            "    \"api\": \"%s\", \"search\": \"%s\", \"workspace_limit_bytes\": ",
            options->net->name, options->batch, options->iterations, options->epochs,
            options->warmup, options->find_repeats, type_name(options->type),
            layout_name(options->layout), api_name(options->api), search_name(options->search));
    json_bytes_or_null(out, options->workspace_limit_bytes);
    fprintf(out,
            ", \"workspace_per_layer\": %s, \"branch_streams\": %s, \"deterministic\": %s, "
            "\"learning_rate\": %.12g, "
            "\"momentum\": %.12g, \"dropout\": %.12g, \"seed\": %llu,\n    \"data\": ",
            json_bool(options->workspace_per_layer), json_bool(options->branch_streams),
            json_bool(options->deterministic), options->learning_rate, options->momentum,
            options->dropout, (unsigned long long)options->seed);
    json_string(out, options->data_directory);
    fputs("},\n", out);
}

static void json_device(FILE *out, const gpu_t *gpu)
{
    fputs("  \"device\": {\"name\": ", out);
    json_string(out, gpu->name);
    fprintf(out,
            ", \"simulated\": %s, \"cudnn_version\": %zu, \"runtime_version\": %d, "
            "\"driver_version\": %d},\n",
            json_bool(strstr(gpu->name, "(simulated)") != NULL), gpu->cudnn_version,
            gpu->runtime_version, gpu->driver_version);
}

static void json_quartiles(FILE *out, const char *name, quartiles_t q)
{
    fprintf(out, "  \"%s\": {\"lower_quartile\": ", name);
    json_number(out, q.lower);
    fputs(", \"median\": ", out);
    json_number(out, q.median);
    fputs(", \"upper_quartile\": ", out);
    json_number(out, q.upper);
    fputs("},\n", out);
}

static void json_losses(FILE *out, const results_t *results)
{
    fputs("  \"losses\": [", out);
    for (int i = 0; i < results->iterations; i++) {
        fputs(i ? ", " : "", out);
        json_number(out, results->losses[i]);
    }
    fputs("],\n  \"epochs\": [", out);
    for (int i = 0; i < results->epoch_count; i++) {
        const epoch_result_t *epoch = &results->epochs[i];
        fprintf(out, "%s\n    {\"loss\": ", i ? "," : "");
        json_number(out, epoch->loss);
        fputs(", \"test_accuracy\": ", out);
        json_number(out, epoch->accuracy);
        fputs(", \"images_per_second\": ", out);
        json_number(out, epoch->images_per_second);
        fputs(", \"convolution_ms\": ", out);
        json_number(out, epoch->convolution_ms);
        fputc('}', out);
    }
    fputs("],\n", out);
}

static void json_direction(FILE *out, const results_t *results, const network_t *network,
                           const layer_t *layer, direction_t direction)
{
    const convolution_choice_t *choice = &layer->convolution.choices[direction];
    fprintf(out,
            ", \"%s\": {\"algorithm\": \"%s\", \"math\": \"%s\", \"workspace_bytes\": %zu, "
            "\"search_ms\": ",
            direction_name(direction), choice->algorithm, choice->math, choice->workspace_bytes);
    json_number(out, (double)choice->search_ms);
    fputs(", \"ms\": ", out);
    json_number(out,
                timer_median(results, network, layer->index * DIRECTION_COUNT + (int)direction));
    fputc('}', out);
}

static void json_layers(FILE *out, const results_t *results, const network_t *network)
{
    const char *separator = "";
    fputs("  \"layers\": [", out);
    for (int i = 0; i < network->count; i++) {
        const layer_t *layer = &network->layers[i];
        const convolution_shape_t *shape = &layer->convolution.shape;
        if (!layer_is_convolution(layer))
            continue;
        fprintf(out,
                "%s\n    {\"name\": \"%s\", \"kind\": \"%s\", \"n\": %d, \"c\": %d, \"h\": %d, "
                "\"w\": %d, \"k\": %d, \"r\": %d, \"s\": %d, \"stride\": %d, \"pad\": [%d, %d], "
                "\"stream\": %d",
                separator, layer->spec->name, layer->spec->kind == LAYER_FC ? "fc" : "convolution",
                shape->n, shape->c, shape->h, shape->w, shape->k, shape->r, shape->s, shape->stride,
                shape->pad_h, shape->pad_w, layer->lane);
        for (int d = 0; d < DIRECTION_COUNT; d++)
            if (layer->convolution.choices[d].made)
                json_direction(out, results, network, layer, (direction_t)d);
        fputc('}', out);
        separator = ",";
    }
    fputs("],\n", out);
}

static void json_all(FILE *out, const results_t *results, const network_t *network)
{
    int skip = network->options->warmup;
    fputs("{\n", out);
    json_options(out, network->options);
    json_device(out, network->gpu);
    json_losses(out, results);
    fprintf(out, "  \"timed_iterations\": %d,\n",
            results->iterations > skip ? results->iterations - skip : 0);
    json_quartiles(out, "convolution_ms", quartiles(results, results->convolution_ms, 1, skip));
    json_quartiles(out, "fc_ms", quartiles(results, results->fc_ms, 1, skip));
    json_quartiles(out, "iteration_ms", quartiles(results, results->iteration_ms, 1, skip));
    fputs("  \"images_per_second\": ", out);
    json_number(out, images_per_second(results, network));
    fputs(",\n", out);
    json_layers(out, results, network);
    fprintf(out,
            "  \"peak_bytes\": %zu,\n  \"training_bytes\": %zu,\n  \"search_bytes\": %zu,\n"
            "  \"workspace_bytes\": %zu\n}\n",
            network->gpu->peak_bytes, network->training_bytes, network->search_bytes,
            network->workspace_bytes);
}

void report_json(const results_t *results, const network_t *network)
{
    const char *path = network->options->json_file;
    FILE *out = strcmp(path, "-") == 0 ? stdout : fopen(path, "w");
    if (!out)
        fail("--json: %s: %s", path, strerror(errno));
    json_all(out, results, network);
    bool written = !ferror(out) && fflush(out) == 0;
    if ((out != stdout && fclose(out) != 0) || !written)
        fail("--json: %s: %s", path, strerror(errno));
}
