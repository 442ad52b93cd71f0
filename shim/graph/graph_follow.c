#include "shim/graph/graph_follow.h"

#include <stdlib.h>

#include "config/lock.h"
#include "config/log.h"
#include "shim/graph/graph_assemble.h"

#define uthash_fatal(message) abort() /* unreachable: HASH_NONFATAL_OOM */
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

/* What an operation graph is. Hosts destroy the pieces before they make plans, so this is by value,
 * and engines, configurations and plans share it. */
typedef struct followed {
    int users;
    mdnn_graph_kind_t kind;
    mdnn_graph_t graph; /* if RECOGNISED */
} followed_t;

typedef struct entry {
    mdnn_piece_t piece;
    followed_t *followed; /* of a finalized graph and what was made from it; NULL: unknown */
    UT_hash_handle hh;
} entry_t;

_Atomic bool mdnn_follow_flag;
static mdnn_lock_t lock = MDNN_LOCK_INIT(FOLLOWED); /* guards all below, and users */
static entry_t *table;                              /* by piece.descriptor */
static uint64_t last_number;

void mdnn_follow_begin(void)
{
    if (!atomic_exchange(&mdnn_follow_flag, true))
        MDNN_LOG(MDNN_LOG_INFO, "graph",
                 "plans of this cuDNN cannot be read: graphs that are built from now on are "
                 "followed instead");
}

static followed_t *share(followed_t *followed)
{
    if (followed)
        followed->users++;
    return followed;
}

static void release(followed_t *followed)
{
    if (followed && --followed->users == 0)
        free(followed);
}

/* As after its creation, under another number. */
static void begin_anew(entry_t *entry)
{
    mdnn_piece_clear(&entry->piece);
    release(entry->followed);
    entry->followed = NULL;
    entry->piece.number = ++last_number;
    entry->piece.finalized = entry->piece.gap = false;
}

static entry_t *find(cudnnBackendDescriptor_t descriptor)
{
    entry_t *entry = NULL;
    HASH_FIND(hh, table, &descriptor, sizeof descriptor, entry);
    return entry;
}

static void drop(entry_t *entry)
{
    if (!entry)
        return;
    HASH_DEL(table, entry);
    mdnn_piece_clear(&entry->piece);
    release(entry->followed);
    free(entry);
}

/* Other descriptors are no part of what a plan computes. */
static bool is_wanted(cudnnBackendDescriptorType_t type)
{
    switch (type) {
    case CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR:
    case CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR:
    case CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR:
    case CUDNN_BACKEND_KNOB_INFO_DESCRIPTOR:
    case CUDNN_BACKEND_LAYOUT_INFO_DESCRIPTOR:
    case CUDNN_BACKEND_INTERMEDIATE_INFO_DESCRIPTOR:
    case CUDNN_BACKEND_KERNEL_CACHE_DESCRIPTOR:
        return false;
    default:
        return true;
    }
}

static void add(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type)
{
    entry_t *const entry = calloc(1, sizeof *entry);
    if (!entry)
        return;
    entry->piece.descriptor = descriptor;
    entry->piece.type = type;
    begin_anew(entry);
    HASH_ADD(hh, table, piece.descriptor, sizeof entry->piece.descriptor, entry);
    if (!entry->hh.tbl)
        free(entry);
}

void mdnn_follow_create(cudnnBackendDescriptor_t descriptor, cudnnBackendDescriptorType_t type)
{
    mdnn_lock(&lock);
    drop(find(descriptor));
    if (is_wanted(type))
        add(descriptor, type);
    mdnn_unlock(&lock);
}

void mdnn_follow_destroy(cudnnBackendDescriptor_t descriptor)
{
    mdnn_lock(&lock);
    drop(find(descriptor));
    mdnn_unlock(&lock);
}

void mdnn_follow_renew(cudnnBackendDescriptor_t descriptor)
{
    mdnn_lock(&lock);
    entry_t *const entry = find(descriptor);
    if (entry)
        begin_anew(entry);
    mdnn_unlock(&lock);
}

static void number_links(mdnn_piece_attribute_t *attribute)
{
    for (int64_t i = 0; i < attribute->count; i++) {
        mdnn_piece_link_t *const link = &attribute->values[i].link;
        const entry_t *const entry = find(link->descriptor);
        link->number = entry && entry->piece.finalized ? entry->piece.number : 0;
    }
}

static void keep(entry_t *entry, mdnn_piece_attribute_t *attribute)
{
    if (attribute && mdnn_piece_is_link(attribute))
        number_links(attribute);
    mdnn_piece_add(&entry->piece, attribute);
}

void mdnn_follow_set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendAttributeType_t type, int64_t count, const void *elements)
{
    if (!mdnn_piece_matters(name))
        return;
    mdnn_lock(&lock);
    entry_t *const entry = find(descriptor);
    if (entry)
        keep(entry, mdnn_piece_copy(name, type, count, elements));
    mdnn_unlock(&lock);
}

static entry_t *linked(const mdnn_piece_link_t *link)
{
    entry_t *const entry = link->number > 0 ? find(link->descriptor) : NULL;
    return entry && entry->piece.number == link->number ? entry : NULL;
}

static const mdnn_piece_t *linked_piece(const mdnn_piece_link_t *link)
{
    const entry_t *const entry = linked(link);
    return entry ? &entry->piece : NULL;
}

static followed_t *assemble(const mdnn_piece_t *operation_graph)
{
    followed_t *const followed = calloc(1, sizeof *followed);
    if (followed)
        followed->kind = mdnn_graph_assemble(operation_graph, linked_piece, &followed->graph);
    return share(followed);
}

/* From what a descriptor is made; false if it is not made from anything that has a graph. */
static bool origin_of(cudnnBackendDescriptorType_t type, cudnnBackendAttributeName_t *name,
                      cudnnBackendDescriptorType_t *origin)
{
    static const struct {
        cudnnBackendDescriptorType_t type;
        cudnnBackendAttributeName_t name;
        cudnnBackendDescriptorType_t origin;
    } origins[] = {
        {CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
         CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
        {CUDNN_BACKEND_ENGINE_DESCRIPTOR, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
         CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR},
        {CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, CUDNN_ATTR_ENGINECFG_ENGINE,
         CUDNN_BACKEND_ENGINE_DESCRIPTOR},
        {CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
         CUDNN_BACKEND_ENGINECFG_DESCRIPTOR},
    };
    for (size_t i = 0; i < sizeof origins / sizeof *origins; i++)
        if (origins[i].type == type) {
            *name = origins[i].name;
            *origin = origins[i].origin;
            return true;
        }
    return false;
}

static followed_t *inherit(const mdnn_piece_t *piece)
{
    cudnnBackendAttributeName_t name;
    cudnnBackendDescriptorType_t origin;
    if (piece->gap || !origin_of(piece->type, &name, &origin))
        return NULL;
    const mdnn_piece_attribute_t *const attribute = mdnn_piece_find(piece, name);
    const entry_t *const from = attribute ? linked(&attribute->values->link) : NULL;
    return from && from->piece.type == origin ? share(from->followed) : NULL;
}

void mdnn_follow_finalize(cudnnBackendDescriptor_t descriptor)
{
    mdnn_lock(&lock);
    entry_t *const entry = find(descriptor);
    if (entry && !entry->piece.finalized) {
        entry->piece.finalized = true;
        entry->followed = entry->piece.type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR
                              ? assemble(&entry->piece)
                              : inherit(&entry->piece);
    }
    mdnn_unlock(&lock);
}

/* Whether attribute `name` of `from` gives out descriptors of that type, of the same graph. */
static bool gives_its_graph(const entry_t *from, cudnnBackendAttributeName_t name,
                            cudnnBackendDescriptorType_t type)
{
    cudnnBackendAttributeName_t origin_name;
    cudnnBackendDescriptorType_t origin;
    if (from->piece.type == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR &&
        name == CUDNN_ATTR_ENGINEHEUR_RESULTS)
        return type == CUDNN_BACKEND_ENGINECFG_DESCRIPTOR;
    return origin_of(from->piece.type, &origin_name, &origin) && origin_name == name &&
           origin == type;
}

/* What held something before is a gap: nobody knows what of that is left. */
static void fill(const entry_t *from, cudnnBackendAttributeName_t name, entry_t *entry)
{
    const bool fresh = !entry->piece.finalized && !entry->piece.gap && !entry->piece.attributes;
    const bool known = fresh && from && gives_its_graph(from, name, entry->piece.type);
    followed_t *const followed = known ? share(from->followed) : NULL;
    begin_anew(entry);
    entry->followed = followed;
    entry->piece.finalized = true;
    entry->piece.gap = !known;
}

void mdnn_follow_fill(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name, int64_t room,
                      int64_t count, const cudnnBackendDescriptor_t *filled)
{
    const int64_t most = count >= 0 && count < room ? count : room;
    mdnn_lock(&lock);
    const entry_t *const source = count >= 0 ? find(from) : NULL;
    for (int64_t i = 0; i < most; i++) {
        entry_t *const entry = find(filled[i]);
        if (entry && entry != source)
            fill(source, name, entry);
    }
    mdnn_unlock(&lock);
}

mdnn_graph_kind_t mdnn_follow_plan(cudnnBackendDescriptor_t plan, mdnn_graph_t *graph)
{
    mdnn_lock(&lock);
    const entry_t *const entry = find(plan);
    const followed_t *const followed = entry && !entry->piece.gap ? entry->followed : NULL;
    const mdnn_graph_kind_t kind = followed ? followed->kind : MDNN_GRAPH_UNKNOWN;
    if (kind == MDNN_GRAPH_RECOGNISED)
        *graph = followed->graph;
    mdnn_unlock(&lock);
    return kind;
}
