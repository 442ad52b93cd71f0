/* The mechanism of virtual memory under random programs, with wrong advice and failing devices:
 * each operation must find, when it runs at last, what the program put there.
 *
 * MEMORY_TEST_TIMES=N runs N times as many programs, MEMORY_TEST_VERBOSE=1 says the seed of each,
 * MEMORY_TEST_SEED=S begins with that one, MEMORY_TEST_FROM=S runs as many from there on, MEMORY_TEST_AHEAD=1 has
 * mappings change ahead as often as they can, MEMORY_TEST_ONLY=PATTERN chooses tests. */
#include "cases.h"
#include "few.h"
#include "memory_model.h"
#include "random_follower.h"

enum { ALLOCATIONS = 14, OPEN = 2, NAMES = 12 };

typedef struct allocation {
    uint64_t address, bytes; /* bytes 0: none */
    uint32_t words;
    bool slab, small;                         /* small: a range that never leaves */
    bool asks;                                /* allocated in answer to how much is free */
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
    bool asks;      /* how much is free, again and again */
    unsigned runs;  /* items that run after a step, at most */
    unsigned allocation_fails_in; /* 1 step in so many; 0: never */
    long allocation_fails_at;     /* counts down; 0: never */
    uint32_t next_word;
    uint64_t movable;    /* most that an operation needed of what can leave */
    uint64_t told_bytes; /* the answer that no allocation has followed yet; else 0 */
    uint64_t operations, refusals, captured, asides, untracked, large;
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

static bool holds_something(const program_t *program);

static void check_refusal(program_t *program, mdnn_status_t status, uint64_t needed)
{
    program->refusals += status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    if (!program->exact || (needed > 0 && holds_something(program)))
        return;
    if (needed > room(program))
        assert_int_equal(status, MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
    else
        assert_int_equal(status, MDNN_STATUS_OK);
}

/* With tails an operation is refused only where it pins. */
static void check_operation(program_t *program, const mdnn_memory_operation_t *operation,
                            mdnn_status_t status, uint64_t needed)
{
    if (program->config.tail && !operation->capturing)
        needed = 0;
    check_refusal(program, status, needed);
}

/* What an operation that has begun holds may have a tail: it takes less than it could, but cannot be pinned then. */
static bool holds_something(const program_t *program)
{
    return program->config.tail && (program->open[0].open || program->open[1].open);
}

/* ---- allocate and free ---- */

/* Whether there are addresses for what can never be device memory as a whole. */
static bool may_have_tail(const program_t *program, uint64_t bytes)
{
    const uint64_t pinned = mdnn_memory_report(program->memory).pinned_live_bytes / MODEL_CHUNK;
    return program->config.tail && program->config.safety == MDNN_SAFETY_FAST &&
           bytes > program->config.ranges.small_bytes &&
           pinned + rooms(program, bytes) > room(program);
}

static void check_tail_allocation(program_t *program, mdnn_status_t status)
{
    program->refusals += status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    program->large += status == MDNN_STATUS_OK;
    if (program->exact && program->config.follower.host_limit_bytes == UINT64_MAX)
        assert_int_equal(status, MDNN_STATUS_OK);
}

/* What is allocated makes nothing unreachable that there was room for some time. */
static void check_reach(const program_t *program, uint64_t pinned_before)
{
    const uint64_t pinned = mdnn_memory_report(program->memory).pinned_live_bytes / MODEL_CHUNK;
    for (int i = 0; i < ALLOCATIONS && !program->config.tail; i++) {
        const allocation_t *const allocation = &program->allocations[i];
        if (allocation->bytes == 0 || allocation->slab || allocation->small ||
            allocation->pins > 0 || allocation->freed)
            continue;
        if (allocation->bytes < program->config.min_bytes &&
            mdnn_memory_can_stay(program->memory, allocation->address))
            continue; /* it stays, though what is pinned did not grow, since something else ended */
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
    /* Under a plan it need not have memory yet, nor if it may be a question. */
    const bool may_ask = bytes <= program->told_bytes && bytes >= program->told_bytes / 2;
    const bool may_wait = (advisor.follows || may_ask) &&
                          program->config.safety == MDNN_SAFETY_FAST &&
                          bytes >= program->config.min_bytes && bytes > small &&
                          mdnn_memory_report(program->memory).pinned_live_bytes / MODEL_CHUNK +
                                  rooms(program, bytes) <=
                              room(program);
    const uint64_t pinned_before = mdnn_memory_report(program->memory).pinned_live_bytes;
    const bool is_large = may_have_tail(program, bytes);
    const mdnn_status_t status = mdnn_memory_allocate(program->memory, bytes, stream, &address);
    if (held_up(program, status))
        return;
    if (is_large)
        check_tail_allocation(program, status);
    else if (may_wait && status == MDNN_STATUS_OK)
        allocated_bare += needed > room(program); /* for what operations hold, at least */
    else if (bytes > small)
        check_refusal(program, status, needed);
    else if (program->exact && status != MDNN_STATUS_OK && !holds_something(program))
        assert_true(needed > room(program));
    if (status != MDNN_STATUS_OK) {
        assert_true(status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY || model->failed);
        return;
    }
    program->told_bytes = 0;
    *allocation = (allocation_t){.address = address,
                                 .bytes = bytes,
                                 .asks = may_ask,
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
    check_operation(program, &open->operation, status, needed);
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
    const uint64_t kept = program->config.tail ? 0 : room_to_keep(program) + model->aside_bytes;
    const mdnn_status_t status = mdnn_memory_set_aside(program->memory, bytes);
    if (held_up(program, status))
        return;
    program->refusals += status == MDNN_STATUS_OUT_OF_DEVICE_MEMORY;
    if (program->exact && !holds_something(program))
        assert_int_equal(status,
                         needed + bytes > model->budget_bytes || kept + bytes > model->budget_bytes
                             ? MDNN_STATUS_OUT_OF_DEVICE_MEMORY
                             : MDNN_STATUS_OK);
    if (status != MDNN_STATUS_OK)
        return;
    model->aside_bytes += bytes; /* now it is taken */
    program->asides++;
}

static void check_report(program_t *program)
{
    const mdnn_memory_report_t report = mdnn_memory_report(program->memory);
    const model_t *const model = &program->model;
    uint64_t live = 0, asked = 0;
    for (int i = 0; i < ALLOCATIONS; i++)
        if (!program->allocations[i].freed) {
            live += program->allocations[i].bytes;
            asked += program->allocations[i].asks ? program->allocations[i].bytes : 0;
        }
    assert_int_equal(report.live_bytes, live);
    assert_int_equal(report.resident_bytes, model->chunks * MODEL_CHUNK + model->aside_bytes);
    assert_int_equal(report.other_bytes, model->aside_bytes);
    assert_true(report.resident_bytes <= report.budget_bytes); /* I3 */
    assert_int_equal(report.host_bytes, model->slots_used * MODEL_CHUNK);
    assert_true(report.peak_live_bytes >= live - asked);
    if (program->asks) {
        program->told_bytes = mdnn_memory_available(program->memory);
        assert_true(program->told_bytes <= report.budget_bytes);
    }
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

static bool with_tails; /* of programs */

/* Small budgets under which mappings change ahead as often as they can, and devices whose thread gets little time. */
static void be_ahead(program_t *program, uint64_t seed)
{
    model_t *const model = &program->model;
    model->remaps_late = true;
    model->remaps_begin = seed % 3 != 0;
    model->remaps_starve = seed % 5 == 0;
    if (!with_tails)
        model->budget = 5 + seed / 7 % 12;
    program->config.budget_bytes = model->budget * MODEL_CHUNK;
    advisor.follows = seed % 4 != 0;
    advisor.leave = 1 + (unsigned)(seed / 11 % 6);
    advisor.back = 1 + (unsigned)(seed / 13 % 4);
    advisor.join = seed % 6 == 0 ? 4 : 0;
    advisor.birth_bytes = seed % 9 == 0 ? (1 + seed / 17 % 5) * MODEL_CHUNK : 0;
}

static void program_new(program_t *program, uint64_t seed, mdnn_safety_t safety)
{
    model_t *const model = &program->model;
    const bool verify = safety == MDNN_SAFETY_VERIFY;
    memset(program, 0, sizeof *program);
    model->random = seed;
    program->few_sizes = pick(model, 3) == 0;
    program->asks = seed % 8 == 0;
    program->runs = 1 + (unsigned)pick(model, 6);
    model->budget = 6 + pick(model, pick(model, 3) == 0 ? 40 : 20);
    model->slot_limit = MODEL_SLOTS;
    model->slot_busy_in = (unsigned)pick(model, 6);
    model->runs_in = (unsigned)(pick(model, 2) * pick(model, 10));
    model->verify = verify;
    model->remaps_late = pick(model, 2) == 0;
    program->exact = true;
    if (with_tails) /* operations name more than that */
        model->budget = 1 + pick(model, 10);
    program->config = (mdnn_memory_config_t){
        .ranges = {MODEL_BASE, MODEL_STEPS * MODEL_CHUNK, MODEL_CHUNK,
                   verify || pick(model, 4) == 0 ? 0 : MODEL_CHUNK / 4, pick(model, 3)},
        .budget_bytes = model->budget * MODEL_CHUNK + pick(model, 2) * 100,
        .min_bytes = pick(model, 2) * MODEL_CHUNK,
        .safety = safety,
        .tail = with_tails,
        .follower.host_limit_bytes =
            pick(model, 3) == 0 ? pick(model, 60) * MODEL_CHUNK : UINT64_MAX,
    };
    advise_at_random(model, seed);
    if (getenv("MEMORY_TEST_AHEAD"))
        be_ahead(program, seed);
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
    model->remaps_starve = false;
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
    for (int i = 0; i < 1000 && mdnn_memory_progress(program->memory); i++)
        run_all(model);
    const mdnn_memory_report_t report = mdnn_memory_report(program->memory);
    assert_int_equal(report.host_bytes, 0);
    assert_int_equal(model->slots_used, 0);
    assert_int_equal(report.live_bytes, 0);
    assert_false(mdnn_memory_progress(program->memory));
    mdnn_memory_destroy(program->memory);
}

/* What programs have done: each of these, or they test less than they should. */
#define TOTALS(of)                                                                                 \
    of(operations, program->operations) of(refusals, program->refusals)                            \
        of(captured, program->captured) of(asides, program->asides)                                \
            of(copies, program->model.copies) of(waits, program->model.waits)                      \
                of(stream_waits, program->model.stream_waits) of(faults, program->model.faults)    \
                    of(right, program->model.right) of(timed, advisor.timed)                       \
                        of(saved, report.saved_bytes) of(called_off, report.called_off)            \
                            of(planned_leaves, report.planned_leaves)                              \
                                of(planned_returns, report.planned_returns)                        \
                                    of(demand_leaves, report.demand_leaves)                        \
                                        of(demand_returns, report.demand_returns)

typedef struct totals {
#define MEMBER(name, value) uint64_t name;
    TOTALS(MEMBER)
} totals_t;

static void add_totals(totals_t *totals, const program_t *program)
{
    const mdnn_memory_report_t report = mdnn_memory_report(program->memory);
#define ADD(name, value) totals->name += value;
    TOTALS(ADD)
}

static void print_totals(uint64_t count, const totals_t *totals)
{
    print_message("%llu programs:", (unsigned long long)count);
#define PRINT(name, value) print_message(" %s %llu", #name, (unsigned long long)totals->name);
    TOTALS(PRINT)
    print_message("\n");
}

static void check_totals(const totals_t *totals)
{
#define CHECK_TOTAL(name, value) assert_true(totals->name > 0 || !is_thorough());
    TOTALS(CHECK_TOTAL)
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

static uint64_t tails,
    larger; /* operations that had one; allocations that are larger than the budget */

static totals_t sum_of_programs(uint64_t count, mdnn_safety_t safety, adjust_t adjust)
{
    static program_t program;
    totals_t totals = {0};
    uint64_t untracked = 0;
    const long before = live_allocations;
    const char *const times = getenv("MEMORY_TEST_TIMES"), *const one = getenv("MEMORY_TEST_SEED");
    count = few(count / 3, count) * (times ? strtoull(times, NULL, 10) : 1);
    const char *const from = getenv("MEMORY_TEST_FROM");
    const uint64_t begin = from ? strtoull(from, NULL, 10) : 0;
    count += begin;
    for (uint64_t seed = one ? strtoull(one, NULL, 10) : begin; seed < count; seed++) {
        run_program(&program, seed, safety, adjust);
        add_totals(&totals, &program);
        untracked += program.untracked;
        tails += mdnn_memory_tails(program.memory)->operations;
        larger += program.large;
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

CASE(operations_find_what_the_program_put_there)
{
    allocated_bare = 0;
    run_programs(3000, false, NULL);
    assert_true(allocated_bare > 100 || !is_thorough() || getenv("MEMORY_TEST_SEED"));
}

static void limit_slots(program_t *program)
{
    program->model.slot_limit = pick(&program->model, 12);
    program->model.slot_busy_in = 1 + (unsigned)pick(&program->model, 5);
    program->exact = false;
}

CASE(short_host_memory_costs_refusals_only)
{
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

/* ---- tails ---- */

static void be_hasty(program_t *program)
{
    program->model.hasty_in = 1 + (unsigned)pick(&program->model, 3);
    program->exact = false;
}

/* Operations name more than the budget, which holds at every moment, and each finds what the program put there. */
static void run_programs_with_tails(uint64_t count, mdnn_safety_t safety, adjust_t adjust)
{
    tails = larger = 0;
    with_tails = true;
    (void)sum_of_programs(count, safety, adjust);
    with_tails = false;
    assert_true(tails > count / 3);
    assert_true(larger > count / 3 || safety != MDNN_SAFETY_FAST);
    print_message("  %llu operations had tails, %llu allocations were above the budget\n",
                  (unsigned long long)tails, (unsigned long long)larger);
}

CASE(operations_above_the_budget_find_what_the_program_put_there)
{
    run_programs_with_tails(3000, MDNN_SAFETY_FAST, NULL);
    run_programs_with_tails(1500, MDNN_SAFETY_FAST, move_parts);
    run_programs_with_tails(1500, MDNN_SAFETY_FAST, limit_slots);
    run_programs_with_tails(1500, MDNN_SAFETY_FAST, fail_calls);
    run_programs_with_tails(1000, MDNN_SAFETY_HOST, NULL);
    run_programs_with_tails(500, MDNN_SAFETY_HOST, limit_slots);
    run_programs_with_tails(500, MDNN_SAFETY_HOST, fail_calls);
    run_programs_with_tails(500, MDNN_SAFETY_HOST, be_hasty);
    /* What an operation names is about to leave, and has given just the part away that is to be its tail: rare. */
    static program_t program;
    with_tails = true;
    run_program(&program, 3578, MDNN_SAFETY_FAST, NULL);
    with_tails = false;
    program_finish(&program);
}

CASE(parts_of_ranges_move)
{
    static program_t program;
    run_programs(3000, false, move_parts);
    run_programs(500, true, move_parts);
    /* A return to a part begins anew while a copy behind that part is still under way: rare. */
    run_program(&program, 11812, MDNN_SAFETY_FAST, move_parts);
    program_finish(&program);
}

/* ---- from fast to host ---- */

/* Nothing is between begin and end. Whether unnamed touches are served from now on; slots may have to be made first. */
static bool switch_to_host(program_t *program)
{
    enum { TRIES = 100 };
    mdnn_status_t status = MDNN_STATUS_BUSY;
    for (int i = 0; i < OPEN; i++)
        if (program->open[i].open)
            program_end(program, &program->open[i]);
    for (int i = 0; i < TRIES && status == MDNN_STATUS_BUSY; i++) {
        status = mdnn_memory_serve_all(program->memory);
        run_one(&program->model);
        check_report(program);
    }
    if (status == MDNN_STATUS_OK)
        program->config.safety = MDNN_SAFETY_HOST;
    return status == MDNN_STATUS_OK;
}

/* In the middle of a program; after that no unnamed touch that is enqueued faults. Counts the programs that were. */
static uint64_t programs_that_switch(uint64_t count, adjust_t adjust)
{
    static program_t program;
    uint64_t switched = 0;
    for (uint64_t seed = 0; seed < few(count / 10, count); seed++) {
        run_program(&program, seed, MDNN_SAFETY_FAST, adjust);
        if (!program.model.dead && switch_to_host(&program)) {
            const uint64_t steps = 50 + pick(&program.model, 100);
            run_all(&program.model);
            const uint64_t faults = program.model.faults;
            for (uint64_t i = 0; i < steps && !program.model.dead; i++)
                program_step(&program);
            run_all(&program.model);
            assert_true(program.model.faults == faults || !program.exact);
            switched++;
        }
        program_finish(&program);
    }
    return switched;
}

/* And no wait is given up: moves beside work that goes on may fault. */
static void move_parts_patiently(program_t *program)
{
    (void)program;
    advisor.parts = true;
}

CASE(memory_can_come_to_serve_unnamed_touches)
{
    const uint64_t count = few(50, 500);
    assert_true(programs_that_switch(500, NULL) > count * 3 / 4);
    assert_true(programs_that_switch(500, move_parts_patiently) > count / 2);
    (void)programs_that_switch(500, limit_slots);
    (void)programs_that_switch(500, fail_calls);
}

static void fail_calls_with_parts(program_t *program)
{
    fail_calls(program);
    program->allocation_fails_in = 0;
    move_parts(program);
}

CASE(failing_calls_lose_no_part)
{
    run_programs(2000, false, fail_calls_with_parts);
}

CASE(failing_calls_lose_nothing)
{
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

CASE(each_failure_alone_loses_nothing)
{
    const uint64_t seeds = few(2, 12);
    const mdnn_safety_t safeties[] = {MDNN_SAFETY_FAST, MDNN_SAFETY_HOST, MDNN_SAFETY_VERIFY};
    uint64_t calls = 0, allocations = 0;
    const long before = live_allocations;
    for (uint64_t seed = 0; seed < seeds; seed++)
        for (size_t i = 0; i < sizeof safeties / sizeof *safeties; i++) {
            calls += fail_each(seed, safeties[i], false);
            allocations += fail_each(seed, safeties[i], true);
        }
    print_message("%llu calls of the device and %llu allocations, each failed once\n",
                  (unsigned long long)calls, (unsigned long long)allocations);
    assert_true(calls > seeds * 80 && allocations > seeds * 40);
    assert_int_equal(live_allocations, before);
}

CASE(verify_maps_only_what_is_named)
{
    run_programs(800, true, NULL);
}

CASE(host_serves_each_unnamed_touch)
{
    run_programs_of_host(3000, true, NULL);
}

CASE(short_host_memory_costs_refusals_only_in_host)
{
    run_programs_of_host(1500, true, limit_slots);
}

CASE(failing_calls_lose_nothing_in_host)
{
    run_programs_of_host(2000, false, fail_calls);
}

CASE(host_waits_not_for_ever)
{
    run_programs_of_host(1500, false, be_hasty);
}

CASE(verify_names_the_first_operation_that_the_device_failed)
{
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

static model_t model;
static mdnn_memory_t *memory;

#define ok(call) assert_int_equal(call, MDNN_STATUS_OK)
#define refused(call) assert_int_equal(call, MDNN_STATUS_OUT_OF_DEVICE_MEMORY)

static void start_memory(uint64_t chunks, uint64_t slots, mdnn_safety_t safety,
                         uint64_t small_bytes, uint64_t min_bytes)
{
    const mdnn_memory_config_t config = {
        .ranges = {MODEL_BASE, MODEL_STEPS * MODEL_CHUNK, MODEL_CHUNK, small_bytes},
        .budget_bytes = chunks * MODEL_CHUNK,
        .min_bytes = min_bytes,
        .safety = safety,
        .tail = with_tails,
        .follower.host_limit_bytes = slots * MODEL_CHUNK,
    };
    memset(&model, 0, sizeof model);
    memset(&advisor, 0, sizeof advisor);
    model.budget = chunks;
    model.budget_bytes = chunks * MODEL_CHUNK;
    model.slot_limit = slots;
    ok(mdnn_memory_create(&config, &model_device, &model, &memory));
}

static void small_memory(uint64_t chunks)
{
    start_memory(chunks, MODEL_SLOTS, MDNN_SAFETY_FAST, 0, 0);
}

static void memory_with_few_slots(uint64_t chunks, uint64_t slots)
{
    start_memory(chunks, slots, MDNN_SAFETY_FAST, 0, 0);
}

static void memory_with_tails(uint64_t chunks, uint64_t slots, mdnn_safety_t safety,
                              uint64_t small_bytes)
{
    with_tails = true;
    start_memory(chunks, slots, safety, small_bytes, 0);
    with_tails = false;
}

static void tailed_memory(uint64_t chunks)
{
    memory_with_tails(chunks, MODEL_SLOTS, MDNN_SAFETY_FAST, 0);
}

static void memory_with_slabs(uint64_t chunks, uint64_t min_bytes)
{
    start_memory(chunks, MODEL_SLOTS, MDNN_SAFETY_FAST, MODEL_CHUNK / 2, min_bytes);
}

static void memory_of_host(uint64_t chunks)
{
    start_memory(chunks, MODEL_SLOTS, MDNN_SAFETY_HOST, 0, 0);
}

static void end_memory(void)
{
    run_all(&model);
    mdnn_memory_destroy(memory);
}

/* A case with a memory of its own, which ends with it. */
#define MEMORY_CASE(name, start)                                                                   \
    static void name##_in_it(void);                                                                \
    CASE(name)                                                                                     \
    {                                                                                              \
        start;                                                                                     \
        name##_in_it();                                                                            \
        end_memory();                                                                              \
    }                                                                                              \
    static void name##_in_it(void)

static mdnn_memory_report_t report(void)
{
    return mdnn_memory_report(memory);
}

static uint64_t allocate_bytes(uint64_t bytes, uint64_t stream)
{
    uint64_t address = 0;
    ok(mdnn_memory_allocate(memory, bytes, stream, &address));
    return address;
}

static uint64_t allocate_in(uint64_t chunks, uint64_t stream)
{
    return allocate_bytes(chunks * MODEL_CHUNK, stream);
}

static uint64_t allocate(uint64_t chunks)
{
    return allocate_in(chunks, 0);
}

static void refuse(uint64_t bytes)
{
    uint64_t address;
    refused(mdnn_memory_allocate(memory, bytes, 0, &address));
}

static void release(uint64_t address)
{
    ok(mdnn_memory_free(memory, address, 0));
}

static uint64_t pin(uint64_t address)
{
    uint64_t start = 0;
    ok(mdnn_memory_pin(memory, address, &start));
    return start;
}

static mdnn_status_t run(mdnn_memory_operation_t operation)
{
    const mdnn_status_t status = mdnn_memory_begin(memory, &operation);
    if (status == MDNN_STATUS_OK)
        mdnn_memory_end(memory, &operation, true);
    return status;
}

/* Nothing runs in it; addresses that are 0 are not named. */
static mdnn_status_t operate(uint64_t first, uint64_t second, mdnn_use_role_t role)
{
    const mdnn_memory_operand_t named[] = {{first, role}, {second, role}};
    return run((mdnn_memory_operation_t){.operands = named, .operand_count = 2});
}

static mdnn_status_t capture(uint64_t address)
{
    const mdnn_memory_operand_t named = {address, MDNN_USE_READ};
    return run(
        (mdnn_memory_operation_t){.operands = &named, .operand_count = 1, .capturing = true});
}

/* At its end the follower gives advice as at no other time: `advice` is &advisor.leave or &advisor.back. */
static mdnn_status_t operate_advised(unsigned *advice, uint64_t address, mdnn_use_role_t role)
{
    *advice = 1;
    const mdnn_status_t status = operate(address, 0, role);
    *advice = 0;
    return status;
}

/* What is under way ends. */
static void settle(void)
{
    do
        run_all(&model);
    while (mdnn_memory_progress(memory));
}

/* Now, in no order with what the mechanism knows of. */
static void touch(uint64_t address, uint32_t expected, uint32_t written)
{
    item_t *const item = enqueue(&model, 0, ITEM_OPERATION);
    item->touch_count = 1;
    item->touches[0] = (touch_t){.address = address,
                                 .words = 1,
                                 .named = true,
                                 .after_write = true,
                                 .before = {expected},
                                 .after = {written}};
    run_all(&model);
}

static uint64_t allocate_written(uint64_t chunks, uint32_t written)
{
    const uint64_t address = allocate(chunks);
    touch(address, 0, written);
    return address;
}

/* It is there as soon as an operation that names it has begun. */
static void name_and_touch(uint64_t address, uint32_t expected, uint32_t written)
{
    ok(operate(address, 0, MDNN_USE_READ));
    touch(address, expected, written);
}

/* What is mapped may be written by a kernel that does not name it (I2): the host's copy counts for
 * nothing as soon as the range is back, however it was named. */
MEMORY_CASE(what_came_back_is_copied_whole_when_it_leaves_again, small_memory(4))
{
    const uint64_t first = allocate(3);
    ok(operate(first, 0, MDNN_USE_WRITE));
    assert_int_equal(report().average_resident_bytes, 3 * MODEL_CHUNK);
    const uint64_t second = allocate(3); /* the first leaves */
    settle();
    assert_int_equal(report().out_bytes, 3 * MODEL_CHUNK);
    ok(operate(first, 0, MDNN_USE_READ));
    settle();
    assert_int_equal(report().out_bytes, 6 * MODEL_CHUNK);
    assert_int_equal(report().host_bytes, 3 * MODEL_CHUNK); /* the second's */
    ok(operate(second, 0, MDNN_USE_READ));
    assert_int_equal(report().out_bytes, 9 * MODEL_CHUNK);
    assert_int_equal(report().in_bytes, 6 * MODEL_CHUNK);
    assert_int_equal(report().saved_bytes, 0);
}

/* Under a plan what is allocated sends nothing away: it takes memory when it is named, and has
 * nothing to bring. */
MEMORY_CASE(an_allocation_without_room_takes_memory_when_it_is_named, small_memory(4))
{
    const uint64_t first = allocate_written(3, 5);
    advisor.first_use = MDNN_FIRST_USE_NEXT;
    const uint64_t second = allocate(2), third = allocate(4);
    refuse(5 * MODEL_CHUNK);
    assert_true(second >= first + 3 * MODEL_CHUNK || first >= second + 2 * MODEL_CHUNK);
    assert_false(mdnn_memory_progress(memory));
    release(third);
    assert_int_equal(report().out_bytes, 0);
    assert_int_equal(report().demand_leaves, 0);
    ok(operate(second, 0, MDNN_USE_WRITE));
    settle();
    touch(second, 0, 6);
    assert_int_equal(report().out_bytes, 3 * MODEL_CHUNK);
    assert_int_equal(model.told[MDNN_MEMORY_RETURN], 0);
    assert_int_equal(model.told[MDNN_MEMORY_RETURNED], 0);
    ok(operate(first, 0, MDNN_USE_READ));
    settle();
    assert_int_equal(model.told[MDNN_MEMORY_RETURN], 1);
    assert_int_equal(model.told[MDNN_MEMORY_RETURNED], 1);
    touch(first, 5, 7);
    name_and_touch(second, 6, 8);
    assert_int_equal(report().in_bytes, 5 * MODEL_CHUNK); /* each once, when it had been away */
    assert_int_equal(report().demand_returns, 2);
}

/* Under a plan what is missing is little: the rest of a victim stays where it is. */
CASE(a_demand_under_a_plan_sends_away_what_is_missing)
{
    for (int planned = 0; planned < 2; planned++) {
        small_memory(8);
        advisor.plan = (uint64_t)planned;
        const uint64_t first = allocate_written(6, 5);
        touch(first + 5 * MODEL_CHUNK, 0, 6);
        allocate(3);
        settle();
        const uint64_t left = planned ? 1 : 6;
        assert_int_equal(report().out_bytes, left * MODEL_CHUNK);
        allocate(1);
        settle();
        assert_int_equal(report().out_bytes, (planned ? left + 1 : left) * MODEL_CHUNK);
        name_and_touch(first, 5, 7);
        touch(first + 5 * MODEL_CHUNK, 6, 7);
        end_memory();
    }
}

MEMORY_CASE(slabs_are_no_memory_for_plans, memory_with_slabs(8, 0))
{
    const uint64_t first = allocate(2);
    ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(advisor.aside_bytes, 0);
    const uint64_t small = allocate_bytes(100, 0);
    ok(mdnn_memory_set_aside(memory, 2 * MODEL_CHUNK));
    ok(operate(first, small, MDNN_USE_READ));
    assert_int_equal(advisor.aside_bytes, 3 * MODEL_CHUNK);
    /* They will want it again in the next round. */
    release(small);
    assert_int_equal(report().pinned_live_bytes, 0);
    ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(advisor.aside_bytes, 3 * MODEL_CHUNK);
    for (int i = 0; i < 20000; i++)
        ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(advisor.aside_bytes, 2 * MODEL_CHUNK);
}

static void allocate_halves(int count)
{
    for (int i = 0; i < count; i++)
        (void)allocate_bytes(MODEL_CHUNK / 2, 0);
}

/* Beside a large range small ones may hold only what that leaves; the others can leave, too. */
MEMORY_CASE(small_ones_leave_room_for_the_largest, memory_with_slabs(16, 0))
{
    enum { SMALL = 60, CHUNKS = 16, LARGE = 12 };
    uint64_t small[SMALL];
    const uint64_t large = allocate_written(LARGE, 1);
    for (uint32_t i = 0; i < SMALL; i++) {
        small[i] = allocate_bytes(MODEL_CHUNK / 2, 0);
        touch(small[i], 0, 100 + i);
    }
    assert_int_equal(report().pinned_live_bytes, (CHUNKS - LARGE) * MODEL_CHUNK);
    name_and_touch(large, 1, 2);
    for (uint32_t i = 0; i < SMALL; i++) {
        name_and_touch(small[i], 100 + i, 1);
        release(small[i]);
    }
    assert_int_equal(report().pinned_live_bytes, 0);
    release(allocate(CHUNKS));
    name_and_touch(large, 2, 3);
}

/* Nor beside operations that name several ranges, as long as those come. */
CASE(small_ones_leave_room_for_operations)
{
    memory_with_slabs(8, 0);
    uint64_t first = allocate(3);
    const uint64_t second = allocate(4);
    ok(operate(first, second, MDNN_USE_WRITE));
    allocate_halves(16);
    assert_int_equal(report().pinned_live_bytes, MODEL_CHUNK);
    ok(operate(first, second, MDNN_USE_WRITE));
    /* When as much as the budget is wasted, they may have what no single range needs; */
    allocate_halves(20);
    assert_int_equal(report().pinned_live_bytes, 4 * MODEL_CHUNK);
    end_memory();
    memory_with_slabs(8, 0); /* and when no such operation came for long */
    first = allocate(7);
    ok(operate(first, 0, MDNN_USE_WRITE));
    release(first);
    first = allocate(1);
    for (int i = 0; i < 20000; i++)
        ok(operate(first, 0, MDNN_USE_WRITE));
    allocate_halves(14);
    assert_int_equal(report().pinned_live_bytes, 7 * MODEL_CHUNK);
    end_memory();
}

/* If there are more of them than the budget has room for, the last ones take turns. */
static void more_than_there_is_room_for(uint64_t bytes, uint64_t min_bytes)
{
    enum { CHUNKS = 32, MANY = 160 };
    uint64_t some[MANY];
    memory_with_slabs(CHUNKS, min_bytes);
    for (uint32_t i = 0; i < MANY; i++) {
        some[i] = allocate_bytes(bytes, 0);
        touch(some[i], 0, 100 + i);
    }
    for (uint32_t i = 0; i < MANY; i++)
        name_and_touch(some[i], 100 + i, 300 + i);
    for (uint32_t i = 0; i < MANY; i++)
        name_and_touch(some[i], 300 + i, 1);
    end_memory();
}

CASE(more_small_ones_than_the_budget_holds_take_turns)
{
    more_than_there_is_room_for(MODEL_CHUNK / 2, 0);
    more_than_there_is_room_for(MODEL_CHUNK, 2 * MODEL_CHUNK);
}

/* What is too small to leave leaves all the same, rather than that a larger one cannot return. */
MEMORY_CASE(what_is_too_small_to_leave_does_not_lock_others_out,
            memory_with_slabs(8, 3 * MODEL_CHUNK))
{
    const uint64_t large = allocate(5);
    const uint64_t little = allocate(2), other = allocate(2);
    assert_int_equal(report().pinned_live_bytes, 2 * MODEL_CHUNK);
    ok(operate(large, little, MDNN_USE_READ));
    ok(operate(other, little, MDNN_USE_READ));
}

/* Nor may memory that is not ours, though there are no chunks in its place yet. */
MEMORY_CASE(what_is_set_aside_leaves_room_for_the_largest, memory_with_slabs(8, 0))
{
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t large = allocate(5);
    assert_int_equal(report().created, 0);
    refused(mdnn_memory_set_aside(memory, 4 * MODEL_CHUNK));
    ok(mdnn_memory_set_aside(memory, 3 * MODEL_CHUNK));
    ok(operate(large, 0, MDNN_USE_READ));
}

/* What one operation names must have room beside what stays, and names of one allocation count once. */
MEMORY_CASE(what_fits_together_is_known, memory_with_slabs(8, 0))
{
    const uint64_t a = allocate(3), b = allocate(3), c = allocate(2);
    const uint64_t all[] = {a, b, c, a + MODEL_CHUNK, MODEL_BASE - 1};
    assert_true(mdnn_memory_fit_together(memory, all, 5));
    const uint64_t small = allocate_bytes(100, 0);
    assert_false(mdnn_memory_fit_together(memory, all, 5));
    assert_true(mdnn_memory_fit_together(memory, all, 2));
    release(small);
    settle();
    pin(a);
    assert_true(mdnn_memory_fit_together(memory, all, 5));
    mdnn_memory_set_aside_all_the_same(memory, MODEL_CHUNK);
    assert_false(mdnn_memory_fit_together(memory, all, 5));
    mdnn_memory_give_back(memory, MODEL_CHUNK);
    mdnn_memory_unpin(memory, a);
}

/* A workspace is refused only where no guess at what it is used with leaves room for it. */
MEMORY_CASE(a_workspace_has_room_beside_operands, memory_with_slabs(8, 0))
{
    const uint64_t sizes[] = {3 * MODEL_CHUNK - 5, 2 * MODEL_CHUNK + 1, 100};
    /* Nobody knows where they lie: at least there is so much of them. */
    assert_int_equal(mdnn_memory_room_beside(memory, sizes, 3), 3 * MODEL_CHUNK + 4);
    assert_true(mdnn_memory_workspace_fits(memory, 3 * MODEL_CHUNK, sizes, 3));
    const uint64_t a = allocate(3), b = allocate(3);
    assert_int_equal(mdnn_memory_room_beside(memory, sizes, 3), 2 * MODEL_CHUNK);
    assert_int_equal(report().refused, 0);
    assert_true(mdnn_memory_workspace_fits(memory, 2 * MODEL_CHUNK, sizes, 3));
    assert_false(mdnn_memory_workspace_fits(memory, 2 * MODEL_CHUNK + 1, sizes, 3));
    mdnn_memory_judge_refusal(memory, 2 * MODEL_CHUNK + 1, true);
    assert_int_equal(report().refused, 1);
    assert_int_equal(report().refused_optional, 1);
    assert_int_equal(report().refused_budget_bytes, 9 * MODEL_CHUNK);
    assert_true(mdnn_memory_workspace_fits(memory, 3 * MODEL_CHUNK, sizes, 3)); /* as `a` has */
    /* What stays may be one of them, or hold it. */
    pin(a);
    assert_int_equal(mdnn_memory_room_beside(memory, sizes, 2), 5 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_room_beside(memory, sizes + 1, 1), 5 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, a);
    release(b);
}

/* Nor what is pinned no more. */
MEMORY_CASE(what_was_pinned_has_room_again, memory_with_slabs(8, 0))
{
    const uint64_t large = allocate(5);
    pin(large);
    (void)allocate_bytes(100, 0);
    assert_int_equal(report().pinned_live_bytes, 6 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, large);
    allocate_halves(12);
    assert_int_equal(report().pinned_live_bytes, 3 * MODEL_CHUNK);
    ok(operate(large, 0, MDNN_USE_READ));
}

/* The figure is what the allocation would have fitted in. */
MEMORY_CASE(a_refused_small_one_says_what_is_needed, memory_with_slabs(4, 0))
{
    pin(allocate(3));
    allocate_halves(2);
    refuse(100);
    assert_int_equal(report().refused_budget_bytes, 5 * MODEL_CHUNK);
}

/* All that is free, or half of it, as PyTorch takes it to see how much a search may use. */
MEMORY_CASE(a_question_how_much_there_is_moves_nothing, small_memory(8))
{
    const uint64_t first = allocate_written(3, 5), second = allocate_written(3, 6);
    ok(operate(first, 0, MDNN_USE_READ));
    for (uint64_t asked = 5; asked >= 3; asked--) {
        assert_int_equal(mdnn_memory_available(memory), 5 * MODEL_CHUNK);
        const uint64_t question = allocate(asked);
        assert_int_equal(report().live_bytes, (6 + asked) * MODEL_CHUNK);
        release(question);
    }
    assert_int_equal(report().out_bytes, 0);
    assert_int_equal(report().created, 6);
    assert_int_equal(report().peak_live_bytes, 6 * MODEL_CHUNK); /* the program never had it */
    touch(first, 5, 7);
    touch(second, 6, 8);
}

MEMORY_CASE(what_was_taken_like_a_question_is_there_when_it_is_named, small_memory(8))
{
    const uint64_t first = allocate_written(3, 5), second = allocate_written(3, 6);
    ok(operate(first, 0, MDNN_USE_READ));
    (void)mdnn_memory_available(memory);
    const uint64_t large = allocate(5);
    assert_int_equal(report().peak_live_bytes, 6 * MODEL_CHUNK);
    ok(operate(large, 0, MDNN_USE_WRITE));
    assert_int_equal(report().peak_live_bytes, 11 * MODEL_CHUNK);
    settle();
    touch(large, 0, 9);
    name_and_touch(first, 5, 7);
    name_and_touch(second, 6, 8);
    name_and_touch(large, 9, 10);
}

/* Only the first allocation after the answer asks, and one of another size does not. */
MEMORY_CASE(what_only_resembles_a_question_has_its_memory_at_once, small_memory(8))
{
    ok(operate(allocate_written(3, 5), 0, MDNN_USE_READ));
    (void)mdnn_memory_available(memory);
    release(allocate(2));
    assert_int_equal(report().created, 5);
    (void)allocate(5);
    assert_int_equal(report().created, 8);
}

/* Anything else that the program does may need it: a kernel may know its address from device memory. */
MEMORY_CASE(a_question_that_stays_open_has_its_memory_before_the_next_operation, small_memory(8))
{
    const uint64_t first = allocate_written(3, 5);
    ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(mdnn_memory_available(memory), 5 * MODEL_CHUNK);
    const uint64_t large = allocate(5);
    assert_int_equal(report().created, 3);
    ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(report().created, 8);
    touch(large, 0, 9);
    release(large);
    (void)mdnn_memory_available(memory);
    (void)allocate(5);
    (void)allocate(1); /* the other one had its memory before */
    assert_int_equal(report().resident_bytes, 8 * MODEL_CHUNK);
    touch(first, 5, 7);
}

/* When it needs the memory it is too late to refuse it. */
MEMORY_CASE(a_question_is_refused_that_host_memory_has_no_room_for, memory_with_few_slots(8, 2))
{
    const uint64_t first = allocate_written(3, 5), second = allocate_written(3, 6);
    ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(mdnn_memory_available(memory), 5 * MODEL_CHUNK);
    refuse(5 * MODEL_CHUNK);
    touch(first, 5, 7);
    touch(second, 6, 8);
}

/* Nor is it taken for one where another device might take the rest of the host memory. */
MEMORY_CASE(where_host_memory_is_scarce_an_allocation_is_no_question, memory_with_few_slots(8, 4))
{
    const uint64_t first = allocate_written(3, 5);
    (void)allocate(3);
    ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(mdnn_memory_available(memory), 5 * MODEL_CHUNK);
    (void)allocate(5);
    assert_int_equal(report().created, 8);
}

/* A pin has all of it, and so has a copy of what nobody has written. */
MEMORY_CASE(what_has_no_memory_yet_can_be_pinned_and_sent_away, small_memory(4))
{
    const uint64_t first = allocate_written(3, 5);
    advisor.first_use = MDNN_FIRST_USE_NEXT;
    const uint64_t second = allocate(3);
    assert_int_equal(pin(second + 5), second);
    touch(second, 0, 6);
    mdnn_memory_unpin(memory, second);
    name_and_touch(first, 5, 7);
    name_and_touch(second, 6, 8);
}

/* What is named next takes memory as far as nothing leaves, in the order of its stream; other
 * allocations take none. */
MEMORY_CASE(only_what_is_named_next_takes_memory_at_once, small_memory(8))
{
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t later = allocate(2);
    assert_int_equal(model.chunks, 0);
    advisor.first_use = MDNN_FIRST_USE_NEXT;
    const uint64_t next = allocate(2);
    assert_int_equal(model.chunks, 2);
    touch(next, 0, 5);
    ok(operate(later, 0, MDNN_USE_WRITE));
    assert_int_equal(model.chunks, 4);
    touch(later, 0, 6);
}

static uint64_t late_returns(mdnn_late_return_t why)
{
    return report().late_returns[why];
}

MEMORY_CASE(returns_on_demand_are_counted_by_their_cause, small_memory(4))
{
    const uint64_t first = allocate_written(3, 5), second = allocate_written(3, 6);
    settle();
    name_and_touch(first, 5, 5);
    assert_int_equal(late_returns(MDNN_LATE_RETURN_unplanned), 1);
    settle();
    advisor.plan = 1;
    name_and_touch(second, 6, 6);
    assert_int_equal(late_returns(MDNN_LATE_RETURN_sent_away), 1);
    ok(operate_advised(&advisor.leave, second, MDNN_USE_READ));
    settle();
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    settle();
    name_and_touch(second, 6, 6);
    assert_int_equal(late_returns(MDNN_LATE_RETURN_late), 1);
    settle();
    advisor.knows_none = true;
    name_and_touch(first, 5, 5);
    assert_int_equal(late_returns(MDNN_LATE_RETURN_unknown), 1);
}

/* Waits for copies, for work, and changes of mappings are parts of the time inside. */
MEMORY_CASE(time_of_waits_is_counted_by_their_cause, small_memory(4))
{
    const uint64_t first = allocate_written(3, 5), second = allocate_written(3, 6);
    name_and_touch(first, 5, 7);
    name_and_touch(second, 6, 8);
    const mdnn_host_time_t before = report().host_time;
    assert_true(before.us[MDNN_HOST_TIME_copies] > 0);
    assert_true(before.us[MDNN_HOST_TIME_copies] + before.us[MDNN_HOST_TIME_work] +
                    before.us[MDNN_HOST_TIME_pinning] ==
                report().host_wait_us);
    mdnn_memory_note_host_time(memory, 30, 4);
    assert_true(report().host_time.us[MDNN_HOST_TIME_library] ==
                before.us[MDNN_HOST_TIME_library] + 30);
    assert_true(report().host_time.us[MDNN_HOST_TIME_threads] == 4);
}

/* ---- mappings of released memory that change ahead of requests ---- */

static void let_mappings_change_in_the_background(void)
{
    model.remaps_late = model.remaps_begin = true;
}

/* So many chunks' mappings the thread that enqueues work has changed itself. */
static uint64_t changed_here(void)
{
    return report().mapped + report().unmapped - model.remapped;
}

/* Of 8 chunks: what is away would take 3, and the rest is idle, but mapped elsewhere. */
static uint64_t leave_and_fill(void)
{
    const uint64_t first = allocate_written(3, 5);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    settle();
    const uint64_t other = allocate(8);
    ok(operate(other, 0, MDNN_USE_WRITE));
    release(other);
    settle();
    return first;
}

MEMORY_CASE(idle_memory_is_unmapped_ahead_of_what_returns, small_memory(8))
{
    const uint64_t first = leave_and_fill(), here = changed_here(), unmapped = report().unmapped;
    let_mappings_change_in_the_background();
    ok(operate_advised(&advisor.back, 0, MDNN_USE_READ));
    settle();
    assert_int_equal(report().unmapped, unmapped + 3);
    assert_int_equal(changed_here(), here);
    touch(first, 5, 7);
}

/* It is a released range in part then. */
MEMORY_CASE(a_request_gets_what_is_being_unmapped_ahead, small_memory(8))
{
    const uint64_t first = leave_and_fill();
    let_mappings_change_in_the_background();
    ok(operate_advised(&advisor.back, 0, MDNN_USE_READ));
    const uint64_t second = allocate_written(8, 6);
    settle();
    name_and_touch(first, 5, 7);
    name_and_touch(second, 6, 8);
    assert_int_equal(report().refused, 0);
}

MEMORY_CASE(memory_for_what_is_new_soon_is_mapped_ahead, small_memory(8))
{
    const uint64_t first = allocate_written(5, 5);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    settle();
    let_mappings_change_in_the_background();
    advisor.birth_bytes = 4 * MODEL_CHUNK;
    const uint64_t here = changed_here(), mapped = report().mapped;
    ok(operate(0, 0, MDNN_USE_READ));
    settle();
    assert_int_equal(report().mapped, mapped + 4);
    const uint64_t second = allocate_written(4, 6);
    assert_int_equal(report().mapped, mapped + 4);
    assert_int_equal(changed_here(), here);
    name_and_touch(first, 5, 7);
    name_and_touch(second, 6, 8);
}

/* The thread that waits does the rest. */
MEMORY_CASE(a_request_gets_what_is_being_mapped_ahead, small_memory(8))
{
    const uint64_t first = allocate_written(5, 5);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    settle();
    let_mappings_change_in_the_background();
    advisor.birth_bytes = 5 * MODEL_CHUNK;
    const uint64_t mapped = report().mapped;
    ok(operate(0, 0, MDNN_USE_READ));
    advisor.birth_bytes = 0;
    const uint64_t second = allocate_written(5, 6);
    assert_int_equal(report().mapped, mapped + 5);
    settle();
    name_and_touch(first, 5, 7);
    name_and_touch(second, 6, 8);
}

/* Of 8 chunks: 3 that are away lack one, for 6 live, and 2 are idle, but mapped elsewhere. */
static uint64_t leave_and_lack_one(void)
{
    const uint64_t first = allocate_written(3, 5);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    settle();
    (void)allocate(6);
    const uint64_t other = allocate(2);
    ok(operate(other, 0, MDNN_USE_WRITE));
    release(other);
    settle();
    return first;
}

/* What returns is joined while *hindrance is true. */
static void join_hindered(bool *hindrance)
{
    const uint64_t first = leave_and_fill();
    let_mappings_change_in_the_background();
    *hindrance = true;
    advisor.join = 1;
    ok(operate_advised(&advisor.back, 0, MDNN_USE_READ));
    ok(operate(0, 0, MDNN_USE_READ));
    advisor.join = 0;
    *hindrance = false;
    settle();
    name_and_touch(first, 5, 7);
}

/* Whoever waits does what the thread would, instead of calling it off and asking for it again. */
MEMORY_CASE(a_join_ends_though_the_thread_gets_no_time, small_memory(8))
{
    join_hindered(&model.remaps_starve);
}

/* What a device refuses for good is not asked for again and again. */
MEMORY_CASE(a_join_ends_though_nothing_can_be_unmapped, small_memory(8))
{
    join_hindered(&model.unmaps_end);
}

MEMORY_CASE(a_join_ends_though_nothing_can_be_mapped, small_memory(8))
{
    const uint64_t first = allocate_written(3, 5);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    settle();
    let_mappings_change_in_the_background();
    model.maps_end = true;
    advisor.join = 1;
    ok(operate_advised(&advisor.back, 0, MDNN_USE_READ));
    run_all(&model);
    ok(operate(0, 0, MDNN_USE_READ));
    run_all(&model);
    advisor.join = 0;
    model.maps_end = false;
    settle();
    name_and_touch(first, 5, 7);
}

/* It was for others, and whoever needs that memory sees for himself. */
CASE(what_failed_ahead_is_no_request_s_failure)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        small_memory(8);
        const uint64_t first = leave_and_fill();
        let_mappings_change_in_the_background();
        model.random = seed;
        model.unmaps_end = true;
        ok(operate_advised(&advisor.back, 0, MDNN_USE_READ));
        refuse(9 * MODEL_CHUNK);
        model.unmaps_end = false;
        settle();
        name_and_touch(first, 5, 7);
        end_memory();
    }
}

/* What cannot have all that it lacks leaves alone what others could have as it is. */
MEMORY_CASE(nothing_is_taken_apart_in_vain, small_memory(8))
{
    const uint64_t first = leave_and_lack_one();
    let_mappings_change_in_the_background();
    const uint64_t mapped = report().mapped;
    for (int i = 0; i < 10; i++) {
        ok(operate_advised(&advisor.back, 0, MDNN_USE_READ));
        run_all(&model);
        for (int look = 0; look < 20; look++)
            mdnn_memory_progress(memory);
        const uint64_t other = allocate(2);
        ok(operate(other, 0, MDNN_USE_WRITE));
        release(other);
    }
    assert_int_equal(report().mapped, mapped);
    settle();
    name_and_touch(first, 5, 7);
}

/* It becomes a block of a slab. */
MEMORY_CASE(what_is_small_and_new_soon_is_not_mapped_ahead, memory_with_slabs(8, 0))
{
    const uint64_t first = allocate_written(5, 5);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    settle();
    let_mappings_change_in_the_background();
    advisor.small_birth = true;
    advisor.birth_bytes = 4 * MODEL_CHUNK;
    const uint64_t mapped = report().mapped;
    ok(operate(0, 0, MDNN_USE_READ));
    settle();
    assert_int_equal(report().mapped, mapped + 4);
    name_and_touch(first, 5, 7);
}

/* A block of a slab needs none of it. */
MEMORY_CASE(a_small_request_leaves_alone_what_is_mapped_ahead, memory_with_slabs(8, 0))
{
    const uint64_t first = allocate_written(5, 5), small = allocate_bytes(100, 0);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    settle();
    let_mappings_change_in_the_background();
    model.remaps_starve = true;
    advisor.birth_bytes = 4 * MODEL_CHUNK;
    ok(operate(0, 0, MDNN_USE_READ));
    const uint64_t mapped = report().mapped;
    const uint64_t other = allocate_bytes(100, 0);
    assert_int_equal(report().mapped, mapped);
    model.remaps_starve = false;
    advisor.birth_bytes = 0;
    settle();
    assert_int_equal(report().mapped, mapped + 4);
    release(small);
    release(other);
    name_and_touch(first, 5, 7);
}

/* Nothing is copied for it, so it waits for no copy of others. */
MEMORY_CASE(what_has_no_memory_yet_waits_for_no_copies, small_memory(8))
{
    const uint64_t first = allocate(3), other = allocate(1);
    touch(first, 0, 5);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    settle();
    ok(operate_advised(&advisor.back, other, MDNN_USE_READ));
    const uint64_t waits = report().host_waits, done = model.done[MODEL_IN];
    assert_true(model.enqueued[MODEL_IN] > done); /* the first comes back */
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t second = allocate(2);
    ok(operate(second, 0, MDNN_USE_WRITE));
    assert_int_equal(report().host_waits, waits);
    assert_int_equal(model.done[MODEL_IN], done);
    settle();
    touch(second, 0, 6);
    touch(first, 5, 7);
}

/* What is mapped of it may have been touched; where host memory is short, that stays, and the rest
 * takes none. */
MEMORY_CASE(what_has_some_of_its_memory_keeps_no_slots, memory_with_few_slots(4, 2))
{
    const uint64_t first = allocate_written(3, 5);
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t second = allocate(3);
    refused(operate(second, 0, MDNN_USE_WRITE)); /* it has a chunk now */
    advisor.first_use = MDNN_FIRST_USE_UNKNOWN;
    refuse(4 * MODEL_CHUNK); /* neither can leave */
    settle();
    assert_int_equal(model.slots_used, 0);
    const uint64_t asked = report().host_short;
    assert_false(mdnn_memory_progress(memory));
    assert_int_equal(report().host_short, asked);
    release(first);
    ok(operate(second, 0, MDNN_USE_WRITE));
    touch(second, 0, 6);
    assert_int_equal(report().in_bytes, 0);
}

/* Anyone may have written to it. */
MEMORY_CASE(what_has_some_of_its_memory_leaves_with_it, memory_with_few_slots(4, 2))
{
    const uint64_t first = allocate(3);
    advisor.first_use = MDNN_FIRST_USE_LATER;
    const uint64_t second = allocate(3);
    refused(operate(second, 0, MDNN_USE_WRITE)); /* it has a chunk now */
    advisor.first_use = MDNN_FIRST_USE_UNKNOWN;
    touch(second, 0, 6);
    model.slot_limit = MODEL_SLOTS;
    release(allocate(4));
    name_and_touch(second, 6, 7);
    release(first);
}

/* A program is told so when it allocates, not when it launches. */
MEMORY_CASE(what_finds_no_room_on_the_host_is_refused_at_once, memory_with_few_slots(4, 2))
{
    const uint64_t first = allocate(4);
    for (int next = 0; next < 2; next++) {
        advisor.first_use = next ? MDNN_FIRST_USE_NEXT : MDNN_FIRST_USE_LATER;
        const uint64_t second = allocate(2);
        refuse(MODEL_CHUNK);
        release(second);
    }
    touch(first, 0, 5);
}

/* It may be used by work that names nothing. */
MEMORY_CASE(what_is_allocated_beside_untracked_work_has_memory_at_once, small_memory(8))
{
    (void)allocate(3);
    advisor.first_use = MDNN_FIRST_USE_LATER;
    assert_true(mdnn_memory_untracked_begin(memory));
    (void)allocate_written(2, 6);
    mdnn_memory_untracked_end(memory, 0);
    (void)allocate(1);
    assert_false(mdnn_memory_untracked_begin(memory)); /* such work may use it, too */
}

MEMORY_CASE(an_unnamed_write_to_what_came_back_is_not_lost, small_memory(4))
{
    const uint64_t first = allocate_written(3, 5);
    const uint64_t second = allocate(3); /* the first leaves */
    name_and_touch(first, 5, 6);
    ok(operate(second, 0, MDNN_USE_READ));
    name_and_touch(first, 6, 7);
}

MEMORY_CASE(a_range_that_is_named_while_it_leaves_stays, small_memory(4))
{
    const uint64_t first = allocate(2);
    enqueue(&model, 0, ITEM_OPERATION); /* which has not run */
    ok(operate_advised(&advisor.leave, first, MDNN_USE_READ));
    ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(report().planned_leaves, 1);
    assert_int_equal(report().called_off, 1);
    assert_int_equal(report().unmapped, 0);
    assert_int_equal(report().host_waits, 0);
    run_all(&model);
}

MEMORY_CASE(advice_moves_without_a_wait, small_memory(8))
{
    const uint64_t first = allocate(3);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_WRITE));
    assert_true(mdnn_memory_progress(memory)); /* copies are under way */
    run_all(&model);
    assert_true(mdnn_memory_progress(memory));
    assert_false(mdnn_memory_progress(memory)); /* away */
    ok(operate_advised(&advisor.back, 0, MDNN_USE_READ));
    run_all(&model);
    assert_true(mdnn_memory_progress(memory));
    assert_false(mdnn_memory_progress(memory)); /* back */
    ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(report().planned_leaves, 1);
    assert_int_equal(report().planned_returns, 1);
    assert_int_equal(report().demand_returns + report().demand_leaves + report().host_waits, 0);
}

MEMORY_CASE(a_demand_comes_before_planned_returns, small_memory(4))
{
    const uint64_t first = allocate(3);
    ok(operate(first, 0, MDNN_USE_WRITE));
    allocate(3);
    settle();
    ok(operate_advised(&advisor.back, 0, MDNN_USE_READ));
    assert_false(mdnn_memory_progress(memory)); /* it waits for chunks, which do not come by
                                                   themselves */
    const uint64_t third = allocate(4);
    assert_int_equal(report().demand_leaves, 2);
    assert_int_equal(report().planned_returns, 0);
    release(third);
    settle();
    assert_int_equal(report().planned_returns, 1); /* now it can */
}

MEMORY_CASE(a_join_waits_for_all_moves, small_memory(4))
{
    const uint64_t first = allocate(3);
    enqueue(&model, 0, ITEM_OPERATION);
    advisor.leave = advisor.join = 1;
    ok(operate(first, 0, MDNN_USE_WRITE));
    assert_int_equal(report().out_bytes, 3 * MODEL_CHUNK);
    assert_false(mdnn_memory_progress(memory));
}

CASE(a_refusal_names_a_budget_that_is_enough)
{
    uint64_t budget = 5 * MODEL_CHUNK;
    for (int round = 0; round < 2; round++) {
        small_memory(budget / MODEL_CHUNK);
        const uint64_t pinned = allocate(1), first = allocate(2), second = allocate(3);
        pin(pinned);
        assert_int_equal(report().pinned_live_bytes, MODEL_CHUNK);
        const mdnn_status_t status = operate(first, second, MDNN_USE_READ);
        assert_int_equal(status, round ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_DEVICE_MEMORY);
        assert_int_equal(report().refused, round ? 0 : 1);
        assert_int_equal(report().largest_operation_bytes, 5 * MODEL_CHUNK);
        assert_int_equal(report().smallest_budget_bytes, 6 * MODEL_CHUNK);
        assert_int_equal(report().refused_budget_bytes, round ? 0 : 6 * MODEL_CHUNK);
        budget = report().smallest_budget_bytes;
        refuse(6 * MODEL_CHUNK);
        assert_int_equal(report().refused_budget_bytes, 7 * MODEL_CHUNK);
        assert_int_equal(report().smallest_budget_bytes, 6 * MODEL_CHUNK);
        assert_int_equal(mdnn_memory_available(memory), 0);
        end_memory();
    }
}

/* Optional, or without which the program goes on: not needed. */
MEMORY_CASE(what_was_refused_is_wanting_until_the_program_goes_on, small_memory(4))
{
    const uint64_t first = allocate(1), second = allocate(1);
    for (int round = 0; round < 2; round++) {
        refuse(9 * MODEL_CHUNK);
        mdnn_memory_judge_refusal(memory, 9 * MODEL_CHUNK, true);
        assert_int_equal(report().wanting_bytes, 0);
        refuse(6 * MODEL_CHUNK);
        mdnn_memory_judge_refusal(memory, 6 * MODEL_CHUNK, false);
        assert_int_equal(report().wanting_bytes, 6 * MODEL_CHUNK);
        assert_int_equal(report().refused_optional, 2 * round + 1);
        for (int i = 0; i < 100; i++)
            ok(operate(first, second, MDNN_USE_READ));
        assert_int_equal(report().wanting_bytes, 0);
        assert_int_equal(report().smallest_budget_bytes, 2 * MODEL_CHUNK);
        assert_int_equal(report().refused, 2 * round + 2);
        assert_int_equal(report().refused_optional, 2 * round + 2);
    }
}

/* A smaller one may do, so it is not part of what is needed at least; and what is a range that the
 * operation names is not needed beside it. */
MEMORY_CASE(a_workspace_counts_once_and_not_for_the_floor, small_memory(8))
{
    const uint64_t tensor = allocate(2), workspace = allocate(3);
    const mdnn_memory_operand_t named[] = {{tensor, MDNN_USE_READ},
                                           {workspace + 5, MDNN_USE_UNKNOWN}};
    for (int elsewhere = 0; elsewhere < 2; elsewhere++) {
        ok(run((mdnn_memory_operation_t){.operands = named,
                                         .operand_count = 2,
                                         .workspace = elsewhere ? 77 : workspace,
                                         .workspace_bytes = 3 * MODEL_CHUNK}));
        assert_int_equal(report().largest_operation_bytes, 5 * MODEL_CHUNK);
        assert_int_equal(report().smallest_budget_bytes, (elsewhere ? 5 : 2) * MODEL_CHUNK);
        assert_int_equal(advisor.workspace_bytes, elsewhere ? 3 * MODEL_CHUNK : 0);
    }
}

MEMORY_CASE(what_was_captured_stays, small_memory(4))
{
    const uint64_t first = allocate(3);
    ok(capture(first));
    release(first);
    refuse(3 * MODEL_CHUNK);
    assert_int_equal(advisor.sequence, 0); /* nothing ran, nothing is recorded */
    mdnn_memory_unpin(memory, first);
    assert_int_equal(allocate(3), first);
    mdnn_memory_unpin(memory, first); /* one too many does nothing */
    assert_int_equal(allocate(3) == first, false);
}

/* Two graphs hold it, and the second one learns of it when the program has freed it. */
MEMORY_CASE(what_was_freed_while_it_was_pinned_can_be_pinned_again, small_memory(4))
{
    const uint64_t first = allocate(3);
    uint64_t start;
    ok(capture(first));
    release(first);
    assert_int_equal(pin(first + MODEL_CHUNK + 1), first);
    assert_int_equal(report().pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, first);
    refuse(3 * MODEL_CHUNK);
    ok(operate(first, first, MDNN_USE_READ));
    mdnn_memory_unpin(memory, first);
    assert_int_equal(report().pinned_live_bytes, 0);
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(allocate(3), first);
}

/* A graph makes it anew at each launch. */
MEMORY_CASE(what_was_freed_while_it_was_pinned_can_live_again, small_memory(4))
{
    const uint64_t first = allocate(3);
    uint64_t start, bytes;
    pin(first);
    assert_false(mdnn_memory_revive(memory, first)); /* it lives */
    for (int i = 0; i < 3; i++) {
        release(first);
        assert_int_equal(mdnn_memory_free(memory, first, 0), MDNN_STATUS_NOT_FOUND);
        assert_false(mdnn_memory_find(memory, first, &start, &bytes));
        assert_int_equal(report().live_bytes, 0);
        assert_true(mdnn_memory_revive(memory, first));
        assert_true(mdnn_memory_find(memory, first, &start, &bytes));
        assert_int_equal(report().live_bytes, 3 * MODEL_CHUNK);
        ok(operate(first, first, MDNN_USE_WRITE));
    }
    mdnn_memory_unpin(memory, first);
    assert_true(mdnn_memory_find(memory, first, &start, &bytes));
    release(first);
    assert_false(mdnn_memory_revive(memory, first)); /* it is gone */
}

/* Pins that end with the free, if not before, beside one that does not. */
MEMORY_CASE(live_pins_end_with_their_allocation, small_memory(4))
{
    const uint64_t first = allocate(3);
    mdnn_live_pin_t pins[2], none;
    assert_false(mdnn_memory_has_live_pins(memory, first));
    for (int i = 0; i < 2; i++)
        ok(mdnn_memory_pin_live(memory, first + MODEL_CHUNK, &pins[i]));
    assert_true(mdnn_memory_has_live_pins(memory, first));
    assert_false(mdnn_memory_is_held(memory, first));
    assert_int_equal(report().pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin_live(memory, pins[0]);
    assert_int_equal(report().pinned_live_bytes, 3 * MODEL_CHUNK);
    pin(first);
    assert_true(mdnn_memory_is_held(memory, first));
    release(first);
    assert_int_equal(mdnn_memory_pin_live(memory, first, &none), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(report().pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin_live(memory, pins[1]); /* it ended with the free */
    assert_int_equal(report().pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, first);
    assert_int_equal(report().pinned_live_bytes, 0);
}

/* A pin that has ended says nothing of what lives at its address now. */
MEMORY_CASE(live_pins_are_of_one_allocation, small_memory(4))
{
    const uint64_t first = allocate(3);
    mdnn_live_pin_t before, now;
    ok(mdnn_memory_pin_live(memory, first, &before));
    release(first);
    assert_int_equal(report().pinned_live_bytes, 0);
    assert_int_equal(allocate(3), first);
    ok(mdnn_memory_pin_live(memory, first, &now));
    mdnn_memory_unpin_live(memory, before);
    assert_int_equal(report().pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin_live(memory, now);
    assert_int_equal(report().pinned_live_bytes, 0);
    mdnn_memory_unpin_live(memory, now); /* one too many does nothing, */
    pin(first);
    mdnn_memory_unpin_live(memory, now); /* not even to the pins of others */
    assert_int_equal(report().pinned_live_bytes, 3 * MODEL_CHUNK);
    mdnn_memory_unpin(memory, first);
    assert_int_equal(mdnn_memory_pin_live(memory, 5, &now), MDNN_STATUS_NOT_FOUND);
}

/* Held by an operation alone, it ends with that: nobody can keep it from then on. */
MEMORY_CASE(what_an_operation_holds_cannot_be_pinned_once_it_is_freed, small_memory(4))
{
    const uint64_t first = allocate(3);
    const mdnn_memory_operand_t named[] = {{first + 5, MDNN_USE_WRITE}};
    mdnn_memory_operation_t operation = {.operands = named, .operand_count = 1};
    uint64_t start;
    ok(mdnn_memory_begin(memory, &operation));
    release(first);
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_NOT_FOUND);
    mdnn_memory_end(memory, &operation, true);
}

/* What comes to live at an address that led nowhere when the operation began is none of its. */
MEMORY_CASE(an_operation_tells_what_its_names_led_to, small_memory(4))
{
    const uint64_t first = allocate(1);
    const mdnn_memory_operand_t named[] = {{first + 5, MDNN_USE_READ},
                                           {first + MODEL_CHUNK + 5, MDNN_USE_READ}};
    mdnn_memory_operation_t operation = {.operands = named, .operand_count = 2, .capturing = true};
    uint64_t start = 0;
    ok(mdnn_memory_begin(memory, &operation));
    assert_int_equal(allocate(1), first + MODEL_CHUNK);
    release(first);
    mdnn_memory_end(memory, &operation, true);
    assert_true(mdnn_memory_operand_start(memory, &operation, 0, &start));
    assert_int_equal(start, first);
    assert_false(mdnn_memory_operand_start(memory, &operation, 1, &start));
}

MEMORY_CASE(host_serves_what_is_away_and_what_is_back, memory_of_host(4))
{
    const uint64_t first = allocate_written(3, 5);
    const uint64_t second = allocate(3);
    assert_int_equal(model.slot_at[model_step(first)] > 0, true);
    touch(first, 5, 6);
    ok(operate(first, 0, MDNN_USE_READ));
    assert_int_equal(model.slot_at[model_step(first)], 0);
    touch(first, 6, 7); /* the host copy counts no more, though it was only read */
    ok(operate(second, 0, MDNN_USE_READ));
    touch(first, 7, 8);
    assert_int_equal(report().saved_bytes, 0);
    assert_int_equal(report().host_bytes, 3 * MODEL_CHUNK);
    release(first); /* while it is away */
    assert_int_equal(report().host_bytes, 0);
}

MEMORY_CASE(host_leaves_and_mistrusts_what_failed_half_way_back, memory_of_host(4))
{
    const uint64_t first = allocate_written(3, 5);
    release(allocate(3));
    model.maps_end = true;
    model.maps_left = 1;
    assert_int_equal(operate(first, 0, MDNN_USE_READ), MDNN_STATUS_DEVICE);
    model.maps_end = false;
    mdnn_memory_progress(memory);
    assert_int_equal(model.chunk_at[model_step(first) + 1], 0); /* not in a quiet time */
    touch(first, 5, 6);
    release(allocate(4));
    touch(first, 6, 7);
    name_and_touch(first, 7, 8);
}

MEMORY_CASE(host_waits_for_an_operation_that_has_begun_unless_it_is_hurried, memory_of_host(4))
{
    const uint64_t first = allocate(3);
    uint64_t second = 0, start;
    mdnn_memory_operation_t open = {.key = 1};
    ok(mdnn_memory_begin(memory, &open));
    assert_int_equal(mdnn_memory_allocate(memory, 3 * MODEL_CHUNK, 0, &second), MDNN_STATUS_BUSY);
    mdnn_memory_hurry(memory, true);
    pin(first);
    mdnn_memory_unpin(memory, first);
    second = allocate(3);
    mdnn_memory_hurry(memory, false);
    ok(operate(second, 0, MDNN_USE_READ));
    assert_int_equal(operate(first, 0, MDNN_USE_READ), MDNN_STATUS_BUSY);
    assert_int_equal(mdnn_memory_pin(memory, first, &start), MDNN_STATUS_BUSY);
    mdnn_memory_end(memory, &open, true);
    ok(operate(first, 0, MDNN_USE_READ));
}

/* Ranges leave for it, whose content is still there, and their chunks are nobody's any more. What
 * cannot leave stays, and nothing is sent away in vain. */
MEMORY_CASE(what_is_set_aside_sends_ranges_away, small_memory(8))
{
    const uint64_t first = allocate(3), second = allocate(3);
    touch(first, 0, 5);
    touch(second, 0, 6);
    ok(mdnn_memory_set_aside(memory, 4 * MODEL_CHUNK + 1));
    assert_true(model.chunks <= 3);
    model.aside_bytes = 4 * MODEL_CHUNK + 1;
    name_and_touch(first, 5, 7);
    name_and_touch(second, 6, 8);
    refused(operate(first, second, MDNN_USE_READ));
    pin(first);
    const uint64_t leaves = report().demand_leaves;
    refused(mdnn_memory_set_aside(memory, MODEL_CHUNK));
    refused(mdnn_memory_set_aside(memory, UINT64_MAX));
    assert_int_equal(report().demand_leaves, leaves);
    mdnn_memory_unpin(memory, first);
    mdnn_memory_give_back(memory, model.aside_bytes);
    model.aside_bytes = 0;
    ok(operate(first, second, MDNN_USE_READ));
    touch(second, 8, 8);
}

/* It counts, and what can make room does. */
MEMORY_CASE(what_is_there_already_counts_beyond_the_budget, small_memory(4))
{
    const uint64_t first = allocate(2);
    refused(mdnn_memory_set_aside(memory, 2 * MODEL_CHUNK + 1)); /* it could not come back */
    mdnn_memory_set_aside_all_the_same(memory, 3 * MODEL_CHUNK);
    assert_true(model.chunks <= 1);
    mdnn_memory_set_aside_all_the_same(memory, 3 * MODEL_CHUNK);
    assert_int_equal(report().other_bytes, 6 * MODEL_CHUNK);
    assert_int_equal(mdnn_memory_available(memory), 0);
    refuse(1);
    refused(mdnn_memory_set_aside(memory, 1));
    mdnn_memory_give_back(memory, 4 * MODEL_CHUNK);
    ok(operate(first, 0, MDNN_USE_READ));
}

/* A pool that is made then may take it all. */
MEMORY_CASE(all_is_free_when_nothing_is_alive, small_memory(4))
{
    const uint64_t first = allocate(2), second = allocate(1);
    ok(operate(first, second, MDNN_USE_READ));
    assert_int_equal(mdnn_memory_available(memory), MODEL_CHUNK);
    release(first);
    assert_int_equal(mdnn_memory_available(memory), 3 * MODEL_CHUNK);
    release(second);
    assert_int_equal(mdnn_memory_available(memory), 4 * MODEL_CHUNK);
}

MEMORY_CASE(what_is_set_aside_is_nobodys, small_memory(4))
{
    ok(mdnn_memory_set_aside(memory, MODEL_CHUNK + 1));
    assert_int_equal(report().resident_bytes, MODEL_CHUNK + 1);
    assert_int_equal(mdnn_memory_available(memory), 2 * MODEL_CHUNK);
    refuse(3 * MODEL_CHUNK);
    (void)allocate(2);
    ok(mdnn_memory_set_aside(memory, MODEL_CHUNK - 1));
    assert_int_equal(report().resident_bytes, 4 * MODEL_CHUNK);
    mdnn_memory_give_back(memory, 2 * MODEL_CHUNK);
    (void)allocate(2);
    assert_int_equal(report().peak_resident_bytes, 4 * MODEL_CHUNK);
}

/* Where everything is resident, and memory is not short; then nothing leaves before its end. */
MEMORY_CASE(work_that_nobody_knows_keeps_everything, small_memory(4))
{
    const uint64_t first = allocate(1), second = allocate(2);
    ok(operate(first, second, MDNN_USE_WRITE));
    settle();
    assert_true(mdnn_memory_untracked_begin(memory));
    enqueue(&model, 1, ITEM_OPERATION);
    mdnn_memory_untracked_end(memory, 1);
    const uint64_t waits = report().host_waits;
    const uint64_t third = allocate(2); /* the first or the second leaves */
    assert_int_equal(model.done[1], model.enqueued[1]);
    assert_int_equal(report().refused, 0);
    assert_true(report().host_waits > waits);
    assert_false(mdnn_memory_untracked_begin(memory)); /* something is away */
    ok(operate(third, 0, MDNN_USE_WRITE));
}

/* Whether it is over may be asked twice, and be answered differently. */
CASE(such_work_may_end_at_any_look)
{
    for (uint64_t seed = 1; seed <= few(60, 300); seed++) {
        small_memory(4);
        model.random = seed;
        model.runs_in = (uint32_t)(1 + seed % 6);
        (void)allocate(1);
        (void)allocate(2);
        assert_true(mdnn_memory_untracked_begin(memory));
        for (uint64_t i = 0; i < seed % 4 + 1; i++)
            enqueue(&model, 1, ITEM_OPERATION);
        mdnn_memory_untracked_end(memory, 1);
        (void)allocate(2); /* the first or the second leaves */
        assert_int_equal(report().refused, 0);
        end_memory();
    }
}

MEMORY_CASE(nothing_is_unmapped_while_such_work_is_begun, small_memory(8))
{
    const uint64_t first = allocate(3);
    assert_true(mdnn_memory_untracked_begin(memory));
    ok(operate_advised(&advisor.leave, first, MDNN_USE_WRITE));
    run_all(&model);
    mdnn_memory_progress(memory);
    assert_int_equal(report().planned_leaves, 1);
    assert_int_equal(report().unmapped, 0);
    mdnn_memory_untracked_end(memory, 0);
    settle();
    assert_int_equal(report().unmapped, 3);
}

/* As many streams as there are, each with such work; a failing wait in between forgets none. */
static void begin_untracked_everywhere(bool without_memory)
{
    small_memory(4);
    (void)allocate(1);
    (void)allocate(2);
    for (uint64_t queue = 0; queue < MODEL_QUEUES; queue++) {
        if (queue == MODEL_OUT || queue == MODEL_IN)
            continue;
        assert_true(mdnn_memory_untracked_begin(memory));
        enqueue(&model, queue, ITEM_OPERATION);
        fail_allocation_at = without_memory ? -1 : 0;
        model.fail_in = 1;
        mdnn_memory_untracked_end(memory, queue);
        model.fail_in = 0;
        fail_allocation_at = 0;
    }
}

CASE(such_work_is_waited_for_in_every_stream)
{
    for (uint64_t seed = 1; seed <= 50; seed++) { /* what is not waited for may be over by chance */
        begin_untracked_everywhere(false);
        model.random = seed;
        (void)allocate(2); /* the first or the second leaves */
        for (uint64_t queue = 0; queue < MODEL_QUEUES; queue++)
            if (queue != MODEL_OUT && queue != MODEL_IN)
                assert_int_equal(model.done[queue], model.enqueued[queue]);
        end_memory();
    }
}

/* `advisor` has everything leave, all but `keep` chunks; nothing has ended yet. */
static void leave_all(uint64_t keep)
{
    advisor.keep = keep * MODEL_CHUNK;
    ok(operate_advised(&advisor.leave, 0, MDNN_USE_READ));
}

MEMORY_CASE(what_leaves_in_part_and_then_whole_is_copied_once, small_memory(6))
{
    const uint64_t first = allocate_written(6, 5);
    leave_all(2);
    assert_int_equal(report().out_bytes, 4 * MODEL_CHUNK); /* under way */
    release(allocate(6));
    assert_int_equal(report().out_bytes, 6 * MODEL_CHUNK);
    name_and_touch(first, 5, 6);
}

/* A request that fails for want of host memory brings nothing back. */
MEMORY_CASE(a_part_that_cannot_leave_stays_as_it_is, memory_with_few_slots(8, 4))
{
    const uint64_t first = allocate_written(6, 5);
    leave_all(2);
    settle();
    refuse(8 * MODEL_CHUNK);
    settle();
    assert_int_equal(report().in_bytes, 0);
    assert_int_equal(report().host_bytes, 4 * MODEL_CHUNK);
    touch(first, 5, 6); /* it is mapped */
    ok(operate(first, 0, MDNN_USE_READ));
    touch(first + 5 * MODEL_CHUNK, 0, 7);
    touch(first, 6, 8);
}

/* Its first chunks are called back before their copies were begun. */
MEMORY_CASE(a_leave_that_ends_early_holds_no_host_memory_for_the_rest, small_memory(8))
{
    (void)allocate(6);
    model.copies_end = true;
    leave_all(0);
    assert_int_equal(report().host_bytes, 6 * MODEL_CHUNK);
    advisor.bytes[0] = 2 * MODEL_CHUNK;
    ok(operate_advised(&advisor.back, 0, MDNN_USE_READ));
    model.copies_end = false;
    settle();
    assert_int_equal(report().out_bytes, 4 * MODEL_CHUNK);
    assert_int_equal(report().host_bytes, 4 * MODEL_CHUNK);
}

/* What leaves may be used by work that waits for what the program does next. */
MEMORY_CASE(a_join_that_takes_too_long_is_given_up, small_memory(4))
{
    const uint64_t first = allocate(2);
    enqueue(&model, 0, ITEM_OPERATION);
    ok(operate(first, 0, MDNN_USE_WRITE));
    model.hasty_in = 1;
    advisor.join = 1;
    leave_all(0);
    model.hasty_in = 0;
    ok(operate(0, 0, MDNN_USE_READ));
    assert_int_equal(model.done[0], 0); /* nor was it waited for again */
    model.now_us += 1000e6;
    ok(operate(0, 0, MDNN_USE_READ));
    assert_int_equal(report().out_bytes, 2 * MODEL_CHUNK);
    assert_int_equal(model.done[MODEL_OUT], 2);
}

/* ---- streams that wait for what the program does next ---- */

static void begin_blocked(uint64_t stream)
{
    model.may_block = true;
    enqueue(&model, stream, ITEM_VALUE)->point = (mdnn_stream_point_t){0, 1};
}

static void end_blocked(void)
{
    model.values[0] = 1;
}

static mdnn_status_t operate_in(uint64_t address, uint64_t stream)
{
    const mdnn_memory_operand_t named = {address, MDNN_USE_WRITE};
    mdnn_memory_operation_t operation = {.operands = &named, .operand_count = 1, .stream = stream};
    const mdnn_status_t status = mdnn_memory_begin(memory, &operation);
    if (status != MDNN_STATUS_OK)
        return status;
    enqueue(&model, stream, ITEM_OPERATION);
    mdnn_memory_end(memory, &operation, true);
    return MDNN_STATUS_OK;
}

/* Others leave for what is allocated, and no stream is put behind the one that is blocked. */
MEMORY_CASE(what_a_blocked_stream_freed_is_not_handed_on, small_memory(4))
{
    const uint64_t first = allocate_in(2, 0), other = allocate_in(2, 1);
    ok(operate_in(other, 1));
    begin_blocked(0);
    ok(operate_in(first, 0));
    release(first);
    const uint64_t next = allocate_in(2, 1);
    assert_true(next != first);
    ok(operate_in(next, 1));
    assert_int_equal(model.stream_waits, 0);
    assert_int_equal(report().out_bytes, 2 * MODEL_CHUNK);
    assert_true(model.done[0] == 0 && model.values[0] == 0);
    end_blocked();
}

/* In its own stream, and in that in whose order it was freed, it serves as it is. */
CASE(what_a_stream_freed_serves_it_at_once)
{
    for (uint64_t stream = 0; stream < 2; stream++) {
        small_memory(4);
        const uint64_t first = allocate_in(2, 0), other = allocate_in(2, 1);
        begin_blocked(0);
        ok(operate_in(first, 0));
        ok(mdnn_memory_free(memory, first, stream));
        assert_true(allocate_in(2, stream) == first && first != other);
        assert_int_equal(report().host_waits, 0);
        end_blocked();
        end_memory();
    }
}

/* Where nothing else could leave it is handed on, in stream order. */
MEMORY_CASE(what_a_blocked_stream_freed_is_the_last_resort, small_memory(4))
{
    const uint64_t first = allocate_in(2, 0), other = allocate_in(2, 0);
    begin_blocked(0);
    ok(operate_in(first, 0));
    ok(operate_in(other, 0));
    release(first);
    assert_int_equal(allocate_in(2, 1), first); /* the other one cannot leave */
    assert_int_equal(model.stream_waits, 1);
    ok(mdnn_memory_free(memory, first, 1));
    release(other);
    const uint64_t waits = report().host_waits;
    (void)allocate_in(4, 2); /* there is nothing that could leave: so without a wait */
    assert_int_equal(report().host_waits, waits);
    end_blocked();
}

/* Another operation, in whose order a range that is away is to return; enqueued, but it has not
 * run. */
static void ask_back(uint64_t address)
{
    enqueue(&model, 0, ITEM_OPERATION);
    ok(operate_advised(&advisor.back, address, MDNN_USE_READ));
}

/* A planned return is waited for, unless that took too long; then not for a while. */
MEMORY_CASE(a_wait_for_a_return_that_is_given_up_is_tried_again_later, small_memory(5))
{
    const uint64_t other = allocate(1), first = allocate(2);
    ok(operate_advised(&advisor.leave, first, MDNN_USE_WRITE));
    settle();
    const uint64_t second = allocate(4); /* nothing else is left */
    enqueue(&model, 0, ITEM_OPERATION);
    ok(operate(second, 0, MDNN_USE_WRITE));
    release(second);
    model.hasty_in = 1;
    ask_back(other);
    model.hasty_in = 0;
    const uint64_t waits = model.waits, done = model.done[0];
    assert_true(done < model.enqueued[0]);
    ask_back(other);
    model.now_us += 99e6; /* a hundred seconds are not over: it waited for one at least */
    ask_back(other);
    assert_int_equal(model.waits, waits);
    assert_int_equal(model.done[0], done);
    model.now_us += 1000e6;
    ask_back(other);
    assert_true(model.waits > waits && model.done[0] > done);
    assert_true(model.done[0] < model.enqueued[0]); /* for what the device still works at */
}

/* Neither noted for want of memory, nor waited for. */
MEMORY_CASE(nothing_leaves_where_the_end_of_such_work_is_unknown, begin_untracked_everywhere(true))
{
    refuse(2 * MODEL_CHUNK);
    assert_int_equal(report().unmapped, 0);
}

/* It could not be served if it asked for more. */
MEMORY_CASE(such_work_needs_room, small_memory(8))
{
    (void)allocate(6);
    assert_true(mdnn_memory_untracked_begin(memory));
    mdnn_memory_untracked_end(memory, 0);
    (void)allocate(1);
    assert_false(mdnn_memory_untracked_begin(memory));
}

/* ---- tails ---- */

/* How many of the first `count` chunks are device memory, the first of which are. */
static uint64_t chunks_at(uint64_t address, uint64_t count)
{
    uint64_t there = 0;
    while (there < count && model.chunk_at[model_step(address) + there] != 0)
        there++;
    for (uint64_t i = there; i < count; i++)
        assert_int_equal(model.chunk_at[model_step(address) + i], 0);
    return there;
}

/* Its first word and its last. */
static void touch_ends(uint64_t address, uint64_t chunks, uint32_t expected, uint32_t written)
{
    touch(address, expected, written);
    touch(address + chunks * MODEL_CHUNK - 512, expected, written);
}

MEMORY_CASE(an_operation_above_the_budget_reaches_the_rest_on_the_host, tailed_memory(4))
{
    const uint64_t first = allocate(3), second = allocate(3);
    ok(operate(first, 0, MDNN_USE_UNKNOWN));
    touch_ends(first, 3, 0, 5);
    ok(operate(second, 0, MDNN_USE_UNKNOWN));
    touch_ends(second, 3, 0, 6);
    for (uint32_t i = 0; i < 3; i++) {
        ok(operate(first, second, MDNN_USE_UNKNOWN));
        touch_ends(first, 3, 5 + i, 6 + i);
        touch_ends(second, 3, 6 + i, 7 + i);
        assert_int_equal(chunks_at(first, 3) + chunks_at(second, 3), 4);
    }
    assert_int_equal(mdnn_memory_tails(memory)->operations, 3);
    assert_int_equal(mdnn_memory_tails(memory)->bytes, 3 * 2 * MODEL_CHUNK);
    assert_int_equal(report().smallest_budget_bytes, MODEL_CHUNK);
    assert_int_equal(report().whole_budget_bytes, 6 * MODEL_CHUNK);
    assert_int_equal(report().peak_resident_bytes, 4 * MODEL_CHUNK);
}

/* Nothing moves between two of the same, and what fits alone comes back. */
MEMORY_CASE(a_tail_stays_until_its_range_has_room, tailed_memory(4))
{
    const uint64_t first = allocate(3), second = allocate(3);
    ok(operate(first, second, MDNN_USE_UNKNOWN));
    settle();
    const uint64_t out = report().out_bytes, in = report().in_bytes;
    ok(operate(first, second, MDNN_USE_UNKNOWN));
    assert_int_equal(report().out_bytes + report().in_bytes, out + in);
    ok(operate(first, 0, MDNN_USE_UNKNOWN));
    assert_int_equal(chunks_at(first, 3), 3);
    release(first);
    ok(operate(second, 0, MDNN_USE_UNKNOWN));
    assert_int_equal(chunks_at(second, 3), 3);
    settle();
    assert_int_equal(report().host_bytes, 0);
}

MEMORY_CASE(an_allocation_above_the_budget_has_a_tail, tailed_memory(4))
{
    const uint64_t first = allocate(6);
    ok(operate(first, 0, MDNN_USE_WRITE));
    touch_ends(first, 6, 0, 5);
    assert_int_equal(chunks_at(first, 6), 4);
    const uint64_t second = allocate(4); /* all others leave */
    ok(operate(second, 0, MDNN_USE_WRITE));
    ok(operate(first, 0, MDNN_USE_READ));
    touch_ends(first, 6, 5, 6);
    release(first);
    release(second);
    settle();
    assert_int_equal(report().host_bytes, 0);
    assert_int_equal(report().refused, 0);
}

/* A smaller one will do. */
MEMORY_CASE(a_workspace_above_the_budget_is_refused, tailed_memory(4))
{
    uint64_t address;
    refused(mdnn_memory_allocate_workspace(memory, 5 * MODEL_CHUNK, 0, &address));
    ok(mdnn_memory_allocate_workspace(memory, 4 * MODEL_CHUNK, 0, &address));
}

MEMORY_CASE(the_workspace_is_the_last_to_have_a_tail, tailed_memory(6))
{
    const uint64_t operand = allocate(3), workspace = allocate(5);
    const mdnn_memory_operand_t named[] = {{operand, MDNN_USE_READ}, {workspace, MDNN_USE_UNKNOWN}};
    ok(run(
        (mdnn_memory_operation_t){.operands = named, .operand_count = 2, .workspace = workspace}));
    assert_int_equal(chunks_at(workspace, 5), 5);
    assert_int_equal(chunks_at(operand, 3), 1);
}

/* It is read many times; what is only written is written once. */
MEMORY_CASE(the_input_of_a_convolution_has_a_tail_after_its_output, tailed_memory(6))
{
    const uint64_t x = allocate(5), y = allocate(3), z = allocate(4);
    const mdnn_memory_operand_t named[] = {{x, MDNN_USE_UNKNOWN}, {y, MDNN_USE_UNKNOWN}};
    ok(run((mdnn_memory_operation_t){
        .operands = named, .operand_count = 2, .kind = MDNN_OPERATION_FORWARD}));
    assert_int_equal(chunks_at(x, 5), 5);
    assert_int_equal(chunks_at(y, 3), 1);
    const mdnn_memory_operand_t copied[] = {{z, MDNN_USE_READ}, {y, MDNN_USE_WRITE}};
    ok(run((mdnn_memory_operation_t){.operands = copied, .operand_count = 2}));
    assert_int_equal(chunks_at(z, 4), 4);
}

MEMORY_CASE(what_is_only_written_has_a_tail_before_what_is_read, tailed_memory(6))
{
    const uint64_t x = allocate(5), y = allocate(3);
    const mdnn_memory_operand_t named[] = {{x, MDNN_USE_READ}, {y, MDNN_USE_WRITE}};
    ok(run((mdnn_memory_operation_t){.operands = named, .operand_count = 2}));
    assert_int_equal(chunks_at(x, 5), 5);
    assert_int_equal(chunks_at(y, 3), 1);
}

/* One border, not two. */
MEMORY_CASE(the_largest_range_has_a_tail_first, tailed_memory(4))
{
    const uint64_t first = allocate(2), second = allocate(4);
    ok(operate(first, second, MDNN_USE_UNKNOWN));
    assert_int_equal(chunks_at(first, 2), 2);
    assert_int_equal(chunks_at(second, 4), 2);
}

/* To move it costs as much as to use it. */
MEMORY_CASE(a_tail_stays_where_it_is_though_another_would_be_chosen, tailed_memory(4))
{
    const uint64_t x = allocate(3), y = allocate(3);
    const mdnn_memory_operand_t there[] = {{x, MDNN_USE_READ}, {y, MDNN_USE_WRITE}};
    const mdnn_memory_operand_t back[] = {{x, MDNN_USE_WRITE}, {y, MDNN_USE_READ}};
    ok(run((mdnn_memory_operation_t){.operands = there, .operand_count = 2}));
    ok(run((mdnn_memory_operation_t){.operands = back, .operand_count = 2}));
    assert_int_equal(chunks_at(x, 3), 3);
    assert_int_equal(chunks_at(y, 3), 1);
}

/* A kernel still reaches it when it is to come back. */
MEMORY_CASE(a_tail_comes_back_when_its_uses_are_over, tailed_memory(4))
{
    const uint64_t first = allocate(6), second = allocate(4);
    const mdnn_memory_operand_t named = {first, MDNN_USE_WRITE};
    mdnn_memory_operation_t operation = {.operands = &named, .operand_count = 1};
    ok(mdnn_memory_begin(memory, &operation));
    item_t *const item = enqueue(&model, 0, ITEM_OPERATION);
    item->touch_count = 1;
    item->touches[0] = (touch_t){first + 5 * MODEL_CHUNK, 1, true, false, true, {0}, {7}};
    mdnn_memory_end(memory, &operation, true);
    ok(mdnn_memory_set_aside(memory, MODEL_CHUNK)); /* it is divided anew */
    model.aside_bytes = MODEL_CHUNK;
    ok(operate(first, second, MDNN_USE_WRITE));
    touch(first + 5 * MODEL_CHUNK, 7, 8);
    mdnn_memory_give_back(memory, MODEL_CHUNK);
    model.aside_bytes = 0;
    ok(operate(second, 0, MDNN_USE_READ));
    assert_int_equal(chunks_at(second, 4), 4);
}

/* Its replays name nothing, and find what the capture found. */
MEMORY_CASE(what_a_graph_captures_has_no_tail, tailed_memory(4))
{
    const uint64_t first = allocate(6), second = allocate(2), third = allocate(3);
    uint64_t start;
    refused(capture(first));
    refused(mdnn_memory_pin(memory, first, &start));
    ok(capture(second));
    ok(operate(first, second, MDNN_USE_UNKNOWN));
    assert_int_equal(chunks_at(second, 2), 2);
    ok(operate(second, third, MDNN_USE_WRITE));
    assert_int_equal(chunks_at(second, 2) + chunks_at(third, 3), 4);
    mdnn_memory_unpin(memory, second);
}

/* Between begin and end its mappings do not change, whatever else names it. */
MEMORY_CASE(a_tail_that_an_open_operation_names_stays_as_it_is, tailed_memory(4))
{
    const uint64_t first = allocate(6);
    const mdnn_memory_operand_t named = {first, MDNN_USE_WRITE};
    mdnn_memory_operation_t open = {.operands = &named, .operand_count = 1};
    ok(mdnn_memory_begin(memory, &open));
    const uint64_t second = allocate(6);
    ok(operate(first, second, MDNN_USE_WRITE));
    ok(operate_advised(&advisor.back, second, MDNN_USE_WRITE));
    settle();
    assert_int_equal(chunks_at(first, 6), 4);
    assert_int_equal(chunks_at(second, 6), 0);
    mdnn_memory_end(memory, &open, false);
}

MEMORY_CASE(slabs_have_room_beside_what_has_a_tail,
            memory_with_tails(4, MODEL_SLOTS, MDNN_SAFETY_FAST, MODEL_CHUNK / 2))
{
    const uint64_t large = allocate(6);
    ok(operate(large, 0, MDNN_USE_WRITE));
    assert_true(allocate_bytes(100, 0) >= MODEL_BASE + MODEL_STEPS / 2 * MODEL_CHUNK);
    ok(operate(large, 0, MDNN_USE_WRITE));
    assert_int_equal(chunks_at(large, 6), 3);
}

/* It comes back in each iteration. */
MEMORY_CASE(a_slab_that_is_not_there_now_has_room_beside_what_has_a_tail,
            memory_with_tails(4, MODEL_SLOTS, MDNN_SAFETY_FAST, MODEL_CHUNK / 2))
{
    const uint64_t small = allocate_bytes(100, 0), first = allocate(2), second = allocate(7);
    ok(operate(first, 0, MDNN_USE_WRITE));
    release(small);
    settle();
    ok(operate(second, 0, MDNN_USE_WRITE));
    assert_int_equal(chunks_at(second, 7), 3);
}

static uint64_t covered_at(uint64_t address, uint64_t count)
{
    uint64_t covered = 0;
    for (uint64_t i = 0; i < count; i++)
        covered += model.slot_at[model_step(address) + i] != 0;
    return covered;
}

/* The operation is refused, and the next one finds what there was. */
MEMORY_CASE(a_tail_that_cannot_be_mapped_is_none, tailed_memory(4))
{
    const uint64_t first = allocate_written(4, 5), second = allocate(7);
    model.covers_end = true;
    model.covers_left = 2;
    assert_int_equal(operate(second, 0, MDNN_USE_WRITE), MDNN_STATUS_DEVICE);
    assert_int_equal(covered_at(second, 7), 0);
    name_and_touch(first, 5, 6);
    model.covers_end = false;
    ok(operate(second, 0, MDNN_USE_WRITE));
    touch_ends(second, 7, 0, 7);
    name_and_touch(first, 6, 7);
}

/* An operation that is larger than the budget has a tail whenever it comes, so no room is kept for it. */
MEMORY_CASE(after_what_has_a_tail_memory_is_free, tailed_memory(8))
{
    const uint64_t small = allocate_written(3, 5);
    name_and_touch(small, 5, 6);
    const uint64_t large = allocate(11);
    ok(operate(large, 0, MDNN_USE_WRITE));
    release(large);
    settle();
    (void)allocate(4); /* so much lives that an operation could name as much again */
    (void)allocate(4);
    assert_int_equal(mdnn_memory_available(memory), 5 * MODEL_CHUNK);
    const uint64_t whole = allocate(8);
    ok(operate(whole, 0, MDNN_USE_WRITE));
    assert_int_equal(mdnn_memory_available(memory), 0);
    name_and_touch(small, 6, 7);
}

/* The next workspace takes the place of the last one, which may be gone: PyTorch's search for a convolution tries
 * workspaces as large as there is memory. */
MEMORY_CASE(a_workspace_takes_no_room_from_the_next_one, tailed_memory(8))
{
    const uint64_t x = allocate(2), workspace = allocate(6);
    const mdnn_memory_operand_t operands[] = {{x, MDNN_USE_READ}, {workspace, MDNN_USE_WRITE}};
    mdnn_memory_operation_t operation = {
        .operands = operands, .operand_count = 2, .workspace = workspace};
    ok(mdnn_memory_begin(memory, &operation));
    mdnn_memory_end(memory, &operation, true);
    /* It may be used again, beside what is made now. */
    assert_int_equal(mdnn_memory_available(memory), 0);
    release(workspace);
    (void)allocate(4);
    assert_int_equal(mdnn_memory_available(memory), 6 * MODEL_CHUNK);
    ok(operate(x, allocate(6), MDNN_USE_WRITE)); /* not as a workspace */
    assert_int_equal(mdnn_memory_available(memory), 0);
}

/* What is stuck is taken anyhow: of an operation that names it only the rest has to have room. */
MEMORY_CASE(room_is_kept_beside_what_is_pinned, tailed_memory(8))
{
    const uint64_t pinned = allocate(4), movable = allocate(3);
    pin(pinned);
    ok(operate(pinned, movable, MDNN_USE_WRITE));
    assert_int_equal(mdnn_memory_available(memory), MODEL_CHUNK);
    (void)allocate(1);
    const uint64_t more = allocate(1); /* now that operation has a tail whenever it comes */
    pin(more);
    pin(allocate(1));
    assert_int_equal(mdnn_memory_available(memory), 2 * MODEL_CHUNK);
}

MEMORY_CASE(a_tail_that_has_not_all_of_its_host_memory_takes_none, tailed_memory(4))
{
    const uint64_t first = allocate(7);
    model.slot_limit = 2;
    refused(operate(first, 0, MDNN_USE_WRITE));
    assert_int_equal(report().host_bytes, 0);
    model.slot_limit = 3;
    ok(operate(first, 0, MDNN_USE_WRITE));
}

/* What is enqueued still reaches it. */
MEMORY_CASE(tails_stay_when_not_all_can_be_served, tailed_memory(4))
{
    const uint64_t first = allocate(6);
    ok(operate(first, 0, MDNN_USE_WRITE));
    touch_ends(first, 6, 0, 5);
    advisor.first_use = MDNN_FIRST_USE_LATER;
    (void)allocate(3);
    model.slot_limit = 3;
    assert_int_equal(mdnn_memory_serve_all(memory), MDNN_STATUS_OUT_OF_MEMORY);
    assert_int_equal(covered_at(first, 6), 2);
    touch_ends(first, 6, 5, 6);
}

/* What the program can do without is none of it. */
MEMORY_CASE(optional_memory_of_others_makes_no_tails, tailed_memory(6))
{
    const uint64_t first = allocate(4), second = allocate(8);
    ok(operate(first, 0, MDNN_USE_WRITE));
    ok(operate(second, 0, MDNN_USE_WRITE));
    refused(mdnn_memory_set_aside_optional(memory, 3 * MODEL_CHUNK));
    ok(mdnn_memory_set_aside_optional(memory, 2 * MODEL_CHUNK));
    model.aside_bytes = 2 * MODEL_CHUNK;
    ok(mdnn_memory_set_aside(memory, 3 * MODEL_CHUNK));
    model.aside_bytes = 5 * MODEL_CHUNK;
    ok(operate(first, second, MDNN_USE_WRITE));
    assert_int_equal(chunks_at(first, 4) + chunks_at(second, 8), 1);
}

/* Only what is named is to be mapped. */
MEMORY_CASE(verify_has_no_tails, memory_with_tails(4, MODEL_SLOTS, MDNN_SAFETY_VERIFY, 0))
{
    const uint64_t first = allocate(3), second = allocate(3);
    refused(operate(first, second, MDNN_USE_UNKNOWN));
    refuse(5 * MODEL_CHUNK);
}

/* Refused, and nothing is lost. */
MEMORY_CASE(tails_end_with_host_memory, memory_with_tails(4, 5, MDNN_SAFETY_FAST, 0))
{
    const uint64_t first = allocate_written(4, 5);
    refuse(6 * MODEL_CHUNK);
    const uint64_t second = allocate(5);
    model.slot_limit = 3;
    refused(operate(second, 0, MDNN_USE_UNKNOWN));
    assert_true(report().host_short > 0);
    name_and_touch(first, 5, 6);
    model.slot_limit = 5;
    ok(operate(second, 0, MDNN_USE_UNKNOWN));
    name_and_touch(first, 6, 7);
}

/* The history has what of it can be planned for. */
MEMORY_CASE(what_has_a_tail_is_none_of_a_plans, tailed_memory(4))
{
    const uint64_t first = allocate(6), second = allocate(2);
    advisor.recorded_uses = 0;
    ok(operate(first, second, MDNN_USE_UNKNOWN));
    assert_int_equal(advisor.recorded_uses, 1);
    assert_int_equal(advisor.workspace_bytes, 2 * MODEL_CHUNK);
}

MEMORY_CASE(the_largest_tails_are_known_by_name, tailed_memory(4))
{
    const uint64_t first = allocate(6);
    const mdnn_memory_operand_t named = {first, MDNN_USE_WRITE};
    for (uint64_t i = 0; i < 3 * MDNN_MEMORY_TAILS; i++)
        ok(run((mdnn_memory_operation_t){.operands = &named,
                                         .operand_count = 1,
                                         .key = i % 10,
                                         .name = i % 10 == 3 ? "softmax" : "other"}));
    const mdnn_memory_tails_t *const tails_now = mdnn_memory_tails(memory);
    assert_int_equal(tails_now->operations, 3 * MDNN_MEMORY_TAILS);
    assert_int_equal(tails_now->largest[3].key, 3);
    assert_int_equal(tails_now->largest[3].count, 3);
    assert_int_equal(tails_now->largest[3].bytes, 2 * MODEL_CHUNK);
    assert_string_equal(tails_now->largest[3].name, "softmax");
}

MEMORY_CASE(wrong_arguments_are_refused, small_memory(4))
{
    mdnn_memory_t *none = NULL;
    const mdnn_memory_config_t wrong = {.ranges = {MODEL_BASE, 1, MODEL_CHUNK, 0}};
    uint64_t address, bytes;
    assert_int_equal(mdnn_memory_create(&wrong, &model_device, &model, &none),
                     MDNN_STATUS_INVALID_ARGUMENT);
    assert_null(none);
    mdnn_memory_destroy(NULL);
    assert_int_equal(mdnn_memory_allocate(memory, 0, 0, &address), MDNN_STATUS_INVALID_ARGUMENT);
    assert_int_equal(mdnn_memory_allocate(memory, UINT64_MAX, 0, &address), MDNN_STATUS_OVERFLOW);
    assert_int_equal(report().refused, 1);
    assert_int_equal(mdnn_memory_free(memory, MODEL_BASE, 0), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_memory_pin(memory, 5, &address), MDNN_STATUS_NOT_FOUND);
    assert_int_equal(mdnn_memory_wait_idle(memory, 5), MDNN_STATUS_NOT_FOUND);
    assert_false(mdnn_memory_find(memory, MODEL_BASE, &address, &bytes));
    mdnn_memory_unpin(memory, 5);
}

int main(void)
{
    cmocka_set_test_filter(getenv("MEMORY_TEST_ONLY"));
    return run_cases("memory");
}
