#include "optimizer/network.h"

#include <stdlib.h>
#include <string.h>

/* A known network, with what it takes to drop the one that was followed longest ago. */
typedef struct known_network {
    mdnn_network_t network; /* number 0: free */
    uint64_t last_followed; /* value of `clock` */
} known_network_t;

struct mdnn_watch {
    mdnn_network_call_t calls[MDNN_WATCH_CALLS]; /* the latest, in order */
    size_t call_count;
    size_t lengths[MDNN_WATCH_CALLS];
    size_t unchecked; /* calls since the last search for a period */
    known_network_t known[MDNN_WATCH_NETWORKS];
    uint64_t discoveries, clock;
    /* Where the sequence stands: `at` was matched up to `next`, the last `in_order` calls one after
     * the other. */
    const mdnn_network_t *at;
    size_t next;
    size_t in_order;
    const mdnn_network_t *followed;
};

bool mdnn_network_calls_alike(const mdnn_network_call_t *a, const mdnn_network_call_t *b,
                              mdnn_likeness_t likeness)
{
    if (a->problem != b->problem || a->demand != b->demand ||
        a->writes_weights != b->writes_weights)
        return false;
    if (likeness == MDNN_LIKE_WEIGHTS)
        return a->writes_weights || a->w == b->w;
    return a->w == b->w && a->x == b->x && a->y == b->y;
}

/* The Z function of the reversed sequence: lengths[p] is how many calls, counted from the end,
 * equal those p before them; so the last p + lengths[p] calls have the period p. */
static void match_lengths(const mdnn_network_call_t *calls, size_t count, mdnn_likeness_t likeness,
                          size_t *lengths)
{
    const mdnn_network_call_t *const last = &calls[count - 1];
    size_t left = 0, right = 0; /* the match that reaches furthest: [left, right) */
    lengths[0] = count;
    for (size_t i = 1; i < count; i++) {
        size_t length = 0;
        if (i < right)
            length = lengths[i - left] < right - i ? lengths[i - left] : right - i;
        while (i + length < count &&
               mdnn_network_calls_alike(last - length, last - i - length, likeness))
            length++;
        lengths[i] = length;
        if (i + length > right) {
            left = i;
            right = i + length;
        }
    }
}

size_t mdnn_period_find(const mdnn_network_call_t *calls, size_t count, mdnn_likeness_t likeness,
                        size_t *lengths)
{
    const size_t repeats =
        likeness == MDNN_LIKE_TENSORS ? MDNN_REPEATS_TENSORS : MDNN_REPEATS_WEIGHTS;
    if (count < MDNN_REPEATING_CALLS)
        return 0;
    match_lengths(calls, count, likeness, lengths);
    for (size_t period = 1; repeats * period <= count; period++) {
        const size_t reach = period + lengths[period];
        if (reach >= repeats * period && reach >= MDNN_REPEATING_CALLS)
            return period;
    }
    return 0;
}

mdnn_status_t mdnn_watch_create(mdnn_watch_t **watch)
{
    mdnn_watch_t *const made = calloc(1, sizeof *made);
    if (!made)
        return MDNN_STATUS_OUT_OF_MEMORY;
    *watch = made;
    return MDNN_STATUS_OK;
}

static void forget(known_network_t *known)
{
    free((void *)(uintptr_t)known->network.calls);
    free((void *)(uintptr_t)known->network.layer_of);
    memset(known, 0, sizeof *known);
}

void mdnn_watch_destroy(mdnn_watch_t *watch)
{
    for (size_t i = 0; watch && i < MDNN_WATCH_NETWORKS; i++)
        forget(&watch->known[i]);
    free(watch);
}

/* ---- discovery ---- */

static void record(mdnn_watch_t *watch, const mdnn_network_call_t *call)
{
    if (watch->call_count == MDNN_WATCH_CALLS) {
        watch->call_count = MDNN_WATCH_CALLS / 2;
        memmove(watch->calls, watch->calls + MDNN_WATCH_CALLS / 2,
                watch->call_count * sizeof *watch->calls);
    }
    watch->calls[watch->call_count++] = *call;
}

/* Whether the iteration `calls` is the network's, begun anywhere; *next is then the call that
 * follows it. */
static bool is_rotation(const mdnn_network_t *network, const mdnn_network_call_t *calls,
                        size_t count, size_t *next)
{
    if (network->number == 0 || network->count != count)
        return false;
    for (size_t begin = 0; begin < count; begin++) {
        size_t i = 0;
        while (i < count && mdnn_network_calls_alike(&network->calls[(begin + i) % count],
                                                     &calls[i], network->likeness))
            i++;
        if (i == count) {
            *next = begin;
            return true;
        }
    }
    return false;
}

static known_network_t *oldest(mdnn_watch_t *watch)
{
    known_network_t *found = NULL;
    for (size_t i = 0; i < MDNN_WATCH_NETWORKS; i++) {
        known_network_t *const known = &watch->known[i];
        if (&known->network == watch->followed)
            continue;
        if (!found || known->last_followed < found->last_followed)
            found = known;
    }
    return found;
}

/* Numbers the layers of an iteration; returns how many there are. */
static size_t number_layers(const mdnn_network_call_t *calls, size_t count,
                            mdnn_likeness_t likeness, size_t *layer_of)
{
    size_t layers = 0;
    for (size_t i = 0; i < count; i++) {
        size_t first = 0;
        while (!mdnn_network_calls_alike(&calls[first], &calls[i], likeness))
            first++;
        layer_of[i] = first < i ? layer_of[first] : layers++;
    }
    return layers;
}

/* NULL if memory is short: then it is found again later. */
static const mdnn_network_t *add_network(mdnn_watch_t *watch, const mdnn_network_call_t *calls,
                                         size_t count, mdnn_likeness_t likeness)
{
    mdnn_network_call_t *const copy = malloc(count * sizeof *copy);
    size_t *const layer_of = malloc(count * sizeof *layer_of);
    known_network_t *const known = oldest(watch);
    if (!copy || !layer_of) {
        free(copy);
        free(layer_of);
        return NULL;
    }
    memcpy(copy, calls, count * sizeof *copy);
    if (watch->at == &known->network)
        watch->at = NULL;
    forget(known);
    known->network = (mdnn_network_t){.number = ++watch->discoveries,
                                      .likeness = likeness,
                                      .count = count,
                                      .calls = copy,
                                      .layer_count = number_layers(copy, count, likeness, layer_of),
                                      .layer_of = layer_of};
    return &known->network;
}

static void stand(mdnn_watch_t *watch, const mdnn_network_t *network, size_t next, size_t in_order)
{
    watch->at = network;
    watch->next = next;
    watch->in_order = in_order;
}

/* Looks for a period at the end of what was seen, now and then: the longer it gets, the rarer. */
static void discover(mdnn_watch_t *watch)
{
    if (++watch->unchecked < 1 + watch->call_count / 16)
        return;
    watch->unchecked = 0;
    mdnn_likeness_t likeness = MDNN_LIKE_TENSORS;
    size_t period = mdnn_period_find(watch->calls, watch->call_count, likeness, watch->lengths);
    if (period == 0) {
        likeness = MDNN_LIKE_WEIGHTS;
        period = mdnn_period_find(watch->calls, watch->call_count, likeness, watch->lengths);
    }
    if (period == 0)
        return;
    const mdnn_network_call_t *const iteration = &watch->calls[watch->call_count - period];
    for (size_t i = 0; i < MDNN_WATCH_NETWORKS; i++) {
        size_t next;
        if (is_rotation(&watch->known[i].network, iteration, period, &next)) {
            stand(watch, &watch->known[i].network, next, period);
            return;
        }
    }
    const mdnn_network_t *const network = add_network(watch, iteration, period, likeness);
    if (network)
        stand(watch, network, 0, period);
}

/* ---- following ---- */

static mdnn_network_place_t place_at(const mdnn_network_t *network, size_t index)
{
    return (mdnn_network_place_t){network, network->layer_of[index]};
}

/* The next place of the call in the network, from `first` on; count if it is not there. */
static size_t place_in(const mdnn_network_t *network, const mdnn_network_call_t *call, size_t first)
{
    for (size_t i = 0; i < network->count; i++) {
        const size_t index = (first + i) % network->count;
        if (mdnn_network_calls_alike(&network->calls[index], call, network->likeness))
            return index;
    }
    return network->count;
}

/* A place elsewhere: a jump within the network, or into another. */
static bool find_place(mdnn_watch_t *watch, const mdnn_network_call_t *call, size_t *index)
{
    if (watch->at && (*index = place_in(watch->at, call, watch->next)) < watch->at->count)
        return true;
    for (size_t i = 0; i < MDNN_WATCH_NETWORKS; i++) {
        const mdnn_network_t *const network = &watch->known[i].network;
        if (network->number && network != watch->at &&
            (*index = place_in(network, call, 0)) < network->count) {
            watch->at = network;
            return true;
        }
    }
    return false;
}

static void follow(mdnn_watch_t *watch, const mdnn_network_call_t *call,
                   mdnn_network_place_t *place)
{
    const mdnn_network_t *const at = watch->at;
    size_t index = watch->next;
    *place = (mdnn_network_place_t){NULL, 0};
    if (at && mdnn_network_calls_alike(&at->calls[index], call, at->likeness)) {
        watch->in_order++;
    } else {
        watch->in_order = 0;
        if (!find_place(watch, call, &index))
            return;
        watch->in_order = 1;
    }
    *place = place_at(watch->at, index);
    watch->next = (index + 1) % watch->at->count;
}

static known_network_t *known_of(mdnn_watch_t *watch, const mdnn_network_t *network)
{
    size_t i = 0;
    while (&watch->known[i].network != network)
        i++;
    return &watch->known[i];
}

bool mdnn_watch_call(mdnn_watch_t *watch, const mdnn_network_call_t *call,
                     mdnn_network_place_t *place)
{
    record(watch, call);
    follow(watch, call, place);
    if (!place->network || watch->in_order < watch->at->count) {
        discover(watch);
        /* Discovered, or recognised: this call was the last of the iteration. */
        if (watch->at && watch->in_order >= watch->at->count)
            *place = place_at(watch->at, (watch->next + watch->at->count - 1) % watch->at->count);
    }
    if (!watch->at || watch->in_order < watch->at->count)
        return false;
    watch->call_count = watch->unchecked = 0; /* nothing to discover until it goes astray */
    known_of(watch, watch->at)->last_followed = ++watch->clock;
    const bool changed = watch->at != watch->followed;
    watch->followed = watch->at;
    return changed;
}

const mdnn_network_t *mdnn_watch_network(const mdnn_watch_t *watch)
{
    return watch->followed;
}

uint64_t mdnn_watch_discoveries(const mdnn_watch_t *watch)
{
    return watch->discoveries;
}
