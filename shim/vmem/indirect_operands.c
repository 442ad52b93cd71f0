#include "shim/vmem/indirect_operands.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/lock.h"

/* initial-exec: see shim/real/process.c. */
static _Thread_local mdnn_indirect_operands_t *innermost __attribute__((tls_model("initial-exec")));

static mdnn_lock_t lock = MDNN_LOCK_INIT(OPERANDS); /* of `published` */
static mdnn_indirect_operands_t published;
static _Atomic bool any_published;
static uint64_t ticks; /* calls begin and come back, in this order */

/* ---- lists ---- */

static bool make_room(mdnn_indirect_operands_t *operands)
{
    if (operands->count < operands->capacity)
        return true;
    const size_t capacity = operands->capacity > 0 ? 2 * operands->capacity : 16;
    mdnn_indirect_operand_t *const grown = reallocarray(operands->names, capacity, sizeof *grown);
    if (!grown) {
        operands->lost = true;
        return false;
    }
    operands->names = grown;
    operands->capacity = capacity;
    return true;
}

void mdnn_indirect_add(mdnn_indirect_operands_t *operands, uint64_t address, mdnn_use_role_t role,
                       const void *owner)
{
    if (mdnn_virtual_owns(address) && make_room(operands))
        operands->names[operands->count++] = (mdnn_indirect_operand_t){address, role, owner, 0, 0};
}

void mdnn_indirect_clear(mdnn_indirect_operands_t *operands)
{
    free(operands->names);
    *operands = (mdnn_indirect_operands_t){.outer = operands->outer};
}

void mdnn_indirect_enter(mdnn_indirect_operands_t *operands)
{
    operands->outer = innermost;
    innermost = operands;
}

void mdnn_indirect_leave(mdnn_indirect_operands_t *operands)
{
    innermost = operands->outer;
}

/* ---- launches ---- */

static void name_list(mdnn_virtual_operation_t *operation, const mdnn_indirect_operands_t *operands)
{
    for (size_t i = 0; i < operands->count; i++)
        mdnn_virtual_name(operation, operands->names[i].address, operands->names[i].role);
    operation->overflowed = operation->overflowed || operands->lost;
}

/* Mangled, as a rule. */
static bool is_of_nccl(const mdnn_virtual_operation_t *operation)
{
    return operation->name && strstr(operation->name, "nccl");
}

void mdnn_indirect_name(mdnn_virtual_operation_t *operation)
{
    for (const mdnn_indirect_operands_t *operands = innermost; operands; operands = operands->outer)
        name_list(operation, operands);
    if (innermost || !atomic_load_explicit(&any_published, memory_order_acquire) ||
        !is_of_nccl(operation))
        return;
    mdnn_lock(&lock);
    name_list(operation, &published);
    mdnn_unlock(&lock);
}

/* ---- for other threads ---- */

static void publish_one(const mdnn_indirect_operand_t *name, uint64_t call)
{
    const size_t before = published.count;
    mdnn_indirect_add(&published, name->address, name->role, name->owner);
    if (published.count > before)
        published.names[before].call = call;
}

void mdnn_indirect_publish(mdnn_indirect_operands_t *operands)
{
    if (operands->published == operands->count)
        return;
    mdnn_lock(&lock);
    if (operands->call == 0)
        operands->call = ++ticks;
    for (; operands->published < operands->count; operands->published++)
        publish_one(&operands->names[operands->published], operands->call);
    atomic_store_explicit(&any_published, true, memory_order_release);
    mdnn_unlock(&lock);
}

typedef struct over {
    uint64_t first, last; /* calls */
    uint64_t returned;    /* at that tick at the latest */
} over_t;

static bool is_over(const mdnn_indirect_operand_t *name, const over_t *over)
{
    return name->call >= over->first && name->call <= over->last &&
           (over->returned == UINT64_MAX ||
            (name->returned > 0 && name->returned <= over->returned));
}

static void withdraw(const void *owner, const over_t *over)
{
    size_t kept = 0;
    mdnn_lock(&lock);
    for (size_t i = 0; i < published.count; i++)
        if (published.names[i].owner != owner || !is_over(&published.names[i], over))
            published.names[kept++] = published.names[i];
    published.count = kept;
    published.lost = published.lost && kept > 0;
    atomic_store_explicit(&any_published, kept > 0, memory_order_release);
    mdnn_unlock(&lock);
}

/* What the call left is there to be asked about. */
static void mark_returned(uint64_t call)
{
    mdnn_lock(&lock);
    const uint64_t now = ++ticks;
    for (size_t i = 0; i < published.count; i++)
        if (published.names[i].call == call)
            published.names[i].returned = now;
    mdnn_unlock(&lock);
}

void mdnn_indirect_settle(const mdnn_indirect_operands_t *operands, mdnn_indirect_outcome_t outcome)
{
    const over_t over = {
        .first = outcome == MDNN_INDIRECT_REFUSED ? operands->call : 0,
        .last = outcome == MDNN_INDIRECT_LATER ? operands->call - 1 : operands->call,
        .returned = UINT64_MAX,
    };
    for (size_t i = 0; i < operands->published; i++)
        if (i == 0 || operands->names[i].owner != operands->names[i - 1].owner)
            withdraw(operands->names[i].owner, &over);
    if (outcome == MDNN_INDIRECT_LATER && operands->published > 0)
        mark_returned(operands->call);
}

uint64_t mdnn_indirect_tick(void)
{
    if (!atomic_load_explicit(&any_published, memory_order_acquire))
        return 0;
    mdnn_lock(&lock);
    const uint64_t now = ticks;
    mdnn_unlock(&lock);
    return now;
}

void mdnn_indirect_done(const void *owner, uint64_t tick)
{
    if (tick > 0)
        withdraw(owner, &(over_t){.last = UINT64_MAX, .returned = tick});
}

void mdnn_indirect_end(const void *owner)
{
    if (atomic_load_explicit(&any_published, memory_order_acquire))
        withdraw(owner, &(over_t){.last = UINT64_MAX, .returned = UINT64_MAX});
}
