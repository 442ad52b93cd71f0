/* What the library asks of the database: keys, costs, configurations. */
#include "optimizer/database.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/log.h"
#include "config/paths.h"
#include "optimizer/database_codec.h"
#include "optimizer/database_file.h"
#include "optimizer/database_place.h"
#include "optimizer/database_rows.h"

/* ---- paths ---- */

static mdnn_status_t set_path(char *out, size_t bytes, const char *pattern)
{
    char absolute[MDNN_DATABASE_PATH_BYTES];
    out[0] = '\0';
    if (!pattern || !*pattern)
        return MDNN_STATUS_OK;
    if (strlen(pattern) + 1 >= bytes)
        return MDNN_STATUS_OVERFLOW;
    mdnn_absolute_pattern(pattern, absolute, sizeof absolute);
    mdnn_expand_pattern(absolute, out, bytes);
    return strlen(out) + 1 < bytes ? MDNN_STATUS_OK : MDNN_STATUS_OVERFLOW;
}

mdnn_status_t mdnn_database_init(mdnn_database_t *database, const char *path,
                                 const char *import_path)
{
    mdnn_database_t made = {.budget_ms = MDNN_DATABASE_BUDGET_MS};
    MDNN_TRY(set_path(made.path, sizeof made.path, path));
    MDNN_TRY(set_path(made.import_path, sizeof made.import_path, import_path));
    if (made.path[0])
        MDNN_TRY(mdnn_database_local_path(made.path, sizeof made.path));
    *database = made;
    return MDNN_STATUS_OK;
}

/* A pattern (see mdnn_expand_pattern) for exactly this path. False if it is too long. */
static bool quote(const char *path, char *pattern, size_t bytes)
{
    size_t used = 0;
    for (; *path != '\0' && used + 3 < bytes; path++) {
        if (*path == '%')
            pattern[used++] = '%';
        pattern[used++] = *path;
    }
    pattern[used] = '\0';
    return *path == '\0';
}

mdnn_status_t mdnn_database_init_place(mdnn_database_t *database, const char *file,
                                       const char *import_path)
{
    char path[MDNN_DATABASE_PATH_BYTES], pattern[MDNN_DATABASE_PATH_BYTES];
    const bool automatic = strcmp(file, "auto") == 0;
    if (automatic)
        file = mdnn_database_automatic_path(path, sizeof path) == MDNN_STATUS_OK &&
                       quote(path, pattern, sizeof pattern)
                   ? pattern
                   : "";
    else if (strcmp(file, "none") == 0)
        file = "";
    MDNN_TRY(mdnn_database_init(database, file, import_path));
    database->automatic = automatic;
    return MDNN_STATUS_OK;
}

/* ---- keys ---- */

typedef struct text {
    char *buffer;
    size_t bytes, used;
    bool full;
} text_t;

__attribute__((format(printf, 2, 3))) static void add(text_t *text, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int written =
        vsnprintf(text->buffer + text->used, text->bytes - text->used, format, arguments);
    va_end(arguments);
    if (written < 0 || (size_t)written >= text->bytes - text->used)
        text->full = true;
    else
        text->used += (size_t)written;
}

/* The length in front keeps the key injective whatever the name holds. */
static void add_name(text_t *text, const char *label, const char *name)
{
    if (name)
        add(text, " %s=%zu:%s", label, strlen(name), name);
    else
        add(text, " %s=none", label);
}

/* All of the problem but its device, as the integers that it consists of: a field that is added to
 * the struct is in the key without a thought. */
static void add_problem(text_t *text, const mdnn_problem_t *problem)
{
    mdnn_problem_t same = *problem;
    int32_t numbers[sizeof same / sizeof(int32_t)];

    same.device = 0;
    memcpy(numbers, &same, sizeof numbers);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        add(text, "%c%" PRId32, i ? ',' : ' ', numbers[i]);
}

mdnn_status_t mdnn_database_key(const mdnn_problem_t *problem,
                                const mdnn_database_environment_t *environment,
                                mdnn_database_key_t *key)
{
    mdnn_database_key_t made;
    char line[320];
    text_t text = {made.text, sizeof made.text, 0, false};
    text_t title = {made.title, sizeof made.title, 0, false};

    add(&text, "microdnn %d", MDNN_DATABASE_SCHEMA);
    add_name(&text, "device", environment->device_model);
    add_name(&text, "driver", environment->driver);
    add(&text, " cuda=%" PRId64 " cudnn=%" PRId64, environment->cuda_version,
        environment->cudnn_version);
    add_name(&text, "tf32", environment->tf32_override);
    add_problem(&text, problem);
    mdnn_problem_format(problem, line, sizeof line);
    add(&title, "%s, cuDNN %" PRId64 ": %s",
        environment->device_model ? environment->device_model : "unknown device",
        environment->cudnn_version, line);
    if (text.full || title.full)
        return MDNN_STATUS_OVERFLOW;
    *key = made;
    return MDNN_STATUS_OK;
}

/* ---- costs ---- */

typedef struct costs_visit {
    const mdnn_database_key_t *key;
    mdnn_cost_memory_t *memory;
    size_t added;
    bool importing;
} costs_visit_t;

/* A blob's costs, which the caller frees; NULL: it has none that can be read. Not on the stack, which may be a small
 * thread's. */
static mdnn_status_t decode(const mdnn_database_blob_t *blob, mdnn_cost_t **costs, size_t *count)
{
    *costs = malloc(MDNN_COSTS_PER_SIZE * sizeof **costs);
    if (!*costs)
        return MDNN_STATUS_OUT_OF_MEMORY;
    if (mdnn_costs_decode(blob->bytes, blob->size, *costs, count) == MDNN_STATUS_OK)
        return MDNN_STATUS_OK;
    free(*costs);
    *costs = NULL;
    return MDNN_STATUS_OK;
}

static mdnn_status_t take_costs(void *context, const mdnn_database_blob_t *blob)
{
    costs_visit_t *const visit = context;
    mdnn_cost_t *costs;
    size_t count;

    if (blob->images < 1 || blob->role < 0 || blob->role >= MDNN_PART_ROLE_COUNT ||
        mdnn_cost_memory_find(visit->memory, blob->images, (mdnn_part_role_t)blob->role))
        return MDNN_STATUS_OK;
    MDNN_TRY(decode(blob, &costs, &count));
    if (!costs)
        return MDNN_STATUS_OK;
    visit->added++;
    const mdnn_status_t status = mdnn_cost_memory_put(
        visit->memory, blob->images, (mdnn_part_role_t)blob->role, costs, count, false);
    free(costs);
    return status;
}

static mdnn_status_t read_costs(void *context, sqlite3 *handle)
{
    const costs_visit_t *const visit = context;
    mdnn_blob_query_t query = {.key = visit->key->text, .salvage = visit->importing};
    MDNN_TRY(mdnn_problem_row_find(handle, query.key, &query.problem));
    return mdnn_blobs_read(handle, &query, take_costs, context);
}

mdnn_status_t mdnn_database_load_costs(const mdnn_database_t *database,
                                       const mdnn_database_key_t *key, mdnn_cost_memory_t *memory)
{
    costs_visit_t visit = {.key = key, .memory = memory};
    mdnn_status_t status = MDNN_STATUS_NOT_FOUND, import_status = MDNN_STATUS_NOT_FOUND;

    if (database->path[0])
        status = mdnn_database_visit(database->path, MDNN_VISIT_READ, database->budget_ms,
                                     read_costs, &visit);
    visit.importing = true;
    if (database->import_path[0])
        import_status = mdnn_database_visit(database->import_path, MDNN_VISIT_FOREIGN,
                                            database->budget_ms, read_costs, &visit);
    if (visit.added > 0)
        return MDNN_STATUS_OK;
    if (status == MDNN_STATUS_OK || status == MDNN_STATUS_NOT_FOUND)
        status = import_status;
    return status == MDNN_STATUS_OK ? MDNN_STATUS_NOT_FOUND : status;
}

/* What is written of one size and role. */
typedef struct joined_costs {
    int64_t images;
    int64_t role;
    mdnn_cost_t costs[MDNN_COSTS_PER_SIZE];
    size_t count;
    bool complete;                         /* nothing was left where the file knows of this size */
    unsigned char bytes[MDNN_COSTS_BYTES]; /* all of them, as they are written */
} joined_costs_t;

static bool any_deferred(const mdnn_cost_t *costs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (costs[i].deferred)
            return true;
    return false;
}

static mdnn_cost_t *find_candidate(joined_costs_t *joined, const mdnn_cost_t *candidate)
{
    for (size_t i = 0; i < joined->count; i++) {
        mdnn_cost_t *const cost = &joined->costs[i];
        if (cost->algo == candidate->algo && cost->math_type == candidate->math_type &&
            memcmp(&cost->engine, &candidate->engine, sizeof cost->engine) == 0)
            return cost;
    }
    return NULL;
}

/* Another process may know what this one deferred to a search, and candidates that it was not offered. */
static mdnn_status_t join_costs(void *context, const mdnn_database_blob_t *blob)
{
    joined_costs_t *const joined = context;
    mdnn_cost_t *costs;
    size_t count;
    if (blob->images != joined->images || blob->role != joined->role)
        return MDNN_STATUS_OK;
    MDNN_TRY(decode(blob, &costs, &count));
    if (!costs)
        return MDNN_STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        mdnn_cost_t *const ours = find_candidate(joined, &costs[i]);
        const bool tells =
            !costs[i].untimed || (costs[i].workspace_bytes > 0 && ours && ours->untimed);
        if (ours && ours->deferred && tells)
            *ours = costs[i];
        else if (!ours && joined->count < MDNN_COSTS_PER_SIZE)
            joined->costs[joined->count++] = costs[i];
    }
    joined->complete = !any_deferred(costs, count);
    free(costs);
    return MDNN_STATUS_OK;
}

/* The file knows all the others. */
static void complete(joined_costs_t *joined)
{
    for (size_t i = 0; i < joined->count; i++)
        joined->costs[i].deferred = joined->costs[i].deferred && joined->costs[i].untimed;
}

static mdnn_status_t write_joined(const costs_visit_t *visit, sqlite3 *handle, int64_t problem,
                                  const mdnn_cost_entry_t *entry, joined_costs_t *joined)
{
    int written;
    if (entry->count > 0)
        memcpy(joined->costs, entry->costs, entry->count * sizeof *entry->costs);
    if (any_deferred(entry->costs, entry->count))
        MDNN_TRY(mdnn_blobs_read(
            handle,
            &(mdnn_blob_query_t){.key = visit->key->text, .problem = problem, .salvage = true},
            join_costs, joined));
    if (joined->complete)
        complete(joined);
    mdnn_costs_encode(joined->costs, joined->count, joined->bytes);
    const mdnn_database_blob_t blob = {.images = entry->images,
                                       .role = entry->role,
                                       .bytes = joined->bytes,
                                       .size = joined->count * MDNN_COST_BYTES};
    return mdnn_blob_write(handle, visit->key->text, problem, &blob, MDNN_DATABASE_REPLACE,
                           &written);
}

static mdnn_status_t write_entry(const costs_visit_t *visit, sqlite3 *handle, int64_t problem,
                                 const mdnn_cost_entry_t *entry)
{
    joined_costs_t *const joined = calloc(1, sizeof *joined);
    if (!joined)
        return MDNN_STATUS_OUT_OF_MEMORY;
    joined->images = entry->images;
    joined->role = entry->role;
    joined->count = entry->count;
    const mdnn_status_t status = write_joined(visit, handle, problem, entry, joined);
    free(joined);
    return status;
}

static mdnn_status_t visit_to_write(const mdnn_database_t *database,
                                    mdnn_status_t (*work)(void *context, sqlite3 *handle),
                                    void *context)
{
    const mdnn_status_t status =
        mdnn_database_visit(database->path, MDNN_VISIT_WRITE, database->budget_ms, work, context);
    if (status != MDNN_STATUS_IO || !database->automatic ||
        !mdnn_database_make_folders(database->path))
        return status;
    return mdnn_database_visit(database->path, MDNN_VISIT_WRITE, database->budget_ms, work,
                               context);
}

static mdnn_status_t write_costs(void *context, sqlite3 *handle)
{
    const costs_visit_t *const visit = context;
    int64_t problem;

    MDNN_TRY(mdnn_problem_row_make(handle, visit->key->text, visit->key->title, &problem));
    for (size_t i = 0; i < visit->memory->count; i++)
        if (visit->memory->entries[i].is_new)
            MDNN_TRY(write_entry(visit, handle, problem, &visit->memory->entries[i]));
    return MDNN_STATUS_OK;
}

static bool has_new(const mdnn_cost_memory_t *memory)
{
    for (size_t i = 0; i < memory->count; i++)
        if (memory->entries[i].is_new)
            return true;
    return false;
}

static void mark_written(mdnn_cost_memory_t *memory)
{
    for (size_t i = 0; i < memory->count; i++)
        memory->entries[i].is_new = false;
}

mdnn_status_t mdnn_database_store_costs(const mdnn_database_t *database,
                                        const mdnn_database_key_t *key, mdnn_cost_memory_t *memory)
{
    costs_visit_t visit = {.key = key, .memory = memory};
    if (!has_new(memory) || !database->path[0])
        return MDNN_STATUS_OK;
    MDNN_TRY(visit_to_write(database, write_costs, &visit));
    mark_written(memory);
    return MDNN_STATUS_OK;
}

/* ---- configurations ---- */

enum { REQUEST_BYTES = 256 };

typedef struct configuration_visit {
    const mdnn_database_key_t *key;
    const mdnn_wr_request_t *request;
    uint64_t limit_bytes;
    bool importing;
    char request_text[REQUEST_BYTES];
    mdnn_configuration_t found;
    mdnn_database_blob_t blob; /* to write */
    mdnn_database_conflict_t conflict;
} configuration_visit_t;

/* part_overhead_ms is measured anew by each run and must not keep a run from its record. */
static void format_request(const mdnn_wr_request_t *request, uint64_t limit_bytes, char *text)
{
    snprintf(text, REQUEST_BYTES,
             "batch=%" PRId64 " sizes=%d granularity=%" PRId64
             " roles=%d deterministic=%d direct=%d strict=%d margin=%a limit=%" PRIu64 "/%" PRIu64,
             request->batch, (int)request->sizes, request->granularity, request->roles_differ,
             request->deterministic_only, request->direct_only, request->strict_only,
             request->adoption_margin, limit_bytes, request->workspace_limit_bytes);
}

static mdnn_status_t take_configuration(void *context, const mdnn_database_blob_t *blob)
{
    configuration_visit_t *const visit = context;
    if (visit->found.parts)
        return MDNN_STATUS_OK;
    const mdnn_status_t status = mdnn_parts_decode(blob->bytes, blob->size, visit->request,
                                                   visit->limit_bytes, &visit->found);
    return status == MDNN_STATUS_BAD_FORMAT ? MDNN_STATUS_OK : status;
}

static mdnn_status_t read_configuration(void *context, sqlite3 *handle)
{
    const configuration_visit_t *const visit = context;
    mdnn_blob_query_t query = {.key = visit->key->text,
                               .configurations = true,
                               .request = visit->request_text,
                               .salvage = visit->importing};
    MDNN_TRY(mdnn_problem_row_find(handle, query.key, &query.problem));
    return mdnn_blobs_read(handle, &query, take_configuration, context);
}

/* A visit can fail after it found the record: what was found counts. */
static mdnn_status_t find_configuration(const char *path, mdnn_visit_mode_t mode,
                                        unsigned budget_ms, configuration_visit_t *visit)
{
    if (!path[0])
        return MDNN_STATUS_NOT_FOUND;
    const mdnn_status_t status =
        mdnn_database_visit(path, mode, budget_ms, read_configuration, visit);
    if (visit->found.parts)
        return MDNN_STATUS_OK;
    return status == MDNN_STATUS_OK ? MDNN_STATUS_NOT_FOUND : status;
}

mdnn_status_t mdnn_database_load_configuration(const mdnn_database_t *database,
                                               const mdnn_database_key_t *key,
                                               const mdnn_wr_request_t *request,
                                               uint64_t limit_bytes,
                                               mdnn_configuration_t *configuration)
{
    configuration_visit_t visit = {.key = key, .request = request, .limit_bytes = limit_bytes};
    format_request(request, limit_bytes, visit.request_text);

    mdnn_status_t status =
        find_configuration(database->path, MDNN_VISIT_READ, database->budget_ms, &visit);
    if (status != MDNN_STATUS_OK) {
        visit.importing = true;
        const mdnn_status_t import_status = find_configuration(
            database->import_path, MDNN_VISIT_FOREIGN, database->budget_ms, &visit);
        if (import_status == MDNN_STATUS_OK || status == MDNN_STATUS_NOT_FOUND)
            status = import_status;
    }
    if (status == MDNN_STATUS_OK)
        *configuration = visit.found;
    return status;
}

static mdnn_status_t write_configuration(void *context, sqlite3 *handle)
{
    const configuration_visit_t *const visit = context;
    int64_t problem;
    int written;
    MDNN_TRY(mdnn_problem_row_make(handle, visit->key->text, visit->key->title, &problem));
    return mdnn_blob_write(handle, visit->key->text, problem, &visit->blob, visit->conflict,
                           &written);
}

/* Encodes what is to be written; the caller frees visit->blob.bytes. */
static mdnn_status_t prepare_configuration(configuration_visit_t *visit,
                                           const mdnn_wr_request_t *request, uint64_t limit_bytes,
                                           const mdnn_configuration_t *configuration)
{
    unsigned char *bytes;
    size_t size;
    MDNN_TRY(mdnn_parts_encode(configuration, &bytes, &size));
    format_request(request, limit_bytes, visit->request_text);
    visit->blob = (mdnn_database_blob_t){
        .is_configuration = true, .request = visit->request_text, .bytes = bytes, .size = size};
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_database_store_configuration(const mdnn_database_t *database,
                                                const mdnn_database_key_t *key,
                                                const mdnn_wr_request_t *request,
                                                uint64_t limit_bytes,
                                                const mdnn_configuration_t *configuration,
                                                mdnn_database_conflict_t conflict)
{
    configuration_visit_t visit = {.key = key, .conflict = conflict};
    if (!database->path[0])
        return MDNN_STATUS_OK;
    MDNN_TRY(prepare_configuration(&visit, request, limit_bytes, configuration));
    const mdnn_status_t status = visit_to_write(database, write_configuration, &visit);
    free((void *)(uintptr_t)visit.blob.bytes);
    return status;
}

typedef struct store_visit {
    costs_visit_t costs;
    configuration_visit_t configuration;
} store_visit_t;

static mdnn_status_t write_both(void *context, sqlite3 *handle)
{
    store_visit_t *const visit = context;
    MDNN_TRY(write_costs(&visit->costs, handle));
    return write_configuration(&visit->configuration, handle);
}

mdnn_status_t mdnn_database_store(const mdnn_database_t *database, const mdnn_database_key_t *key,
                                  mdnn_cost_memory_t *memory, const mdnn_wr_request_t *request,
                                  const mdnn_configuration_t *configuration,
                                  mdnn_database_conflict_t conflict)
{
    store_visit_t visit = {.costs = {.key = key, .memory = memory},
                           .configuration = {.key = key, .conflict = conflict}};
    if (!database->path[0])
        return MDNN_STATUS_OK;
    MDNN_TRY(prepare_configuration(&visit.configuration, request, request->workspace_limit_bytes,
                                   configuration));
    const mdnn_status_t status = visit_to_write(database, write_both, &visit);
    if (status == MDNN_STATUS_OK)
        mark_written(memory);
    free((void *)(uintptr_t)visit.configuration.blob.bytes);
    return status;
}
