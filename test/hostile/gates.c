/* Streams that wait for something that the host does later. While a gate is closed its thread makes
 * no call that could wait for the gated streams; every kind of call that may not wait it makes. */
#include "test/hostile/hostile.h"

static void CUDA_CB wait_for_signal(void *thread)
{
    thread_t *const t = thread;
    while (sem_wait(&t->gate_signal) != 0)
        ;
    t->calls_made++;
}

static void CUDA_CB need_lock(void *thread)
{
    thread_t *const t = thread;
    pthread_mutex_lock(&t->gate_lock);
    t->calls_made++;
    pthread_mutex_unlock(&t->gate_lock);
}

static void CUDA_CB count_call(void *thread)
{
    ((thread_t *)thread)->calls_made++;
}

/* Host calls of all streams are made one after the other, so those of one thread must not be held
 * up by another's gate: only the first thread makes any. */
static bool may_call(const thread_t *t)
{
    return t->number == 0;
}

static gate_kind_t pick_gate(thread_t *t)
{
    const gate_kind_t kind = (gate_kind_t)(VALUE_GATE + draw(&t->draw, 4));
    const bool has[] = {[VALUE_GATE] = plan.has[FEATURE_value_gates],
                        [WRITE_GATE] = plan.has[FEATURE_write_gates],
                        [CALL_GATE] = plan.has[FEATURE_call_gates] && may_call(t),
                        [LOCK_GATE] = plan.has[FEATURE_lock_gates] && may_call(t)};
    return has[kind] ? kind : NO_GATE;
}

static void wait_for_word(thread_t *t, CUstream stream)
{
    const unsigned how = draw(&t->draw, 2) ? CU_STREAM_WAIT_VALUE_EQ : CU_STREAM_WAIT_VALUE_GEQ;
    t->gate_word++;
    MUST(t, t->gate_word < GATE_WORDS);
    OK(t, api.cuStreamWaitValue32(stream, (uintptr_t)&t->words[t->gate_word], 1, how));
}

static void call_that_waits(thread_t *t, CUstream stream, gate_kind_t kind)
{
    for (int i = 0; i < t->stream_count; i++)
        stream_wait(t, i); /* no earlier host call is held up behind this one */
    if (kind == LOCK_GATE)
        pthread_mutex_lock(&t->gate_lock);
    t->calls_asked++;
    OK(t, api.cuLaunchHostFunc(stream, kind == LOCK_GATE ? need_lock : wait_for_signal, t));
}

void gate_close(thread_t *t)
{
    const int stream = stream_any(t);
    const gate_kind_t kind = pick_gate(t);
    if (t->gate != NO_GATE || kind == NO_GATE || t->blocking[stream] ||
        (kind == WRITE_GATE && t->stream_count < 2))
        return;
    if (kind == CALL_GATE || kind == LOCK_GATE)
        call_that_waits(t, t->streams[stream], kind);
    else
        wait_for_word(t, t->streams[stream]);
    t->gate = kind;
    t->gated[stream] = true;
    t->gated_bytes = 0;
}

/* By a stream that does not wait, if there is one. */
static void write_word(thread_t *t)
{
    for (int i = 0; i < t->stream_count; i++)
        if (!t->gated[i]) {
            OK(t,
               api.cuStreamWriteValue32(t->streams[i], (uintptr_t)&t->words[t->gate_word], 1, 0));
            return;
        }
    __atomic_store_n(&t->words[t->gate_word], 1, __ATOMIC_RELEASE);
}

void gate_open(thread_t *t)
{
    if (t->gate == VALUE_GATE)
        __atomic_store_n(&t->words[t->gate_word], 1, __ATOMIC_RELEASE);
    else if (t->gate == WRITE_GATE)
        write_word(t);
    else if (t->gate == CALL_GATE)
        sem_post(&t->gate_signal);
    else if (t->gate == LOCK_GATE)
        pthread_mutex_unlock(&t->gate_lock);
    t->gate = NO_GATE;
    t->gated_bytes = 0;
    for (int i = 0; i < MOST_STREAMS; i++)
        t->gated[i] = false;
    for (int i = 0; i < MOST_TENSORS; i++)
        t->tensors[i].gated = false;
}

void host_call(thread_t *t)
{
    const int stream = stream_any(t);
    if (!may_call(t) || t->gate != NO_GATE)
        return;
    t->calls_asked++;
    OK(t, api.cuLaunchHostFunc(t->streams[stream], count_call, t));
}

/* Pinned memory that comes and goes. Its end waits for all that the device does. */
void host_memory(thread_t *t)
{
    const uint64_t bytes = 4096 * (1 + (uint64_t)draw(&t->draw, 64));
    void *memory = NULL;
    tensor_t *tensor = tensor_any(t);
    if (t->gate != NO_GATE)
        return;
    const bool registers = draw(&t->draw, 2) != 0;
    guard_enter(t);
    if (registers) {
        memory = aligned_alloc(4096, bytes);
        MUST(t, memory);
        OK(t, api.cuMemHostRegister(memory, bytes, 0));
    } else {
        OK(t, api.cuMemHostAlloc(&memory, bytes, 0));
    }
    if (tensor && tensor->bytes <= bytes &&
        OK(t, api.cuMemcpyDtoHAsync(memory, tensor->address, tensor->bytes,
                                    t->streams[tensor->stream]))) {
        stream_wait(t, tensor->stream);
        thread_note_bytes(t, memory, tensor->bytes);
    }
    if (registers) {
        OK(t, api.cuMemHostUnregister(memory));
        free(memory);
    } else {
        OK(t, api.cuMemFreeHost(memory));
    }
    guard_leave(t);
}
