/* One convolution of a network in its three directions: the choice of what runs it, the calls. The
 * rest of the program does not know which of cuDNN's two interfaces that is. */
#ifndef TRAIN_CNN_CONVOLUTION_H
#define TRAIN_CNN_CONVOLUTION_H

#include "arguments.h"
#include "gpu.h"

typedef enum direction { FORWARD, BACKWARD_DATA, BACKWARD_FILTER, DIRECTION_COUNT } direction_t;

typedef struct convolution_shape {
    int n, c, h, w; /* input */
    int k, r, s, stride, pad_h, pad_w;
    int out_h, out_w;
} convolution_shape_t;

typedef struct convolution_choice {
    bool made;
    float beta; /* what the direction's calls add to; the same in every iteration */
    char algorithm[32];
    const char *math; /* "fma" and the like */
    size_t workspace_bytes;
    float search_ms; /* what the search measured, 0 if it did not */
} convolution_choice_t;

typedef struct convolution_api convolution_api_t;

typedef struct convolution {
    convolution_shape_t shape;
    data_type_t type;
    layout_t layout;
    const convolution_api_t *api;
    void *state; /* the interface's own */
    convolution_choice_t choices[DIRECTION_COUNT];
    buffer_t workspace; /* its own, or no memory where all share one */
} convolution_t;

/* Device addresses of one call; which one is written depends on the direction. */
typedef struct convolution_operands {
    void *x, *filter, *y;
} convolution_operands_t;

/* What an interface of cuDNN does for the functions below, which say the contracts; `init` and
 * `fini` make and destroy `state`, the latter after the choices were made or not. */
struct convolution_api {
    void (*init)(convolution_t *convolution);
    void (*fini)(convolution_t *convolution);
    void (*choose)(gpu_t *gpu, convolution_t *convolution, direction_t direction,
                   const convolution_operands_t *operands, buffer_t scratch,
                   const arguments_t *options);
    cudnnStatus_t (*run)(gpu_t *gpu, const convolution_t *convolution, direction_t direction,
                         const convolution_operands_t *operands, buffer_t workspace);
};

extern const convolution_api_t convolution_legacy; /* cudnnConvolutionForward and its kin */
extern const convolution_api_t convolution_graph;  /* cudnnBackendExecute */

void convolution_init(convolution_t *convolution, const convolution_shape_t *shape,
                      const arguments_t *options, layout_t layout);
void convolution_fini(gpu_t *gpu, convolution_t *convolution);

/* Chooses what will run the direction, of what works in at most `scratch.bytes`: the fastest on the
 * real buffers (what the direction writes is lost), or the first that cuDNN's heuristics name; of
 * `options` it looks at the search, its repeats and whether only deterministic algorithms may be
 * taken. Waits for the device. */
void convolution_choose(gpu_t *gpu, convolution_t *convolution, direction_t direction,
                        const convolution_operands_t *operands, buffer_t scratch, float beta,
                        const arguments_t *options);

/* Enqueues the convolution: the output becomes result + beta * output, with the beta of the choice,
 * which must have been made. `workspace` is as large as it asks. */
void convolution_run(gpu_t *gpu, const convolution_t *convolution, direction_t direction,
                     const convolution_operands_t *operands, buffer_t workspace);

cudnnDataType_t convolution_element_type(data_type_t type);
const char *direction_name(direction_t direction);

#endif
