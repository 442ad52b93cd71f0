/* The network that a run trained or evaluated, as convolution problems: one iteration of it, found
 * as the library finds it (optimizer/network.h), and its layers by their weights. */
#include <stdlib.h>
#include <string.h>

#include "optimizer/network.h"
#include "scripts/microdnn_plan.h"

/* Stands for a problem in mdnn_network_call_t. */
typedef struct posed {
    mdnn_problem_t problem;
    const tool_trace_problem_t *traced;
} posed_t;

/* An iteration that repeats on one stream. */
typedef struct iteration {
    mdnn_likeness_t likeness;
    size_t count;
    mdnn_network_call_t *calls;
    size_t uses; /* executions of the stream that are in it */
} iteration_t;

enum { ITERATIONS_MAX = 64 };

/* What ran in order. */
typedef struct stream {
    mdnn_network_call_t *calls;
    size_t count;
    iteration_t found[ITERATIONS_MAX];
    size_t found_count;
    const iteration_t *chosen; /* NULL: nothing repeats */
} stream_t;

/* Convolutions with the same weights. */
typedef struct layer {
    uintptr_t w;
    const posed_t *posed; /* of a call that has them */
    bool has_gradient;
    size_t first; /* place in the run, by which layers are numbered */
} layer_t;

/* A call of an iteration. */
typedef struct member {
    const mdnn_network_call_t *call;
    uint32_t group;
    size_t layer;
    size_t order;
} member_t;

typedef struct run {
    const char *path;
    tool_trace_t trace;
    posed_t *posed;
    mdnn_network_call_t *calls; /* of the run, in order */
    size_t call_count;
    int device;
    stream_t *streams;
    uint32_t stream_count;
    member_t *members;
    size_t member_count;
    layer_t *layers;
    size_t layer_count;
} run_t;

static const posed_t *posed_of(const mdnn_network_call_t *call)
{
    return call->problem;
}

static bool is_forward(const mdnn_network_call_t *call)
{
    const int32_t direction = posed_of(call)->problem.direction;
    return direction == MDNN_FORWARD || direction == MDNN_BIAS_ACTIVATION_FORWARD;
}

/* ---- what was executed ---- */

static bool pose_problems(run_t *run)
{
    run->posed = calloc(run->trace.problem_count + 1, sizeof *run->posed);
    for (size_t i = 0; run->posed != NULL && i < run->trace.problem_count; i++) {
        const tool_trace_problem_t *const traced = &run->trace.problems[i];
        run->posed[i].traced = traced;
        if (!tool_parse_problem(traced->key, &run->posed[i].problem)) {
            tool_complain("%s: '%s' has no key that this version understands", run->path,
                          traced->title);
            return false;
        }
    }
    return run->posed != NULL;
}

/* The streams of one device: workspace of another is another workspace. */
static bool list_calls(run_t *run)
{
    const tool_trace_t *const trace = &run->trace;
    run->device = trace->problems[trace->executions[0].problem].device;
    run->calls = calloc(trace->execution_count, sizeof *run->calls);
    for (size_t i = 0; run->calls != NULL && i < trace->execution_count; i++) {
        const tool_trace_execution_t *const execution = &trace->executions[i];
        const posed_t *const posed = &run->posed[execution->problem];
        if (posed->traced->device != run->device)
            continue;
        run->calls[run->call_count++] = (mdnn_network_call_t){
            .problem = posed,
            .x = execution->x,
            .w = execution->w,
            .y = execution->y,
            .writes_weights = posed->problem.direction == MDNN_BACKWARD_FILTER};
    }
    if (run->call_count < trace->execution_count)
        tool_complain("%s: %zu convolutions ran on other devices than device %d and are left out",
                      run->path, trace->execution_count - run->call_count, run->device);
    return run->calls != NULL;
}

static bool is_on_device(const run_t *run, size_t execution)
{
    const size_t problem = run->trace.executions[execution].problem;
    return run->trace.problems[problem].device == run->device;
}

static bool list_streams(run_t *run)
{
    const tool_trace_t *const trace = &run->trace;
    for (size_t i = 0; i < trace->execution_count; i++)
        if (trace->executions[i].stream >= run->stream_count)
            run->stream_count = trace->executions[i].stream + 1;
    if (run->stream_count > trace->execution_count) {
        tool_complain("%s: these are damaged statistics", run->path);
        return false;
    }
    run->streams = calloc(run->stream_count, sizeof *run->streams);
    for (size_t i = 0; run->streams != NULL && i < trace->execution_count; i++)
        run->streams[trace->executions[i].stream].count += is_on_device(run, i);
    for (uint32_t s = 0; run->streams != NULL && s < run->stream_count; s++) {
        stream_t *const stream = &run->streams[s];
        stream->calls = calloc(stream->count + 1, sizeof *stream->calls);
        stream->count = 0;
        if (stream->calls == NULL)
            return false;
    }
    for (size_t i = 0, call = 0; run->streams != NULL && i < trace->execution_count; i++)
        if (is_on_device(run, i)) {
            stream_t *const stream = &run->streams[trace->executions[i].stream];
            stream->calls[stream->count++] = run->calls[call++];
        }
    return run->streams != NULL;
}

/* ---- one iteration of each stream ---- */

static bool add_iteration(stream_t *stream, const mdnn_network_call_t *calls, size_t count,
                          mdnn_likeness_t likeness)
{
    mdnn_network_call_t *const copy = malloc(count * sizeof *copy);
    if (copy == NULL)
        return false;
    memcpy(copy, calls, count * sizeof *copy);
    stream->found[stream->found_count++] =
        (iteration_t){.likeness = likeness, .count = count, .calls = copy};
    return true;
}

/* As the library does while a program runs. */
static bool watch_stream(stream_t *stream)
{
    mdnn_watch_t *watch;
    bool good = mdnn_watch_create(&watch) == MDNN_STATUS_OK;
    if (!good)
        return false;
    uint64_t seen = 0;
    for (size_t i = 0; good && i < stream->count; i++) {
        mdnn_network_place_t place;
        mdnn_watch_call(watch, &stream->calls[i], &place);
        const mdnn_network_t *const network = place.network;
        if (network == NULL || network->number <= seen || stream->found_count == ITERATIONS_MAX)
            continue;
        seen = network->number;
        good = add_iteration(stream, network->calls, network->count, network->likeness);
    }
    mdnn_watch_destroy(watch);
    return good;
}

/* The library looks now and then; a short run may end before it looks. */
static bool look_at_end(stream_t *stream)
{
    size_t *const lengths = calloc(stream->count + 1, sizeof *lengths);
    bool good = lengths != NULL;
    for (int likeness = MDNN_LIKE_TENSORS;
         good && stream->found_count == 0 && likeness <= MDNN_LIKE_WEIGHTS; likeness++) {
        const size_t period =
            mdnn_period_find(stream->calls, stream->count, (mdnn_likeness_t)likeness, lengths);
        if (period > 0)
            good = add_iteration(stream, stream->calls + stream->count - period, period,
                                 (mdnn_likeness_t)likeness);
    }
    free(lengths);
    return good;
}

static size_t count_uses(const stream_t *stream, const iteration_t *iteration)
{
    size_t uses = 0;
    for (size_t i = 0; i < stream->count; i++)
        for (size_t k = 0; k < iteration->count; k++)
            if (mdnn_network_calls_alike(&iteration->calls[k], &stream->calls[i],
                                         iteration->likeness)) {
                uses++;
                break;
            }
    return uses;
}

/* What most of the stream belongs to: training, where there is an evaluation now and then. */
static void choose_iteration(stream_t *stream)
{
    for (size_t i = 0; i < stream->found_count; i++) {
        iteration_t *const found = &stream->found[i];
        found->uses = count_uses(stream, found);
        if (stream->chosen == NULL || found->uses > stream->chosen->uses ||
            (found->uses == stream->chosen->uses && found->count > stream->chosen->count))
            stream->chosen = found;
    }
}

static bool find_iterations(run_t *run)
{
    size_t left_out = 0;
    for (uint32_t s = 0; s < run->stream_count; s++) {
        stream_t *const stream = &run->streams[s];
        if (stream->count == 0)
            continue;
        if (!watch_stream(stream) || !look_at_end(stream)) {
            tool_complain("out of memory");
            return false;
        }
        choose_iteration(stream);
        if (stream->chosen != NULL)
            run->member_count += stream->chosen->count;
        else
            left_out += stream->count;
    }
    if (run->member_count == 0)
        tool_complain(
            "%s: nothing repeats in its %zu convolutions; a network shows after %d "
            "iterations, or %d if activations change their addresses, and %d convolutions",
            run->path, run->call_count, MDNN_REPEATS_TENSORS, MDNN_REPEATS_WEIGHTS,
            MDNN_REPEATING_CALLS);
    else if (left_out > 0)
        tool_complain("%s: %zu convolutions on streams where nothing repeats are left out",
                      run->path, left_out);
    return run->member_count > 0;
}

/* ---- layers ---- */

static bool same_filter(const mdnn_problem_t *a, const mdnn_problem_t *b)
{
    return memcmp(a->w.dims, b->w.dims, sizeof a->w.dims) == 0 && a->groups == b->groups &&
           memcmp(a->pad, b->pad, sizeof a->pad) == 0 &&
           memcmp(a->pad_after, b->pad_after, sizeof a->pad_after) == 0 &&
           memcmp(a->stride, b->stride, sizeof a->stride) == 0 &&
           memcmp(a->dilation, b->dilation, sizeof a->dilation) == 0;
}

/* The same convolution, whatever its direction. */
static bool same_shape(const mdnn_problem_t *a, const mdnn_problem_t *b)
{
    return same_filter(a, b) && memcmp(a->x.dims, b->x.dims, sizeof a->x.dims) == 0 &&
           memcmp(a->y.dims, b->y.dims, sizeof a->y.dims) == 0;
}

static size_t add_layer(run_t *run, const mdnn_network_call_t *call)
{
    run->layers[run->layer_count] =
        (layer_t){.w = call->w, .posed = posed_of(call), .first = SIZE_MAX};
    return run->layer_count++;
}

/* The layer with these weights, which may be new. */
static size_t layer_of_weights(run_t *run, const mdnn_network_call_t *call)
{
    for (size_t i = 0; i < run->layer_count; i++)
        if (run->layers[i].w == call->w &&
            same_filter(&run->layers[i].posed->problem, &posed_of(call)->problem))
            return i;
    return add_layer(run, call);
}

/* A weight gradient has no weights: the layer is that of the data gradient from the same dy, or of
 * the convolution of the same x, else any of its shape that has none yet. */
static size_t layer_of_gradient(run_t *run, const mdnn_network_call_t *call)
{
    const member_t *best = NULL;
    int best_rank = 0;
    for (size_t i = 0; i < run->member_count; i++) {
        const member_t *const other = &run->members[i];
        if (other->call->writes_weights ||
            !same_shape(&posed_of(other->call)->problem, &posed_of(call)->problem))
            continue;
        const bool same =
            is_forward(other->call) ? other->call->x == call->x : other->call->y == call->y;
        const int rank = !same                     ? !run->layers[other->layer].has_gradient
                         : is_forward(other->call) ? 2
                                                   : 3;
        if (rank > best_rank) {
            best = other;
            best_rank = rank;
        }
    }
    const size_t layer = best != NULL ? best->layer : add_layer(run, call);
    run->layers[layer].has_gradient = true;
    return layer;
}

static bool list_members(run_t *run)
{
    size_t used = 0;
    run->members = calloc(run->member_count, sizeof *run->members);
    run->layers = calloc(run->member_count, sizeof *run->layers);
    if (run->members == NULL || run->layers == NULL)
        return false;
    for (uint32_t s = 0, group = 0; s < run->stream_count; s++) {
        const iteration_t *const iteration = run->streams[s].chosen;
        for (size_t i = 0; iteration != NULL && i < iteration->count; i++, used++)
            run->members[used] = (member_t){
                .call = &iteration->calls[i], .group = group, .layer = SIZE_MAX, .order = used};
        group += iteration != NULL;
    }
    for (size_t i = 0; i < run->member_count; i++)
        if (!run->members[i].call->writes_weights)
            run->members[i].layer = layer_of_weights(run, run->members[i].call);
    for (size_t i = 0; i < run->member_count; i++)
        if (run->members[i].call->writes_weights)
            run->members[i].layer = layer_of_gradient(run, run->members[i].call);
    return true;
}

/* Where the layer's convolution, or of a layer that has none anything of it, first ran. */
static void place_layer(run_t *run, layer_t *layer)
{
    const size_t number = (size_t)(layer - run->layers);
    size_t first_of_any = SIZE_MAX;
    for (size_t m = 0; m < run->member_count; m++) {
        const mdnn_network_call_t *const call = run->members[m].call;
        size_t i = 0;
        if (run->members[m].layer != number)
            continue;
        while (i < run->call_count &&
               (run->calls[i].problem != call->problem || run->calls[i].w != call->w))
            i++;
        if (is_forward(call) && i < layer->first)
            layer->first = i;
        if (i < first_of_any)
            first_of_any = i;
    }
    if (layer->first == SIZE_MAX)
        layer->first = first_of_any;
}

/* ---- kernels ---- */

static int place_of_direction(const member_t *member)
{
    return is_forward(member->call) ? MDNN_FORWARD : posed_of(member->call)->problem.direction;
}

static int compare_numbers(size_t a, size_t b)
{
    return a < b ? -1 : a > b;
}

static int compare_layers(const void *a, const void *b)
{
    const layer_t *const first = a, *const second = b;
    return compare_numbers(first->first, second->first);
}

static int compare_members(const void *a, const void *b)
{
    const member_t *const first = a, *const second = b;
    if (first->layer != second->layer)
        return compare_numbers(first->layer, second->layer);
    const int direction = place_of_direction(first) - place_of_direction(second);
    return direction != 0 ? direction : compare_numbers(first->order, second->order);
}

/* Layers by where they first ran, calls by layers and directions. */
static bool sort_members(run_t *run)
{
    size_t *const firsts = calloc(run->layer_count, sizeof *firsts);
    if (firsts == NULL)
        return false;
    for (size_t i = 0; i < run->layer_count; i++) {
        place_layer(run, &run->layers[i]);
        firsts[i] = run->layers[i].first;
    }
    qsort(run->layers, run->layer_count, sizeof *run->layers, compare_layers);
    for (size_t i = 0; i < run->member_count; i++) {
        const size_t first = firsts[run->members[i].layer];
        size_t layer = 0;
        while (run->layers[layer].first != first)
            layer++;
        run->members[i].layer = layer;
    }
    free(firsts);
    qsort(run->members, run->member_count, sizeof *run->members, compare_members);
    return true;
}

static const tool_known_t *find_known(const run_t *run, const tool_known_list_t *list,
                                      const tool_kernel_t *kernel, const posed_t *posed)
{
    for (size_t i = 0; i < list->count; i++)
        if (strcmp(list->at[i].key, posed->traced->key) == 0)
            return &list->at[i];
    tool_complain("%s: %s (%s) is not in the database; see microdnn tune --from-run", run->path,
                  kernel->name, posed->traced->title);
    return NULL;
}

static bool add_kernels(const run_t *run, const tool_known_list_t *known, tool_kernels_t *kernels)
{
    static const char *const names[] = {"forward", "backward_data", "backward_filter"};
    unsigned again = 1;
    for (size_t i = 0; i < run->member_count; i++) {
        const member_t *const member = &run->members[i];
        const int direction = place_of_direction(member);
        tool_kernel_t kernel = {.layer = (int)member->layer,
                                .direction = (mdnn_direction_t)direction,
                                .group = member->group};
        const bool first = i == 0 || member[-1].layer != member->layer ||
                           place_of_direction(&member[-1]) != direction;
        again = first ? 1 : again + 1;
        const int length = snprintf(kernel.name, sizeof kernel.name, "layer %zu %s",
                                    member->layer + 1, names[direction]);
        if (again > 1)
            snprintf(kernel.name + length, sizeof kernel.name - (size_t)length, " #%u", again);
        kernel.known = find_known(run, known, &kernel, posed_of(member->call));
        if (kernel.known == NULL || !tool_kernels_add(kernels, &kernel))
            return false;
        if (kernel.group >= kernels->group_count)
            kernels->group_count = kernel.group + 1;
    }
    return true;
}

/* ---- all of it ---- */

static void run_fini(run_t *run)
{
    for (uint32_t s = 0; run->streams != NULL && s < run->stream_count; s++) {
        for (size_t i = 0; i < run->streams[s].found_count; i++)
            free(run->streams[s].found[i].calls);
        free(run->streams[s].calls);
    }
    free(run->streams);
    free(run->calls);
    free(run->posed);
    free(run->members);
    free(run->layers);
    tool_trace_fini(&run->trace);
}

bool tool_run_kernels(const char *path, const tool_known_list_t *known, tool_kernels_t *kernels,
                      char *title, size_t title_bytes)
{
    run_t run = {.path = path};
    if (!tool_trace_read(path, &run.trace))
        return false;
    snprintf(title, title_bytes, "run of %s", run.trace.program);
    const bool good = pose_problems(&run) && list_calls(&run) && list_streams(&run) &&
                      find_iterations(&run) && list_members(&run) && sort_members(&run) &&
                      add_kernels(&run, known, kernels);
    run_fini(&run);
    return good;
}
