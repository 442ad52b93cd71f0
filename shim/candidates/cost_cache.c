#include "shim/candidates/cost_cache.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/log.h"
#include "config/paths.h"
#include "optimizer/database.h"
#include "shim/real/process.h"

enum { NAME_BYTES = 128 };

/* Statuses that mean no more than "nothing there". A place that no user named is no reason for a warning:
 * `microdnn doctor` says what is wrong with it. */
static void report(const mdnn_database_t *used, mdnn_status_t status, const char *what)
{
    if (status == MDNN_STATUS_OK || status == MDNN_STATUS_NOT_FOUND)
        return;
    if (used->automatic)
        MDNN_LOG_ONCE(MDNN_LOG_INFO, "cache", "%s %s: %s", what, used->path,
                      mdnn_status_string(status));
    else {
        const char *const trouble =
            status == MDNN_STATUS_IO ? mdnn_folder_trouble(used->path) : NULL;
        MDNN_LOG_ONCE(MDNN_LOG_WARN, "cache", "%s %s: %s", what, mdnn_process_options()->cache_file,
                      trouble ? trouble : mdnn_status_string(status));
    }
}

/* The database that the options name, opened by nobody: NULL if none is kept. */
static const mdnn_database_t *database(void)
{
    static mdnn_database_t value;
    static enum { UNKNOWN, NONE, NAMED } known;
    const mdnn_options_t *const options = mdnn_process_options();
    if (known == UNKNOWN) {
        const mdnn_status_t status =
            mdnn_database_init_place(&value, options->cache_file, options->cache_import);
        report(&value, status, "cannot use the database");
        known = status == MDNN_STATUS_OK && (*value.path || *value.import_path) ? NAMED : NONE;
    }
    return known == NAMED ? &value : NULL;
}

/* The version of the kernel driver, as the driver itself reports it; the driver API returns only
 * the CUDA version. */
static void driver_version(char *text)
{
    snprintf(text, NAME_BYTES, "unknown");
    FILE *const file = fopen("/proc/driver/nvidia/version", "re");
    if (!file)
        return;
    char line[256];
    if (fgets(line, sizeof line, file)) {
        const char *const found = strstr(line, "Module");
        if (!found || sscanf(found, "Module%*[^0-9]%127[0-9.]", text) != 1)
            snprintf(text, NAME_BYTES, "unknown");
    }
    fclose(file);
}

static mdnn_status_t make_key(const mdnn_call_t *call, const mdnn_problem_t *problem,
                              mdnn_database_key_t *key)
{
    const mdnn_driver_t *const driver = mdnn_real_driver();
    static char version[NAME_BYTES];
    char name[NAME_BYTES];
    int cuda_version;
    if (!*version)
        driver_version(version);
    if (driver->cuDeviceGetName(name, sizeof name, problem->device) != CUDA_SUCCESS ||
        driver->cuDriverGetVersion(&cuda_version) != CUDA_SUCCESS)
        return MDNN_STATUS_DEVICE;
    const mdnn_database_environment_t environment = {
        .device_model = name,
        .driver = version,
        .cuda_version = cuda_version,
        .cudnn_version = (int64_t)call->cudnn->cudnnGetVersion(),
        .tf32_override = secure_getenv("NVIDIA_TF32_OVERRIDE"),
    };
    return mdnn_database_key(problem, &environment, key);
}

void mdnn_cost_cache_open(mdnn_cost_cache_t *cache, const mdnn_call_t *call,
                          const mdnn_problem_t *problem)
{
    memset(cache, 0, sizeof *cache);
    if (!database() || !(cache->key = malloc(sizeof *cache->key)))
        return;
    const mdnn_status_t status = make_key(call, problem, cache->key);
    cache->active = status == MDNN_STATUS_OK;
    if (cache->active)
        report(database(), mdnn_database_load_costs(database(), cache->key, &cache->memory),
               "cannot read");
    else
        report(database(), status, "no key for the database");
}

void mdnn_cost_cache_store(mdnn_cost_cache_t *cache, const mdnn_wr_request_t *request,
                           const mdnn_configuration_t *configuration,
                           mdnn_database_conflict_t conflict)
{
    if (!cache->active)
        return;
    report(database(),
           configuration ? mdnn_database_store(database(), cache->key, &cache->memory, request,
                                               configuration, conflict)
                         : mdnn_database_store_costs(database(), cache->key, &cache->memory),
           "cannot write");
}

void mdnn_cost_cache_fini(mdnn_cost_cache_t *cache)
{
    mdnn_cost_memory_fini(&cache->memory);
    free(cache->key);
    memset(cache, 0, sizeof *cache);
}

void mdnn_cost_cache_key(const mdnn_cost_cache_t *cache, const mdnn_call_t *call,
                         const mdnn_problem_t *problem, char *text, size_t bytes)
{
    mdnn_database_key_t made;
    const mdnn_database_key_t *key = cache->active ? cache->key : NULL;
    text[0] = '\0';
    if (!key && make_key(call, problem, &made) == MDNN_STATUS_OK)
        key = &made;
    if (key && strlen(key->text) < bytes)
        strcpy(text, key->text);
}
