/* What the verdict says of other budgets (config/statistics_verdict.h), for statistics that are read from standard input,
 * line by line:
 *
 *     NAME NUMBER                   a number of config/memory_statistics.def
 *     forecast BUDGET MS MOVED      a plan for another budget
 *     say                           prints milliseconds: of that forecast, and without moves; then all is zero again
 *
 * scripts/forecast-table compares them with what was measured. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/statistics_verdict.h"

static void set(mdnn_memory_statistics_t *numbers, const char *name, double number)
{
#define MEMORY_COUNT(each)                                                                         \
    if (strcmp(name, #each) == 0)                                                                  \
        numbers->each = (uint64_t)number;
#define MEMORY_BYTES MEMORY_COUNT
#define MEMORY_MS(each)                                                                            \
    if (strcmp(name, #each) == 0)                                                                  \
        numbers->each = number;
#include "config/memory_statistics.def"
}

int main(void)
{
    mdnn_memory_statistics_t numbers = {0};
    char line[256], name[64];
    while (fgets(line, sizeof line, stdin)) {
        double number, ms, moved;
        if (sscanf(line, "forecast %lf %lf %lf", &number, &ms, &moved) == 3) {
            numbers.forecast[0] = (mdnn_memory_forecast_t){(uint64_t)number, ms, (uint64_t)moved};
        } else if (strcmp(line, "say\n") == 0) {
            printf("%.3f %.3f\n", mdnn_memory_forecast_ms(&numbers, 0),
                   mdnn_memory_without_moves_ms(&numbers));
            numbers = (mdnn_memory_statistics_t){0};
        } else if (sscanf(line, "%63s %lf", name, &number) == 2) {
            set(&numbers, name, number);
        } else {
            fprintf(stderr, "not understood: %s", line);
            return EXIT_FAILURE;
        }
    }
    return EXIT_SUCCESS;
}
