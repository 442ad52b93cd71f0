/* The mechanism of virtual memory under several threads, whose calls overlap at each wait: then others
 * allocate, free, begin and end operations, and streams wait for values that threads set after
 * operations of theirs. One thread runs at a time, and a seed says which goes on, so a failure comes
 * again: MEMORY_TEST_SEED=S MEMORY_TEST_VERBOSE=1.
 *
 * The budget has room for the largest operation beside all that may be blocked at once, so nothing may
 * ever be refused, and everything must come to its end. */
#include <pthread.h>

#include "cases.h"
#include "few.h"
#include "memory_model.h"
#include "random_follower.h"

enum {
    THREADS = 4,
    ALLOCATIONS = 5,
    MOST_CHUNKS = 3,
    STEPS = 60,
    BUDGET = (2 + THREADS) * MOST_CHUNKS,
    MOST_TURNS = 3000000
};

typedef struct allocation {
    uint64_t address, bytes; /* bytes 0: none */
    uint32_t words;
    uint32_t content[MODEL_ALLOCATION_WORDS];
    mdnn_stream_point_t last; /* moment 0: none */
} allocation_t;

typedef struct worker {
    int index;
    pthread_t thread;
    allocation_t allocations[ALLOCATIONS];
    int blocked;         /* allocation that a stream uses once the value is set; -1: none */
    uint64_t value;      /* the last that a stream waits for */
    unsigned left;       /* operations until then */
    uint64_t random;     /* what it does */
    uint64_t operations; /* that it has begun and ended */
} worker_t;

static model_t model;
static mdnn_memory_t *memory;
static worker_t workers[THREADS];
static uint32_t next_word;
static uint64_t stalls, changes;
static _Thread_local uint32_t opened;

/* ---- one thread at a time ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static int running; /* -1: nobody */
static bool over[THREADS];
static uint64_t turns;

static int choose(void)
{
    const int first = (int)pick(&model, THREADS);
    for (int i = 0; i < THREADS; i++)
        if (!over[(first + i) % THREADS])
            return (first + i) % THREADS;
    return -1;
}

static void await_turn(int index)
{
    while (running != index)
        pthread_cond_wait(&passed, &mutex);
}

static void pass_on(void)
{
    const int index = running;
    assert_true(++turns < MOST_TURNS); /* it hangs */
    running = choose();
    pthread_cond_broadcast(&passed);
    await_turn(index);
}

/* ---- the device's waits let others in ---- */

static mdnn_status_t wait_for_copy(void *context, mdnn_stream_point_t point)
{
    (void)context;
    while (!model_is_done(&model, point)) {
        pass_on();
        run_one(&model);
    }
    return MDNN_STATUS_OK;
}

static mdnn_status_t wait_a_stretch(void *context, mdnn_stream_point_t point, double seconds,
                                    bool quiet)
{
    (void)context, (void)seconds, (void)quiet;
    for (uint64_t i = pick(&model, 8); i > 0; i--) {
        pass_on();
        run_one(&model);
        if (model_is_done(&model, point))
            return MDNN_STATUS_OK;
    }
    stalls++;
    return MDNN_STATUS_BUSY;
}

static void wait_for_others(void *context, double seconds)
{
    (void)context, (void)seconds;
    changes++;
    pass_on();
    run_one(&model);
}

static mdnn_status_t wait_for_slot(void *context)
{
    pass_on();
    return model_wait_for_slot(context);
}

static uint32_t opened_here(void *context)
{
    (void)context;
    return opened;
}

/* ---- what a thread does ---- */

static uint64_t any(worker_t *worker, uint64_t below)
{
    return random_next(&worker->random) % below;
}

static void touch_allocation(item_t *item, allocation_t *allocation)
{
    touch_t *const touch = &item->touches[item->touch_count++];
    touch->address = allocation->address;
    touch->words = allocation->words;
    touch->named = true;
    touch->after_write = true;
    for (uint32_t i = 0; i < allocation->words; i++) {
        touch->before[i] = allocation->content[i];
        touch->after[i] = allocation->content[i] = ++next_word;
    }
}

/* `first` and, if it is another one, `second`. */
static void operate(worker_t *worker, uint64_t stream, allocation_t *first, allocation_t *second)
{
    const mdnn_memory_operand_t names[] = {{first->address + first->bytes - 1, MDNN_USE_UNKNOWN},
                                           {second->address, MDNN_USE_READ}};
    mdnn_memory_operation_t operation = {
        .key = any(worker, 5), .stream = stream, .operands = names, .operand_count = 2};
    assert_int_equal(mdnn_memory_begin(memory, &operation), MDNN_STATUS_OK);
    opened++;
    if (any(worker, 3) == 0)
        pass_on(); /* between begin and end a thread has no lock */
    allocation_t *const allocations[] = {first, second};
    const int count = first == second ? 1 : 2;
    for (int i = 0; i < count; i++)
        if (allocations[i]->last.position > 0 && allocations[i]->last.stream != stream)
            enqueue(&model, stream, ITEM_WAIT)->point = allocations[i]->last;
    item_t *const item = enqueue(&model, stream, ITEM_OPERATION);
    for (int i = 0; i < count; i++) {
        touch_allocation(item, allocations[i]);
        allocations[i]->last = model_mark(&model, stream);
    }
    opened--;
    mdnn_memory_end(memory, &operation, true);
    worker->operations++;
}

static void allocate(worker_t *worker, allocation_t *allocation)
{
    const uint64_t bytes = 1 + any(worker, MOST_CHUNKS * MODEL_CHUNK);
    const uint64_t stream = (uint64_t)worker->index;
    uint64_t address;
    assert_int_equal(mdnn_memory_allocate(memory, bytes, stream, &address), MDNN_STATUS_OK);
    *allocation = (allocation_t){
        .address = address, .bytes = bytes, .words = (uint32_t)((bytes + 511) / 512)};
    allocation->last = model_mark(&model, stream);
}

static void give_back(worker_t *worker, allocation_t *allocation)
{
    const uint64_t stream = (uint64_t)worker->index;
    if (allocation->last.position > 0 && allocation->last.stream != stream)
        enqueue(&model, stream, ITEM_WAIT)->point = allocation->last;
    if (any(worker, 2) == 0)
        assert_int_equal(mdnn_memory_wait_idle(memory, allocation->address), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, allocation->address, stream), MDNN_STATUS_OK);
    *allocation = (allocation_t){0};
}

/* From now on a stream of the thread's waits, and has the allocation then. */
static void block(worker_t *worker, int allocation)
{
    const uint64_t stream = MODEL_MORE + (uint64_t)worker->index;
    enqueue(&model, stream, ITEM_VALUE)->point =
        (mdnn_stream_point_t){(uint64_t)worker->index, ++worker->value};
    operate(worker, stream, &worker->allocations[allocation], &worker->allocations[allocation]);
    worker->blocked = allocation;
    worker->left = (unsigned)any(worker, 6);
}

static void unblock(worker_t *worker)
{
    model.values[worker->index] = worker->value;
    worker->blocked = -1;
}

static void step(worker_t *worker)
{
    const int one = (int)any(worker, ALLOCATIONS), two = (int)any(worker, ALLOCATIONS);
    allocation_t *const first = &worker->allocations[one], *const second =
                                                               &worker->allocations[two];
    if (worker->blocked >= 0 && worker->left-- == 0)
        unblock(worker);
    if (one == worker->blocked || two == worker->blocked)
        return;
    if (first->bytes == 0)
        allocate(worker, first);
    else if (any(worker, 6) == 0)
        give_back(worker, first);
    else if (worker->blocked < 0 && any(worker, 4) == 0)
        block(worker, one);
    else
        operate(worker, (uint64_t)worker->index, first, second->bytes > 0 ? second : first);
}

static void *work(void *context)
{
    worker_t *const worker = context;
    pthread_mutex_lock(&mutex);
    await_turn(worker->index);
    for (int i = 0; i < STEPS; i++) {
        step(worker);
        for (uint64_t runs = pick(&model, 3); runs > 0; runs--)
            run_one(&model);
        pass_on();
    }
    unblock(worker);
    for (int i = 0; i < ALLOCATIONS; i++)
        if (worker->allocations[i].bytes > 0)
            give_back(worker, &worker->allocations[i]);
    over[worker->index] = true;
    running = choose();
    pthread_cond_broadcast(&passed);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

/* ---- programs ---- */

static void start_program(uint64_t seed, mdnn_safety_t safety)
{
    mdnn_memory_device_t device = model_device;
    device.wait_on_host = wait_for_copy;
    device.wait_a_while = wait_a_stretch;
    device.wait_for_change = wait_for_others;
    device.wait_for_slot = wait_for_slot;
    device.opened_here = opened_here;
    memset(&model, 0, sizeof model);
    model.random = seed;
    model.budget = BUDGET + pick(&model, 4);
    model.budget_bytes = model.budget * MODEL_CHUNK;
    model.slot_limit = MODEL_SLOTS;
    model.slot_busy_in = (unsigned)pick(&model, 6);
    model.runs_in = (unsigned)(pick(&model, 2) * pick(&model, 10));
    const mdnn_memory_config_t config = {
        .ranges = {MODEL_BASE, MODEL_STEPS * MODEL_CHUNK, MODEL_CHUNK, 0, pick(&model, 3)},
        .budget_bytes = model.budget * MODEL_CHUNK,
        .safety = safety,
        .follower.host_limit_bytes = UINT64_MAX,
    };
    advise_at_random(&model, seed);
    advisor.parts = seed % 3 == 0;
    turns = 0;
    memset(over, 0, sizeof over);
    memset(workers, 0, sizeof workers);
    assert_int_equal(mdnn_memory_create(&config, &device, &model, &memory), MDNN_STATUS_OK);
}

static void finish_program(void)
{
    run_all(&model);
    for (int i = 0; i < 10; i++) {
        mdnn_memory_progress(memory);
        run_all(&model);
    }
    const mdnn_memory_report_t report = mdnn_memory_report(memory);
    assert_int_equal(report.live_bytes, 0);
    assert_int_equal(report.host_bytes, 0);
    assert_int_equal(report.refused, 0);
    assert_int_equal(model.slots_used, 0);
    assert_true(report.peak_resident_bytes <= report.budget_bytes);
    mdnn_memory_destroy(memory);
}

static void run_program(uint64_t seed, mdnn_safety_t safety)
{
    start_program(seed, safety);
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < THREADS; i++) {
        workers[i] =
            (worker_t){.index = i, .blocked = -1, .random = seed * THREADS + (uint64_t)i + 1};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    running = choose();
    pthread_cond_broadcast(&passed);
    pthread_mutex_unlock(&mutex);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(workers[i].thread, NULL), 0);
    finish_program();
}

static void run_programs(uint64_t count, mdnn_safety_t safety)
{
    const char *const times = getenv("MEMORY_TEST_TIMES"), *const one = getenv("MEMORY_TEST_SEED");
    count = few(count / 8, count) * (times ? strtoull(times, NULL, 10) : 1);
    for (uint64_t seed = one ? strtoull(one, NULL, 10) : 0; seed < count; seed++) {
        if (getenv("MEMORY_TEST_VERBOSE"))
            fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
        run_program(seed * 2654435761u + 1, safety);
    }
}

CASE(every_demand_of_several_threads_is_served)
{
    stalls = changes = 0;
    run_programs(300, MDNN_SAFETY_FAST);
    print_message("%llu waits ended in vain, %llu times others went first\n",
                  (unsigned long long)stalls, (unsigned long long)changes);
    assert_true(stalls > few(10, 100) && changes > few(10, 100));
}

int main(void)
{
    return run_cases("threads");
}
