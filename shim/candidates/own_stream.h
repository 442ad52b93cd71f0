/* Where the library runs its own work: a stream, a cuDNN handle and a memory pool in each context. Work in the
 * program's streams may wait for what its host does next, so nothing is measured there, and every wait here has a
 * bound. The program's handles stay as they are.
 *
 * The stream is non-blocking, since the default stream may also be waiting for such work. Everything is made when it is
 * first needed, and kept as long as the context exists; the memory is given back after each use. One thread at a time
 * uses it (the planner, shim/convolution/planning.h), not while its calls are captured, and with a relaxed capture
 * mode. */
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
    /* For waits on the simulated GPU, where time passes only for who waits; NULL without a pool. */
    CUevent end;
    CUdeviceptr parked[MDNN_OWN_BLOCKS]; /* memory that the stream may still use */
    double refused_us; /* when the device was last too busy; 0: it was not busy at the last
                        * attempt */
} mdnn_own_stream_t;

/* Gets the stream of the current context for measuring while `program`, a stream of the program, is idle; *handle
 * enqueues on our stream. Waits until `program` is idle, for at most convolution.measure_patience. If that is not
 * enough, returns BUSY, and does not wait again for a while. Also BUSY while a capture forbids our work, while earlier
 * work of ours has not ended, and if something could not be made that may be available later. DEVICE: the device does
 * not work. */
mdnn_status_t mdnn_own_stream_enter(const mdnn_cudnn_t *cudnn, CUstream program,
                                    mdnn_own_stream_t **own, cudnnHandle_t *handle);

/* Whether a thread is entering and waits for the program. Any thread may call this. */
bool mdnn_own_stream_waits_for_program(void);

/* Waits until `event`, recorded on the stream, is over; BUSY if that takes too long for our
 * work. */
mdnn_status_t mdnn_own_stream_wait(CUevent event);

/* Device memory for the stream. It is stream-ordered if the driver can do that: a free then does not wait for the whole
 * device, as cuMemFree does. Under a budget the memory counts. */
CUresult mdnn_own_stream_allocate(const mdnn_own_stream_t *own, CUdeviceptr *address,
                                  uint64_t bytes);
void mdnn_own_stream_free(mdnn_own_stream_t *own, CUdeviceptr address);
/* Waits for freed memory and gives it back to the device, or does so later if that takes too
 * long. */
void mdnn_own_stream_give_back(mdnn_own_stream_t *own);

#endif
