#include "offload/memory/captures.h"

#include <stdlib.h>
#include <string.h>

/* Allocations that live and go together; one for a graph, its clones and executables. */
typedef struct group {
    size_t holders;
    mdnn_held_t *held; /* each allocation once */
    size_t count, capacity;
} group_t;

typedef struct holder {
    mdnn_holder_kind_t kind;
    uint64_t id;
    group_t *group;
    bool frees_on_launch;
} holder_t;

typedef struct part {
    mdnn_graph_t part, whole;
} part_t;

struct mdnn_captures {
    holder_t *holders;
    size_t holder_count, holder_capacity;
    mdnn_capture_t *under_way;
    size_t capture_count, capture_capacity;
    part_t *parts;
    size_t part_count, part_capacity;
};

/* Room for one more item. */
static bool reserve(void **items, size_t count, size_t *capacity, size_t item_bytes)
{
    if (count < *capacity)
        return true;
    const size_t grown = *capacity > 0 ? 2 * *capacity : 8;
    void *const moved = realloc(*items, grown * item_bytes);
    if (!moved)
        return false;
    *items = moved;
    *capacity = grown;
    return true;
}

/* There is room for a few captures from the beginning: one that could not be remembered for want of
 * memory would let go of nothing if it failed. */
mdnn_captures_t *mdnn_captures_create(void)
{
    mdnn_captures_t *const captures = calloc(1, sizeof *captures);
    void *items = NULL;
    if (captures && reserve(&items, 0, &captures->capture_capacity, sizeof *captures->under_way)) {
        captures->under_way = items;
        return captures;
    }
    free(captures);
    return NULL;
}

void mdnn_captures_destroy(mdnn_captures_t *captures)
{
    if (!captures)
        return;
    while (captures->holder_count > 0) {
        const holder_t *const last = &captures->holders[captures->holder_count - 1];
        size_t count;
        free(mdnn_captures_release(captures, last->kind, last->id, &count));
    }
    free(captures->holders);
    free(captures->under_way);
    free(captures->parts);
    free(captures);
}

/* ---- holders ---- */

static holder_t *find_holder(const mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id)
{
    for (size_t i = 0; i < captures->holder_count; i++)
        if (captures->holders[i].id == id && captures->holders[i].kind == kind)
            return &captures->holders[i];
    return NULL;
}

static bool add_holder(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                       group_t *group)
{
    void *items = captures->holders;
    if (!reserve(&items, captures->holder_count, &captures->holder_capacity, sizeof(holder_t)))
        return false;
    captures->holders = items;
    captures->holders[captures->holder_count++] = (holder_t){kind, id, group, false};
    group->holders++;
    return true;
}

static group_t *group_of(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id)
{
    const holder_t *const holder = find_holder(captures, kind, id);
    if (holder)
        return holder->group;
    group_t *const group = calloc(1, sizeof *group);
    if (group && !add_holder(captures, kind, id, group)) {
        free(group);
        return NULL;
    }
    return group;
}

static mdnn_held_t *find_held(const group_t *group, uint64_t address)
{
    for (size_t i = group->count; i-- > 0;) /* named again soon, as a rule */
        if (group->held[i].address == address)
            return &group->held[i];
    return NULL;
}

mdnn_status_t mdnn_captures_hold(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                 mdnn_held_t what)
{
    group_t *const group = group_of(captures, kind, id);
    if (!group)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_held_t *const known = find_held(group, what.address);
    if (known) {
        known->by_hand = known->by_hand && what.by_hand;
        known->made = known->made || what.made;
        known->ended = known->ended || what.ended;
        return MDNN_STATUS_BUSY;
    }
    void *items = group->held;
    if (!reserve(&items, group->count, &group->capacity, sizeof what))
        return MDNN_STATUS_OUT_OF_MEMORY;
    group->held = items;
    group->held[group->count++] = what;
    return MDNN_STATUS_OK;
}

static void drop(group_t *group, const mdnn_held_t *held)
{
    group->held[held - group->held] = group->held[--group->count];
}

bool mdnn_captures_unhold(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                          uint64_t address)
{
    const holder_t *const holder = find_holder(captures, kind, id);
    const mdnn_held_t *const held = holder ? find_held(holder->group, address) : NULL;
    if (held)
        drop(holder->group, held);
    return held != NULL;
}

mdnn_held_t *mdnn_captures_find(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                uint64_t address)
{
    const holder_t *const holder = find_holder(captures, kind, id);
    return holder ? find_held(holder->group, address) : NULL;
}

bool mdnn_captures_frees_on_launch(const mdnn_captures_t *captures, uint64_t executable)
{
    const holder_t *const holder = find_holder(captures, MDNN_HOLDER_EXECUTABLE, executable);
    return holder && holder->frees_on_launch;
}

void mdnn_captures_set_frees_on_launch(mdnn_captures_t *captures, uint64_t executable, bool frees)
{
    holder_t *const holder = find_holder(captures, MDNN_HOLDER_EXECUTABLE, executable);
    if (holder)
        holder->frees_on_launch = frees;
}

bool mdnn_captures_is_made(const mdnn_captures_t *captures, uint64_t address)
{
    bool made = false;
    for (size_t i = 0; !made && i < captures->holder_count; i++) {
        const mdnn_held_t *const held = find_held(captures->holders[i].group, address);
        made = held && held->made;
    }
    return made;
}

/* What a graph made is not out any more. */
static void take_in(mdnn_captures_t *captures, uint64_t address)
{
    for (size_t i = 0; i < captures->holder_count; i++) {
        mdnn_held_t *const held = find_held(captures->holders[i].group, address);
        if (held)
            held->out = false;
    }
}

/* A group is visited once per holder; the second time it has lost the allocation already. */
size_t mdnn_captures_freed(mdnn_captures_t *captures, uint64_t address)
{
    size_t count = 0;
    const bool made = mdnn_captures_is_made(captures, address);
    take_in(captures, address);
    for (size_t i = 0; !made && i < captures->holder_count; i++) {
        group_t *const group = captures->holders[i].group;
        const mdnn_held_t *const held = find_held(group, address);
        if (!held || !held->by_hand)
            continue;
        drop(group, held);
        count++;
    }
    return count;
}

mdnn_status_t mdnn_captures_share(mdnn_captures_t *captures, mdnn_holder_kind_t from_kind,
                                  uint64_t from, mdnn_holder_kind_t to_kind, uint64_t to)
{
    const holder_t *const holder = find_holder(captures, from_kind, from);
    const holder_t *const before = find_holder(captures, to_kind, to);
    if (!holder || (before && before->group == holder->group))
        return MDNN_STATUS_OK;
    if (before)
        return MDNN_STATUS_BUSY;
    group_t *const group = holder->group;
    if (add_holder(captures, to_kind, to, group))
        return MDNN_STATUS_OK;
    group->holders++; /* somebody may use it that we cannot remember */
    return MDNN_STATUS_OUT_OF_MEMORY;
}

void mdnn_captures_keep(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id)
{
    const holder_t *const holder = find_holder(captures, kind, id);
    group_t *const group = holder ? holder->group : NULL;
    if (!group || find_holder(captures, MDNN_HOLDER_FOR_GOOD, (uintptr_t)group))
        return;
    if (!add_holder(captures, MDNN_HOLDER_FOR_GOOD, (uintptr_t)group, group))
        group->holders++;
}

void mdnn_captures_rename(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t from,
                          uint64_t to)
{
    holder_t *const holder = find_holder(captures, kind, from);
    if (holder)
        holder->id = to;
    for (size_t i = 0; kind == MDNN_HOLDER_GRAPH && i < captures->part_count; i++)
        if ((uintptr_t)captures->parts[i].whole == from)
            captures->parts[i].whole = (mdnn_graph_t)(uintptr_t)to;
}

const mdnn_held_t *mdnn_captures_held(const mdnn_captures_t *captures, mdnn_holder_kind_t kind,
                                      uint64_t id, size_t *count)
{
    const holder_t *const holder = find_holder(captures, kind, id);
    *count = holder ? holder->group->count : 0;
    return holder ? holder->group->held : NULL;
}

void mdnn_captures_forget(mdnn_captures_t *captures, uint64_t start, uint64_t bytes)
{
    for (size_t i = 0; i < captures->holder_count; i++) {
        group_t *const group = captures->holders[i].group;
        size_t left = 0;
        for (size_t j = 0; j < group->count; j++)
            if (group->held[j].address - start >= bytes)
                group->held[left++] = group->held[j];
        group->count = left;
    }
}

mdnn_held_t *mdnn_captures_release(mdnn_captures_t *captures, mdnn_holder_kind_t kind, uint64_t id,
                                   size_t *count)
{
    holder_t *const holder = find_holder(captures, kind, id);
    *count = 0;
    if (!holder)
        return NULL;
    group_t *const group = holder->group;
    *holder = captures->holders[--captures->holder_count];
    if (--group->holders > 0)
        return NULL;
    mdnn_held_t *const held = group->held;
    *count = group->count;
    free(group);
    return held;
}

/* ---- captures under way ---- */

bool mdnn_captures_begin(mdnn_captures_t *captures, const mdnn_capture_t *capture)
{
    void *items = captures->under_way;
    if (!reserve(&items, captures->capture_count, &captures->capture_capacity, sizeof *capture))
        return false;
    captures->under_way = items;
    captures->under_way[captures->capture_count++] = *capture;
    return true;
}

bool mdnn_captures_in(const mdnn_captures_t *captures, mdnn_stream_t stream, pthread_t thread,
                      mdnn_capture_t *capture)
{
    for (size_t i = 0; i < captures->capture_count; i++) {
        const mdnn_capture_t *const each = &captures->under_way[i];
        if (each->stream != stream || (each->of_thread && !pthread_equal(each->thread, thread)))
            continue;
        *capture = *each;
        return true;
    }
    return false;
}

bool mdnn_captures_making(const mdnn_captures_t *captures, mdnn_graph_t graph,
                          mdnn_capture_t *capture)
{
    for (size_t i = 0; graph && i < captures->capture_count; i++)
        if (captures->under_way[i].graph == graph) {
            *capture = captures->under_way[i];
            return true;
        }
    return false;
}

bool mdnn_captures_end(mdnn_captures_t *captures, unsigned long long id)
{
    for (size_t i = 0; i < captures->capture_count; i++)
        if (captures->under_way[i].id == id) {
            captures->under_way[i] = captures->under_way[--captures->capture_count];
            return true;
        }
    return false;
}

/* ---- graphs in graphs ---- */

bool mdnn_captures_join(mdnn_captures_t *captures, mdnn_graph_t whole, mdnn_graph_t part)
{
    void *items = captures->parts;
    if (!reserve(&items, captures->part_count, &captures->part_capacity, sizeof(part_t)))
        return false;
    captures->parts = items;
    captures->parts[captures->part_count++] = (part_t){part, whole};
    return true;
}

mdnn_graph_t mdnn_captures_whole(const mdnn_captures_t *captures, mdnn_graph_t graph)
{
    for (size_t depth = 0; depth < captures->part_count; depth++) {
        size_t i = 0;
        while (i < captures->part_count && captures->parts[i].part != graph)
            i++;
        if (i == captures->part_count)
            break;
        graph = captures->parts[i].whole;
    }
    return graph;
}

void mdnn_captures_part(mdnn_captures_t *captures, mdnn_graph_t whole)
{
    size_t i = 0;
    while (i < captures->part_count) {
        const mdnn_graph_t part = captures->parts[i].part;
        if (captures->parts[i].whole != whole) {
            i++;
            continue;
        }
        captures->parts[i] = captures->parts[--captures->part_count];
        mdnn_captures_part(captures, part);
        i = 0;
    }
}
