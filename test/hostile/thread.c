/* A thread of a random program: its operations, one after the other, and its end. */
#include "test/hostile/hostile.h"

#include <string.h>
#include <unistd.h>

volatile uint64_t *progress;

static pthread_rwlock_t guard = PTHREAD_RWLOCK_INITIALIZER; /* readers come first */

void guard_enter(thread_t *t)
{
    (void)t;
    if (plan.has[FEATURE_global_captures] && plan.threads > 1)
        pthread_rwlock_rdlock(&guard);
}

void guard_leave(thread_t *t)
{
    (void)t;
    if (plan.has[FEATURE_global_captures] && plan.threads > 1)
        pthread_rwlock_unlock(&guard);
}

void guard_capture(void)
{
    if (plan.threads > 1)
        pthread_rwlock_wrlock(&guard);
}

void guard_capture_ends(void)
{
    if (plan.threads > 1)
        pthread_rwlock_unlock(&guard);
}

void fail(const thread_t *t, const char *what, const char *file, int line)
{
    printf("FAILED: seed %llu, thread %u, phase %u, operation %u: %s:%d: %s\n",
           (unsigned long long)plan.seed, t->number, t->phase, t->index, file, line, what);
    fflush(stdout);
    _Exit(1);
}

/* What may be refused for want of memory. */
static bool needs_memory(const char *call)
{
    return strstr(call, "Alloc") || strstr(call, "Memcpy") || strstr(call, "Memset") ||
           strstr(call, "LaunchKernel");
}

bool succeeded(thread_t *t, CUresult result, const char *call, const char *file, int line)
{
    char text[400];
    const char *name = "?";
    if (result == CUDA_SUCCESS)
        return true;
    if (plan.tight && result == CUDA_ERROR_OUT_OF_MEMORY && needs_memory(call)) {
        t->ended = true;
        return false;
    }
    cuGetErrorName(result, &name);
    snprintf(text, sizeof text, "%s: %s", name, call);
    fail(t, text, file, line);
    return false;
}

void thread_note(thread_t *t, uint64_t value)
{
    t->digest = (t->digest ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    t->digest ^= t->digest >> 29;
}

void thread_note_bytes(thread_t *t, const void *bytes, uint64_t count)
{
    const char *at = bytes;
    uint64_t word;
    for (; count >= sizeof word; count -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        t->digest = (t->digest ^ word) * UINT64_C(0x9E3779B97F4A7C15);
        t->digest ^= t->digest >> 32;
    }
    word = 0;
    memcpy(&word, at, count);
    thread_note(t, word);
}

/* ---- operations ---- */

static void read_some(thread_t *t)
{
    tensor_t *const tensor = tensor_any(t);
    if (tensor)
        tensor_read(t, tensor);
}

/* How often, beside the others that the program has. */
static const struct {
    void (*run)(thread_t *t);
    const char *name;
    int feature; /* -1: every program has it */
    uint32_t weight;
} operations[] = {
    {tensor_allocate, "allocate", -1, 22},
    {tensor_free_some, "free", -1, 14},
    {work_launch, "launch", -1, 26},
    {work_copy, "copy", -1, 8},
    {work_upload, "upload", -1, 5},
    {work_set, "set", -1, 5},
    {read_some, "read", -1, 4},
    {work_table, "table", FEATURE_tables, 12},
    {work_rows, "rows", FEATURE_shapes, 6},
    {work_blocking, "blocking", FEATURE_blocking_copies, 6},
    {work_ask, "ask", FEATURE_queries, 6},
    {work_attributes, "attributes", FEATURE_attributes, 6},
    {host_memory, "host memory", FEATURE_host_memory, 3},
    {stream_replace, "replace stream", FEATURE_streams_end, 5},
    {gate_close, "value gate", FEATURE_value_gates, 8},
    {gate_close, "write gate", FEATURE_write_gates, 8},
    {gate_close, "call gate", FEATURE_call_gates, 8},
    {gate_close, "lock gate", FEATURE_lock_gates, 8},
    {host_call, "host call", FEATURE_host_calls, 5},
    {graph_capture, "capture", FEATURE_local_captures, 6},
    {graph_capture, "capture", FEATURE_global_captures, 6},
    {graph_capture, "capture", FEATURE_relaxed_captures, 6},
    {graph_launch, "launch graph", FEATURE_local_captures, 6},
    {graph_launch, "launch graph", FEATURE_global_captures, 6},
    {graph_launch, "launch graph", FEATURE_relaxed_captures, 6},
    {graph_allocating, "allocating graph", FEATURE_graph_memory, 4},
    {pool_allocate, "pool", FEATURE_pools, 6},
    {mapping_allocate, "handle", FEATURE_handles, 6},
    {process_module, "module", FEATURE_modules, 3},
    {process_child, "child", FEATURE_children, 2},
    {process_convolution, "convolution", FEATURE_convolutions, 2},
    {mapping_allocate, "handle", FEATURE_mappings, 10},
    {mapping_change, "mapping", FEATURE_mappings, 30},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

static uint32_t weight_of(unsigned i)
{
    const int feature = operations[i].feature;
    return feature < 0 || plan.has[feature] ? operations[i].weight : 0;
}

/* Drawn from all of them: what a switch turned off does nothing in its place. */
static unsigned pick_operation(thread_t *t)
{
    uint32_t sum = 0;
    for (unsigned i = 0; i < OPERATIONS; i++)
        sum += weight_of(i);
    uint32_t left = draw(&t->draw, sum);
    unsigned i = 0;
    while (left >= weight_of(i))
        left -= weight_of(i++);
    return i;
}

/* For the test of who runs this: what a program does that the library fails. */
static void have_defect(thread_t *t)
{
    const char *const defect = getenv("HOSTILE_DEFECT");
    while (defect && strcmp(defect, "hang") == 0)
        pause();
    if (defect)
        thread_note(t, 1);
}

static void run_operation(thread_t *t)
{
    t->draw = draw_of(plan.seed, 8 + t->phase, t->number, t->index);
    const unsigned which = pick_operation(t);
    if (t->index < plan.first || t->index >= plan.last)
        return;
    for (int i = 0; i < 4 && t->live_bytes < plan.live / 10 * 7; i++)
        tensor_allocate(t); /* memory is to be short */
    if (getenv("HOSTILE_TRACE"))
        fprintf(stderr, "thread %u, phase %u, operation %u: %s\n", t->number, t->phase, t->index,
                operations[which].name);
    operations[which].run(t);
    if (t->gate != NO_GATE && draw(&t->draw, 6) == 0)
        gate_open(t);
    if (progress)
        __atomic_add_fetch(progress, 1, __ATOMIC_RELAXED);
}

/* ---- the beginning and the end ---- */

static void fill_source(unsigned char *at, uint64_t bytes, unsigned number)
{
    enum { PATTERN = 60000 };
    for (uint64_t i = 0; i < PATTERN; i++)
        at[i] = (unsigned char)(i * 7 + (i >> 9) + number);
    for (uint64_t i = PATTERN; i < bytes; i += PATTERN)
        memcpy(at + i, at, bytes - i < PATTERN ? bytes - i : PATTERN);
}

static void begin(thread_t *t)
{
    const uint64_t bytes = SOURCE_BYTES + 4096;
    MUST(t, cuCtxSetCurrent(process_context(t->device)) == CUDA_SUCCESS);
    guard_enter(t);
    OK(t, api.cuMemHostAlloc((void **)&t->pinned, bytes, 0));
    OK(t, api.cuMemHostAlloc((void **)&t->words, GATE_WORDS * sizeof *t->words, 0));
    OK(t, api.cuMemHostAlloc((void **)&t->table_words, TABLE_WORDS * sizeof *t->table_words, 0));
    guard_leave(t);
    t->pageable = malloc(bytes);
    t->back = malloc(2 * most_bytes() + MEBIBYTE);
    MUST(t, t->pageable && t->back);
    memset(t->words, 0, GATE_WORDS * sizeof *t->words);
    fill_source(t->pinned, bytes, t->number);
    fill_source(t->pageable, bytes, 77);
    OK(t, api.cuEventCreate(&t->event, CU_EVENT_DISABLE_TIMING));
    streams_make(t);
}

/* There is a place for it when one is released. */
static void unpark(thread_t *t)
{
    if (!tensor_place(t))
        tensor_release(t, &t->tensors[0], false);
    mapping_unpark(t);
    MUST(t, t->parked.bytes == 0);
}

static void read_and_release_all(thread_t *t)
{
    t->draw = draw_of(plan.seed, 9, t->phase, t->number);
    if (t->parked.bytes > 0)
        unpark(t);
    for (int i = 0; i < MOST_TENSORS; i++)
        if (t->tensors[i].address)
            tensor_read(t, &t->tensors[i]);
    for (int i = 0; i < MOST_TENSORS; i++)
        if (t->tensors[i].address)
            tensor_release(t, &t->tensors[i], true);
}

static void end(thread_t *t)
{
    t->index = UINT32_MAX;
    gate_open(t);
    graphs_end(t);
    read_and_release_all(t);
    streams_end(t);
    pool_end(t);
    guard_enter(t);
    OK(t, api.cuEventDestroy(t->event));
    OK(t, api.cuMemFreeHost(t->pinned));
    OK(t, api.cuMemFreeHost(t->words));
    OK(t, api.cuMemFreeHost(t->table_words));
    guard_leave(t);
    free(t->pageable);
    free(t->back);
    thread_note(t, t->calls_asked);
    MUST(t, t->calls_asked == t->calls_made);
    MUST(t, t->live_bytes == 0 && t->small_bytes == 0);
}

void *thread_run(void *thread)
{
    thread_t *const t = thread;
    begin(t);
    have_defect(t);
    for (t->index = 0; t->index < plan.operations && !t->ended; t->index++) {
        if (plan.has[FEATURE_gifts] && t->index == plan.operations / 2)
            gift_give(t);
        if (plan.has[FEATURE_gifts] && t->index == plan.operations / 2 + 1)
            gift_take(t);
        run_operation(t);
    }
    end(t);
    return NULL;
}
