#include "config/option_checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config/numbers.h"
#include "config/sizes.h"

/* Each needs the other to be something that is_on() accepts. Options that are set once for all runs, such as
 * memory.host_limit, are not here. */
static const struct {
    mdnn_option_id_t id, needs;
    const char *remedy;
} rules[] = {
    {MDNN_OPTION_general_stats_file, MDNN_OPTION_general_stats, "general.stats = text turns it on"},
    {MDNN_OPTION_general_log_file, MDNN_OPTION_general_log, "general.log = warn turns it on"},
    {MDNN_OPTION_memory_policy, MDNN_OPTION_memory_budget, "memory.budget sets one"},
    {MDNN_OPTION_memory_trace, MDNN_OPTION_memory_budget, "memory.budget sets one"},
    {MDNN_OPTION_memory_record, MDNN_OPTION_memory_budget, "memory.budget sets one"},
    {MDNN_OPTION_memory_safety, MDNN_OPTION_memory_budget, "memory.budget sets one"},
    {MDNN_OPTION_memory_chunk_size, MDNN_OPTION_memory_budget, "memory.budget sets one"},
    {MDNN_OPTION_memory_min_size, MDNN_OPTION_memory_budget, "memory.budget sets one"},
    {MDNN_OPTION_convolution_total_workspace, MDNN_OPTION_convolution_policy,
     "convolution.policy = wd uses it"},
    {MDNN_OPTION_convolution_wd_model, MDNN_OPTION_convolution_policy,
     "convolution.policy = wd uses it"},
    {MDNN_OPTION_convolution_solver, MDNN_OPTION_convolution_policy,
     "convolution.policy = wd uses it"},
};
enum { RULE_COUNT = sizeof rules / sizeof *rules };

static bool is_on(const mdnn_options_t *options, mdnn_option_id_t id)
{
    switch (id) {
    case MDNN_OPTION_general_stats:
        return options->general_stats != MDNN_STATISTICS_OFF;
    case MDNN_OPTION_general_log:
        return options->general_log != MDNN_LOG_OFF;
    case MDNN_OPTION_memory_budget:
        return options->memory_budget != MDNN_SIZE_NONE || options->unread_budget[0] != '\0';
    default:
        return options->convolution_policy == MDNN_CONVOLUTION_WD;
    }
}

/* What is said if it is off. */
static const char *lack_of(mdnn_option_id_t needs)
{
    switch (needs) {
    case MDNN_OPTION_general_stats:
        return "there are no statistics";
    case MDNN_OPTION_general_log:
        return "the log is off";
    case MDNN_OPTION_memory_budget:
        return "there is no budget for memory";
    default:
        return "the policy is not wd";
    }
}

static int rule_of(mdnn_option_id_t id)
{
    int rule = 0;
    while (rule < RULE_COUNT && rules[rule].id != id)
        rule++;
    return rule;
}

/* An empty file name, or a value that is the default, asks for nothing. */
static bool is_asked_for(const mdnn_options_t *options, mdnn_option_id_t id)
{
    char value[MDNN_OPTION_STRING_BYTES], usual[MDNN_OPTION_STRING_BYTES];
    mdnn_options_t *const defaults =
        strcmp(options->origin[id], "default") != 0 ? malloc(sizeof *defaults) : NULL;
    if (!defaults)
        return false;
    mdnn_options_set_defaults(defaults);
    mdnn_options_format(options, id, value, sizeof value);
    mdnn_options_format(defaults, id, usual, sizeof usual);
    free(defaults);
    return strcmp(value, usual) != 0;
}

mdnn_option_id_t mdnn_option_lacks(const mdnn_options_t *options, mdnn_option_id_t id)
{
    const int rule = rule_of(id);
    if (rule == RULE_COUNT || options->general_disable || !is_asked_for(options, id) ||
        is_on(options, rules[rule].needs))
        return MDNN_OPTION_COUNT;
    return rules[rule].needs;
}

bool mdnn_option_is_from_environment(const mdnn_options_t *options, mdnn_option_id_t id)
{
    return strncmp(options->origin[id], "environment ", 12) == 0;
}

void mdnn_options_report_idle(const mdnn_options_t *options, bool run_only,
                              mdnn_options_report_t report, void *context)
{
    for (int rule = 0; rule < RULE_COUNT; rule++) {
        const mdnn_option_id_t id = rules[rule].id;
        const mdnn_option_info_t *const info = &mdnn_option_table[id];
        char line[MDNN_ORIGIN_BYTES + 256];
        if (mdnn_option_lacks(options, id) == MDNN_OPTION_COUNT ||
            (run_only && !mdnn_option_is_from_environment(options, id)))
            continue;
        snprintf(line, sizeof line, "%s: %s.%s has no effect: %s; %s", options->origin[id],
                 info->section, info->key, lack_of(rules[rule].needs), rules[rule].remedy);
        report(context, line);
    }
}

void mdnn_options_report_rounded(const mdnn_options_t *options, mdnn_options_report_t report,
                                 void *context)
{
    const uint64_t set_bytes = options->memory_chunk_size;
    const uint64_t taken_bytes = mdnn_chunk_bytes(0, set_bytes);
    char line[MDNN_ORIGIN_BYTES + 256], set[MDNN_NUMBER_BYTES], taken[MDNN_NUMBER_BYTES];
    if (set_bytes == 0 || set_bytes == taken_bytes || options->general_disable ||
        !is_on(options, MDNN_OPTION_memory_budget))
        return;
    mdnn_format_size(set_bytes, set, sizeof set);
    mdnn_format_size(taken_bytes, taken, sizeof taken);
    snprintf(line, sizeof line,
             "%s: memory.chunk_size = %s is not a power of two from 2MiB; %s is taken instead",
             options->origin[MDNN_OPTION_memory_chunk_size], set, taken);
    report(context, line);
}
