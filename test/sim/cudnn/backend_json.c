/* Plans and devices as JSON, in the form and order of cuDNN 9.19 (schema 4; test/data/plan-json).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/sim/cudnn/backend.h"
#include "test/sim/cudnn/backend_names.h"

/* Text that a runtime-compiled engine carries along: one of the real ones has 63 KB, others more (H200).
 * Where they put it is not known; its place here is made up. */
enum { COMPILED_BYTES = 100 * 1024 };
enum { KNOWN_SCHEMA = 4 };

/* The shortest decimal that reads back the same, with a point or an exponent. */
static void put_double(FILE *out, double value)
{
    char text[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    char *const plus = strchr(text, '+');
    if (plus)
        memmove(plus, plus + 1, strlen(plus));
    fprintf(out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

static void put_array(FILE *out, const char *name, int64_t count, const int64_t *values)
{
    fprintf(out, "\"%s\":[", name);
    for (int64_t i = 0; i < count; i++)
        fprintf(out, "%s%lld", i ? "," : "", (long long)values[i]);
    fputs("]", out);
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void put_tensor(FILE *out, const sim_graph_tensor_t *tensor)
{
    fprintf(out, "{\"name\":\"%lld\",\"dataType\":\"%s\",", (long long)tensor->uid,
            sim_name(sim_data_types, tensor->type));
    put_array(out, "dim", tensor->dim_count, tensor->dims);
    fputs(",", out);
    put_array(out, "stride", tensor->stride_count, tensor->strides);
    fprintf(out,
            ",\"isVirtual\":%s,\"isByValue\":%s,\"vectCount\":%lld,\"vectDim\":%lld,"
            "\"ptrAlignment\":%lld,\"reordering\":\"CUDNN_TENSOR_REORDERING_NONE\"}",
            truth(tensor->is_virtual), truth(tensor->by_value), (long long)tensor->vector_count,
            (long long)tensor->vector_dim, (long long)tensor->alignment);
}

/* By uid, as the real library's map gives them. */
static void put_tensors(FILE *out, const sim_graph_t *graph)
{
    bool put[SIM_GRAPH_TENSORS] = {false};
    for (int i = 0; i < graph->tensor_count; i++) {
        int least = -1;
        for (int j = 0; j < graph->tensor_count; j++)
            if (!put[j] && (least < 0 || graph->tensors[j].uid < graph->tensors[least].uid))
                least = j;
        put[least] = true;
        fputs(i ? "," : "", out);
        put_tensor(out, &graph->tensors[least]);
    }
}

static void put_uid(FILE *out, const sim_graph_t *graph, const char *name, int tensor)
{
    fprintf(out, ",\"%s\":\"%lld\"", name, (long long)graph->tensors[tensor].uid);
}

static void put_scaling(FILE *out, const char *alpha, const char *beta,
                        const sim_graph_node_t *node)
{
    fprintf(out, ",\"%s\":", alpha);
    put_double(out, node->alpha);
    fprintf(out, ",\"%s\":", beta);
    put_double(out, node->beta);
}

static void put_convolution(FILE *out, const sim_graph_t *graph, const sim_graph_node_t *node)
{
    static const char *const names[][3] = {{"X", "W", "Y"}, {"dX", "W", "dY"}, {"X", "dW", "dY"}};
    const sim_graph_convolution_t *const c = &node->convolution;
    const int64_t count = c->spatial_dims;
    fprintf(out, "\"mode\":\"%s\",\"mathPrec\":\"%s\"", sim_name(sim_convolution_modes, c->mode),
            sim_name(sim_data_types, c->compute_type));
    put_scaling(out, "alpha", "beta", node);
    fputs(",", out);
    if (memcmp(c->pre, c->post, (size_t)count * sizeof *c->pre) == 0)
        put_array(out, "pad", count, c->pre);
    else {
        put_array(out, "pad_upper", count, c->post);
        fputs(",", out);
        put_array(out, "pad_lower", count, c->pre);
    }
    fputs(",", out);
    put_array(out, "stride", count, c->stride);
    fputs(",", out);
    put_array(out, "dilation", count, c->dilation);
    put_uid(out, graph, names[node->kind][0], node->in);
    put_uid(out, graph, names[node->kind][1], node->other);
    put_uid(out, graph, names[node->kind][2], node->out);
    const int64_t groups = graph->tensors[node->in].dims[1] / graph->tensors[node->other].dims[1];
    if (groups > 1)
        fprintf(out, ",\"groupCount\":%lld", (long long)groups);
}

/* Elu's, softplus' and swish's one. */
static void put_parameter(FILE *out, const sim_graph_pointwise_t *pointwise)
{
    const int32_t mode = pointwise->mode;
    if (mode == CUDNN_POINTWISE_ELU_FWD) {
        fputs(",\"alpha\":", out);
        put_double(out, pointwise->elu_alpha);
    } else if (mode == CUDNN_POINTWISE_SOFTPLUS_FWD || mode == CUDNN_POINTWISE_SWISH_FWD) {
        fputs(",\"beta\":", out);
        put_double(out, mode == CUDNN_POINTWISE_SWISH_FWD ? pointwise->swish_beta
                                                          : pointwise->softplus_beta);
    }
}

static void put_pointwise(FILE *out, const sim_graph_t *graph, const sim_graph_node_t *node)
{
    const sim_graph_pointwise_t *const pointwise = &node->pointwise;
    fprintf(out, "\"pointwiseMode\":\"%s\",\"mathPrec\":\"%s\"",
            sim_name(sim_pointwise_modes, pointwise->mode),
            sim_name(sim_data_types, pointwise->precision));
    if (pointwise->mode == CUDNN_POINTWISE_RELU_FWD) {
        const double clips[] = {pointwise->upper_clip, pointwise->lower_clip,
                                pointwise->lower_slope};
        static const char *const names[] = {"upperClip", "lowerClip", "lowerClipSlope"};
        for (int i = 0; i < 3; i++) {
            fprintf(out, ",\"%s\":", names[i]);
            put_double(out, clips[i]);
        }
    }
    put_parameter(out, pointwise);
    put_scaling(out, "alpha1", "alpha2", node);
    put_uid(out, graph, "X", node->in);
    put_uid(out, graph, "Y", node->out);
    if (node->other >= 0)
        put_uid(out, graph, "B", node->other);
}

static void put_node(FILE *out, const sim_graph_t *graph, const sim_graph_node_t *node)
{
    fprintf(out, "{\"operation\":\"%s\",", sim_name(sim_operations, (int32_t)node->kind));
    if (node->kind <= NODE_BACKWARD_FILTER)
        put_convolution(out, graph, node);
    else if (node->kind == NODE_POINTWISE)
        put_pointwise(out, graph, node);
    else {
        fprintf(out, "\"mathPrec\":\"%s\"", sim_name(sim_data_types, node->precision));
        put_uid(out, graph, "A", node->in);
        put_uid(out, graph, "B", node->other);
        put_uid(out, graph, "C", node->out);
    }
    fputs("}", out);
}

static const char *finalize_mode(const sim_graph_t *graph)
{
    static const char *const single[] = {"CONV_FORWARD", "CONV_BWD_DATA", "CONV_BWD_FILTER"};
    switch (graph->pattern) {
    case PATTERN_CONVOLUTION:
        return single[graph->nodes[0].kind];
    case PATTERN_CONV_ADD_BIAS_ACT:
        return "CONV_ADD_BIAS_ACT";
    case PATTERN_CONV_FUSION:
        return "GENERIC_CONV_FUSION";
    case PATTERN_MATMUL:
        return "GENERIC_MATMUL_FUSION";
    default:
        return "GENERIC_POINTWISE_FUSION";
    }
}

static void put_device(FILE *out, const sim_profile_t *profile, int device)
{
    fprintf(out,
            "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
            "\"regsPerBlock\":65536,\"multiProcessorCount\":%d,\"warpSize\":32,"
            "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
            "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
            "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
            "\"pciDeviceId\":%d,\"isTccDriver\":0,\"supportCoopLaunch\":1,"
            "\"totalGlobalMem\":%llu,\"smClockRateKHz\":1000000,\"memClockRateKHz\":1000000,"
            "\"l2CacheSize\":62914560,\"cudaDeviceId\":%d,\"deviceVer\":%d,\"driverVer\":%d,"
            "\"deviceName\":\"%s (simulated)\"}",
            profile->multiprocessors, device, (unsigned long long)profile->memory_bytes, device,
            profile->compute_major * 100 + profile->compute_minor * 10, CUDA_VERSION,
            profile->name);
}

static void put_engine(FILE *out, const sim_backend_t *plan)
{
    int32_t notes[16];
    fprintf(out, "{\"engineId\":%d,\"smVersion\":%d,\"knobChoices\":{", plan->config.engine,
            plan->profile->compute_major * 100 + plan->profile->compute_minor * 10);
    for (int i = 0; i < plan->config.knob_count; i++)
        fprintf(out, "%s\"%s\":%lld", i ? "," : "", sim_name(sim_knobs, plan->config.knobs[i].type),
                (long long)plan->config.knobs[i].value);
    fputs("}", out);
    if (sim_engine_behavior_notes(plan->graph, plan->config.engine, notes)) {
        char kernel[64 * 26];
        for (size_t i = 0; i < sizeof kernel; i++)
            kernel[i] = (char)('A' + i * 7 % 26);
        fputs(",\"compiledKernel\":\"", out);
        for (size_t left = COMPILED_BYTES; left > 0;)
            left -= fwrite(kernel, 1, left < sizeof kernel ? left : sizeof kernel, out);
        fputs("\"", out);
    }
    fputs("}", out);
}

int sim_plan_schema(void)
{
    const char *const wanted = secure_getenv("MICRODNN_SIM_PLAN_SCHEMA");
    return wanted ? (int)strtol(wanted, NULL, 10) : KNOWN_SCHEMA;
}

static void put_plan(FILE *out, const sim_backend_t *plan)
{
    fprintf(out,
            "{\"cudnnVersion\":%d,\"schemaVersion\":%d,\"operationGraph\":{\"finalizeMode\":\"%s\","
            "\"tensors\":[",
            CUDNN_VERSION, sim_plan_schema(), finalize_mode(plan->graph));
    put_tensors(out, plan->graph);
    fputs("],\"nodes\":[", out);
    for (int i = 0; i < plan->graph->node_count; i++) {
        fputs(i ? "," : "", out);
        put_node(out, plan->graph, &plan->graph->nodes[i]);
    }
    fputs("]},\"GPUProfile\":", out);
    put_device(out, plan->profile, 0);
    fputs(",\"engine\":", out);
    put_engine(out, plan);
    fputs("}", out);
}

static char *closed(FILE *out, char **text, size_t *size, int64_t *bytes)
{
    if (fclose(out) != 0) {
        free(*text);
        return NULL;
    }
    *bytes = (int64_t)*size;
    return *text;
}

char *sim_plan_json(const sim_backend_t *plan, int64_t *bytes)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    put_plan(out, plan);
    return closed(out, &text, &size, bytes);
}

char *sim_device_json(const sim_profile_t *profile, int device, int64_t *bytes)
{
    char *text = NULL;
    size_t size = 0;
    FILE *const out = open_memstream(&text, &size);
    if (!out)
        return NULL;
    put_device(out, profile, device);
    return closed(out, &text, &size, bytes);
}
