/* What a run executed, from its statistics. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scripts/microdnn.h"
#include "scripts/microdnn_plan.h"
#include "scripts/microdnn_statistics.h"

/* The numbers at the end of a key are the problem's, all of it. */
bool tool_parse_problem(const char *key, mdnn_problem_t *problem)
{
    int32_t numbers[sizeof *problem / sizeof(int32_t)];
    const size_t count = sizeof numbers / sizeof *numbers;
    const char *at = strrchr(key, ' ');
    for (size_t i = 0; i < count; i++) {
        char *end;
        if (at == NULL || *at == '\0')
            return false;
        errno = 0;
        const long number = strtol(at + 1, &end, 10);
        if (end == at + 1 || errno != 0 || number < INT32_MIN || number > INT32_MAX ||
            *end != (i + 1 < count ? ',' : '\0'))
            return false;
        numbers[i] = (int32_t)number;
        at = end;
    }
    memcpy(problem, numbers, sizeof *problem);
    return true;
}

/* The texts are the record's. */
static bool take_problems(const tool_statistics_t *statistics, tool_trace_t *trace)
{
    trace->problem_count = statistics->header->row_capacity;
    trace->problems = calloc(trace->problem_count + 1, sizeof *trace->problems);
    for (size_t i = 0; trace->problems != NULL && i < trace->problem_count; i++) {
        const mdnn_statistics_row_t *const row = &statistics->rows[i].row;
        trace->problems[i] = (tool_trace_problem_t){row->key, row->problem, row->device};
    }
    return trace->problems != NULL;
}

static bool take_executions(const tool_statistics_t *statistics, tool_trace_t *trace)
{
    trace->execution_count = statistics->header->execution_capacity;
    trace->executions = calloc(trace->execution_count + 1, sizeof *trace->executions);
    for (size_t i = 0; trace->executions != NULL && i < trace->execution_count; i++) {
        const mdnn_statistics_cell_t *const cell = &statistics->cells[i];
        trace->executions[i] =
            (tool_trace_execution_t){atomic_load(&cell->row) - 1, (uint32_t)cell->stream,
                                     (uint32_t)cell->x, (uint32_t)cell->w, (uint32_t)cell->y};
    }
    return trace->executions != NULL;
}

static bool take(const char *path, const tool_statistics_t *statistics, tool_trace_t *trace)
{
    if (!statistics->has_executions) {
        tool_complain("%s: the library that wrote it recorded no sequence of convolutions; run "
                      "the program again with this one",
                      path);
        return false;
    }
    trace->program = statistics->header->program;
    if (!take_problems(statistics, trace) || !take_executions(statistics, trace)) {
        tool_complain("out of memory");
        return false;
    }
    if (trace->execution_count == 0)
        tool_complain("%s: no convolution ran in this process with a plan of the library", path);
    return trace->execution_count > 0;
}

bool tool_trace_read(const char *path, tool_trace_t *trace)
{
    tool_statistics_t statistics;
    size_t bytes = 0;
    memset(trace, 0, sizeof *trace);
    char *const json = tool_statistics_text(path, MDNN_STATISTICS_JSON, &bytes);
    if (json == NULL || !tool_statistics_parse(path, json, bytes, &statistics))
        return false;
    const bool good = take(path, &statistics, trace);
    trace->record = statistics.record;
    statistics.record = NULL;
    tool_statistics_fini(&statistics);
    if (!good)
        tool_trace_fini(trace);
    return good;
}

void tool_trace_fini(tool_trace_t *trace)
{
    free(trace->record);
    free(trace->problems);
    free(trace->executions);
    memset(trace, 0, sizeof *trace);
}
