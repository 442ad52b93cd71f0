/* What the backend API answers to whom: the same checks for the simulated cuDNN and for the real
 * one, which needs no GPU for them. Linked with libcudnn.so.9 alone; which one that is, the library
 * path decides (test_backend_real.sh). Statuses are those of cuDNN 9.19.0. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <cudnn.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef cudnnBackendDescriptor_t descriptor_t;

#define SUCCESS CUDNN_STATUS_SUCCESS
#define BAD CUDNN_STATUS_BAD_PARAM
#define BAD_NULL CUDNN_STATUS_BAD_PARAM_NULL_POINTER
#define BAD_TYPE CUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE
#define UNFINISHED CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED
#define UNSUPPORTED CUDNN_STATUS_NOT_SUPPORTED
#define EARLY CUDNN_STATUS_NOT_INITIALIZED

/* `call` gives `status`. */
#define RULE(status, call) check((call), (status), #call, __LINE__)

static void check(cudnnStatus_t got, cudnnStatus_t wanted, const char *call, int line)
{
    if (got == wanted)
        return;
    print_error("%s gives %s, wanted %s\n", call, cudnnGetErrorString(got),
                cudnnGetErrorString(wanted));
    _fail(__FILE__, line);
}

/* Every descriptor of a test; destroyed when it ends. */
static descriptor_t made[256];
static int made_count;

static descriptor_t make(cudnnBackendDescriptorType_t type)
{
    assert_true(made_count < (int)(sizeof made / sizeof *made));
    RULE(SUCCESS, cudnnBackendCreateDescriptor(type, &made[made_count]));
    return made[made_count++];
}

static int drop_all(void **state)
{
    (void)state;
    while (made_count > 0)
        RULE(SUCCESS, cudnnBackendDestroyDescriptor(made[--made_count]));
    return 0;
}

/* Short forms; `name` without CUDNN_ATTR_, `type` without CUDNN_TYPE_. */
#define SET(descriptor, name, type, count, values)                                                 \
    cudnnBackendSetAttribute(descriptor, CUDNN_ATTR_##name, CUDNN_TYPE_##type, count, values)
#define GET(descriptor, name, type, requested, count, values)                                      \
    cudnnBackendGetAttribute(descriptor, CUDNN_ATTR_##name, CUDNN_TYPE_##type, requested, count,   \
                             values)
#define FINALIZE cudnnBackendFinalize

static descriptor_t tensor(int64_t uid, cudnnDataType_t type, int64_t n, int64_t c, int64_t h,
                           bool is_virtual)
{
    const int64_t dims[] = {n, c, h, h}, strides[] = {c * h * h, h * h, h, 1}, alignment = 16;
    descriptor_t t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    RULE(SUCCESS, SET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type));
    RULE(SUCCESS, SET(t, TENSOR_DIMENSIONS, INT64, 4, dims));
    RULE(SUCCESS, SET(t, TENSOR_STRIDES, INT64, 4, strides));
    RULE(SUCCESS, SET(t, TENSOR_UNIQUE_ID, INT64, 1, &uid));
    RULE(SUCCESS, SET(t, TENSOR_BYTE_ALIGNMENT, INT64, 1, &alignment));
    RULE(SUCCESS, SET(t, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &is_virtual));
    RULE(SUCCESS, FINALIZE(t));
    return t;
}

static descriptor_t convolution(void)
{
    const cudnnDataType_t type = CUDNN_DATA_FLOAT;
    const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
    const int64_t two = 2, ones[] = {1, 1};
    descriptor_t c = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    RULE(SUCCESS, SET(c, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, &type));
    RULE(SUCCESS, SET(c, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &mode));
    RULE(SUCCESS, SET(c, CONVOLUTION_SPATIAL_DIMS, INT64, 1, &two));
    RULE(SUCCESS, SET(c, CONVOLUTION_PRE_PADDINGS, INT64, 2, ones));
    RULE(SUCCESS, SET(c, CONVOLUTION_POST_PADDINGS, INT64, 2, ones));
    RULE(SUCCESS, SET(c, CONVOLUTION_DILATIONS, INT64, 2, ones));
    RULE(SUCCESS, SET(c, CONVOLUTION_FILTER_STRIDES, INT64, 2, ones));
    RULE(SUCCESS, FINALIZE(c));
    return c;
}

#define SET_FORWARD(o, name, type, count, values)                                                  \
    cudnnBackendSetAttribute(o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_##name,                   \
                             CUDNN_TYPE_##type, count, values)
#define GET_FORWARD(o, name, type, requested, count, values)                                       \
    cudnnBackendGetAttribute(o, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_##name,                   \
                             CUDNN_TYPE_##type, requested, count, values)

/* 8 x 64 x 56 x 56 with 64 filters of 3 x 3; not finalized. */
static descriptor_t operation(descriptor_t x, descriptor_t y)
{
    descriptor_t w = tensor('w', CUDNN_DATA_FLOAT, 64, 64, 3, false), c = convolution();
    descriptor_t o = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    RULE(SUCCESS, SET_FORWARD(o, X, BACKEND_DESCRIPTOR, 1, &x));
    RULE(SUCCESS, SET_FORWARD(o, W, BACKEND_DESCRIPTOR, 1, &w));
    RULE(SUCCESS, SET_FORWARD(o, Y, BACKEND_DESCRIPTOR, 1, &y));
    RULE(SUCCESS, SET_FORWARD(o, CONV_DESC, BACKEND_DESCRIPTOR, 1, &c));
    return o;
}

static descriptor_t usual_operation(void)
{
    descriptor_t o = operation(tensor('x', CUDNN_DATA_FLOAT, 8, 64, 56, false),
                               tensor('y', CUDNN_DATA_FLOAT, 8, 64, 56, false));
    RULE(SUCCESS, FINALIZE(o));
    return o;
}

static descriptor_t usual_graph(void)
{
    descriptor_t o = usual_operation(), g = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    RULE(SUCCESS, SET(g, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, &o));
    RULE(SUCCESS, FINALIZE(g));
    return g;
}

static descriptor_t device(void)
{
    static char json[4096];
    FILE *const file = fopen(DATA_FOLDER "/h200-deviceprop.json", "r");
    assert_non_null(file);
    const size_t bytes = fread(json, 1, sizeof json, file);
    fclose(file);
    assert_true(bytes > 100 && bytes < sizeof json);
    descriptor_t d = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    RULE(SUCCESS, SET(d, DEVICEPROP_JSON_REPRESENTATION, CHAR, (int64_t)bytes, json));
    RULE(SUCCESS, FINALIZE(d));
    return d;
}

static descriptor_t heuristics(descriptor_t graph, cudnnBackendHeurMode_t mode)
{
    descriptor_t h = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), d = device();
    RULE(SUCCESS, SET(h, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &graph));
    RULE(SUCCESS, SET(h, ENGINEHEUR_MODE, HEUR_MODE, 1, &mode));
    RULE(SUCCESS, SET(h, ENGINEHEUR_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &d));
    RULE(SUCCESS, FINALIZE(h));
    return h;
}

/* The first configuration with a workspace, so that 0 is no answer. */
static descriptor_t usual_config(void)
{
    descriptor_t h = heuristics(usual_graph(), CUDNN_HEUR_MODE_INSTANT), configs[8];
    int64_t count = 0, bytes = 0;
    for (int i = 0; i < 8; i++)
        configs[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    RULE(SUCCESS, GET(h, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, 8, &count, configs));
    for (int64_t i = 0; i < count; i++) {
        RULE(SUCCESS, GET(configs[i], ENGINECFG_WORKSPACE_SIZE, INT64, 1, NULL, &bytes));
        if (bytes)
            return configs[i];
    }
    fail_msg("no configuration with a workspace");
    return NULL;
}

static descriptor_t usual_plan(void)
{
    descriptor_t c = usual_config(), p = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    RULE(SUCCESS, SET(p, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &c));
    RULE(SUCCESS, FINALIZE(p));
    return p;
}

/* -----------------------------------------------------------------------------------------------
 */

static void descriptors_come_and_go(void **state)
{
    (void)state;
    descriptor_t d = NULL;
    const int64_t value = 0;
    RULE(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED,
         cudnnBackendCreateDescriptor((cudnnBackendDescriptorType_t)999, &d));
    RULE(BAD_NULL, cudnnBackendDestroyDescriptor(NULL));
    RULE(BAD, cudnnBackendInitialize(NULL));
    RULE(BAD_NULL, FINALIZE(NULL));
    RULE(BAD_NULL, SET(NULL, TENSOR_UNIQUE_ID, INT64, 1, &value));
    RULE(BAD, GET(NULL, TENSOR_UNIQUE_ID, INT64, 1, NULL, &d));
    RULE(SUCCESS, cudnnBackendInitialize(make(CUDNN_BACKEND_TENSOR_DESCRIPTOR)));
}

/* It is as new, and of its type. */
static void an_initialized_plan_begins_anew(void **state)
{
    (void)state;
    descriptor_t plan = usual_plan(), config = usual_config();
    int64_t bytes = 0;
    RULE(SUCCESS, cudnnBackendInitialize(plan));
    RULE(EARLY, GET(plan, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 1, NULL, &bytes));
    RULE(UNFINISHED, FINALIZE(plan));
    RULE(SUCCESS, SET(plan, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &config));
    RULE(SUCCESS, FINALIZE(plan));
    RULE(SUCCESS, GET(plan, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 1, NULL, &bytes));
}

static void empty_descriptors_finalize_or_not(void **state)
{
    (void)state;
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnStatus_t status;
    } rules[] = {
        {CUDNN_BACKEND_POINTWISE_DESCRIPTOR, SUCCESS},
        {CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR, BAD},
        {CUDNN_BACKEND_ENGINE_DESCRIPTOR, BAD_NULL},
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, BAD},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, UNFINISHED},
        {CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, SUCCESS},
        {CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR, BAD},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR, BAD},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR, BAD},
        {CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR, BAD},
        {CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, BAD},
        {CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, SUCCESS},
        {CUDNN_BACKEND_TENSOR_DESCRIPTOR, BAD},
        {CUDNN_BACKEND_MATMUL_DESCRIPTOR, SUCCESS},
        {CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, EARLY},
    };
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const cudnnStatus_t status = FINALIZE(make(rules[i].type));
        if (status != rules[i].status)
            print_error("descriptor type %d\n", (int)rules[i].type);
        RULE(rules[i].status, status);
    }
}

static void a_tensor_takes_what_fits(void **state)
{
    (void)state;
    descriptor_t t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t dims[] = {8, 64, 56, 56}, strides[] = {200704, 3136, 56, 1}, zero = 0, three = 3,
                  sixteen = 16;
    const cudnnDataType_t type = CUDNN_DATA_FLOAT, none = (cudnnDataType_t)77;
    int64_t count = -7;
    RULE(BAD, SET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, NULL));
    RULE(BAD_TYPE, SET(t, TENSOR_DATA_TYPE, INT64, 1, &zero));
    RULE(BAD, SET(t, TENSOR_DATA_TYPE, DATA_TYPE, 0, &type));
    RULE(BAD, SET(t, TENSOR_DATA_TYPE, DATA_TYPE, 2, &type));
    RULE(BAD, SET(t, OPERATIONGRAPH_HANDLE, INT64, 1, &zero));
    RULE(BAD, SET(t, CONVOLUTION_PRE_PADDINGS, INT64, 1, &zero));
    RULE(BAD, cudnnBackendSetAttribute(t, (cudnnBackendAttributeName_t)5000, CUDNN_TYPE_INT64, 1,
                                       &zero));
    RULE(BAD, SET(t, TENSOR_DIMENSIONS, INT64, 0, dims));
    RULE(BAD, SET(t, TENSOR_DIMENSIONS, INT64, -1, dims));
    RULE(SUCCESS, SET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, &none));
    RULE(EARLY, GET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, &count, &count));
    RULE(BAD, FINALIZE(t));
    RULE(SUCCESS, SET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, &type));
    RULE(SUCCESS, SET(t, TENSOR_DIMENSIONS, INT64, 4, dims));
    RULE(BAD, FINALIZE(t));
    RULE(SUCCESS, SET(t, TENSOR_STRIDES, INT64, 3, strides));
    RULE(SUCCESS, SET(t, TENSOR_BYTE_ALIGNMENT, INT64, 1, &sixteen));
    RULE(BAD, FINALIZE(t));
    RULE(SUCCESS, SET(t, TENSOR_STRIDES, INT64, 4, strides));
    RULE(SUCCESS, SET(t, TENSOR_BYTE_ALIGNMENT, INT64, 1, &three));
    RULE(BAD, FINALIZE(t));
    RULE(SUCCESS, SET(t, TENSOR_BYTE_ALIGNMENT, INT64, 1, &sixteen));
    RULE(SUCCESS, FINALIZE(t));
    RULE(BAD, FINALIZE(t));
    RULE(BAD, SET(t, TENSOR_UNIQUE_ID, INT64, 1, &three));
}

static void a_tensor_gives_back_all_but_its_alignment(void **state)
{
    (void)state;
    descriptor_t t = tensor(5, CUDNN_DATA_HALF, 8, 64, 56, true);
    cudnnDataType_t type = CUDNN_DATA_FLOAT;
    int64_t count = -7, values[8] = {0};
    bool is_virtual = false;
    RULE(SUCCESS, GET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, &count, &type));
    assert_true(type == CUDNN_DATA_HALF && count == 1);
    RULE(SUCCESS, GET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, NULL, &type));
    RULE(SUCCESS, GET(t, TENSOR_DATA_TYPE, DATA_TYPE, 1, &count, NULL));
    count = -7;
    RULE(SUCCESS, GET(t, TENSOR_DATA_TYPE, DATA_TYPE, 0, &count, NULL));
    assert_int_equal(count, 1);
    RULE(BAD, GET(t, TENSOR_DATA_TYPE, DATA_TYPE, 2, &count, values));
    RULE(BAD_TYPE, GET(t, TENSOR_DATA_TYPE, INT64, 1, &count, values));
    RULE(BAD, GET(t, CONVOLUTION_PRE_PADDINGS, INT64, 1, &count, values));
    count = -7;
    RULE(SUCCESS, GET(t, TENSOR_DIMENSIONS, INT64, 0, &count, NULL));
    assert_int_equal(count, 4);
    RULE(SUCCESS, GET(t, TENSOR_DIMENSIONS, INT64, 2, &count, values));
    assert_true(count == 2 && values[0] == 8 && values[1] == 64 && values[2] == 0);
    RULE(SUCCESS, GET(t, TENSOR_STRIDES, INT64, 8, &count, values));
    assert_true(count == 4 && values[0] == 200704 && values[3] == 1 && values[4] == 0);
    RULE(BAD, GET(t, TENSOR_DIMENSIONS, INT64, -1, &count, values));
    RULE(UNSUPPORTED, GET(t, TENSOR_BYTE_ALIGNMENT, INT64, 1, &count, values));
    RULE(SUCCESS, GET(t, TENSOR_UNIQUE_ID, INT64, 1, &count, values));
    assert_int_equal(values[0], 5);
    RULE(SUCCESS, GET(t, TENSOR_IS_VIRTUAL, BOOLEAN, 1, &count, &is_virtual));
    assert_true(is_virtual);
    RULE(SUCCESS, GET(t, TENSOR_VECTOR_COUNT, INT64, 1, &count, values));
    RULE(BAD_TYPE, GET(t, TENSOR_REORDERING_MODE, TENSOR_REORDERING_MODE, 1, &count, values));
}

static void a_convolution_gives_its_mode_as_a_data_type(void **state)
{
    (void)state;
    descriptor_t c = convolution();
    int64_t count = -7, values[4] = {0};
    cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
    RULE(BAD_TYPE, GET(c, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, &count, &mode));
    RULE(SUCCESS, GET(c, CONVOLUTION_CONV_MODE, DATA_TYPE, 1, &count, &mode));
    assert_int_equal(mode, CUDNN_CROSS_CORRELATION);
    RULE(SUCCESS, GET(c, CONVOLUTION_PRE_PADDINGS, INT64, 1, &count, values));
    assert_int_equal(count, 1);
    RULE(SUCCESS, GET(c, CONVOLUTION_PRE_PADDINGS, INT64, 3, &count, values));
    assert_int_equal(count, 2);
}

static void an_operation_gives_tensors_with_a_group_and_no_uid(void **state)
{
    (void)state;
    descriptor_t o = usual_operation(), t = make(CUDNN_BACKEND_TENSOR_DESCRIPTOR), none = NULL;
    descriptor_t c = make(CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
    int64_t count = -7, dims[8] = {0}, uid = 0;
    float alpha = -9;
    double wide = -9;
    RULE(BAD, SET_FORWARD(o, ALPHA, FLOAT, 1, &alpha));
    RULE(BAD, GET_FORWARD(o, ALPHA, FLOAT, 1, &count, &alpha));
    RULE(SUCCESS, GET_FORWARD(o, ALPHA, DOUBLE, 1, &count, &wide));
    assert_true(wide == 1.0);
    RULE(SUCCESS, GET_FORWARD(o, BETA, DOUBLE, 1, &count, &wide));
    assert_true(wide == 0.0);
    RULE(SUCCESS, GET_FORWARD(o, X, BACKEND_DESCRIPTOR, 1, &count, &t));
    RULE(SUCCESS, GET(t, TENSOR_DIMENSIONS, INT64, 8, &count, dims));
    assert_true(count == 5 && dims[0] == 8 && dims[1] == 1 && dims[2] == 64 && dims[4] == 56);
    RULE(SUCCESS, GET(t, TENSOR_UNIQUE_ID, INT64, 1, &count, &uid));
    assert_int_equal(uid, -1);
    RULE(SUCCESS, GET_FORWARD(o, W, BACKEND_DESCRIPTOR, 1, &count, &t));
    RULE(SUCCESS, GET(t, TENSOR_DIMENSIONS, INT64, 8, &count, dims));
    assert_true(count == 5 && dims[0] == 1 && dims[1] == 64 && dims[2] == 64 && dims[4] == 3);
    RULE(BAD, GET_FORWARD(o, X, BACKEND_DESCRIPTOR, 1, &count, &none));
    RULE(SUCCESS, GET_FORWARD(o, CONV_DESC, BACKEND_DESCRIPTOR, 1, &count, &c));
}

static void an_operation_checks_its_shapes_and_not_its_types(void **state)
{
    (void)state;
    descriptor_t x = tensor('x', CUDNN_DATA_FLOAT, 8, 64, 56, false), none = NULL;
    descriptor_t y = tensor('y', CUDNN_DATA_FLOAT, 8, 64, 56, false);
    descriptor_t o = operation(x, tensor('y', CUDNN_DATA_FLOAT, 8, 64, 50, false));
    RULE(BAD, FINALIZE(o));
    RULE(BAD, FINALIZE(operation(tensor('x', CUDNN_DATA_FLOAT, 8, 63, 56, false), y)));
    RULE(BAD, FINALIZE(operation(tensor('x', CUDNN_DATA_FLOAT, 4, 64, 56, false), y)));
    RULE(BAD, SET_FORWARD(o, Y, BACKEND_DESCRIPTOR, 1, &none));
    RULE(SUCCESS, SET_FORWARD(o, Y, BACKEND_DESCRIPTOR, 1, &y));
    RULE(SUCCESS, FINALIZE(o));
    RULE(SUCCESS, FINALIZE(operation(tensor('x', CUDNN_DATA_HALF, 8, 64, 56, false), y)));
}

static void a_graph_hides_its_operations(void **state)
{
    (void)state;
    descriptor_t o = usual_operation(), g = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    descriptor_t out = make(CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR);
    int64_t count = -7, engines = 0;
    cudnnHandle_t handle = NULL;
    RULE(BAD_NULL, SET(g, OPERATIONGRAPH_HANDLE, HANDLE, 1, &handle));
    RULE(SUCCESS, SET(g, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 0, &o));
    RULE(SUCCESS, SET(g, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, &o));
    RULE(EARLY, GET(g, OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, INT64, 1, &count, &engines));
    RULE(SUCCESS, FINALIZE(g));
    RULE(SUCCESS, GET(g, OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, INT64, 1, &count, &engines));
    assert_true(engines > 5);
    RULE(UNSUPPORTED, GET(g, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, &count, &out));
    RULE(UNSUPPORTED, GET(g, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 0, &count, NULL));
    RULE(UNSUPPORTED, GET(g, OPERATIONGRAPH_HANDLE, HANDLE, 1, &count, &handle));
    RULE(BAD, SET(g, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, &o));
}

/* Setting operations adds to those set before. */
static void one_operation_twice_is_a_bad_graph(void **state)
{
    (void)state;
    descriptor_t o = usual_operation(), g = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    RULE(SUCCESS, SET(g, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, &o));
    RULE(SUCCESS, SET(g, OPERATIONGRAPH_OPS, BACKEND_DESCRIPTOR, 1, &o));
    RULE(BAD, FINALIZE(g));
}

static void device_properties_are_json(void **state)
{
    (void)state;
    descriptor_t d = make(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    int64_t count = -7;
    RULE(SUCCESS, SET(d, DEVICEPROP_JSON_REPRESENTATION, CHAR, 3, "bad"));
    RULE(BAD, FINALIZE(d));
    RULE(SUCCESS, GET(device(), DEVICEPROP_JSON_REPRESENTATION, CHAR, 0, &count, NULL));
    assert_true(count > 100);
}

static void heuristics_fill_slots_up_to_the_first_that_is_used(void **state)
{
    (void)state;
    enum { SLOTS = 64 };
    descriptor_t graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR), slots[SLOTS];
    descriptor_t h = make(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR), nothing[2] = {NULL, NULL};
    int64_t bound = 0, count = -7;
    RULE(SUCCESS, SET(h, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &graph));
    RULE(UNFINISHED, FINALIZE(h));
    h = heuristics(usual_graph(), CUDNN_HEUR_MODE_INSTANT);
    for (int i = 0; i < SLOTS; i++)
        slots[i] = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    RULE(SUCCESS, GET(h, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, 0, &bound, NULL));
    RULE(SUCCESS, GET(h, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, 2, &count, slots));
    assert_int_equal(count, 2);
    RULE(SUCCESS, GET(h, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, SLOTS, &count, slots));
    assert_int_equal(count, 0);
    RULE(SUCCESS, GET(h, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, SLOTS - 2, &count, slots + 2));
    assert_true(count > 2 && count < bound); /* the first answer was a bound, and one too many */
    RULE(SUCCESS, GET(h, ENGINEHEUR_RESULTS, BACKEND_DESCRIPTOR, 2, &count, nothing));
    RULE(SUCCESS, GET(h, ENGINEHEUR_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &count, &graph));
    RULE(SUCCESS, GET(graph, OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, INT64, 1, &count, &bound));
}

static void an_engine_needs_a_graph_and_an_index(void **state)
{
    (void)state;
    descriptor_t graph = usual_graph(), properties = device(), e, c;
    const int64_t zero = 0, many = 999;
    int64_t count = -7, bytes = -1;
    e = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    RULE(SUCCESS, SET(e, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &graph));
    RULE(SUCCESS, SET(e, ENGINE_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &properties));
    RULE(UNSUPPORTED, FINALIZE(e));
    RULE(SUCCESS, SET(e, ENGINE_GLOBAL_INDEX, INT64, 1, &many));
    RULE(UNSUPPORTED, FINALIZE(e));
    RULE(SUCCESS, SET(e, ENGINE_GLOBAL_INDEX, INT64, 1, &zero));
    c = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    RULE(SUCCESS, SET(c, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, &e));
    RULE(SUCCESS, FINALIZE(e));
    RULE(UNFINISHED, FINALIZE(c)); /* it took the engine as it was then */
    c = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    RULE(SUCCESS, SET(c, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, &e));
    RULE(SUCCESS, FINALIZE(c));
    RULE(SUCCESS, GET(c, ENGINECFG_WORKSPACE_SIZE, INT64, 1, &count, &bytes));
    assert_int_equal(bytes, 0);
}

static void a_configuration_tells_its_engine_knobs_and_notes(void **state)
{
    (void)state;
    descriptor_t c = usual_config(), e = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    descriptor_t infos[24], choices[24], graph = make(CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    int64_t count = -7, index = -1, knobs = 0;
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    for (int i = 0; i < 24; i++) {
        infos[i] = make(CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR);
        choices[i] = make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    }
    RULE(SUCCESS, GET(c, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, &count, &e));
    RULE(SUCCESS, GET(e, ENGINE_GLOBAL_INDEX, INT64, 1, &count, &index));
    assert_true(index >= 0);
    RULE(SUCCESS, GET(e, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &count, &graph));
    RULE(SUCCESS, GET(e, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE, 0, &knobs, NULL));
    RULE(SUCCESS, GET(e, ENGINE_NUMERICAL_NOTE, NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT,
                      &count, notes));
    assert_int_equal(count, knobs);
    RULE(SUCCESS, GET(e, ENGINE_BEHAVIOR_NOTE, BEHAVIOR_NOTE, 0, &count, NULL));
    assert_int_equal(count, 0);
    RULE(SUCCESS, GET(e, ENGINE_LAYOUT_INFO, BACKEND_DESCRIPTOR, 0, &count, NULL));
    assert_int_equal(count, 0);
    RULE(SUCCESS, GET(e, ENGINE_KNOB_INFO, BACKEND_DESCRIPTOR, 0, &knobs, NULL));
    RULE(SUCCESS, GET(e, ENGINE_KNOB_INFO, BACKEND_DESCRIPTOR, 24, &count, infos));
    assert_true(count == knobs && knobs > 0);
    RULE(SUCCESS, GET(c, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, 0, &count, NULL));
    assert_int_equal(count, 0); /* the real library's way */
    RULE(SUCCESS, GET(c, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, 24, &count, choices));
    assert_int_equal(count, knobs);
    RULE(UNSUPPORTED, GET(c, ENGINECFG_SHARED_MEMORY_USED, INT32, 1, &count, &index));
    RULE(BAD, SET(c, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, &e));
}

static void a_knob_beyond_its_range_is_not_supported(void **state)
{
    (void)state;
    descriptor_t e = make(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
    descriptor_t graph = usual_graph(), properties = device();
    const int64_t index = 1;
    RULE(SUCCESS, SET(e, ENGINE_OPERATION_GRAPH, BACKEND_DESCRIPTOR, 1, &graph));
    RULE(SUCCESS, SET(e, ENGINE_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &properties));
    RULE(SUCCESS, SET(e, ENGINE_GLOBAL_INDEX, INT64, 1, &index));
    RULE(SUCCESS, FINALIZE(e));
    static const struct {
        cudnnBackendKnobType_t type;
        int64_t value;
        cudnnStatus_t status;
    } rules[] = {{CUDNN_KNOB_TYPE_TILE_SIZE, 0, SUCCESS},
                 {CUDNN_KNOB_TYPE_TILE_SIZE, 4000, UNSUPPORTED},
                 {CUDNN_KNOB_TYPE_SPLIT_COLS, 1, UNSUPPORTED}};
    for (int i = 0; i < 3; i++) {
        descriptor_t k = make(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
        descriptor_t c = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
        RULE(SUCCESS, SET(k, KNOB_CHOICE_KNOB_TYPE, KNOB_TYPE, 1, &rules[i].type));
        RULE(SUCCESS, SET(k, KNOB_CHOICE_KNOB_VALUE, INT64, 1, &rules[i].value));
        RULE(SUCCESS, FINALIZE(k));
        RULE(SUCCESS, SET(c, ENGINECFG_ENGINE, BACKEND_DESCRIPTOR, 1, &e));
        RULE(SUCCESS, SET(c, ENGINECFG_KNOB_CHOICES, BACKEND_DESCRIPTOR, 1, &k));
        RULE(rules[i].status, FINALIZE(c));
    }
}

static void a_plan_tells_its_workspace_and_its_json(void **state)
{
    (void)state;
    static char json[1 << 17];
    descriptor_t p = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    descriptor_t c = make(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    int64_t count = -7, bytes = -1, length = 0, two[2];
    cudnnHandle_t handle = (cudnnHandle_t)json;
    RULE(EARLY, GET(p, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 1, &count, &bytes));
    p = usual_plan();
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 1, &count, &bytes));
    assert_true(bytes > 0);
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 0, &count, NULL));
    RULE(BAD, GET(p, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 2, &count, two));
    RULE(BAD_TYPE, GET(p, EXECUTION_PLAN_WORKSPACE_SIZE, INT32, 1, &count, two));
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, 0, &length, NULL));
    assert_true(length > 1000 && length < (int64_t)sizeof json);
    count = -7;
    RULE(CUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT,
         GET(p, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, length - 1, &count, json));
    assert_int_equal(count, -7);
    memset(json, '#', sizeof json);
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, length, &count, json));
    assert_true(count == length && json[0] == '{' && json[length - 1] == '}' &&
                json[length] == '#'); /* no 0 is written */
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, sizeof json, &count, json));
    assert_int_equal(count, length);
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_HANDLE, HANDLE, 1, &count, &handle));
    assert_null(handle);
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &count, &c));
    RULE(UNSUPPORTED, GET(p, EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS, INT64, 1, &count, two));
    RULE(BAD, SET(p, EXECUTION_PLAN_ENGINE_CONFIG, BACKEND_DESCRIPTOR, 1, &c));
    RULE(BAD, FINALIZE(p));
}

/* A plan made from `json` for the same device. */
static cudnnStatus_t plan_of(const char *json, descriptor_t *out)
{
    descriptor_t p = make(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR), properties = device();
    RULE(SUCCESS, SET(p, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, (int64_t)strlen(json), json));
    RULE(SUCCESS, SET(p, EXECUTION_PLAN_DEVICEPROP, BACKEND_DESCRIPTOR, 1, &properties));
    *out = p;
    return FINALIZE(p);
}

static void a_plan_is_made_from_its_json(void **state)
{
    (void)state;
    static char json[1 << 17], spoilt[1 << 17];
    descriptor_t p = usual_plan(), again;
    int64_t length = 0, bytes = -1, bytes_again = -2;
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, sizeof json - 1, &length, json));
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 1, NULL, &bytes));
    RULE(SUCCESS, plan_of(json, &again));
    RULE(SUCCESS, GET(again, EXECUTION_PLAN_WORKSPACE_SIZE, INT64, 1, NULL, &bytes_again));
    assert_int_equal(bytes, bytes_again);
    RULE(BAD, plan_of("{bad}", &again));
    strcpy(spoilt, json);
    *(strstr(spoilt, "\"schemaVersion\":4") + strlen("\"schemaVersion\":")) = '9';
    RULE(CUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH, plan_of(spoilt, &again));
    strcpy(spoilt, json);
    *strstr(spoilt, "CUDNN_CROSS") = 'X';
    RULE(BAD, plan_of(spoilt, &again));
    char *const engine = strstr(json, "\"engineId\":");
    snprintf(spoilt, sizeof spoilt, "%.*s\"engineId\":99%s", (int)(engine - json), json,
             strchr(engine, ','));
    RULE(UNSUPPORTED, plan_of(spoilt, &again));
}

static void a_pack_keeps_its_pointers_to_itself(void **state)
{
    (void)state;
    descriptor_t v = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    void *pointers[] = {(void *)64, (void *)128, NULL}, *workspace = (void *)256;
    int64_t uids[] = {'x', 'y', 'x'}, count = -7;
    RULE(BAD, SET(v, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 0, pointers));
    RULE(UNSUPPORTED, SET(v, VARIANT_PACK_DATA_POINTERS, INT64, 1, pointers));
    RULE(BAD, SET(v, VARIANT_PACK_WORKSPACE, VOID_PTR, 2, pointers));
    RULE(UNSUPPORTED, SET(v, VARIANT_PACK_INTERMEDIATES, VOID_PTR, 1, pointers));
    RULE(SUCCESS, SET(v, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 3, pointers));
    RULE(SUCCESS, SET(v, VARIANT_PACK_UNIQUE_IDS, INT64, 2, uids));
    RULE(BAD, FINALIZE(v));
    RULE(SUCCESS, SET(v, VARIANT_PACK_UNIQUE_IDS, INT64, 3, uids));
    RULE(SUCCESS, SET(v, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &workspace));
    RULE(SUCCESS, FINALIZE(v)); /* one uid twice and a NULL pointer pass */
    workspace = NULL;
    RULE(SUCCESS, GET(v, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &count, &workspace));
    assert_ptr_equal(workspace, (void *)256);
    RULE(UNSUPPORTED, GET(v, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 3, &count, pointers));
    RULE(UNSUPPORTED, GET(v, VARIANT_PACK_DATA_POINTERS, VOID_PTR, 0, &count, NULL));
    RULE(UNSUPPORTED, GET(v, VARIANT_PACK_UNIQUE_IDS, INT64, 3, &count, uids));
    RULE(BAD, SET(v, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, &workspace));
}

static void pointwise_descriptors_give_nothing_back(void **state)
{
    (void)state;
    descriptor_t how = make(CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    descriptor_t o = make(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    descriptor_t x = tensor('x', CUDNN_DATA_FLOAT, 8, 64, 56, false);
    descriptor_t y = tensor('y', CUDNN_DATA_FLOAT, 8, 64, 56, false);
    cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
    float one = 1.0f;
    int64_t count;
    RULE(SUCCESS, SET(how, POINTWISE_MODE, POINTWISE_MODE, 1, &mode));
    RULE(SUCCESS, FINALIZE(how));
    RULE(UNSUPPORTED, GET(how, POINTWISE_MODE, POINTWISE_MODE, 1, &count, &mode));
    RULE(SUCCESS, SET(o, OPERATION_POINTWISE_PW_DESCRIPTOR, BACKEND_DESCRIPTOR, 1, &how));
    RULE(SUCCESS, SET(o, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1, &x));
    RULE(SUCCESS, SET(o, OPERATION_POINTWISE_YDESC, BACKEND_DESCRIPTOR, 1, &y));
    RULE(BAD, FINALIZE(o)); /* an addition of one thing */
    RULE(SUCCESS, SET(o, OPERATION_POINTWISE_BDESC, BACKEND_DESCRIPTOR, 1, &x));
    RULE(SUCCESS, SET(o, OPERATION_POINTWISE_ALPHA1, FLOAT, 1, &one));
    RULE(SUCCESS, FINALIZE(o));
    RULE(UNSUPPORTED, GET(o, OPERATION_POINTWISE_ALPHA1, FLOAT, 1, &count, &one));
    RULE(UNSUPPORTED, GET(o, OPERATION_POINTWISE_XDESC, BACKEND_DESCRIPTOR, 1, &count, &x));
}

static void nothing_runs_without_a_handle(void **state)
{
    (void)state;
    descriptor_t p = usual_plan(), v = make(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    RULE(SUCCESS, FINALIZE(v));
    RULE(BAD, cudnnBackendExecute(NULL, p, v));
    RULE(BAD, cudnnBackendExecute(NULL, p, NULL));
    RULE(BAD, cudnnBackendPopulateCudaGraph(NULL, p, v, NULL));
    RULE(BAD, cudnnBackendUpdateCudaGraph(NULL, p, v, NULL));
}

/* A plan needs nothing of what it was made from. */
static void a_plan_outlives_its_descriptors(void **state)
{
    (void)state;
    descriptor_t p = usual_plan();
    int64_t before = 0, after = 0;
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, 0, &before, NULL));
    for (int i = made_count - 1; i >= 0; i--)
        if (made[i] != p)
            RULE(SUCCESS, cudnnBackendDestroyDescriptor(made[i]));
    made[0] = p;
    made_count = 1;
    RULE(SUCCESS, GET(p, EXECUTION_PLAN_JSON_REPRESENTATION, CHAR, 0, &after, NULL));
    assert_int_equal(before, after);
}

#define TEST(name) cmocka_unit_test_teardown(name, drop_all)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(descriptors_come_and_go),
        TEST(an_initialized_plan_begins_anew),
        TEST(empty_descriptors_finalize_or_not),
        TEST(a_tensor_takes_what_fits),
        TEST(a_tensor_gives_back_all_but_its_alignment),
        TEST(a_convolution_gives_its_mode_as_a_data_type),
        TEST(an_operation_gives_tensors_with_a_group_and_no_uid),
        TEST(an_operation_checks_its_shapes_and_not_its_types),
        TEST(a_graph_hides_its_operations),
        TEST(one_operation_twice_is_a_bad_graph),
        TEST(device_properties_are_json),
        TEST(heuristics_fill_slots_up_to_the_first_that_is_used),
        TEST(an_engine_needs_a_graph_and_an_index),
        TEST(a_configuration_tells_its_engine_knobs_and_notes),
        TEST(a_knob_beyond_its_range_is_not_supported),
        TEST(a_plan_tells_its_workspace_and_its_json),
        TEST(a_plan_is_made_from_its_json),
        TEST(a_pack_keeps_its_pointers_to_itself),
        TEST(pointwise_descriptors_give_nothing_back),
        TEST(nothing_runs_without_a_handle),
        TEST(a_plan_outlives_its_descriptors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
