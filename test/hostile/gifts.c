/* Each thread of a phase hands one tensor to the next, with an event behind its last work there,
 * and takes one from the one before. */
#include "test/hostile/hostile.h"

/* The event is recorded before the other thread is told, in a stream that does not wait for the
 * host. */
void gift_give(thread_t *t)
{
    tensor_t *tensor = NULL;
    if (t->giver == t)
        return;
    gate_open(t);
    for (int i = 0; i < MOST_TENSORS && !tensor; i++)
        if (t->tensors[i].address && t->tensors[i].kind == ORDERED && !t->tensors[i].graphs &&
            !is_small(t->tensors[i].bytes))
            tensor = &t->tensors[i];
    if (tensor) {
        t->gift = *tensor;
        OK(t, api.cuEventCreate(&t->gift_event, CU_EVENT_DISABLE_TIMING));
        OK(t, api.cuEventRecord(t->gift_event, t->streams[tensor->stream]));
        tensor_forget(t, tensor);
    }
    sem_post(&t->gift_is_there);
}

/* Frees it, or keeps it; if it is another device's, it is copied first. */
static void use_gift(thread_t *t, tensor_t gift, int device)
{
    tensor_t *const place = tensor_place(t);
    tensor_t *const mine = tensor_any(t);
    const int stream = stream_any(t);
    OK(t, api.cuStreamWaitEvent(t->streams[stream], t->giver->gift_event, 0));
    if (device == t->device && place && t->live_bytes + footprint(gift.bytes) <= plan.live) {
        *place = gift;
        place->stream = stream;
        place->graphs = 0;
        t->live_bytes += footprint(gift.bytes);
        return;
    }
    if (mine && device != t->device && streams_follow(t, stream, (tensor_t *const[]){mine}, 1)) {
        const uint64_t bytes = mine->bytes < gift.bytes ? mine->bytes : gift.bytes;
        if (footprint(mine->bytes) + footprint(gift.bytes) <= plan.caps.operation)
            OK(t, api.cuMemcpyPeerAsync(mine->address, process_context(t->device), gift.address,
                                        process_context(device), bytes, t->streams[stream]));
    }
    stream_wait(t, stream);
    guard_enter(t);
    OK(t, api.cuMemFree(gift.address));
    guard_leave(t);
}

void gift_take(thread_t *t)
{
    thread_t *const giver = t->giver;
    if (giver == t)
        return;
    gate_open(t);
    while (sem_wait(&giver->gift_is_there) != 0)
        ;
    if (!giver->gift.address)
        return;
    use_gift(t, giver->gift, giver->device);
    OK(t, api.cuEventDestroy(giver->gift_event));
}
