#include "shim/convolution/plan_check.h"

#ifdef MDNN_DEBUG

#include <string.h>

#include "config/rule.h"
#include "shim/convolution/plan_table.h"

/* Sums of times may be made in another order. */
static bool is_about(double a, double b)
{
    const double difference = a > b ? a - b : b - a;
    return difference <= 1e-9 * (a + b);
}

static bool part_holds(const mdnn_conv_plan_t *plan, unsigned flags,
                       const mdnn_configuration_t *configuration, size_t index, const char **broken)
{
    const mdnn_micro_config_t *const part = &configuration->parts[index];
    MDNN_RULE(part->images > 0);
    MDNN_RULE(index + 1 == configuration->part_count ||
              part->images % mdnn_problem_granularity(&plan->key.problem) == 0);
    MDNN_RULE(!(flags & MDNN_DEMAND_DETERMINISTIC) || part->cost.deterministic);
    MDNN_RULE(!(flags & MDNN_DEMAND_DIRECT) || part->cost.direct);
    MDNN_RULE(!(flags & MDNN_DEMAND_STRICT) || part->cost.strict);
    return true;
}

static bool configuration_holds(const mdnn_conv_plan_t *plan, const mdnn_front_set_t *set,
                                unsigned flags, const mdnn_configuration_t *configuration,
                                const char **broken)
{
    int64_t images = 0;
    uint64_t most_bytes = 0;
    double time_ms = 0;
    MDNN_RULE(configuration->part_count > 0 && configuration->workspace_bytes <= set->limit_bytes);
    for (size_t i = 0; i < configuration->part_count; i++) {
        const mdnn_micro_config_t *const part = &configuration->parts[i];
        if (!part_holds(plan, flags, configuration, i, broken))
            return false;
        images += part->images;
        time_ms += part->cost.time_ms;
        if (part->cost.workspace_bytes > most_bytes)
            most_bytes = part->cost.workspace_bytes;
    }
    MDNN_RULE(images == mdnn_problem_batch(&plan->key.problem));
    MDNN_RULE(configuration->workspace_bytes == most_bytes);
    MDNN_RULE(is_about(configuration->time_ms, time_ms));
    return true;
}

static bool front_holds(const mdnn_conv_plan_t *plan, const mdnn_front_set_t *set, unsigned flags,
                        const char **broken)
{
    const mdnn_configuration_t *before = NULL;
    for (size_t i = 0; i < mdnn_front_count(set->fronts[flags]); i++) {
        const mdnn_configuration_t *const each = mdnn_front_at(set->fronts[flags], i);
        MDNN_RULE(!before || before->workspace_bytes < each->workspace_bytes);
        MDNN_RULE(!before || before->time_ms > each->time_ms);
        if (!configuration_holds(plan, set, flags, each, broken))
            return false;
        before = each;
    }
    return true;
}

static bool ready_part_holds(const mdnn_micro_config_t *micro, const mdnn_ready_part_t *part,
                             int64_t first_image, const char **broken)
{
    MDNN_RULE(part->first_image == first_image);
    MDNN_RULE(part->descriptors && part->descriptors->images == micro->images);
    MDNN_RULE(part->algo == micro->cost.algo);
    MDNN_RULE((part->engine_plan != NULL) == (part->algo >= MDNN_ALGO_ENGINE));
    MDNN_RULE(!part->engine_plan || part->engine_plan->kept);
    MDNN_RULE(!part->engine_plan ||
              part->engine_plan->workspace_bytes <= micro->cost.workspace_bytes);
    return true;
}

static bool ready_holds(const mdnn_ready_t *ready, const char **broken)
{
    int64_t first_image = 0;
    bool deterministic = true;
    for (size_t i = 0; i < ready->configuration->part_count; i++) {
        const mdnn_micro_config_t *const micro = &ready->configuration->parts[i];
        if (!ready_part_holds(micro, &ready->parts[i], first_image, broken))
            return false;
        first_image += micro->images;
        deterministic = deterministic && micro->cost.deterministic;
    }
    MDNN_RULE(ready->deterministic == deterministic);
    return true;
}

static bool rival_holds(const mdnn_ready_t *ready, const char **broken)
{
    const mdnn_ready_t *const rival = ready->rival;
    MDNN_RULE(rival || !ready->trial);
    if (!rival)
        return true;
    MDNN_RULE(ready->configuration->part_count > 1 && rival->configuration->part_count == 1);
    MDNN_RULE(rival->configuration->workspace_bytes <= ready->configuration->workspace_bytes);
    MDNN_RULE(!rival->rival && !rival->trial);
    return ready_holds(rival, broken);
}

static bool all_ready_hold(const mdnn_front_set_t *set, unsigned flags, const char **broken)
{
    const mdnn_front_t *const front = set->fronts[flags];
    size_t at = 0;
    for (size_t i = 0; i < set->counts[flags]; i++, at++) {
        const mdnn_ready_t *const ready = &set->ready[flags][i];
        while (at < mdnn_front_count(front) && mdnn_front_at(front, at) != ready->configuration)
            at++;
        MDNN_RULE(at < mdnn_front_count(front));
        if (!ready_holds(ready, broken) || !rival_holds(ready, broken))
            return false;
    }
    return true;
}

static bool set_holds(const mdnn_conv_plan_t *plan, const mdnn_front_set_t *set,
                      const char **broken)
{
    for (unsigned flags = 0; flags < MDNN_DEMAND_FLAGS; flags++) {
        MDNN_RULE(set->fronts[flags] || set->counts[flags] == 0);
        if (!set->fronts[flags])
            continue;
        MDNN_RULE(set->counts[flags] <= mdnn_front_count(set->fronts[flags]));
        if (!front_holds(plan, set, flags, broken) || !all_ready_hold(set, flags, broken))
            return false;
    }
    return true;
}

bool mdnn_conv_plan_is_valid(const mdnn_conv_plan_t *plan, const char **broken)
{
    const mdnn_front_set_t *const newest = atomic_load(&plan->set);
    const mdnn_front_set_t *follows =
        newest; /* at half the pace: meets a chain that goes in circles */
    size_t count = 0;
    if (!newest)
        return true;
    MDNN_RULE(newest->limit_bytes == UINT64_MAX ||
              atomic_load(&plan->next_limit) > newest->limit_bytes);
    for (const mdnn_front_set_t *set = newest; set; set = set->replaced) {
        MDNN_RULE(!set->replaced || set->replaced->limit_bytes <= set->limit_bytes);
        if (!set_holds(plan, set, broken))
            return false;
        if (count++ % 2)
            follows = follows->replaced;
        MDNN_RULE(set->replaced != follows);
    }
    return true;
}

bool mdnn_conv_plan_engines_are_valid(const mdnn_conv_plan_t *plan, const char **broken)
{
    MDNN_RULE(plan->met_count >= 0 && plan->met_count <= MDNN_MET_ENGINES);
    for (int i = 0; i < plan->met_count; i++) {
        MDNN_RULE(plan->met[i].plans >= 0);
        for (int other = 0; other < i; other++)
            MDNN_RULE(memcmp(&plan->met[i].engine, &plan->met[other].engine,
                             sizeof plan->met[i].engine) != 0);
    }
    return true;
}

bool mdnn_plan_table_is_valid(mdnn_conv_plan_t *first, const char **broken, uint64_t *looks)
{
    *looks = 0;
    for (mdnn_conv_plan_t *plan = first; plan; plan = plan->hh.next, ++*looks) {
        const uint32_t hash = mdnn_plan_key_hash(&plan->key);
        mdnn_conv_plan_t *found = NULL;
        HASH_FIND_BYHASHVALUE(hh, first, &plan->key, sizeof plan->key, hash, found);
        MDNN_RULE(found == plan);
    }
    MDNN_RULE(HASH_COUNT(first) == *looks);
    return true;
}

void mdnn_conv_plan_check(const mdnn_conv_plan_t *plan)
{
    const char *broken = "";
    if (!mdnn_conv_plan_is_valid(plan, &broken))
        mdnn_rule_violated(broken, __FILE__, __LINE__);
}

void mdnn_conv_plan_check_engines(const mdnn_conv_plan_t *plan)
{
    const char *broken = "";
    if (!mdnn_conv_plan_engines_are_valid(plan, &broken))
        mdnn_rule_violated(broken, __FILE__, __LINE__);
}

void mdnn_plan_table_check(mdnn_conv_plan_t *first)
{
    static mdnn_rule_pace_t pace;
    const char *broken = "";
    uint64_t looks;
    if (!mdnn_rule_is_due(&pace))
        return;
    if (!mdnn_plan_table_is_valid(first, &broken, &looks))
        mdnn_rule_violated(broken, __FILE__, __LINE__);
    mdnn_rule_took(&pace, looks);
}

#endif
