/* Recording: counters, rows, and where they go. */
#include "config/statistics.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/live_files.h"
#include "config/log.h"
#include "config/paths.h"
#include "config/progress.h"
#include "config/quiet_write.h"
#include "config/safe_path.h"
#include "config/standard_error.h"
#include "config/statistics_file.h"
#include "config/whole_file.h"

static _Atomic uint64_t private_counters[MDNN_COUNTER_COUNT];
_Atomic(_Atomic uint64_t *) mdnn_counters = private_counters;

/* NULL: no rows are recorded (statistics off, or a forked child). */
static _Atomic(mdnn_statistics_region_t *) recorded;
/* The same one, or a small record that only others read while the process runs. NULL: neither. */
static _Atomic(mdnn_statistics_region_t *) published;
static _Atomic(void (*)(void)) at_finish;

/* Written by mdnn_statistics_open, read at the end. */
static struct {
    mdnn_statistics_format_t format;
    char path[MDNN_OPTION_STRING_BYTES]; /* "": stderr */
    char live_path[PATH_MAX + 8];        /* "": there is no live file */
    char live_name[PATH_MAX]; /* by which others find it, unless that is its own; "": none */
    dev_t live_device;
    ino_t live_inode;
    pid_t process;
    bool hopeless; /* there is no folder for the file, which was said */
} target;

void mdnn_count_peak(mdnn_counter_t counter, uint64_t value)
{
    _Atomic uint64_t *const cell =
        &atomic_load_explicit(&mdnn_counters, memory_order_acquire)[counter];
    uint64_t seen = atomic_load_explicit(cell, memory_order_relaxed);
    while (seen < value && !atomic_compare_exchange_weak_explicit(
                               cell, &seen, value, memory_order_relaxed, memory_order_relaxed))
        continue;
}

mdnn_statistics_region_t *mdnn_statistics_recorded(void)
{
    return atomic_load_explicit(&published, memory_order_acquire);
}

/* Takes the slot from other writers of the same row; the sequence is odd until it is given back. */
static uint32_t slot_acquire(mdnn_statistics_slot_t *slot)
{
    uint32_t sequence = atomic_load_explicit(&slot->sequence, memory_order_relaxed) & ~1u;
    while (!atomic_compare_exchange_weak_explicit(&slot->sequence, &sequence, sequence + 1,
                                                  memory_order_acquire, memory_order_relaxed)) {
        sequence &= ~1u;
        sched_yield();
    }
    return sequence;
}

void mdnn_statistics_row(int *index, const mdnn_statistics_row_t *row)
{
    mdnn_statistics_region_t *const region = atomic_load_explicit(&recorded, memory_order_acquire);
    if (region == NULL)
        return;
    if (*index < 0) {
        const uint32_t taken =
            atomic_fetch_add_explicit(&region->header.rows_taken, 1, memory_order_relaxed);
        /* A dropped row keeps its number, so that it is counted once. */
        *index = taken < MDNN_STATISTICS_ROWS ? (int)taken : MDNN_STATISTICS_ROWS;
    }
    if (*index >= MDNN_STATISTICS_ROWS)
        return;
    mdnn_statistics_slot_t *const slot = &region->rows[*index];
    const uint32_t sequence = slot_acquire(slot);
    slot->row = *row;
    slot->row.problem[sizeof slot->row.problem - 1] = '\0';
    slot->row.configuration[sizeof slot->row.configuration - 1] = '\0';
    slot->row.key[sizeof slot->row.key - 1] = '\0';
    atomic_store_explicit(&slot->sequence, sequence + 2, memory_order_release);
}

bool mdnn_statistics_wants_executions(void)
{
    mdnn_statistics_region_t *const region = atomic_load_explicit(&recorded, memory_order_acquire);
    return region != NULL &&
           atomic_load_explicit(&region->header.executions_taken, memory_order_relaxed) <
               MDNN_STATISTICS_EXECUTIONS;
}

void mdnn_statistics_execution(const mdnn_statistics_execution_t *execution)
{
    mdnn_statistics_region_t *const region = atomic_load_explicit(&recorded, memory_order_acquire);
    if (region == NULL || execution->row < 0 || execution->row >= MDNN_STATISTICS_ROWS)
        return;
    const uint32_t taken =
        atomic_fetch_add_explicit(&region->header.executions_taken, 1, memory_order_relaxed);
    if (taken >= MDNN_STATISTICS_EXECUTIONS)
        return;
    mdnn_statistics_cell_t *const cell = &region->executions[taken];
    cell->stream = execution->stream;
    cell->x = execution->x;
    cell->w = execution->w;
    cell->y = execution->y;
    atomic_store_explicit(&cell->row, (uint32_t)execution->row + 1, memory_order_release);
}

/* A mapping of a new file `path`, with every block allocated: a hole on a full disk would kill the
 * host by SIGBUS when it is written. NULL with errno set. */
static mdnn_statistics_region_t *map_new_file(const char *path, size_t bytes, mode_t mode,
                                              struct stat *information)
{
    const int descriptor = mdnn_safe_open(path, O_RDWR | O_CREAT | O_EXCL, mode);
    if (descriptor < 0)
        return NULL;
    int error = mdnn_quiet_allocate(descriptor, (off_t)bytes);
    void *map = MAP_FAILED;
    if (error == 0 && fstat(descriptor, information) != 0)
        error = errno;
    if (error == 0) {
        map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        error = map == MAP_FAILED ? errno : 0;
    }
    close(descriptor);
    if (map == MAP_FAILED)
        unlink(path);
    errno = error;
    return map == MAP_FAILED ? NULL : map;
}

/* The live file appears under its name complete, and never replaces the contents of a live file
 * that another process of the same name still writes: that one keeps its unlinked file. */
static mdnn_statistics_region_t *map_live_file(bool small, mode_t mode)
{
    const size_t bytes = small ? MDNN_STATISTICS_SMALL_BYTES : sizeof(mdnn_statistics_region_t);
    char temporary[sizeof target.live_path + 32];
    snprintf(temporary, sizeof temporary, "%s.%ld", target.live_path, (long)getpid());
    (void)unlink(temporary);
    struct stat information;
    mdnn_statistics_region_t *const region = map_new_file(temporary, bytes, mode, &information);
    if (region == NULL)
        return NULL;
    mdnn_statistics_region_init(region, small);
    if (rename(temporary, target.live_path) != 0) {
        const int error = errno;
        munmap(region, bytes);
        unlink(temporary);
        errno = error;
        return NULL;
    }
    target.live_device = information.st_dev;
    target.live_inode = information.st_ino;
    return region;
}

static mdnn_statistics_region_t *map_memory(void)
{
    void *const map = mmap(NULL, sizeof(mdnn_statistics_region_t), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    target.live_path[0] = '\0';
    if (map == MAP_FAILED)
        return NULL;
    mdnn_statistics_region_init(map, false);
    return map;
}

/* Moves what was counted in private memory into the record. */
static void fold_private_counters(mdnn_statistics_region_t *region)
{
    for (int i = 0; i < MDNN_COUNTER_COUNT; i++) {
        const uint64_t amount =
            atomic_exchange_explicit(&private_counters[i], 0, memory_order_relaxed);
        atomic_fetch_add_explicit(&region->counters[i], amount, memory_order_relaxed);
    }
}

static void set_target_path(const char *file)
{
    target.path[0] = '\0';
    if (mdnn_standard_error_is_meant(file))
        return;
    char pattern[MDNN_OPTION_STRING_BYTES];
    mdnn_absolute_pattern(file, pattern, sizeof pattern);
    mdnn_expand_pattern(pattern, target.path, sizeof target.path);
}

enum { KEPT_LIVE_FILES = 8 }; /* of programs that were killed */

/* The name by which others find the live file, "" if there can be none. */
static void name_live_file(const char *folder, char *name, size_t bytes)
{
    if (*folder != '/' || !mdnn_live_file_name(folder, name, bytes))
        name[0] = '\0';
    else
        mdnn_live_files_clean(folder, KEPT_LIVE_FILES);
}

/* Beside the file in which statistics end. */
static mdnn_status_t map_beside_target(mdnn_statistics_region_t **region)
{
    snprintf(target.live_path, sizeof target.live_path, "%s.live", target.path);
    *region = map_live_file(false, 0666);
    if (*region != NULL) {
        if (target.live_name[0] != '\0') {
            (void)unlink(target.live_name); /* of an earlier process with our number */
            (void)!symlink(target.live_path, target.live_name);
        }
        return MDNN_STATUS_OK;
    }
    const char *const trouble = mdnn_folder_trouble(target.path);
    target.hopeless = trouble != NULL;
    if (trouble != NULL)
        MDNN_LOG(MDNN_LOG_WARN, "config", "statistics cannot be written to %s: %s", target.path,
                 trouble);
    else
        MDNN_LOG(MDNN_LOG_WARN, "config",
                 "cannot make %s: %s; statistics are lost if the process is killed",
                 target.live_path, strerrordesc_np(errno));
    return MDNN_STATUS_IO;
}

/* Where nobody asked for it. */
static void map_for_others(bool small, mdnn_statistics_region_t **region)
{
    if (target.live_name[0] == '\0')
        return;
    memcpy(target.live_path, target.live_name, sizeof target.live_name);
    target.live_name[0] = '\0';
    *region = map_live_file(small, 0600);
    if (*region == NULL)
        MDNN_LOG(MDNN_LOG_INFO, "config", "cannot make %s: %s; microdnn top will not see this",
                 target.live_path, strerrordesc_np(errno));
}

mdnn_status_t mdnn_statistics_open(const mdnn_options_t *options)
{
    const bool asked = options->general_stats != MDNN_STATISTICS_OFF;
    if ((!asked && options->memory_budget == MDNN_SIZE_NONE) || atomic_load(&published) != NULL)
        return MDNN_STATUS_OK;
    memset(&target, 0, sizeof target); /* a child has its parent's */
    target.format = (mdnn_statistics_format_t)options->general_stats;
    target.process = getpid();
    set_target_path(options->general_stats_file);
    name_live_file(options->memory_registry, target.live_name, sizeof target.live_name);
    mdnn_status_t status = MDNN_STATUS_OK;
    mdnn_statistics_region_t *region = NULL;
    if (asked && target.path[0] != '\0' && mdnn_is_replaceable(target.path))
        status = map_beside_target(&region);
    else
        map_for_others(!asked, &region);
    if (region == NULL && asked)
        region = map_memory();
    if (region == NULL)
        return asked ? MDNN_STATUS_OUT_OF_MEMORY : MDNN_STATUS_OK;
    atomic_store_explicit(&mdnn_counters, region->counters, memory_order_release);
    atomic_store_explicit(&published, region, memory_order_release);
    if (asked)
        atomic_store_explicit(&recorded, region, memory_order_release);
    fold_private_counters(region);
    return status;
}

static void remove_live_file(void)
{
    struct stat information;
    if (target.live_path[0] != '\0' && lstat(target.live_path, &information) == 0 &&
        information.st_dev == target.live_device && information.st_ino == target.live_inode)
        unlink(target.live_path);
    char led[sizeof target.live_path];
    const ssize_t length =
        target.live_name[0] != '\0' ? readlink(target.live_name, led, sizeof led - 1) : -1;
    if (length > 0 && strncmp(led, target.live_path, (size_t)length) == 0 &&
        target.live_path[length] == '\0')
        unlink(target.live_name);
}

void mdnn_statistics_ask_at_finish(void (*ask)(void))
{
    atomic_store(&at_finish, ask);
}

static mdnn_status_t write_record(const mdnn_statistics_region_t *region)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *const memory = open_memstream(&text, &bytes);
    mdnn_status_t status = MDNN_STATUS_OUT_OF_MEMORY;
    if (memory != NULL) {
        status = mdnn_statistics_print_record(region, sizeof *region, target.format, memory);
        if (fclose(memory) != 0)
            status = MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (status == MDNN_STATUS_OK)
        status = target.path[0] == '\0' ? mdnn_standard_error_write(text, bytes, false)
                                        : mdnn_write_whole_file(target.path, text, bytes);
    free(text);
    return status;
}

void mdnn_statistics_finish(void)
{
    const int saved = errno;
    void (*const ask)(void) = atomic_load(&at_finish);
    if (target.process == getpid() && ask)
        ask();
    mdnn_statistics_region_t *const region = atomic_exchange(&published, NULL);
    const bool asked = atomic_exchange(&recorded, NULL) != NULL;
    /* A child that was made without fork handlers must not speak for its parent. */
    if (region == NULL || target.process != getpid())
        return;
    mdnn_progress_finish();
    fold_private_counters(region);
    atomic_store_explicit(&region->header.finished, 1, memory_order_relaxed);
    const mdnn_status_t status = asked ? write_record(region) : MDNN_STATUS_OK;
    if (status == MDNN_STATUS_OK)
        remove_live_file();
    else if (!target.hopeless)
        MDNN_LOG(MDNN_LOG_WARN, "config", "statistics were not written to %s: %s",
                 target.path[0] != '\0' ? target.path : "stderr",
                 status == MDNN_STATUS_IO && target.path[0] != '\0' ? strerrordesc_np(errno)
                                                                    : mdnn_status_string(status));
    errno = saved;
}

void mdnn_statistics_after_fork(void)
{
    /* The mapping stays where it is: to unmap it is no gain for a child that soon execs. */
    atomic_store_explicit(&recorded, NULL, memory_order_relaxed);
    atomic_store_explicit(&published, NULL, memory_order_relaxed);
    for (int i = 0; i < MDNN_COUNTER_COUNT; i++)
        atomic_store_explicit(&private_counters[i], 0, memory_order_relaxed);
    atomic_store_explicit(&mdnn_counters, private_counters, memory_order_release);
}
