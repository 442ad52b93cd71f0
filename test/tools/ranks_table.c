/* How long ranks take that share links, as the timing replay has it, for scripts/bench-papers: from the record of one
 * rank ([memory] record), which all of them repeat.
 *
 *     ranks_table RECORD BUDGET RANKS SHARING POLICY EFFORT
 *
 * BUDGET: bytes for each rank. RANKS: how many devices are behind one switch. Prints JSON: the verdict, bytes needed,
 * milliseconds of an iteration and of its computation, bytes that each rank sends to the host. The exit status is 1 if
 * something cannot be read or planned. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/choices.h"
#include "offload/plan/planner.h"
#include "offload/plan/ranks_plan.h"
#include "offload/plan/run_record.h"

static bool read_record(const char *path, mdnn_run_record_t *record)
{
    enum { MOST = 64 << 20 };
    FILE *const file = fopen(path, "r");
    char *const text = malloc(MOST);
    size_t line = 0;
    if (!file || !text)
        return false;
    const size_t bytes = fread(text, 1, MOST, file);
    fclose(file);
    const bool good = mdnn_run_record_read(text, bytes, record, &line) == MDNN_STATUS_OK;
    free(text);
    if (!good)
        fprintf(stderr, "%s:%zu: this is no record\n", path, line);
    return good;
}

static int number_of(const char *const *words, int count, const char *word)
{
    for (int i = 0; i < count; i++)
        if (strcmp(words[i], word) == 0)
            return i;
    fprintf(stderr, "unknown word %s\n", word);
    exit(1);
}

static const char *const verdicts[MDNN_VERDICT_COUNT] = {"fits", "needs more", "host limit",
                                                         "below floor"};

static void print(const mdnn_move_plan_t *plans, uint32_t ranks)
{
    const mdnn_move_plan_t *worst = &plans[0];
    for (uint32_t i = 1; i < ranks; i++)
        worst = plans[i].verdict > worst->verdict ? &plans[i] : worst;
    printf("{\"verdict\": \"%s\", \"needed_bytes\": %llu, \"floor_bytes\": %llu, "
           "\"iteration_ms\": %.6f, \"compute_ms\": %.6f, \"out_bytes\": [",
           verdicts[worst->verdict], (unsigned long long)worst->needed_bytes,
           (unsigned long long)worst->floor_bytes, worst->predicted.time_us / 1e3,
           worst->predicted.compute_us / 1e3);
    for (uint32_t i = 0; i < ranks; i++)
        printf("%s%llu", i > 0 ? ", " : "", (unsigned long long)plans[i].predicted.out_bytes);
    printf("]}\n");
}

int main(int argc, char **argv)
{
    mdnn_run_record_t record;
    mdnn_move_plan_t plans[MDNN_RANKS];
    if (argc != 7 || !read_record(argv[1], &record))
        return 1;
    const uint32_t ranks = (uint32_t)strtoul(argv[3], NULL, 10);
    const mdnn_move_plan_request_t request = {
        .period = &record.period,
        .policy = (mdnn_policy_t)number_of(mdnn_choices_memory_policy, MDNN_POLICY_COUNT, argv[5]),
        .link = record.link,
        .budget_bytes = strtoull(argv[2], NULL, 10),
        .host_limit_bytes = UINT64_MAX,
        .effort = (uint32_t)strtoul(argv[6], NULL, 10),
        .ranks = {.sharing = (mdnn_sharing_t)number_of(mdnn_choices_memory_sharing,
                                                       MDNN_SHARING_COUNT, argv[4]),
                  .count = ranks}};
    const mdnn_status_t status = mdnn_ranks_plan(&request, plans);
    if (status != MDNN_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", argv[1], mdnn_status_string(status));
        return 1;
    }
    print(plans, ranks);
    for (uint32_t i = 0; i < ranks; i++)
        mdnn_move_plan_fini(&plans[i]);
    mdnn_period_fini(&record.period);
    return 0;
}
