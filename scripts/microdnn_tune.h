/* Parts of `microdnn tune`: devices, and programs that run on them. */
#ifndef MICRODNN_TUNE_H
#define MICRODNN_TUNE_H

#include "scripts/microdnn.h"

enum { TOOL_DEVICE_BYTES = 96 };

/* Devices by what CUDA_VISIBLE_DEVICES calls them. */
typedef struct tool_devices {
    size_t count; /* 0: nothing was said, the program takes what it wants */
    char visible[TOOL_DEVICES_MAX][TOOL_DEVICE_BYTES];
} tool_devices_t;

/* "all" or ordinals "0,2", among those that CUDA_VISIBLE_DEVICES leaves. false after a complaint:
 * not a list, no such device, or devices of different models. The driver is asked in a child: CUDA
 * in this process would not survive the fork of the programs. */
bool tool_devices_choose(const char *list, tool_devices_t *devices);

enum { TOOL_JOB_ARGUMENTS = 24, TOOL_JOB_LIMIT_BYTES = 32 };

/* One program to run, and what became of it. */
typedef struct tool_job {
    char *const *arguments;
    char title[256];
    char workspace_limit[TOOL_JOB_LIMIT_BYTES]; /* of the library; "": as configured */
    /* Where the user wants statistics as JSON, too: "stderr", or a file as general.stats_file has
     * it; NULL: nowhere. */
    const char *statistics_file;
    bool done; /* it ran to its end and exited 0 */
    /* Sums of the statistics of its processes. */
    uint64_t calls, problems, measure_microseconds;
} tool_job_t;

/* Runs the jobs, one at a time on each device; a device that is done takes the next. Says on stdout
 * what each did. false if one failed or the run was interrupted. `directory` is for statistics. */
bool tool_jobs_run(tool_job_t *jobs, size_t job_count, const tool_devices_t *devices,
                   const char *directory);

#endif
