/* The mechanism of virtual memory under random programs, with wrong advice and failing devices:
 * each operation must find, when it runs at last, what the program put there.
 *
 * MEMORY_TEST_TIMES=N runs N times as many programs, MEMORY_TEST_VERBOSE=1 says the seed of each,
 * MEMORY_TEST_SEED=S begins with that one, MEMORY_TEST_ONLY=PATTERN chooses tests. */
#include "memory_model.h"
#include "random_follower.h"

enum { ALLOCATIONS = 14, OPEN = 2, NAMES = 12 };

typedef struct allocation {
    uint64_t address, bytes; /* bytes 0: none */
    uint32_t words;
    bool slab, small;                         /* small: a range that never leaves */
    uint32_t content[MODEL_ALLOCATION_WORDS]; /* 0: unknown; as of the last operation enqueued */
    mdnn_stream_point_t last[MODEL_STREAMS]; /* moments that later users wait for; moment 0: none */
    uint32_t pins, held;
    uint32_t writers; /* of `held` */
    bool freed;       /* while pinned or held */
} allocation_t;

typedef struct open_operation {
    bool open;
    mdnn_memory_operation_t operation;
    mdnn_memory_operand_t names[NAMES];
    allocation_t *allocations[MODEL_TOUCHES];
    bool writes[MODEL_TOUCHES];
    uint32_t count;
} open_operation_t;

typedef struct program {
    model_t model;
    mdnn_memory_t *memory;
    mdnn_memory_config_t config;
    allocation_t allocations[ALLOCATIONS];
    open_operation_t open[OPEN];
    bool exact;     /* refusals must be right: nothing fails, and host memory is not short */
    bool few_sizes; /* what is freed is taken as it is */
    unsigned runs;  /* items that run after a step, at most */
    unsigned allocation_fails_in; /* 1 step in so many; 0: never */
    long allocation_fails_at;     /* counts down; 0: never */
    uint32_t next_word;
    uint64_t movable; /* most that an operation needed of what can leave */
    uint64_t operations, refusals, captured, asides, untracked;
} program_t;

/* Chunks that it takes, and one more if it fills many exactly. */
static uint64_t rooms(const program_t *program, uint64_t bytes)
{
    const uint64_t chunks = (bytes - 1) / MODEL_CHUNK + 1,
                   least = program->config.ranges.ended_chunks;
    return chunks + (bytes % MODEL_CHUNK == 0 && least > 0 && chunks >= least &&
                     bytes > program->config.ranges.small_bytes);
}

static bool stuck(const allocation_t *allocation)
{
    return allocation->bytes > 0 && !allocation->slab &&
           (allocation->small || allocation->pins > 0 || allocation->held > 0);
}

/* Chunks that cannot leave, with those of `named`. */
static uint64_t needed_chunks(const program_t *program, allocation_t *const *named, uint32_t count)
{
    const mdnn_memory_report_t report = mdnn_memory_report(program->memory);
    uint64_t chunks = report.pinned_live_bytes / MODEL_CHUNK;
    for (int i = 0; i < ALLOCATIONS; i++) {
        const allocation_t *const allocation = &program->allocations[i];
        bool wanted = stuck(allocation);
        for (uint32_t n = 0; n < count; n++)
            wanted = wanted || (named[n] == allocation && !allocation->slab);
        const bool known = allocation->bytes > 0 && !allocation->slab &&
                           (allocation->small || allocation->pins > 0);
        chunks += wanted && !known ? rooms(program, allocation->bytes) : 0;
    }
    return chunks;
}

static bool serves_all(const program_t *program)
{
    return program->config.safety == MDNN_SAFETY_HOST;
}

static void program_end(program_t *program, open_operation_t *open);

/* HOST: what is between begin and end holds moves up. Whether that is so; then it ends now. */
static bool held_up(program_t *program, mdnn_status_t status)
{
    bool any = false;
    if (status != MDNN_STATUS_BUSY)
        return false;
    for (int i = 0; i < OPEN; i++) {
        any = any || program->open[i].open;
        if (program->open[i].open)
            program_end(program, &program->open[i]);
    }
    assert_true(any && serves_all(program));
    return true;
}

/* Chunks that there may be beside what is set aside. */
static uint64_t room(const program_t *program)
{
    return (program->model.budget_bytes - program->model.aside_bytes) / MODEL_CHUNK;
}

static void check_refusal(program_t *program, mdnn_status_t status, uint64_t needed)
{
    program->refusals += status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    if (!program->exact)
        return;
    if (needed > room(program))
        assert_int_equal(status, MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    else
        assert_int_equal(status, MDNN_STATUS_OK);
}

/* ---- allocate and free ---- */

/* What is allocated makes nothing unreachable that there was room for some time. */
static void check_reach(const program_t *program, uint64_t pinned_before)
{
    const uint64_t pinned = mdnn_memory_report(program->memory).pinned_live_bytes / MODEL_CHUNK;
    for (int i = 0; i < ALLOCATIONS; i++) {
        const allocation_t *const allocation = &program->allocations[i];
        if (allocation->bytes == 0 || allocation->slab || allocation->small ||
            allocation->pins > 0 || allocation->freed)
            continue;
        const uint64_t chunks = rooms(program, allocation->bytes);
        assert_true(pinned_before / MODEL_CHUNK + chunks > room(program) ||
                    pinned + chunks <= room(program));
    }
}

static unsigned allocated_bare; /* were given no memory yet, for want of it */

static void program_allocate(program_t *program, allocation_t *allocation)
{
    model_t *const model = &program->model;
    const uint64_t small = program->config.ranges.small_bytes;
    const uint64_t stream = pick(model, MODEL_STREAMS);
    const uint64_t most = program->few_sizes ? 2 * MODEL_CHUNK : 6 * MODEL_CHUNK;
    const uint64_t bytes = pick(model, 3) == 0 ? 1 + pick(model, MODEL_CHUNK / 4)
                           : pick(model, 3) == 0
                               ? MODEL_CHUNK * (1 + pick(model, most / MODEL_CHUNK))
                               : 1 + pick(model, most);
    uint64_t address = 0, start, found;
    const uint64_t needed = needed_chunks(program, NULL, 0) + rooms(program, bytes);
    /* Under a plan it need not have memory yet. */
    const bool may_wait = advisor.follows && program->config.safety == MDNN_SAFETY_FAST &&
                          bytes >= program->config.min_bytes && bytes > small &&
                          mdnn_memory_report(program->memory).pinned_live_bytes / MODEL_CHUNK +
                                  rooms(program, bytes) <=
                              room(program);
    const uint64_t pinned_before = mdnn_memory_report(program->memory).pinned_live_bytes;
    const mdnn_status_t status = mdnn_memory_allocate(program->memory, bytes, stream, &address);
    if (held_up(program, status))
        return;
    if (may_wait && status == MDNN_STATUS_OK)
        allocated_bare += needed > room(program); /* for what operations hold, at least */
    else if (bytes > small)
        check_refusal(program, status, needed);
    else if (program->exact && status != MDNN_STATUS_OK)
        assert_true(needed > room(program));
    if (status != MDNN_STATUS_OK) {
        assert_true(status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY || model->failed);
        return;
    }
    *allocation = (allocation_t){.address = address,
                                 .bytes = bytes,
                                 .words = (uint32_t)((bytes + 511) / 512),
                                 .slab = address >= MODEL_BASE + MODEL_STEPS / 2 * MODEL_CHUNK};
    assert_true(bytes <= small || !allocation->slab);
    allocation->small =
        !allocation->slab && mdnn_memory_report(program->memory).pinned_live_bytes > pinned_before;
    assert_true(bytes < program->config.min_bytes || !allocation->small);
    check_reach(program, pinned_before);
    assert_true(mdnn_memory_find(program->memory, address + bytes - 1, &start, &found));
    assert_true(start == address && found == bytes);
    for (int i = 0; i < ALLOCATIONS; i++) {
        const allocation_t *const other = &program->allocations[i];
        assert_true(other == allocation || other->bytes == 0 ||
                    other->address + other->bytes <= address || address + bytes <= other->address);
    }
    allocation->last[stream] =
        model_mark(model, stream); /* other streams come after the allocation */
}

/* The program has `stream` wait for whoever used the allocation in other streams. */
static void program_order(program_t *program, const allocation_t *allocation, uint64_t stream)
{
    for (uint64_t other = 0; other < MODEL_STREAMS; other++)
        if (other != stream && allocation->last[other].position > 0)
            enqueue(&program->model, stream, ITEM_WAIT)->point = allocation->last[other];
}

static void program_free(program_t *program, allocation_t *allocation)
{
    const uint64_t stream = pick(&program->model, MODEL_STREAMS);
    uint64_t start, bytes;
    if (allocation->freed)
        return;
    program_order(program, allocation, stream);
    assert_int_equal(mdnn_memory_free(program->memory, allocation->address + 1, stream),
                     MDNN_STATUS_NOT_FOUND);
    const mdnn_status_t status = mdnn_memory_free(program->memory, allocation->address, stream);
    if (status != MDNN_STATUS_OK) {
        assert_true(program->model.failed);
        return;
    }
    assert_false(mdnn_memory_find(program->memory, allocation->address, &start, &bytes));
    assert_int_equal(mdnn_memory_free(program->memory, allocation->address, stream),
                     MDNN_STATUS_NOT_FOUND);
    if (allocation->pins + allocation->held > 0)
        allocation->freed = true;
    else
        *allocation = (allocation_t){0};
}

/* ---- operations ---- */

static allocation_t *random_allocation(program_t *program)
{
    allocation_t *const allocation = &program->allocations[pick(&program->model, ALLOCATIONS)];
    return allocation->bytes > 0 && !(allocation->freed && allocation->pins == 0) ? allocation
                                                                                  : NULL;
}

static void choose_names(program_t *program, open_operation_t *open)
{
    model_t *const model = &program->model;
    const uint64_t wanted = 1 + pick(model, 4);
    open->count = 0;
    for (uint64_t i = 0; i < wanted; i++) {
        allocation_t *const allocation = random_allocation(program);
        bool seen = !allocation;
        for (uint32_t n = 0; n < open->count; n++)
            seen = seen || open->allocations[n] == allocation;
        if (seen)
            continue;
        /* Two operations between begin and end have no order: both read what both name. */
        if (allocation->writers > 0)
            continue;
        open->allocations[open->count] = allocation;
        open->writes[open->count++] = allocation->held == 0 && pick(model, 2) == 0;
    }
    size_t names = 0;
    for (uint32_t n = 0; n < open->count; n++) {
        const allocation_t *const allocation = open->allocations[n];
        const mdnn_use_role_t role = !open->writes[n]      ? MDNN_USE_READ
                                     : pick(model, 2) == 0 ? MDNN_USE_WRITE
                                                           : MDNN_USE_UNKNOWN;
        if (pick(model, 4) == 0) /* named twice */
            open->names[names++] = (mdnn_memory_operand_t){allocation->address, MDNN_USE_READ};
        open->names[names++] =
            (mdnn_memory_operand_t){allocation->address + pick(model, allocation->bytes), role};
    }
    if (pick(model, 8) == 0)
        open->names[names++] = (mdnn_memory_operand_t){pick(model, UINT64_MAX), MDNN_USE_UNKNOWN};
    open->operation = (mdnn_memory_operation_t){.key = pick(model, 5),
                                                .stream = pick(model, MODEL_STREAMS),
                                                .operands = open->names,
                                                .operand_count = names,
                                                .capturing = pick(model, 25) == 0};
}

static void program_begin(program_t *program, open_operation_t *open)
{
    choose_names(program, open);
    const uint64_t needed = needed_chunks(program, open->allocations, open->count);
    const mdnn_status_t status = mdnn_memory_begin(program->memory, &open->operation);
    if (held_up(program, status))
        return;
    check_refusal(program, status, needed);
    if (status != MDNN_STATUS_OK) {
        assert_true(status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY || program->model.failed);
        return;
    }
    open->open = true;
    uint64_t movable = 0;
    for (uint32_t n = 0; n < open->count; n++) {
        const allocation_t *const allocation = open->allocations[n];
        if (!allocation->slab && !allocation->small && allocation->pins == 0)
            movable += rooms(program, allocation->bytes) * MODEL_CHUNK;
    }
    program->movable = program->movable < movable ? movable : program->movable;
    for (uint32_t n = 0; n < open->count; n++) {
        open->allocations[n]->held++;
        open->allocations[n]->writers += open->writes[n];
        open->allocations[n]->pins += open->operation.capturing;
    }
}

/* The words are what the program's order says they are; a write changes some or all. */
static void fill_touch(program_t *program, touch_t *touch, allocation_t *allocation, bool named,
                       bool write)
{
    touch->address = allocation->address;
    touch->words = allocation->words;
    touch->named = named;
    touch->slab = allocation->slab;
    touch->after_write = write;
    for (uint32_t i = 0; i < allocation->words; i++) {
        touch->before[i] = allocation->content[i];
        touch->after[i] = allocation->content[i];
        if (write && (allocation->content[i] == 0 || pick(&program->model, 2) == 0))
            touch->after[i] = allocation->content[i] = ++program->next_word;
    }
}

static void run_operation(program_t *program, open_operation_t *open)
{
    model_t *const model = &program->model;
    const uint64_t stream = open->operation.stream;
    allocation_t *touched[MODEL_TOUCHES];
    uint32_t count = 0;
    for (; count < open->count; count++)
        touched[count] = open->allocations[count];
    bool writes[MODEL_TOUCHES];
    memcpy(writes, open->writes, sizeof writes);
    while (count < MODEL_TOUCHES - 1 && pick(model, 3) == 0) { /* not named */
        allocation_t *const allocation = random_allocation(program);
        bool seen = !allocation || allocation->held > 0;
        for (uint32_t n = 0; n < count; n++)
            seen = seen || touched[n] == allocation;
        /* A write that faults ends the program. */
        writes[count] = pick(model, serves_all(program) ? 2 : 100) == 0;
        if (!seen)
            touched[count++] = allocation;
    }
    for (uint32_t n = 0; n < count; n++)
        program_order(program, touched[n], stream);
    item_t *const item = enqueue(model, stream, ITEM_OPERATION);
    item->touch_count = count;
    for (uint32_t n = 0; n < count; n++) {
        fill_touch(program, &item->touches[n], touched[n], n < open->count || touched[n]->pins > 0,
                   writes[n]);
        touched[n]->last[stream] = model_mark(model, stream);
    }
}

static void program_end(program_t *program, open_operation_t *open)
{
    const bool enqueued = pick(&program->model, 10) > 0;
    const bool capturing = open->operation.capturing;
    if (enqueued && !capturing)
        run_operation(program, open);
    mdnn_memory_end(program->memory, &open->operation, enqueued);
    open->open = false;
    program->operations += enqueued;
    program->captured += enqueued && capturing;
    for (uint32_t n = 0; n < open->count; n++) {
        allocation_t *const allocation = open->allocations[n];
        allocation->held--;
        allocation->writers -= open->writes[n];
        allocation->pins -= !enqueued && capturing;
        if (allocation->freed && allocation->held + allocation->pins == 0)
            *allocation = (allocation_t){0};
    }
}

/* What a graph does with what it captured: nobody names it. */
static void touch_pinned(program_t *program)
{
    allocation_t *const allocation = random_allocation(program);
    const uint64_t stream = pick(&program->model, MODEL_STREAMS);
    if (!allocation || allocation->pins == 0 || allocation->held > 0)
        return;
    program_order(program, allocation, stream);
    item_t *const item = enqueue(&program->model, stream, ITEM_OPERATION);
    item->touch_count = 1;
    fill_touch(program, &item->touches[0], allocation, true, pick(&program->model, 2) == 0);
    allocation->last[stream] = model_mark(&program->model, stream);
}

/* An operation of which nobody knows what it uses; other things happen while it is begun. */
static void program_untracked(program_t *program)
{
    model_t *const model = &program->model;
    const uint64_t stream = pick(model, MODEL_STREAMS);
    allocation_t *const allocation = random_allocation(program);
    if (!allocation || allocation->held > 0 || allocation->freed ||
        !mdnn_memory_untracked_begin(program->memory))
        return;
    mdnn_memory_progress(program->memory);
    allocation_t *const other = &program->allocations[pick(model, ALLOCATIONS)];
    if (other != allocation && other->bytes > 0 && other->held == 0)
        program_free(program, other);
    program_order(program, allocation, stream);
    item_t *const item = enqueue(model, stream, ITEM_OPERATION);
    item->touch_count = 1;
    fill_touch(program, &item->touches[0], allocation, true, pick(model, 2) == 0);
    allocation->last[stream] = model_mark(model, stream);
    mdnn_memory_untracked_end(program->memory, stream);
    program->untracked++;
}

static void program_pin(program_t *program)
{
    model_t *const model = &program->model;
    allocation_t *const allocation = random_allocation(program);
    uint64_t start = 0;
    if (!allocation || allocation->held > 0)
        return;
    if (allocation->pins > 0 &&
        pick(model, 3) == 0) { /* freed or not: another graph holds it, too */
        assert_int_equal(mdnn_memory_pin(program->memory,
                                         allocation->address + pick(model, allocation->bytes),
                                         &start),
                         MDNN_STATUS_OK);
        assert_int_equal(start, allocation->address);
        allocation->pins++;
    } else if (allocation->pins > 0) { /* what runs in a graph ends before the graph does */
        run_all(model);
        mdnn_memory_unpin(program->memory, allocation->address);
        allocation->pins--;
        if (allocation->freed && allocation->pins == 0)
            *allocation = (allocation_t){0};
    } else if (pick(model, 4) == 0) {
        const uint64_t needed = needed_chunks(program, (allocation_t *const[]){allocation}, 1);
        const mdnn_status_t status = mdnn_memory_pin(program->memory, allocation->address, &start);
        if (held_up(program, status))
            return;
        check_refusal(program, status, needed);
        allocation->pins += status == MDNN_STATUS_OK;
    }
}

/* What cannot leave, and what must be able to come back beside it. */
static uint64_t room_to_keep(const program_t *program)
{
    uint64_t most = 0, all = 0;
    for (int i = 0; i < ALLOCATIONS; i++) {
        const allocation_t *const allocation = &program->allocations[i];
        if (allocation->bytes == 0 || allocation->slab || allocation->small || allocation->freed ||
            allocation->pins > 0)
            continue;
        const uint64_t room = rooms(program, allocation->bytes) * MODEL_CHUNK;
        most = most < room ? room : most;
        all += room;
    }
    const uint64_t operation = all < program->movable ? all : program->movable;
    return mdnn_memory_report(program->memory).pinned_live_bytes +
           (most < operation ? operation : most);
}

/* Other memory of the device comes and goes: what is virtual makes room for it. */
static void program_set_aside(program_t *program)
{
    model_t *const model = &program->model;
    if (pick(model, 2) == 0) {
        const uint64_t bytes = model->aside_bytes - pick(model, 2) * model->aside_bytes / 2;
        mdnn_memory_give_back(program->memory, bytes);
        model->aside_bytes -= bytes;
        return;
    }
    const uint64_t bytes = 1 + pick(model, 3 * MODEL_CHUNK);
    const uint64_t needed = needed_chunks(program, NULL, 0) * MODEL_CHUNK + model->aside_bytes;
    const uint64_t kept = room_to_keep(program) + model->aside_bytes;
    const mdnn_status_t status = mdnn_memory_set_aside(program->memory, bytes);
    if (held_up(program, status))
        return;
    program->refusals += status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    if (program->exact)
        assert_int_equal(status,
                         needed + bytes > model->budget_bytes || kept + bytes > model->budget_bytes
                             ? MDNN_STATUS_OUT_OF_DEVICE_MEMORY
                             : MDNN_STATUS_OK);
    if (status != MDNN_STATUS_OK)
        return;
    model->aside_bytes += bytes; /* now it is taken */
    program->asides++;
}

static void check_report(const program_t *program)
{
    const mdnn_memory_report_t report = mdnn_memory_report(program->memory);
    const model_t *const model = &program->model;
    uint64_t live = 0;
    for (int i = 0; i < ALLOCATIONS; i++)
        live += program->allocations[i].freed ? 0 : program->allocations[i].bytes;
    assert_int_equal(report.live_bytes, live);
    assert_int_equal(report.resident_bytes, model->chunks * MODEL_CHUNK + model->aside_bytes);
    assert_int_equal(report.other_bytes, model->aside_bytes);
    assert_true(report.resident_bytes <= report.budget_bytes); /* I3 */
    assert_int_equal(report.host_bytes, model->slots_used * MODEL_CHUNK);
    assert_true(report.peak_live_bytes >= live);
    assert_true(mdnn_memory_available(program->memory) <= report.budget_bytes);
}

static void allocate_or_free(program_t *program, allocation_t *allocation)
{
    model_t *const model = &program->model;
    if (allocation->bytes > 0 && pick(model, 3) == 0 &&
        (allocation->held == 0 || pick(model, 4) == 0)) {
        program_free(program, allocation);
        if (!program->few_sizes) /* else another at once, in another stream perhaps */
            return;
    }
    if (allocation->bytes == 0)
        program_allocate(program, allocation);
}

static void program_allocation_may_fail(program_t *program)
{
    model_t *const model = &program->model;
    if (program->allocation_fails_in == 0 || pick(model, program->allocation_fails_in) != 0)
        return;
    fail_allocation_at = pick(model, 4) == 0 ? -1 : 1 + (long)pick(model, 5);
    model->failed = true;
}

static void program_wait_idle(program_t *program, const allocation_t *allocation)
{
    model_t *const model = &program->model;
    if (allocation->bytes == 0 || allocation->freed || pick(model, 4) != 0)
        return;
    const mdnn_status_t status = mdnn_memory_wait_idle(program->memory, allocation->address);
    assert_true(status == MDNN_STATUS_OK || model->failed);
}

static void program_operate(program_t *program, open_operation_t *open)
{
    model_t *const model = &program->model;
    if (!open->open)
        program_begin(program, open);
    if (open->open && (open == &program->open[0] || model->verify || pick(model, 3) == 0))
        program_end(program, open);
}

static void program_act(program_t *program, allocation_t *allocation, open_operation_t *open)
{
    switch (pick(&program->model, 13)) {
    case 0:
    case 1:
    case 2:
        allocate_or_free(program, allocation);
        break;
    case 3:
        program_pin(program);
        break;
    case 4:
        if (pick(&program->model, 2) == 0)
            touch_pinned(program);
        else
            program_untracked(program);
        break;
    case 5:
        mdnn_memory_progress(program->memory);
        break;
    case 6:
        program_wait_idle(program, allocation);
        break;
    case 7:
        program_set_aside(program);
        break;
    default:
        program_operate(program, open);
    }
}

static void program_step(program_t *program)
{
    model_t *const model = &program->model;
    allocation_t *const allocation = &program->allocations[pick(model, ALLOCATIONS)];
    open_operation_t *const open = &program->open[pick(model, 4) == 0];
    program_allocation_may_fail(program);
    const bool armed = program->allocation_fails_at > 0;
    if (armed) {
        fail_allocation_at = program->allocation_fails_at;
        model->failed = true; /* it may be in this step */
    }
    program_act(program, allocation, open);
    if (armed)
        program->allocation_fails_at = fail_allocation_at;
    fail_allocation_at = 0;
    for (uint64_t i = pick(model, program->runs + 1); i > 0; i--)
        run_one(model);
    check_report(program);
}

static void program_new(program_t *program, uint64_t seed, mdnn_safety_t safety)
{
    model_t *const model = &program->model;
    const bool verify = safety == MDNN_SAFETY_VERIFY;
    memset(program, 0, sizeof *program);
    model->random = seed;
    program->few_sizes = pick(model, 3) == 0;
    program->runs = 1 + (unsigned)pick(model, 6);
    model->budget = 6 + pick(model, pick(model, 3) == 0 ? 40 : 20);
    model->slot_limit = MODEL_SLOTS;
    model->slot_busy_in = (unsigned)pick(model, 6);
    model->runs_in = (unsigned)(pick(model, 2) * pick(model, 10));
    model->verify = verify;
    program->exact = true;
    program->config = (mdnn_memory_config_t){
        .ranges = {MODEL_BASE, MODEL_STEPS * MODEL_CHUNK, MODEL_CHUNK,
                   verify || pick(model, 4) == 0 ? 0 : MODEL_CHUNK / 4, pick(model, 3)},
        .budget_bytes = model->budget * MODEL_CHUNK + pick(model, 2) * 100,
        .min_bytes = pick(model, 2) * MODEL_CHUNK,
        .safety = safety,
        .follower.host_limit_bytes =
            pick(model, 3) == 0 ? pick(model, 60) * MODEL_CHUNK : UINT64_MAX,
    };
    memset(&advisor, 0, sizeof advisor);
    advisor.random = seed + 1;
    advisor.leave = (unsigned)pick(model, 3) * (unsigned)pick(model, 5);
    advisor.back = (unsigned)pick(model, 5);
    advisor.join = pick(model, 4) == 0 ? 10 : 0;
    advisor.time = 3;
    advisor.follows = seed % 2 == 0;
    model->budget_bytes = program->config.budget_bytes;
    assert_int_equal(mdnn_memory_create(&program->config, &model_device, model, &program->memory),
                     MDNN_STATUS_OK);
}

/* Everything is freed and has ended: nothing is left but slabs. */
static void program_finish(program_t *program)
{
    model_t *const model = &program->model;
    model->fail_in = 0;
    model->failed = true; /* was, perhaps */
    for (int i = 0; i < OPEN; i++)
        if (program->open[i].open)
            program_end(program, &program->open[i]);
    for (int i = 0; i < ALLOCATIONS; i++) {
        allocation_t *const allocation = &program->allocations[i];
        run_all(model);
        for (; allocation->pins > 0; allocation->pins--)
            mdnn_memory_unpin(program->memory, allocation->address);
        if (allocation->bytes > 0 && !allocation->freed)
            program_free(program, allocation);
        *allocation = (allocation_t){0};
    }
    run_all(model);
    for (int i = 0; i < 10; i++) {
        mdnn_memory_progress(program->memory);
        run_all(model);
    }
    const mdnn_memory_report_t report = mdnn_memory_report(program->memory);
    assert_int_equal(report.host_bytes, 0);
    assert_int_equal(model->slots_used, 0);
    assert_int_equal(report.live_bytes, 0);
    assert_false(mdnn_memory_progress(program->memory));
    mdnn_memory_destroy(program->memory);
}

typedef struct totals {
    uint64_t operations, refusals, captured, asides, copies, waits, stream_waits, faults, right,
        timed, saved, called_off, planned_leaves, planned_returns, demand_leaves, demand_returns;
} totals_t;

static void add_totals(totals_t *totals, const program_t *program)
{
    const mdnn_memory_report_t report = mdnn_memory_report(program->memory);
    totals->operations += program->operations;
    totals->refusals += program->refusals;
    totals->captured += program->captured;
    totals->asides += program->asides;
    totals->copies += program->model.copies;
    totals->waits += program->model.waits;
    totals->stream_waits += program->model.stream_waits;
    totals->faults += program->model.faults;
    totals->right += program->model.right;
    totals->timed += advisor.timed;
    totals->saved += report.saved_bytes;
    totals->called_off += report.called_off;
    totals->planned_leaves += report.planned_leaves;
    totals->planned_returns += report.planned_returns;
    totals->demand_leaves += report.demand_leaves;
    totals->demand_returns += report.demand_returns;
}

static void print_totals(uint64_t count, const totals_t *totals)
{
    print_message(
        "%llu programs: operations %llu, refusals %llu, captured %llu, set aside %llu, copies "
        "%llu, waits %llu, in "
        "streams %llu, "
        "faults %llu, right %llu, timed %llu, saved %llu, called off %llu, leaves %llu "
        "planned %llu on demand, returns %llu planned %llu on demand\n",
        (unsigned long long)count, (unsigned long long)totals->operations,
        (unsigned long long)totals->refusals, (unsigned long long)totals->captured,
        (unsigned long long)totals->asides, (unsigned long long)totals->copies,
        (unsigned long long)totals->waits, (unsigned long long)totals->stream_waits,
        (unsigned long long)totals->faults, (unsigned long long)totals->right,
        (unsigned long long)totals->timed, (unsigned long long)totals->saved,
        (unsigned long long)totals->called_off, (unsigned long long)totals->planned_leaves,
        (unsigned long long)totals->demand_leaves, (unsigned long long)totals->planned_returns,
        (unsigned long long)totals->demand_returns);
}

/* Each of these has happened, or the programs test less than they should. */
static void check_totals(const totals_t *totals)
{
    const uint64_t *const all = &totals->operations;
    for (size_t i = 0; i < sizeof *totals / sizeof *all; i++)
        assert_true(all[i] > 0);
}

typedef void (*adjust_t)(program_t *program);

static void run_program(program_t *program, uint64_t seed, mdnn_safety_t safety, adjust_t adjust)
{
    program_new(program, seed * 2654435761u, safety);
    if (adjust)
        adjust(program);
    if (getenv("MEMORY_TEST_VERBOSE"))
        fprintf(stderr, "seed %llu\n", (unsigned long long)seed);
    const uint64_t steps = 50 + pick(&program->model, 200);
    for (uint64_t i = 0; i < steps && !program->model.dead; i++)
        program_step(program);
}

static totals_t sum_of_programs(uint64_t count, mdnn_safety_t safety, adjust_t adjust)
{
    static program_t program;
    totals_t totals = {0};
    uint64_t untracked = 0;
    const long before = live_allocations;
    const char *const times = getenv("MEMORY_TEST_TIMES"), *const one = getenv("MEMORY_TEST_SEED");
    count *= times ? strtoull(times, NULL, 10) : 1;
    for (uint64_t seed = one ? strtoull(one, NULL, 10) : 0; seed < count; seed++) {
        run_program(&program, seed, safety, adjust);
        add_totals(&totals, &program);
        untracked += program.untracked;
        program_finish(&program);
    }
    assert_int_equal(live_allocations, before);
    assert_true(safety != MDNN_SAFETY_FAST || untracked > 0);
    print_totals(count, &totals);
    return totals;
}

static void run_programs(uint64_t count, bool verify, adjust_t adjust)
{
    totals_t totals =
        sum_of_programs(count, verify ? MDNN_SAFETY_VERIFY : MDNN_SAFETY_FAST, adjust);
    if (verify) { /* every unnamed touch faults; what is freed is over */
        assert_int_equal(totals.right + totals.stream_waits, 0);
        totals.right = totals.stream_waits = 1;
    }
    check_totals(&totals);
}

/* `served`: each unnamed touch must be. */
static void run_programs_of_host(uint64_t count, bool served, adjust_t adjust)
{
    totals_t totals = sum_of_programs(count, MDNN_SAFETY_HOST, adjust);
    if (served) {
        assert_int_equal(totals.faults, 0);
        assert_int_equal(totals.saved, 0);
        totals.faults = 1;
    }
    assert_int_equal(totals.planned_leaves, 0);
    totals.planned_leaves = totals.planned_returns = 1;
    totals.saved = totals.called_off = 1; /* only what failed is */
    check_totals(&totals);
}

static void operations_find_what_the_program_put_there(void **state)
{
    (void)state;
    allocated_bare = 0;
    run_programs(3000, false, NULL);
    assert_true(allocated_bare > 100 || getenv("MEMORY_TEST_SEED"));
}

static void limit_slots(program_t *program)
{
    program->model.slot_limit = pick(&program->model, 12);
    program->model.slot_busy_in = 1 + (unsigned)pick(&program->model, 5);
    program->exact = false;
}

static void short_host_memory_costs_refusals_only(void **state)
{
    (void)state;
    run_programs(1500, false, limit_slots);
}

static void fail_calls(program_t *program)
{
    program->allocation_fails_in = (unsigned)pick(&program->model, 6);
    program->model.fail_in = 2 + (unsigned)pick(&program->model, 40);
    program->exact = false;
}

/* The plan follower may have a part of a range leave, and parts come back one after the other. */
static void move_parts(program_t *program)
{
    program->model.hasty_in = 50; /* waits that may be given up */
    advisor.parts = true;
}

static void parts_of_ranges_move(void **state)
{
    (void)state;
    static program_t program;
    run_programs(3000, false, move_parts);
    run_programs(500, true, move_parts);
    /* A return to a part begins anew while a copy behind that part is still under way: rare. */
    run_program(&program, 11812, MDNN_SAFETY_FAST, move_parts);
    program_finish(&program);
}

static void fail_calls_with_parts(program_t *program)
{
    fail_calls(program);
    program->allocation_fails_in = 0;
    move_parts(program);
}

static void failing_calls_lose_no_part(void **state)
{
    (void)state;
    run_programs(2000, false, fail_calls_with_parts);
}

static void failing_calls_lose_nothing(void **state)
{
    (void)state;
    run_programs(2000, false, fail_calls);
}

/* How many calls of the device, or allocations, there were: each failed once, in a run of its own.
 */
static uint64_t fail_each(uint64_t seed, mdnn_safety_t safety, bool allocations)
{
    enum { STEPS = 80 };
    static program_t program;
    uint64_t count = 0;
    for (bool came = true; came; count += came) {
        program_new(&program, seed * 2654435761u, safety);
        program.exact = false;
        const uint64_t fail_at = program.model.calls + count + 1;
        if (allocations)
            program.allocation_fails_at = (long)count + 1;
        else
            program.model.fail_at = fail_at;
        for (int i = 0; i < STEPS && !program.model.dead; i++)
            program_step(&program);
        came = allocations ? program.allocation_fails_at == 0 : program.model.calls >= fail_at;
        program.model.fail_at = 0;
        program_finish(&program);
    }
    return count;
}

static void each_failure_alone_loses_nothing(void **state)
{
    enum { SEEDS = 12 };
    const mdnn_safety_t safeties[] = {MDNN_SAFETY_FAST, MDNN_SAFETY_HOST, MDNN_SAFETY_VERIFY};
    uint64_t calls = 0, allocations = 0;
    const long before = live_allocations;
    (void)state;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (size_t i = 0; i < sizeof safeties / sizeof *safeties; i++) {
            calls += fail_each(seed, safeties[i], false);
            allocations += fail_each(seed, safeties[i], true);
        }
    print_message("%llu calls of the device and %llu allocations, each failed once\n",
                  (unsigned long long)calls, (unsigned long long)allocations);
    assert_true(calls > 1000 && allocations > 500);
    assert_int_equal(live_allocations, before);
}

static void verify_maps_only_what_is_named(void **state)
{
    (void)state;
    run_programs(800, true, NULL);
}

static void host_serves_each_unnamed_touch(void **state)
{
    (void)state;
    run_programs_of_host(3000, true, NULL);
}

static void short_host_memory_costs_refusals_only_in_host(void **state)
{
    (void)state;
    run_programs_of_host(1500, true, limit_slots);
}

static void failing_calls_lose_nothing_in_host(void **state)
{
    (void)state;
    run_programs_of_host(2000, false, fail_calls);
}

static void be_hasty(program_t *program)
{
    program->model.hasty_in = 1 + (unsigned)pick(&program->model, 3);
    program->exact = false;
}

static void host_waits_not_for_ever(void **state)
{
    (void)state;
    run_programs_of_host(1500, false, be_hasty);
}

static void verify_names_the_first_operation_that_the_device_failed(void **state)
{
    (void)state;
    static program_t program;
    model_t *const model = &program.model;
    mdnn_memory_operation_t operations[3];
    uint64_t address;
    program_new(&program, 1, MDNN_SAFETY_VERIFY);
    assert_int_equal(mdnn_memory_allocate(program.memory, 2 * MODEL_CHUNK, 0, &address),
                     MDNN_STATUS_OK);
    const mdnn_memory_operand_t named = {address, MDNN_USE_WRITE};
    for (uint64_t i = 0; i < 3; i++) {
        operations[i] = (mdnn_memory_operation_t){
            .key = i, .name = i == 1 ? "second" : "other", .operands = &named, .operand_count = 1};
        assert_int_equal(mdnn_memory_begin(program.memory, &operations[i]), MDNN_STATUS_OK);
        enqueue(model, 0, ITEM_OPERATION);
        model->fail_in = i > 0;
        mdnn_memory_end(program.memory, &operations[i], true);
        model->fail_in = 0;
    }
    const mdnn_memory_report_t report = mdnn_memory_report(program.memory);
    assert_int_equal(report.unnamed_accesses, 2);
    assert_int_equal(report.unnamed_key, 1);
    assert_string_equal(report.unnamed_name, "second");
    assert_int_equal(mdnn_memory_free(program.memory, address, 0), MDNN_STATUS_OK);
    model->failed = true;
    program_finish(&program);
}

/* ---- single cases ---- */

static mdnn_memory_t *memory_of(model_t *model, uint64_t chunks, uint64_t slots,
                                mdnn_safety_t safety)
{
    const mdnn_memory_config_t config = {
        .ranges = {MODEL_BASE, MODEL_STEPS * MODEL_CHUNK, MODEL_CHUNK, 0},
        .budget_bytes = chunks * MODEL_CHUNK,
        .safety = safety,
        .follower.host_limit_bytes = slots * MODEL_CHUNK,
    };
    mdnn_memory_t *memory;
    memset(model, 0, sizeof *model);
    memset(&advisor, 0, sizeof advisor);
    model->budget = chunks;
    model->budget_bytes = chunks * MODEL_CHUNK;
    model->slot_limit = slots;
    assert_int_equal(mdnn_memory_create(&config, &model_device, model, &memory), MDNN_STATUS_OK);
    return memory;
}

static mdnn_memory_t *small_memory(model_t *model, uint64_t chunks, uint64_t slots)
{
    return memory_of(model, chunks, slots, MDNN_SAFETY_FAST);
}

static uint64_t allocate(mdnn_memory_t *memory, uint64_t chunks)
{
    uint64_t address = 0;
    assert_int_equal(mdnn_memory_allocate(memory, chunks * MODEL_CHUNK, 0, &address),
                     MDNN_STATUS_OK);
    return address;
}

/* Nothing runs in it; NULL addresses are not named. */
static mdnn_status_t operate(mdnn_memory_t *memory, uint64_t first, uint64_t second,
                             mdnn_use_role_t role, bool capturing)
{
    const mdnn_memory_operand_t named[] = {{first, role}, {second, role}};
    mdnn_memory_operation_t operation = {
        .operands = named, .operand_count = 2, .capturing = capturing};
    const mdnn_status_t status = mdnn_memory_begin(memory, &operation);
    if (status == MDNN_STATUS_OK)
        mdnn_memory_end(memory, &operation, true);
    return status;
}

/* What is under way ends. */
static void settle(model_t *model, mdnn_memory_t *memory)
{
    do
        run_all(model);
    while (mdnn_memory_progress(memory));
}

static void end_memory(model_t *model, mdnn_memory_t *memory)
{
    run_all(model);
    mdnn_memory_destroy(memory);
}

/* Now, in no order with what the mechanism knows of. */
static void touch(model_t *model, uint64_t address, uint32_t expected, uint32_t written)
{
    item_t *const item = enqueue(model, 0, ITEM_OPERATION);
    item->touch_count = 1;
    item->touches[0] = (touch_t){.address = address,
                                 .words = 1,
                                 .named = true,
                                 .after_write = true,
                                 .before = {expected},
                                 .after = {written}};
    run_all(model);
}

/* What is mapped may be written by a kernel that does not name it (I2): the host's copy counts for
 * nothing as soon as the range is back, however it was named. */
static void what_came_back_is_copied_whole_when_it_leaves_again(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).average_resident_bytes, 3 * MODEL_CHUNK);
    const uint64_t second = allocate(memory, 3); /* the first leaves */
    settle(&model, memory);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 3 * MODEL_CHUNK);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    settle(&model, memory);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 6 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_report(memory).host_bytes, 3 * MODEL_CHUNK); /* the second's */
    assert_int_equal(operate(memory, second, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 9 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_report(memory).in_bytes, 6 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_report(memory).saved_bytes, 0);
    end_memory(&model, memory);
}

/* Under a plan what is allocated sends nothing away: it takes memory when it is named, and has
 * nothing to bring. */
static void an_allocation_without_room_takes_memory_when_it_is_named(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    touch(&model, first, 0, 5);
    advisor.first_use = MDNN_FIRST_USE_NEXT;
    const uint64_t second = allocate(memory, 2), third = allocate(memory, 4);
    assert_int_equal(mdnn_memory_allocate(memory, 5 * MODEL_CHUNK, 0, &(uint64_t){0}),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_true(second >= first + 3 * MODEL_CHUNK || first >= second + 2 * MODEL_CHUNK);
    assert_false(mdnn_memory_progress(memory));
    assert_int_equal(mdnn_memory_free(memory, third, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 0);
    assert_int_equal(mdnn_memory_report(memory).demand_leaves, 0);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    settle(&model, memory);
    touch(&model, second, 0, 6);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 3 * MODEL_CHUNK);
    assert_int_equal(model.told[MDNN_MEMORY_RETURN], 0);
    assert_int_equal(model.told[MDNN_MEMORY_RETURNED], 0);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    settle(&model, memory);
    assert_int_equal(model.told[MDNN_MEMORY_RETURN], 1);
    assert_int_equal(model.told[MDNN_MEMORY_RETURNED], 1);
    touch(&model, first, 5, 7);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, second, 6, 8);
    const mdnn_memory_report_t report = mdnn_memory_report(memory);
    assert_int_equal(report.in_bytes, 5 * MODEL_CHUNK); /* each once, when it had been away */
    assert_int_equal(report.demand_returns, 2);
    end_memory(&model, memory);
}

/* Under a plan what is missing is little: the rest of a victim stays where it is. */
static void a_demand_under_a_plan_sends_away_what_is_missing(void **state)
{
    (void)state;
    static model_t model;
    for (int planned = 0; planned < 2; planned++) {
        mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
        advisor.plan = (uint64_t)planned;
        const uint64_t first = allocate(memory, 6);
        touch(&model, first, 0, 5);
        touch(&model, first + 5 * MODEL_CHUNK, 0, 6);
        allocate(memory, 3);
        settle(&model, memory);
        const uint64_t left = planned ? 1 : 6;
        assert_int_equal(mdnn_memory_report(memory).out_bytes, left * MODEL_CHUNK);
        allocate(memory, 1);
        settle(&model, memory);
        assert_int_equal(mdnn_memory_report(memory).out_bytes,
                         (planned ? left + 1 : left) * MODEL_CHUNK);
        assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
        settle(&model, memory);
        touch(&model, first, 5, 7);
        touch(&model, first + 5 * MODEL_CHUNK, 6, 7);
        end_memory(&model, memory);
    }
}

static void slabs_are_no_memory_for_plans(void **state)
{
    (void)state;
    static model_t model;
    const mdnn_memory_config_t config = {
        .ranges = {MODEL_BASE, MODEL_STEPS * MODEL_CHUNK, MODEL_CHUNK, MODEL_CHUNK / 4},
        .budget_bytes = 8 * MODEL_CHUNK};
    mdnn_memory_t *memory = small_memory(&model, 8, MODEL_SLOTS);
    end_memory(&model, memory);
    assert_int_equal(mdnn_memory_create(&config, &model_device, &model, &memory), MDNN_STATUS_OK);
    const uint64_t first = allocate(memory, 2);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(advisor.aside_bytes, 0);
    uint64_t small;
    assert_int_equal(mdnn_memory_allocate(memory, 100, 0, &small), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_set_aside(memory, 2 * MODEL_CHUNK), MDNN_STATUS_OK);
    assert_int_equal(operate(memory, first, small, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(advisor.aside_bytes, 3 * MODEL_CHUNK);
    /* They will want it again in the next round. */
    assert_int_equal(mdnn_memory_free(memory, small, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 0);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(advisor.aside_bytes, 3 * MODEL_CHUNK);
    for (int i = 0; i < 20000; i++)
        assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(advisor.aside_bytes, 2 * MODEL_CHUNK);
    end_memory(&model, memory);
}

static mdnn_memory_t *memory_with_slabs(model_t *model, uint64_t chunks, uint64_t min_bytes)
{
    const mdnn_memory_config_t config = {
        .ranges = {MODEL_BASE, MODEL_STEPS * MODEL_CHUNK, MODEL_CHUNK, MODEL_CHUNK / 2, 0},
        .budget_bytes = chunks * MODEL_CHUNK,
        .min_bytes = min_bytes,
        .follower.host_limit_bytes = UINT64_MAX};
    mdnn_memory_t *memory = small_memory(model, chunks, MODEL_SLOTS);
    end_memory(model, memory);
    assert_int_equal(mdnn_memory_create(&config, &model_device, model, &memory), MDNN_STATUS_OK);
    return memory;
}

/* Beside a large range small ones may hold only what that leaves; the others can leave, too. */
static void small_ones_leave_room_for_the_largest(void **state)
{
    (void)state;
    enum { SMALL = 60, CHUNKS = 16, LARGE = 12 };
    static model_t model;
    mdnn_memory_t *const memory = memory_with_slabs(&model, CHUNKS, 0);
    uint64_t small[SMALL];
    const uint64_t large = allocate(memory, LARGE);
    touch(&model, large, 0, 1);
    for (uint32_t i = 0; i < SMALL; i++) {
        assert_int_equal(mdnn_memory_allocate(memory, MODEL_CHUNK / 2, 0, &small[i]),
                         MDNN_STATUS_OK);
        touch(&model, small[i], 0, 100 + i);
    }
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, (CHUNKS - LARGE) * MODEL_CHUNK);
    assert_int_equal(operate(memory, large, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    settle(&model, memory);
    touch(&model, large, 1, 2);
    for (uint32_t i = 0; i < SMALL; i++) {
        assert_int_equal(operate(memory, small[i], 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
        settle(&model, memory);
        touch(&model, small[i], 100 + i, 1);
        assert_int_equal(mdnn_memory_free(memory, small[i], 0), MDNN_STATUS_OK);
    }
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 0);
    const uint64_t rest = allocate(memory, CHUNKS);
    assert_int_equal(mdnn_memory_free(memory, rest, 0), MDNN_STATUS_OK);
    assert_int_equal(operate(memory, large, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    settle(&model, memory);
    touch(&model, large, 2, 3);
    end_memory(&model, memory);
}

/* Nor beside operations that name several ranges, as long as those come. */
static void small_ones_leave_room_for_operations(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *memory = memory_with_slabs(&model, 8, 0);
    uint64_t first = allocate(memory, 3);
    const uint64_t second = allocate(memory, 4);
    uint64_t small;
    assert_int_equal(operate(memory, first, second, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    for (int i = 0; i < 16; i++)
        assert_int_equal(mdnn_memory_allocate(memory, MODEL_CHUNK / 2, 0, &small), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, MODEL_CHUNK);
    assert_int_equal(operate(memory, first, second, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    /* When as much as the budget is wasted, they may have what no single range needs; */
    for (int i = 0; i < 20; i++)
        assert_int_equal(mdnn_memory_allocate(memory, MODEL_CHUNK / 2, 0, &small), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 4 * MODEL_CHUNK);
    end_memory(&model, memory);
    memory = memory_with_slabs(&model, 8, 0); /* and when no such operation came for long */
    first = allocate(memory, 7);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    first = allocate(memory, 1);
    for (int i = 0; i < 20000; i++)
        assert_int_equal(operate(memory, first, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    for (int i = 0; i < 14; i++)
        assert_int_equal(mdnn_memory_allocate(memory, MODEL_CHUNK / 2, 0, &small), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 7 * MODEL_CHUNK);
    end_memory(&model, memory);
}

/* What is too small to leave leaves all the same, rather than that a larger one cannot return. */
static void what_is_too_small_to_leave_does_not_lock_others_out(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = memory_with_slabs(&model, 8, 3 * MODEL_CHUNK);
    const uint64_t large = allocate(memory, 5);
    const uint64_t little = allocate(memory, 2), other = allocate(memory, 2);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 2 * MODEL_CHUNK);
    assert_int_equal(operate(memory, large, little, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(operate(memory, other, little, MDNN_USE_READ, false), MDNN_STATUS_OK);
    end_memory(&model, memory);
}

/* Nor may memory that is not ours, though there are no chunks in its place yet. */
static void what_is_set_aside_leaves_room_for_the_largest(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = memory_with_slabs(&model, 8, 0);
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t large = allocate(memory, 5);
    assert_int_equal(mdnn_memory_report(memory).created, 0);
    assert_int_equal(mdnn_memory_set_aside(memory, 4 * MODEL_CHUNK),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(mdnn_memory_set_aside(memory, 3 * MODEL_CHUNK), MDNN_STATUS_OK);
    assert_int_equal(operate(memory, large, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    end_memory(&model, memory);
}

/* What one operation names must have room beside what stays, and names of one allocation count once. */
static void what_fits_together_is_known(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = memory_with_slabs(&model, 8, 0);
    const uint64_t a = allocate(memory, 3), b = allocate(memory, 3), c = allocate(memory, 2);
    const uint64_t all[] = {a, b, c, a + MODEL_CHUNK, MODEL_BASE - 1};
    uint64_t start, small;
    assert_true(mdnn_memory_fit_together(memory, all, 5));
    assert_int_equal(mdnn_memory_allocate(memory, 100, 0, &small), MDNN_STATUS_OK);
    assert_false(mdnn_memory_fit_together(memory, all, 5));
    assert_true(mdnn_memory_fit_together(memory, all, 2));
    assert_int_equal(mdnn_memory_free(memory, small, 0), MDNN_STATUS_OK);
    settle(&model, memory);
    assert_int_equal(mdnn_memory_pin(memory, a, &start), MDNN_STATUS_OK);
    assert_true(mdnn_memory_fit_together(memory, all, 5));
    mdnn_memory_set_aside_all_the_same(memory, MODEL_CHUNK);
    assert_false(mdnn_memory_fit_together(memory, all, 5));
    mdnn_memory_give_back(memory, MODEL_CHUNK);
    mdnn_memory_unpin(memory, a);
    end_memory(&model, memory);
}

/* A workspace is refused only where no guess at what it is used with leaves room for it. */
static void a_workspace_has_room_beside_operands(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = memory_with_slabs(&model, 8, 0);
    const uint64_t sizes[] = {3 * MODEL_CHUNK - 5, 2 * MODEL_CHUNK + 1, 100};
    uint64_t start;
    /* Nobody knows where they lie: at least there is so much of them. */
    assert_int_equal(mdnn_memory_room_beside(memory, sizes, 3), 3 * MODEL_CHUNK + 4);
    assert_true(mdnn_memory_workspace_fits(memory, 3 * MODEL_CHUNK, sizes, 3));
    const uint64_t a = allocate(memory, 3), b = allocate(memory, 3);
    assert_int_equal(mdnn_memory_room_beside(memory, sizes, 3), 2 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_report(memory).refused, 0);
    assert_true(mdnn_memory_workspace_fits(memory, 2 * MODEL_CHUNK, sizes, 3));
    assert_false(mdnn_memory_workspace_fits(memory, 2 * MODEL_CHUNK + 1, sizes, 3));
    mdnn_memory_judge_refusal(memory, 2 * MODEL_CHUNK + 1, true);
    assert_int_equal(mdnn_memory_report(memory).refused, 1);
    assert_int_equal(mdnn_memory_report(memory).refused_optional, 1);
    assert_int_equal(mdnn_memory_report(memory).refused_budget_bytes, 9 * MODEL_CHUNK);
    assert_true(mdnn_memory_workspace_fits(memory, 3 * MODEL_CHUNK, sizes, 3)); /* as `a` has */
    /* What stays may be one of them, or hold it. */
    assert_int_equal(mdnn_memory_pin(memory, a, &start), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_room_beside(memory, sizes, 2), 5 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_room_beside(memory, sizes + 1, 1), 5 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, a);
    assert_int_equal(mdnn_memory_free(memory, b, 0), MDNN_STATUS_OK);
    end_memory(&model, memory);
}

/* Nor what is pinned no more. */
static void what_was_pinned_has_room_again(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = memory_with_slabs(&model, 8, 0);
    const uint64_t large = allocate(memory, 5);
    uint64_t start, small;
    assert_int_equal(mdnn_memory_pin(memory, large, &start), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_allocate(memory, 100, 0, &small), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 6 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, large);
    for (int i = 0; i < 12; i++)
        assert_int_equal(mdnn_memory_allocate(memory, MODEL_CHUNK / 2, 0, &small), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 3 * MODEL_CHUNK);
    assert_int_equal(operate(memory, large, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    end_memory(&model, memory);
}

/* The figure is what the allocation would have fitted in. */
static void a_refused_small_one_says_what_is_needed(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = memory_with_slabs(&model, 4, 0);
    uint64_t small, start;
    assert_int_equal(mdnn_memory_pin(memory, allocate(memory, 3), &start), MDNN_STATUS_OK);
    for (int i = 0; i < 2; i++)
        assert_int_equal(mdnn_memory_allocate(memory, MODEL_CHUNK / 2, 0, &small), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_allocate(memory, 100, 0, &small),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(mdnn_memory_report(memory).refused_budget_bytes, 5 * MODEL_CHUNK);
    end_memory(&model, memory);
}

/* A pin has all of it, and so has a copy of what nobody has written. */
static void what_has_no_memory_yet_can_be_pinned_and_sent_away(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    uint64_t start;
    const uint64_t first = allocate(memory, 3);
    touch(&model, first, 0, 5);
    advisor.first_use = MDNN_FIRST_USE_NEXT;
    const uint64_t second = allocate(memory, 3);
    assert_int_equal(mdnn_memory_pin(memory, second + 5, &start), MDNN_STATUS_OK);
    assert_int_equal(start, second);
    touch(&model, second, 0, 6);
    mdnn_memory_unpin(memory, second);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, first, 5, 7);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, second, 6, 8);
    end_memory(&model, memory);
}

/* What is named next takes memory as far as nothing leaves, in the order of its stream; other
 * allocations take none. */
static void only_what_is_named_next_takes_memory_at_once(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t later = allocate(memory, 2);
    assert_int_equal(model.chunks, 0);
    advisor.first_use = MDNN_FIRST_USE_NEXT;
    const uint64_t next = allocate(memory, 2);
    assert_int_equal(model.chunks, 2);
    touch(&model, next, 0, 5);
    assert_int_equal(operate(memory, later, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    assert_int_equal(model.chunks, 4);
    touch(&model, later, 0, 6);
    end_memory(&model, memory);
}

/* Nothing is copied for it, so it waits for no copy of others. */
static void what_has_no_memory_yet_waits_for_no_copies(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3), other = allocate(memory, 1);
    touch(&model, first, 0, 5);
    advisor.leave = 1;
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    advisor.leave = 0;
    settle(&model, memory);
    advisor.back = 1;
    assert_int_equal(operate(memory, other, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    advisor.back = 0;
    const uint64_t waits = mdnn_memory_report(memory).host_waits, done = model.done[MODEL_IN];
    assert_true(model.enqueued[MODEL_IN] > done); /* the first comes back */
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t second = allocate(memory, 2);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).host_waits, waits);
    assert_int_equal(model.done[MODEL_IN], done);
    settle(&model, memory);
    touch(&model, second, 0, 6);
    touch(&model, first, 5, 7);
    end_memory(&model, memory);
}

/* What is mapped of it may have been touched; where host memory is short, that stays, and the rest
 * takes none. */
static void what_has_some_of_its_memory_keeps_no_slots(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, 2);
    const uint64_t first = allocate(memory, 3);
    touch(&model, first, 0, 5);
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t second = allocate(memory, 3);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_WRITE, false),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY); /* it has a chunk now */
    advisor.first_use = MDNN_FIRST_USE_UNKNOWN;
    assert_int_equal(mdnn_memory_allocate(memory, 4 * MODEL_CHUNK, 0, &(uint64_t){0}),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY); /* neither can leave */
    settle(&model, memory);
    assert_int_equal(model.slots_used, 0);
    const uint64_t asked = mdnn_memory_report(memory).host_short;
    assert_false(mdnn_memory_progress(memory));
    assert_int_equal(mdnn_memory_report(memory).host_short, asked);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    touch(&model, second, 0, 6);
    assert_int_equal(mdnn_memory_report(memory).in_bytes, 0);
    end_memory(&model, memory);
}

/* Anyone may have written to it. */
static void what_has_some_of_its_memory_leaves_with_it(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, 2);
    const uint64_t first = allocate(memory, 3);
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t second = allocate(memory, 3);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_WRITE, false),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY); /* it has a chunk now */
    advisor.first_use = MDNN_FIRST_USE_UNKNOWN;
    touch(&model, second, 0, 6);
    model.slot_limit = MODEL_SLOTS;
    const uint64_t third = allocate(memory, 4);
    assert_int_equal(mdnn_memory_free(memory, third, 0), MDNN_STATUS_OK);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, second, 6, 7);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    end_memory(&model, memory);
}

/* A program is told so when it allocates, not when it launches. */
static void what_finds_no_room_on_the_host_is_refused_at_once(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, 2);
    const uint64_t first = allocate(memory, 4);
    for (int next = 0; next < 2; next++) {
        advisor.first_use = next ? MDNN_FIRST_USE_NEXT : MDNN_FIRST_USE_LATER;
        const uint64_t second = allocate(memory, 2);
        assert_int_equal(mdnn_memory_allocate(memory, MODEL_CHUNK, 0, &(uint64_t){0}),
                         MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        assert_int_equal(mdnn_memory_free(memory, second, 0), MDNN_STATUS_OK);
    }
    touch(&model, first, 0, 5);
    end_memory(&model, memory);
}

/* It may be used by work that names nothing. */
static void what_is_allocated_beside_untracked_work_has_memory_at_once(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
    (void)allocate(memory, 3);
    advisor.first_use = MDNN_FIRST_USE_LATER;
    assert_true(mdnn_memory_untracked_begin(memory));
    const uint64_t second = allocate(memory, 2);
    touch(&model, second, 0, 6);
    mdnn_memory_untracked_end(memory, 0);
    (void)allocate(memory, 1);
    assert_false(mdnn_memory_untracked_begin(memory)); /* such work may use it, too */
    end_memory(&model, memory);
}

static void an_unnamed_write_to_what_came_back_is_not_lost(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    touch(&model, first, 0, 5);
    const uint64_t second = allocate(memory, 3); /* the first leaves */
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, first, 5, 6);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, first, 6, 7);
    end_memory(&model, memory);
}

static void a_range_that_is_named_while_it_leaves_stays(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 2);
    enqueue(&model, 0, ITEM_OPERATION); /* which has not run */
    advisor.leave = 1;
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    advisor.leave = 0;
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    const mdnn_memory_report_t report = mdnn_memory_report(memory);
    assert_int_equal(report.planned_leaves, 1);
    assert_int_equal(report.called_off, 1);
    assert_int_equal(report.unmapped, 0);
    assert_int_equal(report.host_waits, 0);
    run_all(&model);
    end_memory(&model, memory);
}

static void advice_moves_without_a_wait(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    advisor.leave = 1;
    assert_int_equal(operate(memory, first, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    advisor.leave = 0;
    assert_true(mdnn_memory_progress(memory)); /* copies are under way */
    run_all(&model);
    assert_true(mdnn_memory_progress(memory));
    assert_false(mdnn_memory_progress(memory)); /* away */
    advisor.back = 1;
    assert_int_equal(operate(memory, 0, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    advisor.back = 0;
    run_all(&model);
    assert_true(mdnn_memory_progress(memory));
    assert_false(mdnn_memory_progress(memory)); /* back */
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    const mdnn_memory_report_t report = mdnn_memory_report(memory);
    assert_int_equal(report.planned_leaves, 1);
    assert_int_equal(report.planned_returns, 1);
    assert_int_equal(report.demand_returns + report.demand_leaves + report.host_waits, 0);
    end_memory(&model, memory);
}

static void a_demand_comes_before_planned_returns(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    allocate(memory, 3);
    settle(&model, memory);
    advisor.back = 1;
    assert_int_equal(operate(memory, 0, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    advisor.back = 0;
    assert_false(mdnn_memory_progress(memory)); /* it waits for chunks, which do not come by
                                                   themselves */
    const uint64_t third = allocate(memory, 4);
    assert_int_equal(mdnn_memory_report(memory).demand_leaves, 2);
    assert_int_equal(mdnn_memory_report(memory).planned_returns, 0);
    assert_int_equal(mdnn_memory_free(memory, third, 0), MDNN_STATUS_OK);
    settle(&model, memory);
    assert_int_equal(mdnn_memory_report(memory).planned_returns, 1); /* now it can */
    end_memory(&model, memory);
}

static void a_join_waits_for_all_moves(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    enqueue(&model, 0, ITEM_OPERATION);
    advisor.leave = advisor.join = 1;
    assert_int_equal(operate(memory, first, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 3 * MODEL_CHUNK);
    assert_false(mdnn_memory_progress(memory));
    end_memory(&model, memory);
}

static void a_refusal_names_a_budget_that_is_enough(void **state)
{
    (void)state;
    static model_t model;
    uint64_t budget = 5 * MODEL_CHUNK, address;
    for (int round = 0; round < 2; round++) {
        mdnn_memory_t *const memory = small_memory(&model, budget / MODEL_CHUNK, MODEL_SLOTS);
        const uint64_t pinned = allocate(memory, 1), first = allocate(memory, 2),
                       second = allocate(memory, 3);
        uint64_t start;
        assert_int_equal(mdnn_memory_pin(memory, pinned, &start), MDNN_STATUS_OK);
        assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, MODEL_CHUNK);
        const mdnn_status_t status = operate(memory, first, second, MDNN_USE_READ, false);
        assert_int_equal(status, round ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        const mdnn_memory_report_t report = mdnn_memory_report(memory);
        assert_int_equal(report.refused, round ? 0 : 1);
        assert_int_equal(report.largest_operation_bytes, 5 * MODEL_CHUNK);
        assert_int_equal(report.smallest_budget_bytes, 6 * MODEL_CHUNK);
        assert_int_equal(report.refused_budget_bytes, round ? 0 : 6 * MODEL_CHUNK);
        budget = report.smallest_budget_bytes;
        assert_int_equal(mdnn_memory_allocate(memory, 6 * MODEL_CHUNK, 0, &address),
                         MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        assert_int_equal(mdnn_memory_report(memory).refused_budget_bytes, 7 * MODEL_CHUNK);
        assert_int_equal(mdnn_memory_report(memory).smallest_budget_bytes, 6 * MODEL_CHUNK);
        assert_int_equal(mdnn_memory_available(memory), 0);
        end_memory(&model, memory);
    }
}

/* Optional, or without which the program goes on: not needed. */
static void what_was_refused_is_wanting_until_the_program_goes_on(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 1), second = allocate(memory, 1);
    uint64_t address;
    for (int round = 0; round < 2; round++) {
        assert_int_equal(mdnn_memory_allocate(memory, 9 * MODEL_CHUNK, 0, &address),
                         MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        mdnn_memory_judge_refusal(memory, 9 * MODEL_CHUNK, true);
        assert_int_equal(mdnn_memory_report(memory).wanting_bytes, 0);
        assert_int_equal(mdnn_memory_allocate(memory, 6 * MODEL_CHUNK, 0, &address),
                         MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        mdnn_memory_judge_refusal(memory, 6 * MODEL_CHUNK, false);
        assert_int_equal(mdnn_memory_report(memory).wanting_bytes, 6 * MODEL_CHUNK);
        assert_int_equal(mdnn_memory_report(memory).refused_optional, 2 * round + 1);
        for (int i = 0; i < 100; i++)
            assert_int_equal(operate(memory, first, second, MDNN_USE_READ, false), MDNN_STATUS_OK);
        const mdnn_memory_report_t report = mdnn_memory_report(memory);
        assert_int_equal(report.wanting_bytes, 0);
        assert_int_equal(report.smallest_budget_bytes, 2 * MODEL_CHUNK);
        assert_int_equal(report.refused, 2 * round + 2);
        assert_int_equal(report.refused_optional, 2 * round + 2);
    }
    end_memory(&model, memory);
}

/* A smaller one may do, so it is not part of what is needed at least; and what is a range that the
 * operation names is not needed beside it. */
static void a_workspace_counts_once_and_not_for_the_floor(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
    const uint64_t tensor = allocate(memory, 2), workspace = allocate(memory, 3);
    const mdnn_memory_operand_t named[] = {{tensor, MDNN_USE_READ},
                                           {workspace + 5, MDNN_USE_UNKNOWN}};
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        mdnn_memory_operation_t operation = {.operands = named,
                                             .operand_count = 2,
                                             .workspace = elsewhere ? 77 : workspace,
                                             .workspace_bytes = 3 * MODEL_CHUNK};
        assert_int_equal(mdnn_memory_begin(memory, &operation), MDNN_STATUS_OK);
        mdnn_memory_end(memory, &operation, true);
        const mdnn_memory_report_t report = mdnn_memory_report(memory);
        assert_int_equal(report.largest_operation_bytes, 5 * MODEL_CHUNK);
        assert_int_equal(report.smallest_budget_bytes, (elsewhere ? 5 : 2) * MODEL_CHUNK);
        assert_int_equal(advisor.workspace_bytes, elsewhere ? 3 * MODEL_CHUNK : 0);
    }
    end_memory(&model, memory);
}

static void what_was_captured_stays(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    uint64_t address;
    assert_int_equal(operate(memory, first, first, MDNN_USE_READ, true), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_allocate(memory, 3 * MODEL_CHUNK, 0, &address),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(advisor.sequence, 0); /* nothing ran, nothing is recorded */
    mdnn_memory_unpin(memory, first);
    assert_int_equal(allocate(memory, 3), first);
    mdnn_memory_unpin(memory, first); /* one too many does nothing */
    assert_int_equal(allocate(memory, 3) == first, false);
    end_memory(&model, memory);
}

/* Two graphs hold it, and the second one learns of it when the program has freed it. */
static void what_was_freed_while_it_was_pinned_can_be_pinned_again(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    uint64_t start = 0, address;
    assert_int_equal(operate(memory, first, first, MDNN_USE_READ, true), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_pin(memory, first + MODEL_CHUNK + 1, &start), MDNN_STATUS_OK);
    assert_int_equal(start, first);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, first);
    assert_int_equal(mdnn_memory_allocate(memory, 3 * MODEL_CHUNK, 0, &address),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(operate(memory, first, first, MDNN_USE_READ, false), MDNN_STATUS_OK);
    mdnn_memory_unpin(memory, first);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 0);
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(allocate(memory, 3), first);
    end_memory(&model, memory);
}

/* A graph makes it anew at each launch. */
static void what_was_freed_while_it_was_pinned_can_live_again(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    uint64_t start, bytes;
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_OK);
    assert_false(mdnn_memory_revive(memory, first)); /* it lives */
    for (int i = 0; i < 3; i++) {
        assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
        assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_NOT_FOUND);
        assert_false(mdnn_memory_find(memory, first, &start, &bytes));
        assert_int_equal(mdnn_memory_report(memory).live_bytes, 0);
        assert_true(mdnn_memory_revive(memory, first));
        assert_true(mdnn_memory_find(memory, first, &start, &bytes));
        assert_int_equal(mdnn_memory_report(memory).live_bytes, 3 * MODEL_CHUNK);
        assert_int_equal(operate(memory, first, first, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    }
    mdnn_memory_unpin(memory, first);
    assert_true(mdnn_memory_find(memory, first, &start, &bytes));
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    assert_false(mdnn_memory_revive(memory, first)); /* it is gone */
    end_memory(&model, memory);
}

/* Pins that end with the free, if not before, beside one that does not. */
static void live_pins_end_with_their_allocation(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    mdnn_live_pin_t pins[2], none;
    uint64_t start;
    assert_false(mdnn_memory_has_live_pins(memory, first));
    for (int i = 0; i < 2; i++)
        assert_int_equal(mdnn_memory_pin_live(memory, first + MODEL_CHUNK, &pins[i]),
                         MDNN_STATUS_OK);
    assert_true(mdnn_memory_has_live_pins(memory, first));
    assert_false(mdnn_memory_is_held(memory, first));
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin_live(memory, pins[0]);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 3 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_OK);
    assert_true(mdnn_memory_is_held(memory, first));
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_pin_live(memory, first, &none), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin_live(memory, pins[1]); /* it ended with the free */
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, first);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 0);
    end_memory(&model, memory);
}

/* A pin that has ended says nothing of what lives at its address now. */
static void live_pins_are_of_one_allocation(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    mdnn_live_pin_t before, now;
    assert_int_equal(mdnn_memory_pin_live(memory, first, &before), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 0);
    assert_int_equal(allocate(memory, 3), first);
    assert_int_equal(mdnn_memory_pin_live(memory, first, &now), MDNN_STATUS_OK);
    mdnn_memory_unpin_live(memory, before);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin_live(memory, now);
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 0);
    mdnn_memory_unpin_live(memory, now); /* one too many does nothing, */
    uint64_t start;
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_OK);
    mdnn_memory_unpin_live(memory, now); /* not even to the pins of others */
    assert_int_equal(mdnn_memory_report(memory).pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, start);
    assert_int_equal(mdnn_memory_pin_live(memory, 5, &now), MDNN_STATUS_NOT_FOUND);
    end_memory(&model, memory);
}

/* Held by an operation alone, it ends with that: nobody can keep it from then on. */
static void what_an_operation_holds_cannot_be_pinned_once_it_is_freed(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    const mdnn_memory_operand_t named[] = {{first + 5, MDNN_USE_WRITE}};
    mdnn_memory_operation_t operation = {.operands = named, .operand_count = 1};
    uint64_t start;
    assert_int_equal(mdnn_memory_begin(memory, &operation), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_NOT_FOUND);
    mdnn_memory_end(memory, &operation, true);
    end_memory(&model, memory);
}

/* What comes to live at an address that led nowhere when the operation began is none of its. */
static void an_operation_tells_what_its_names_led_to(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 1);
    const mdnn_memory_operand_t named[] = {{first + 5, MDNN_USE_READ},
                                           {first + MODEL_CHUNK + 5, MDNN_USE_READ}};
    mdnn_memory_operation_t operation = {.operands = named, .operand_count = 2, .capturing = true};
    uint64_t start = 0;
    assert_int_equal(mdnn_memory_begin(memory, &operation), MDNN_STATUS_OK);
    assert_int_equal(allocate(memory, 1), first + MODEL_CHUNK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    mdnn_memory_end(memory, &operation, true);
    assert_true(mdnn_memory_operand_start(memory, &operation, 0, &start));
    assert_int_equal(start, first);
    assert_false(mdnn_memory_operand_start(memory, &operation, 1, &start));
    end_memory(&model, memory);
}

static void host_serves_what_is_away_and_what_is_back(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = memory_of(&model, 4, MODEL_SLOTS, MDNN_SAFETY_HOST);
    const uint64_t first = allocate(memory, 3);
    touch(&model, first, 0, 5);
    const uint64_t second = allocate(memory, 3);
    assert_int_equal(model.slot_at[model_step(first)] > 0, true);
    touch(&model, first, 5, 6);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(model.slot_at[model_step(first)], 0);
    touch(&model, first, 6, 7); /* the host copy counts no more, though it was only read */
    assert_int_equal(operate(memory, second, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, first, 7, 8);
    assert_int_equal(mdnn_memory_report(memory).saved_bytes, 0);
    assert_int_equal(mdnn_memory_report(memory).host_bytes, 3 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK); /* while it is away */
    assert_int_equal(mdnn_memory_report(memory).host_bytes, 0);
    end_memory(&model, memory);
}

static void host_leaves_and_mistrusts_what_failed_half_way_back(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = memory_of(&model, 4, MODEL_SLOTS, MDNN_SAFETY_HOST);
    const uint64_t first = allocate(memory, 3);
    touch(&model, first, 0, 5);
    const uint64_t second = allocate(memory, 3);
    assert_int_equal(mdnn_memory_free(memory, second, 0), MDNN_STATUS_OK);
    model.maps_end = true;
    model.maps_left = 1;
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_DEVICE);
    model.maps_end = false;
    mdnn_memory_progress(memory);
    assert_int_equal(model.chunk_at[model_step(first) + 1], 0); /* not in a quiet time */
    touch(&model, first, 5, 6);
    assert_int_equal(mdnn_memory_free(memory, allocate(memory, 4), 0), MDNN_STATUS_OK);
    touch(&model, first, 6, 7);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, first, 7, 8);
    end_memory(&model, memory);
}

static void host_waits_for_an_operation_that_has_begun_unless_it_is_hurried(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = memory_of(&model, 4, MODEL_SLOTS, MDNN_SAFETY_HOST);
    const uint64_t first = allocate(memory, 3);
    uint64_t second = 0, start;
    mdnn_memory_operation_t open = {.key = 1};
    assert_int_equal(mdnn_memory_begin(memory, &open), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_allocate(memory, 3 * MODEL_CHUNK, 0, &second), MDNN_STATUS_BUSY);
    mdnn_memory_hurry(memory, true);
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_OK);
    mdnn_memory_unpin(memory, first);
    second = allocate(memory, 3);
    mdnn_memory_hurry(memory, false);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_BUSY);
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_BUSY);
    mdnn_memory_end(memory, &open, true);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    end_memory(&model, memory);
}

/* Ranges leave for it, whose content is still there, and their chunks are nobody's any more. What
 * cannot leave stays, and nothing is sent away in vain. */
static void what_is_set_aside_sends_ranges_away(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
    uint64_t start;
    const uint64_t first = allocate(memory, 3), second = allocate(memory, 3);
    touch(&model, first, 0, 5);
    touch(&model, second, 0, 6);
    assert_int_equal(mdnn_memory_set_aside(memory, 4 * MODEL_CHUNK + 1), MDNN_STATUS_OK);
    assert_true(model.chunks <= 3);
    model.aside_bytes = 4 * MODEL_CHUNK + 1;
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, first, 5, 7);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, second, 6, 8);
    assert_int_equal(operate(memory, first, second, MDNN_USE_READ, false),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_OK);
    const uint64_t leaves = mdnn_memory_report(memory).demand_leaves;
    assert_int_equal(mdnn_memory_set_aside(memory, MODEL_CHUNK), MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(mdnn_memory_set_aside(memory, UINT64_MAX), MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(mdnn_memory_report(memory).demand_leaves, leaves);
    mdnn_memory_unpin(memory, first);
    mdnn_memory_give_back(memory, model.aside_bytes);
    model.aside_bytes = 0;
    assert_int_equal(operate(memory, first, second, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, second, 8, 8);
    end_memory(&model, memory);
}

/* It counts, and what can make room does. */
static void what_is_there_already_counts_beyond_the_budget(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    uint64_t address;
    const uint64_t first = allocate(memory, 2);
    assert_int_equal(mdnn_memory_set_aside(memory, 2 * MODEL_CHUNK + 1),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY); /* it could not come back */
    mdnn_memory_set_aside_all_the_same(memory, 3 * MODEL_CHUNK);
    assert_true(model.chunks <= 1);
    mdnn_memory_set_aside_all_the_same(memory, 3 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_report(memory).other_bytes, 6 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_available(memory), 0);
    assert_int_equal(mdnn_memory_allocate(memory, 1, 0, &address),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(mdnn_memory_set_aside(memory, 1), MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    mdnn_memory_give_back(memory, 4 * MODEL_CHUNK);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    end_memory(&model, memory);
}

/* A pool that is made then may take it all. */
static void all_is_free_when_nothing_is_alive(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 2), second = allocate(memory, 1);
    assert_int_equal(operate(memory, first, second, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_available(memory), MODEL_CHUNK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_available(memory), 3 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_free(memory, second, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_available(memory), 4 * MODEL_CHUNK);
    end_memory(&model, memory);
}

static void what_is_set_aside_is_nobodys(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    uint64_t address;
    assert_int_equal(mdnn_memory_set_aside(memory, MODEL_CHUNK + 1), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).resident_bytes, MODEL_CHUNK + 1);
    assert_int_equal(mdnn_memory_available(memory), 2 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_allocate(memory, 3 * MODEL_CHUNK, 0, &address),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    (void)allocate(memory, 2);
    assert_int_equal(mdnn_memory_set_aside(memory, MODEL_CHUNK - 1), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).resident_bytes, 4 * MODEL_CHUNK);
    mdnn_memory_give_back(memory, 2 * MODEL_CHUNK);
    (void)allocate(memory, 2);
    assert_int_equal(mdnn_memory_report(memory).peak_resident_bytes, 4 * MODEL_CHUNK);
    end_memory(&model, memory);
}

/* Where everything is resident, and memory is not short; then nothing leaves before its end. */
static void work_that_nobody_knows_keeps_everything(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 1), second = allocate(memory, 2);
    assert_int_equal(operate(memory, first, second, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    settle(&model, memory);
    assert_true(mdnn_memory_untracked_begin(memory));
    enqueue(&model, 1, ITEM_OPERATION);
    mdnn_memory_untracked_end(memory, 1);
    const uint64_t waits = mdnn_memory_report(memory).host_waits;
    const uint64_t third = allocate(memory, 2); /* the first or the second leaves */
    assert_int_equal(model.done[1], model.enqueued[1]);
    assert_int_equal(mdnn_memory_report(memory).refused, 0);
    assert_true(mdnn_memory_report(memory).host_waits > waits);
    assert_false(mdnn_memory_untracked_begin(memory)); /* something is away */
    assert_int_equal(operate(memory, third, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    end_memory(&model, memory);
}

/* Whether it is over may be asked twice, and be answered differently. */
static void such_work_may_end_at_any_look(void **state)
{
    (void)state;
    static model_t model;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
        model.random = seed;
        model.runs_in = (uint32_t)(1 + seed % 6);
        (void)allocate(memory, 1);
        (void)allocate(memory, 2);
        assert_true(mdnn_memory_untracked_begin(memory));
        for (uint64_t i = 0; i < seed % 4 + 1; i++)
            enqueue(&model, 1, ITEM_OPERATION);
        mdnn_memory_untracked_end(memory, 1);
        (void)allocate(memory, 2); /* the first or the second leaves */
        assert_int_equal(mdnn_memory_report(memory).refused, 0);
        end_memory(&model, memory);
    }
}

static void nothing_is_unmapped_while_such_work_is_begun(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 3);
    assert_true(mdnn_memory_untracked_begin(memory));
    advisor.leave = 1;
    assert_int_equal(operate(memory, first, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    advisor.leave = 0;
    run_all(&model);
    mdnn_memory_progress(memory);
    assert_int_equal(mdnn_memory_report(memory).planned_leaves, 1);
    assert_int_equal(mdnn_memory_report(memory).unmapped, 0);
    mdnn_memory_untracked_end(memory, 0);
    settle(&model, memory);
    assert_int_equal(mdnn_memory_report(memory).unmapped, 3);
    end_memory(&model, memory);
}

/* As many streams as there are, each with such work; a failing wait in between forgets none. */
static mdnn_memory_t *begin_untracked_everywhere(model_t *model, bool without_memory)
{
    mdnn_memory_t *const memory = small_memory(model, 4, MODEL_SLOTS);
    (void)allocate(memory, 1);
    (void)allocate(memory, 2);
    for (uint64_t queue = 0; queue < MODEL_QUEUES; queue++) {
        if (queue == MODEL_OUT || queue == MODEL_IN)
            continue;
        assert_true(mdnn_memory_untracked_begin(memory));
        enqueue(model, queue, ITEM_OPERATION);
        fail_allocation_at = without_memory ? -1 : 0;
        model->fail_in = 1;
        mdnn_memory_untracked_end(memory, queue);
        model->fail_in = 0;
        fail_allocation_at = 0;
    }
    return memory;
}

static void such_work_is_waited_for_in_every_stream(void **state)
{
    (void)state;
    static model_t model;
    for (uint64_t seed = 1; seed <= 50; seed++) { /* what is not waited for may be over by chance */
        mdnn_memory_t *const memory = begin_untracked_everywhere(&model, false);
        model.random = seed;
        (void)allocate(memory, 2); /* the first or the second leaves */
        for (uint64_t queue = 0; queue < MODEL_QUEUES; queue++)
            if (queue != MODEL_OUT && queue != MODEL_IN)
                assert_int_equal(model.done[queue], model.enqueued[queue]);
        end_memory(&model, memory);
    }
}

/* `advisor` has everything leave, all but `keep` chunks; nothing has ended yet. */
static void leave_all(mdnn_memory_t *memory, uint64_t keep)
{
    advisor.leave = 1;
    advisor.keep = keep * MODEL_CHUNK;
    assert_int_equal(operate(memory, 0, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    advisor.leave = 0;
}

static void what_leaves_in_part_and_then_whole_is_copied_once(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 6, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 6);
    touch(&model, first, 0, 5);
    leave_all(memory, 2);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 4 * MODEL_CHUNK); /* under way */
    const uint64_t second = allocate(memory, 6);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 6 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_free(memory, second, 0), MDNN_STATUS_OK);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, first, 5, 6);
    end_memory(&model, memory);
}

/* A request that fails for want of host memory brings nothing back. */
static void a_part_that_cannot_leave_stays_as_it_is(void **state)
{
    (void)state;
    static model_t model;
    uint64_t address;
    mdnn_memory_t *const memory = small_memory(&model, 8, 4);
    const uint64_t first = allocate(memory, 6);
    touch(&model, first, 0, 5);
    leave_all(memory, 2);
    settle(&model, memory);
    assert_int_equal(mdnn_memory_allocate(memory, 8 * MODEL_CHUNK, 0, &address),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    settle(&model, memory);
    assert_int_equal(mdnn_memory_report(memory).in_bytes, 0);
    assert_int_equal(mdnn_memory_report(memory).host_bytes, 4 * MODEL_CHUNK);
    touch(&model, first, 5, 6); /* it is mapped */
    assert_int_equal(operate(memory, first, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    touch(&model, first + 5 * MODEL_CHUNK, 0, 7);
    touch(&model, first, 6, 8);
    end_memory(&model, memory);
}

/* Its first chunks are called back before their copies were begun. */
static void a_leave_that_ends_early_holds_no_host_memory_for_the_rest(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
    (void)allocate(memory, 6);
    model.copies_end = true;
    leave_all(memory, 0);
    assert_int_equal(mdnn_memory_report(memory).host_bytes, 6 * MODEL_CHUNK);
    advisor.back = 1;
    advisor.bytes[0] = 2 * MODEL_CHUNK;
    assert_int_equal(operate(memory, 0, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    advisor.back = 0;
    model.copies_end = false;
    settle(&model, memory);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 4 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_report(memory).host_bytes, 4 * MODEL_CHUNK);
    end_memory(&model, memory);
}

/* What leaves may be used by work that waits for what the program does next. */
static void a_join_that_takes_too_long_is_given_up(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate(memory, 2);
    enqueue(&model, 0, ITEM_OPERATION);
    assert_int_equal(operate(memory, first, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    model.hasty_in = 1;
    advisor.join = 1;
    leave_all(memory, 0);
    model.hasty_in = 0;
    assert_int_equal(operate(memory, 0, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(model.done[0], 0); /* nor was it waited for again */
    model.now_us += 1000e6;
    assert_int_equal(operate(memory, 0, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 2 * MODEL_CHUNK);
    assert_int_equal(model.done[MODEL_OUT], 2);
    end_memory(&model, memory);
}

/* ---- streams that wait for what the program does next ---- */

static void begin_blocked(model_t *model, uint64_t stream)
{
    model->may_block = true;
    enqueue(model, stream, ITEM_VALUE)->point = (mdnn_stream_point_t){0, 1};
}

static mdnn_status_t operate_in(model_t *model, mdnn_memory_t *memory, uint64_t address,
                                uint64_t stream)
{
    const mdnn_memory_operand_t named = {address, MDNN_USE_WRITE};
    mdnn_memory_operation_t operation = {.operands = &named, .operand_count = 1, .stream = stream};
    const mdnn_status_t status = mdnn_memory_begin(memory, &operation);
    if (status != MDNN_STATUS_OK)
        return status;
    enqueue(model, stream, ITEM_OPERATION);
    mdnn_memory_end(memory, &operation, true);
    return MDNN_STATUS_OK;
}

static uint64_t allocate_in(mdnn_memory_t *memory, uint64_t chunks, uint64_t stream)
{
    uint64_t address = 0;
    assert_int_equal(mdnn_memory_allocate(memory, chunks * MODEL_CHUNK, stream, &address),
                     MDNN_STATUS_OK);
    return address;
}

static void end_blocked(model_t *model, mdnn_memory_t *memory)
{
    model->values[0] = 1;
    end_memory(model, memory);
}

/* Others leave for what is allocated, and no stream is put behind the one that is blocked. */
static void what_a_blocked_stream_freed_is_not_handed_on(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate_in(memory, 2, 0), other = allocate_in(memory, 2, 1);
    assert_int_equal(operate_in(&model, memory, other, 1), MDNN_STATUS_OK);
    begin_blocked(&model, 0);
    assert_int_equal(operate_in(&model, memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    const uint64_t next = allocate_in(memory, 2, 1);
    assert_true(next != first);
    assert_int_equal(operate_in(&model, memory, next, 1), MDNN_STATUS_OK);
    assert_int_equal(model.stream_waits, 0);
    assert_int_equal(mdnn_memory_report(memory).out_bytes, 2 * MODEL_CHUNK);
    assert_true(model.done[0] == 0 && model.values[0] == 0);
    end_blocked(&model, memory);
}

/* In its own stream, and in that in whose order it was freed, it serves as it is. */
static void what_a_stream_freed_serves_it_at_once(void **state)
{
    (void)state;
    for (uint64_t stream = 0; stream < 2; stream++) {
        static model_t model;
        mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
        const uint64_t first = allocate_in(memory, 2, 0), other = allocate_in(memory, 2, 1);
        begin_blocked(&model, 0);
        assert_int_equal(operate_in(&model, memory, first, 0), MDNN_STATUS_OK);
        assert_int_equal(mdnn_memory_free(memory, first, stream), MDNN_STATUS_OK);
        assert_true(allocate_in(memory, 2, stream) == first && first != other);
        assert_int_equal(mdnn_memory_report(memory).host_waits, 0);
        end_blocked(&model, memory);
    }
}

/* Where nothing else could leave it is handed on, in stream order. */
static void what_a_blocked_stream_freed_is_the_last_resort(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS);
    const uint64_t first = allocate_in(memory, 2, 0), other = allocate_in(memory, 2, 0);
    begin_blocked(&model, 0);
    assert_int_equal(operate_in(&model, memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(operate_in(&model, memory, other, 0), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_OK);
    assert_int_equal(allocate_in(memory, 2, 1), first); /* the other one cannot leave */
    assert_int_equal(model.stream_waits, 1);
    assert_int_equal(mdnn_memory_free(memory, first, 1), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, other, 0), MDNN_STATUS_OK);
    const uint64_t waits = mdnn_memory_report(memory).host_waits;
    (void)allocate_in(memory, 4, 2); /* there is nothing that could leave: so without a wait */
    assert_int_equal(mdnn_memory_report(memory).host_waits, waits);
    end_blocked(&model, memory);
}

/* Another operation, in whose order a range that is away is to return; enqueued, but it has not
 * run. */
static void ask_back(model_t *model, mdnn_memory_t *memory, uint64_t address)
{
    enqueue(model, 0, ITEM_OPERATION);
    advisor.back = 1;
    assert_int_equal(operate(memory, address, 0, MDNN_USE_READ, false), MDNN_STATUS_OK);
    advisor.back = 0;
}

/* A planned return is waited for, unless that took too long; then not for a while. */
static void a_wait_for_a_return_that_is_given_up_is_tried_again_later(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 5, MODEL_SLOTS);
    const uint64_t other = allocate(memory, 1), first = allocate(memory, 2);
    advisor.leave = 1;
    assert_int_equal(operate(memory, first, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    advisor.leave = 0;
    settle(&model, memory);
    const uint64_t second = allocate(memory, 4); /* nothing else is left */
    enqueue(&model, 0, ITEM_OPERATION);
    assert_int_equal(operate(memory, second, 0, MDNN_USE_WRITE, false), MDNN_STATUS_OK);
    assert_int_equal(mdnn_memory_free(memory, second, 0), MDNN_STATUS_OK);
    model.hasty_in = 1;
    ask_back(&model, memory, other);
    model.hasty_in = 0;
    const uint64_t waits = model.waits, done = model.done[0];
    assert_true(done < model.enqueued[0]);
    ask_back(&model, memory, other);
    model.now_us += 99e6; /* a hundred seconds are not over: it waited for one at least */
    ask_back(&model, memory, other);
    assert_int_equal(model.waits, waits);
    assert_int_equal(model.done[0], done);
    model.now_us += 1000e6;
    ask_back(&model, memory, other);
    assert_true(model.waits > waits && model.done[0] > done);
    assert_true(model.done[0] < model.enqueued[0]); /* for what the device still works at */
    end_memory(&model, memory);
}

/* Neither noted for want of memory, nor waited for. */
static void nothing_leaves_where_the_end_of_such_work_is_unknown(void **state)
{
    (void)state;
    static model_t model;
    uint64_t address;
    mdnn_memory_t *const memory = begin_untracked_everywhere(&model, true);
    assert_int_equal(mdnn_memory_allocate(memory, 2 * MODEL_CHUNK, 0, &address),
                     MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(mdnn_memory_report(memory).unmapped, 0);
    end_memory(&model, memory);
}

/* It could not be served if it asked for more. */
static void such_work_needs_room(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 8, MODEL_SLOTS);
    (void)allocate(memory, 6);
    assert_true(mdnn_memory_untracked_begin(memory));
    mdnn_memory_untracked_end(memory, 0);
    (void)allocate(memory, 1);
    assert_false(mdnn_memory_untracked_begin(memory));
    end_memory(&model, memory);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    static model_t model;
    mdnn_memory_t *const memory = small_memory(&model, 4, MODEL_SLOTS), *none = NULL;
    const mdnn_memory_config_t wrong = {.ranges = {MODEL_BASE, 1, MODEL_CHUNK, 0}};
    uint64_t address, bytes;
    assert_int_equal(mdnn_memory_create(&wrong, &model_device, &model, &none),
                     MDNN_STATUS_INVALID_ARGUMENT);
    assert_null(none);
    mdnn_memory_destroy(NULL);
    assert_int_equal(mdnn_memory_allocate(memory, 0, 0, &address), MDNN_STATUS_INVALID_ARGUMENT);
    assert_int_equal(mdnn_memory_allocate(memory, UINT64_MAX, 0, &address), MDNN_STATUS_OVERFLOW);
    assert_int_equal(mdnn_memory_free(memory, MODEL_BASE, 0), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_memory_pin(memory, 5, &address), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_memory_wait_idle(memory, 5), MDNN_STATUS_NOT_FOUND);
    assert_false(mdnn_memory_find(memory, MODEL_BASE, &address, &bytes));
    mdnn_memory_unpin(memory, 5);
    end_memory(&model, memory);
}

int main(void)
{
    cmocka_set_test_filter(getenv("MEMORY_TEST_ONLY"));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operations_find_what_the_program_put_there),
        cmocka_unit_test(short_host_memory_costs_refusals_only),
        cmocka_unit_test(parts_of_ranges_move),
        cmocka_unit_test(failing_calls_lose_no_part),
        cmocka_unit_test(failing_calls_lose_nothing),
        cmocka_unit_test(each_failure_alone_loses_nothing),
        cmocka_unit_test(verify_maps_only_what_is_named),
        cmocka_unit_test(host_serves_each_unnamed_touch),
        cmocka_unit_test(short_host_memory_costs_refusals_only_in_host),
        cmocka_unit_test(failing_calls_lose_nothing_in_host),
        cmocka_unit_test(host_waits_not_for_ever),
        cmocka_unit_test(verify_names_the_first_operation_that_the_device_failed),
        cmocka_unit_test(what_came_back_is_copied_whole_when_it_leaves_again),
        cmocka_unit_test(an_allocation_without_room_takes_memory_when_it_is_named),
        cmocka_unit_test(what_has_no_memory_yet_can_be_pinned_and_sent_away),
        cmocka_unit_test(only_what_is_named_next_takes_memory_at_once),
        cmocka_unit_test(what_has_no_memory_yet_waits_for_no_copies),
        cmocka_unit_test(what_has_some_of_its_memory_keeps_no_slots),
        cmocka_unit_test(what_has_some_of_its_memory_leaves_with_it),
        cmocka_unit_test(what_finds_no_room_on_the_host_is_refused_at_once),
        cmocka_unit_test(what_is_allocated_beside_untracked_work_has_memory_at_once),
        cmocka_unit_test(a_demand_under_a_plan_sends_away_what_is_missing),
        cmocka_unit_test(slabs_are_no_memory_for_plans),
        cmocka_unit_test(small_ones_leave_room_for_the_largest),
        cmocka_unit_test(small_ones_leave_room_for_operations),
        cmocka_unit_test(what_is_too_small_to_leave_does_not_lock_others_out),
        cmocka_unit_test(what_is_set_aside_leaves_room_for_the_largest),
        cmocka_unit_test(what_fits_together_is_known),
        cmocka_unit_test(a_workspace_has_room_beside_operands),
        cmocka_unit_test(what_was_pinned_has_room_again),
        cmocka_unit_test(a_refused_small_one_says_what_is_needed),
        cmocka_unit_test(an_unnamed_write_to_what_came_back_is_not_lost),
        cmocka_unit_test(a_range_that_is_named_while_it_leaves_stays),
        cmocka_unit_test(advice_moves_without_a_wait),
        cmocka_unit_test(a_demand_comes_before_planned_returns),
        cmocka_unit_test(a_join_waits_for_all_moves),
        cmocka_unit_test(a_refusal_names_a_budget_that_is_enough),
        cmocka_unit_test(what_was_refused_is_wanting_until_the_program_goes_on),
        cmocka_unit_test(a_workspace_counts_once_and_not_for_the_floor),
        cmocka_unit_test(what_was_captured_stays),
        cmocka_unit_test(what_was_freed_while_it_was_pinned_can_be_pinned_again),
        cmocka_unit_test(what_was_freed_while_it_was_pinned_can_live_again),
        cmocka_unit_test(live_pins_end_with_their_allocation),
        cmocka_unit_test(live_pins_are_of_one_allocation),
        cmocka_unit_test(what_an_operation_holds_cannot_be_pinned_once_it_is_freed),
        cmocka_unit_test(an_operation_tells_what_its_names_led_to),
        cmocka_unit_test(host_serves_what_is_away_and_what_is_back),
        cmocka_unit_test(host_leaves_and_mistrusts_what_failed_half_way_back),
        cmocka_unit_test(host_waits_for_an_operation_that_has_begun_unless_it_is_hurried),
        cmocka_unit_test(all_is_free_when_nothing_is_alive),
        cmocka_unit_test(what_is_set_aside_is_nobodys),
        cmocka_unit_test(what_is_set_aside_sends_ranges_away),
        cmocka_unit_test(what_is_there_already_counts_beyond_the_budget),
        cmocka_unit_test(work_that_nobody_knows_keeps_everything),
        cmocka_unit_test(such_work_may_end_at_any_look),
        cmocka_unit_test(nothing_is_unmapped_while_such_work_is_begun),
        cmocka_unit_test(such_work_is_waited_for_in_every_stream),
        cmocka_unit_test(nothing_leaves_where_the_end_of_such_work_is_unknown),
        cmocka_unit_test(what_leaves_in_part_and_then_whole_is_copied_once),
        cmocka_unit_test(a_part_that_cannot_leave_stays_as_it_is),
        cmocka_unit_test(a_leave_that_ends_early_holds_no_host_memory_for_the_rest),
        cmocka_unit_test(a_join_that_takes_too_long_is_given_up),
        cmocka_unit_test(a_wait_for_a_return_that_is_given_up_is_tried_again_later),
        cmocka_unit_test(what_a_blocked_stream_freed_is_not_handed_on),
        cmocka_unit_test(what_a_stream_freed_serves_it_at_once),
        cmocka_unit_test(what_a_blocked_stream_freed_is_the_last_resort),
        cmocka_unit_test(such_work_needs_room),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
