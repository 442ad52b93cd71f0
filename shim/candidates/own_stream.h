/* Where the library runs work of its own: a stream, a cuDNN handle and a memory pool in each context. What the
 * program has in its streams may wait for what its host does next, so nothing is measured there and nothing
 * here waits without a bound. The program's handles stay as they are.
 *
 * The stream is non-blocking, since the default stream may stand behind such work, too. All of it is made at the
 * first need and kept as long as the context; the memory goes back after each use. One thread at a time (the
 * planner, shim/convolution/planning.h), not while its calls are captured, and with the capture mode relaxed. */
#ifndef MDNN_OWN_STREAM_H
#define MDNN_OWN_STREAM_H

#include "config/status.h"
#include "shim/real/real.h"

enum { MDNN_OWN_BLOCKS = 8 };

typedef struct mdnn_own_stream {
    CUcontext context; /* NULL: none */
    unsigned long long context_id;
    CUstream stream;
    cudnnHandle_t handles[MDNN_LIBRARY_COUNT]; /* NULL: not made */
    CUmemoryPool pool;                         /* NULL: the driver has none */
    CUevent end;                               /* behind what was freed into it; NULL likewise */
    CUdeviceptr parked[MDNN_OWN_BLOCKS];       /* memory that the stream may still use */
    double refused_us; /* when the device was last too busy; 0: it was not, the last time */
} mdnn_own_stream_t;

/* That of the current context, to measure with while `program` is idle, a stream of the program; *handle enqueues
 * on it. Waits until it is idle, for convolution.measure_patience at most, and then not again for a while: BUSY. BUSY,
 * too, while a capture forbids what we do, while earlier work of ours has not come to its end, and where
 * something could not be made that may be there later. DEVICE: the device does not work. */
mdnn_status_t mdnn_own_stream_enter(const mdnn_cudnn_t *cudnn, CUstream program,
                                    mdnn_own_stream_t **own, cudnnHandle_t *handle);

/* Whether somebody is entering, and waits for the program; any thread. */
bool mdnn_own_stream_waits_for_program(void);

/* Until `event`, recorded on the stream, is over: BUSY if that takes too long for work of ours. */
mdnn_status_t mdnn_own_stream_wait(CUevent event);

/* Device memory for the stream, stream-ordered where the driver can: then a free does not wait for the whole device, as
 * cuMemFree does. Under a budget it counts. */
CUresult mdnn_own_stream_allocate(const mdnn_own_stream_t *own, CUdeviceptr *address,
                                  uint64_t bytes);
void mdnn_own_stream_free(mdnn_own_stream_t *own, CUdeviceptr address);
/* Waits for what was freed and gives it back to the device; later, if that takes too long. */
void mdnn_own_stream_give_back(mdnn_own_stream_t *own);

#endif
