/* Contents that are dropped when they leave, and made again (offload/memory/memory.h), with a remaker whose hashes take as
 * long as the test wants. What is made again must find its inputs as they were. */
#include "cases.h"
#include "memory_model.h"
#include "random_follower.h"

enum { REMAKER = MODEL_MORE, JOBS = 64 };

static model_t model;
static mdnn_memory_t *memory;

#define ok(call) assert_int_equal(call, MDNN_STATUS_OK)

/* Makes the first word of one range of that of another one. */
typedef struct launch {
    uint64_t result, input;
    uint32_t made, read; /* what the words were when the program made it */
    bool dropped;
} launch_t;

/* ---- the remaker ---- */

static unsigned noted[MDNN_MAKING_ENDED + 1];

static mdnn_memory_hash_t hash_of(uint32_t word)
{
    return (mdnn_memory_hash_t){{word, 1}};
}

/* As if they ran at once, though nobody knows that they are over. */
static mdnn_status_t hash(void *context, const mdnn_memory_span_t *spans, size_t count, void **job)
{
    static mdnn_memory_hash_t jobs[JOBS][1 + MDNN_MAKING_INPUTS];
    static unsigned next;
    mdnn_memory_hash_t *const hashes = jobs[next++ % JOBS];
    (void)context;
    for (size_t i = 0; i < count; i++) {
        const uint64_t chunk = model.chunk_at[model_step(spans[i].address)];
        assert_true(chunk != 0);
        hashes[i] = hash_of(model.chunk_words[chunk][0]);
    }
    enqueue(&model, REMAKER, ITEM_OPERATION);
    *job = hashes;
    return MDNN_STATUS_OK;
}

static bool take_hashes(void *context, void *job, mdnn_memory_hash_t *hashes)
{
    (void)context;
    if (hashes)
        memcpy(hashes, job, (1 + MDNN_MAKING_INPUTS) * sizeof *hashes);
    return true;
}

static bool hashes_then(void *context, void *launch, mdnn_memory_hash_t *hashes)
{
    const launch_t *const then = launch;
    (void)context;
    hashes[0] = hash_of(then->made);
    hashes[1] = hash_of(then->read);
    return true;
}

static void enqueue_launch(const launch_t *launch, uint64_t stream)
{
    item_t *const item = enqueue(&model, stream, ITEM_OPERATION);
    item->touch_count = 2;
    item->touches[0] =
        (touch_t){.address = launch->input, .words = 1, .named = true, .before = {launch->read}};
    item->touches[1] = (touch_t){.address = launch->result,
                                 .words = 1,
                                 .named = true,
                                 .after_write = true,
                                 .after = {launch->made}};
}

static mdnn_status_t make(void *context, void *launch)
{
    (void)context;
    enqueue_launch(launch, REMAKER);
    return MDNN_STATUS_OK;
}

static void note(void *context, void *launch, uint64_t bytes, mdnn_making_event_t what)
{
    launch_t *const noted_launch = launch;
    (void)context, (void)bytes;
    noted[what]++;
    noted_launch->dropped = what == MDNN_MAKING_DROPPED;
}

static const mdnn_memory_remaker_t remaker = {.stream = REMAKER,
                                              .hash = hash,
                                              .take_hashes = take_hashes,
                                              .hashes_then = hashes_then,
                                              .make = make,
                                              .note = note};

/* ---- the program ---- */

static uint64_t bystander;
enum { FIRST = 2 }; /* the number of what a case allocates first */

static uint64_t allocate(void)
{
    uint64_t address = 0;
    ok(mdnn_memory_allocate(memory, MODEL_CHUNK, 0, &address));
    return address;
}

static void start(uint64_t chunks)
{
    const mdnn_memory_config_t config = {
        .ranges = {MODEL_BASE, MODEL_STEPS * MODEL_CHUNK, MODEL_CHUNK, 0},
        .budget_bytes = chunks * MODEL_CHUNK,
        .safety = MDNN_SAFETY_FAST,
        .follower.host_limit_bytes = MODEL_SLOTS * MODEL_CHUNK,
    };
    memset(&model, 0, sizeof model);
    memset(&advisor, 0, sizeof advisor);
    memset(noted, 0, sizeof noted);
    model.budget = chunks;
    model.budget_bytes = chunks * MODEL_CHUNK;
    model.slot_limit = MODEL_SLOTS;
    ok(mdnn_memory_create(&config, &model_device, &model, &memory));
    mdnn_memory_set_remaker(memory, &remaker);
    bystander = allocate();
}

static void end(void)
{
    run_all(&model);
    mdnn_memory_destroy(memory);
}

/* `expected` 0: whatever is there; `written` 0: it only reads. */
static void operate(uint64_t address, uint32_t expected, uint32_t written)
{
    const mdnn_memory_operand_t named = {address, written ? MDNN_USE_WRITE : MDNN_USE_READ};
    mdnn_memory_operation_t operation = {.operands = &named, .operand_count = 1};
    ok(mdnn_memory_begin(memory, &operation));
    item_t *const item = enqueue(&model, 0, ITEM_OPERATION);
    item->touch_count = 1;
    item->touches[0] = (touch_t){.address = address,
                                 .words = 1,
                                 .named = true,
                                 .after_write = written != 0,
                                 .before = {expected},
                                 .after = {written}};
    mdnn_memory_end(memory, &operation, true);
}

static void launch_first(launch_t *launch)
{
    const mdnn_memory_operand_t named[] = {{launch->result, MDNN_USE_WRITE},
                                           {launch->input, MDNN_USE_READ}};
    mdnn_memory_operation_t operation = {.operands = named, .operand_count = 2};
    ok(mdnn_memory_begin(memory, &operation));
    enqueue_launch(launch, 0);
    mdnn_memory_end(memory, &operation, true);
    ok(mdnn_memory_can_make(memory, launch->result, &launch->input, 1, launch));
}

/* What is under way ends. */
static void settle(void)
{
    do
        run_all(&model);
    while (mdnn_memory_progress(memory));
}

/* The allocation of this number, by advice at the end of an operation that has nothing to do with it. */
static void let_leave(uint32_t number)
{
    advisor.leaver = number;
    advisor.leave = 1;
    operate(bystander, 0, 0);
    advisor.leave = 0;
}

/* A result is about to leave: its hash is on its way, and that of its input. */
static void begin_to_leave(launch_t *launch)
{
    *launch = (launch_t){.made = 7, .read = 5};
    launch->input = allocate();
    launch->result = allocate();
    operate(launch->input, 0, launch->read);
    launch_first(launch);
    settle();
    let_leave(FIRST + 1);
    assert_int_equal(model.enqueued[REMAKER], 1);
    assert_int_equal(model.done[REMAKER], 0);
}

CASE(what_can_be_made_again_is_dropped)
{
    start(8);
    launch_t launch;
    begin_to_leave(&launch);
    settle();
    assert_int_equal(noted[MDNN_MAKING_DROPPED], 1);
    operate(launch.result, launch.made, 0);
    settle();
    assert_int_equal(noted[MDNN_MAKING_WANTED], 1);
    end();
}

/* The hash may have seen it as it was, and the launch would see it as it is. */
CASE(a_hash_does_not_count_if_an_operation_may_write_the_input_meanwhile)
{
    start(8);
    launch_t launch;
    begin_to_leave(&launch);
    operate(launch.input, launch.read, 6);
    settle();
    assert_int_equal(noted[MDNN_MAKING_DROPPED], 0);
    operate(launch.result, launch.made, 0);
    operate(launch.input, 6, 0);
    settle();
    end();
}

/* What only reads it does no harm. */
CASE(a_hash_counts_if_an_operation_reads_the_input_meanwhile)
{
    start(8);
    launch_t launch;
    begin_to_leave(&launch);
    operate(launch.input, launch.read, 0);
    settle();
    assert_int_equal(noted[MDNN_MAKING_DROPPED], 1);
    operate(launch.result, launch.made, 0);
    settle();
    end();
}

enum { DEPTH = 20 };
static launch_t chain[DEPTH];

static void make_chain(void)
{
    const uint64_t input = allocate();
    operate(input, 0, 1);
    for (uint32_t i = 0; i < DEPTH; i++) {
        chain[i] = (launch_t){.result = allocate(), .made = i + 2, .read = i + 1};
        chain[i].input = i > 0 ? chain[i - 1].result : input;
        launch_first(&chain[i]);
    }
    settle();
}

static unsigned longest_row(void)
{
    unsigned row = 0, longest = 0;
    for (uint32_t i = 0; i < DEPTH; i++) {
        row = chain[i].dropped ? row + 1 : 0;
        longest = row > longest ? row : longest;
    }
    return longest;
}

/* Whoever wants the last of a chain has all of it made again, one launch inside the other. Each `step`th leaves first. */
static void drop_chain(uint32_t step, unsigned longest)
{
    start(DEPTH + 2);
    make_chain();
    for (uint32_t i = 0; i < DEPTH; i++) {
        let_leave(FIRST + 1 + i * step % DEPTH);
        settle();
    }
    assert_int_equal(longest_row(), longest);
    for (uint32_t i = DEPTH; i-- > 0;)
        operate(chain[i].result, chain[i].made, 0);
    settle();
    assert_int_equal(noted[MDNN_MAKING_WANTED], noted[MDNN_MAKING_DROPPED]);
    end();
}

CASE(no_more_than_eight_launches_in_a_row_are_dropped)
{
    drop_chain(1, 8);
}

CASE(so_it_is_if_the_last_leaves_first)
{
    drop_chain(DEPTH - 1, 8);
}

CASE(so_it_is_if_a_drop_joins_others)
{
    drop_chain(7, 6);
}

int main(void)
{
    return run_cases("memory_drops");
}
