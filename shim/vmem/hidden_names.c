#include "shim/vmem/hidden_names.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "config/lock.h"

/* initial-exec: see shim/real/process.c. */
static _Thread_local mdnn_hidden_t *innermost __attribute__((tls_model("initial-exec")));

static mdnn_lock_t lock = MDNN_LOCK_INIT(OPERANDS); /* of `published` */
static mdnn_hidden_t published;
static _Atomic bool any_published;
static uint64_t moments; /* calls begin and come back, in this order */

/* ---- lists ---- */

static bool make_room(mdnn_hidden_t *hidden)
{
    if (hidden->count < hidden->capacity)
        return true;
    const size_t capacity = hidden->capacity > 0 ? 2 * hidden->capacity : 16;
    mdnn_hidden_name_t *const grown = reallocarray(hidden->names, capacity, sizeof *grown);
    if (!grown) {
        hidden->lost = true;
        return false;
    }
    hidden->names = grown;
    hidden->capacity = capacity;
    return true;
}

void mdnn_hidden_add(mdnn_hidden_t *hidden, uint64_t address, mdnn_use_role_t role,
                     const void *owner)
{
    if (mdnn_virtual_owns(address) && make_room(hidden))
        hidden->names[hidden->count++] = (mdnn_hidden_name_t){address, role, owner, 0, 0};
}

void mdnn_hidden_clear(mdnn_hidden_t *hidden)
{
    free(hidden->names);
    *hidden = (mdnn_hidden_t){.outer = hidden->outer};
}

void mdnn_hidden_enter(mdnn_hidden_t *hidden)
{
    hidden->outer = innermost;
    innermost = hidden;
}

void mdnn_hidden_leave(mdnn_hidden_t *hidden)
{
    innermost = hidden->outer;
}

/* ---- launches ---- */

static void name_list(mdnn_virtual_operation_t *operation, const mdnn_hidden_t *hidden)
{
    for (size_t i = 0; i < hidden->count; i++)
        mdnn_virtual_name(operation, hidden->names[i].address, hidden->names[i].role);
    operation->overflowed = operation->overflowed || hidden->lost;
}

/* Mangled, as a rule. */
static bool is_of_nccl(const mdnn_virtual_operation_t *operation)
{
    return operation->name && strstr(operation->name, "nccl");
}

void mdnn_hidden_name(mdnn_virtual_operation_t *operation)
{
    for (const mdnn_hidden_t *hidden = innermost; hidden; hidden = hidden->outer)
        name_list(operation, hidden);
    if (innermost || !atomic_load_explicit(&any_published, memory_order_acquire) ||
        !is_of_nccl(operation))
        return;
    mdnn_lock(&lock);
    name_list(operation, &published);
    mdnn_unlock(&lock);
}

/* ---- for other threads ---- */

static void publish_one(const mdnn_hidden_name_t *name, uint64_t call)
{
    const size_t before = published.count;
    mdnn_hidden_add(&published, name->address, name->role, name->owner);
    if (published.count > before)
        published.names[before].call = call;
}

void mdnn_hidden_publish(mdnn_hidden_t *hidden)
{
    if (hidden->published == hidden->count)
        return;
    mdnn_lock(&lock);
    if (hidden->call == 0)
        hidden->call = ++moments;
    for (; hidden->published < hidden->count; hidden->published++)
        publish_one(&hidden->names[hidden->published], hidden->call);
    atomic_store_explicit(&any_published, true, memory_order_release);
    mdnn_unlock(&lock);
}

typedef struct over {
    uint64_t first, last; /* calls */
    uint64_t returned;    /* at that moment at the latest */
} over_t;

static bool is_over(const mdnn_hidden_name_t *name, const over_t *over)
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
    const uint64_t now = ++moments;
    for (size_t i = 0; i < published.count; i++)
        if (published.names[i].call == call)
            published.names[i].returned = now;
    mdnn_unlock(&lock);
}

void mdnn_hidden_settle(const mdnn_hidden_t *hidden, mdnn_hidden_outcome_t outcome)
{
    const over_t over = {
        .first = outcome == MDNN_HIDDEN_REFUSED ? hidden->call : 0,
        .last = outcome == MDNN_HIDDEN_LATER ? hidden->call - 1 : hidden->call,
        .returned = UINT64_MAX,
    };
    for (size_t i = 0; i < hidden->published; i++)
        if (i == 0 || hidden->names[i].owner != hidden->names[i - 1].owner)
            withdraw(hidden->names[i].owner, &over);
    if (outcome == MDNN_HIDDEN_LATER && hidden->published > 0)
        mark_returned(hidden->call);
}

uint64_t mdnn_hidden_moment(void)
{
    if (!atomic_load_explicit(&any_published, memory_order_acquire))
        return 0;
    mdnn_lock(&lock);
    const uint64_t now = moments;
    mdnn_unlock(&lock);
    return now;
}

void mdnn_hidden_done(const void *owner, uint64_t moment)
{
    if (moment > 0)
        withdraw(owner, &(over_t){.last = UINT64_MAX, .returned = moment});
}

void mdnn_hidden_end(const void *owner)
{
    if (atomic_load_explicit(&any_published, memory_order_acquire))
        withdraw(owner, &(over_t){.last = UINT64_MAX, .returned = UINT64_MAX});
}
