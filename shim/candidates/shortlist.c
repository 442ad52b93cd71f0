#include "shim/candidates/shortlist.h"

enum { ALGORITHMS = 16 };

/* What the three result types have in common. */
typedef struct guess {
    int algo;
    cudnnStatus_t status;
    size_t bytes;
} guess_t;

#define DEFINE_GUESSES(direction, type, function, ...)                                             \
    static int guesses_##direction(const mdnn_call_t *call, guess_t *guesses)                      \
    {                                                                                              \
        type results[ALGORITHMS];                                                                  \
        int count = 0;                                                                             \
        if (!call->cudnn->function ||                                                              \
            call->cudnn->function(call->handle, __VA_ARGS__, ALGORITHMS, &count, results) !=       \
                CUDNN_STATUS_SUCCESS)                                                              \
            return 0;                                                                              \
        for (int i = 0; i < count; i++)                                                            \
            guesses[i] = (guess_t){(int)results[i].algo, results[i].status, results[i].memory};    \
        return count;                                                                              \
    }

DEFINE_GUESSES(forward, cudnnConvolutionFwdAlgoPerf_t, cudnnGetConvolutionForwardAlgorithm_v7,
               call->x_desc, call->w_desc, call->conv_desc, call->y_desc)
DEFINE_GUESSES(backward_data, cudnnConvolutionBwdDataAlgoPerf_t,
               cudnnGetConvolutionBackwardDataAlgorithm_v7, call->w_desc, call->y_desc,
               call->conv_desc, call->x_desc)
DEFINE_GUESSES(backward_filter, cudnnConvolutionBwdFilterAlgoPerf_t,
               cudnnGetConvolutionBackwardFilterAlgorithm_v7, call->x_desc, call->y_desc,
               call->conv_desc, call->w_desc)

/* The first `most` that can run and need at most `limit_bytes`. */
static unsigned first(const guess_t *guesses, int count, int most, uint64_t limit_bytes)
{
    unsigned algorithms = 0;
    for (int i = 0; i < count && most > 0; i++)
        if (guesses[i].status == CUDNN_STATUS_SUCCESS && guesses[i].algo >= 0 &&
            guesses[i].algo < ALGORITHMS && guesses[i].bytes <= limit_bytes &&
            !(algorithms & 1U << guesses[i].algo)) {
            algorithms |= 1U << guesses[i].algo;
            most--;
        }
    return algorithms;
}

static int guess(const mdnn_call_t *call, guess_t *guesses)
{
    return call->direction == MDNN_BACKWARD_DATA     ? guesses_backward_data(call, guesses)
           : call->direction == MDNN_BACKWARD_FILTER ? guesses_backward_filter(call, guesses)
                                                     : guesses_forward(call, guesses);
}

unsigned mdnn_shortlist_fitting(const mdnn_call_t *call, int most, uint64_t limit_bytes)
{
    guess_t guesses[ALGORITHMS];
    return first(guesses, guess(call, guesses), most, limit_bytes);
}

unsigned mdnn_shortlist(const mdnn_call_t *call, int most, uint64_t limit_bytes)
{
    guess_t guesses[ALGORITHMS];
    const int count = guess(call, guesses);
    const unsigned algorithms = first(guesses, count, most, UINT64_MAX) |
                                first(guesses, count, 1, limit_bytes) | first(guesses, count, 1, 0);
    return algorithms ? algorithms : ~0U;
}
