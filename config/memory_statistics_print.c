#include "config/memory_statistics_print.h"

#include <inttypes.h>
#include <string.h>

#include "config/numbers.h"
#include "config/statistics_verdict.h"
#include "config/text_output.h"

typedef struct size_text {
    char text[MDNN_NUMBER_BYTES];
} size_text_t;

static size_text_t size_of(uint64_t bytes)
{
    size_text_t size;
    mdnn_format_size_rounded(bytes, size.text, sizeof size.text);
    return size;
}

static size_text_t ms_of(double ms)
{
    size_text_t size;
    mdnn_format_decimal(ms, 2, false, size.text, sizeof size.text);
    return size;
}

static void print_line(FILE *out, const char *what)
{
    fprintf(out, "  %-20s", what);
}

/* ", 86 % of the speed at the link bound", only where both times are known; or what an iteration that is
 * faster shows. */
static void print_share(FILE *out, const char *bound, const char *faster, double bound_ms,
                        double round_ms)
{
    size_text_t share;
    if (!(bound_ms > 0) || !(round_ms > 0))
        return;
    mdnn_format_decimal(100 * bound_ms / round_ms, 0, false, share.text, sizeof share.text);
    if (bound_ms > 1.05 * round_ms)
        fprintf(out, ", %s", faster);
    else
        fprintf(out, ", %s %% of the speed at the %s bound", share.text, bound);
}

static void print_named(const char *before, const char *text, FILE *out)
{
    fputs(before, out);
    mdnn_print_plain(text, out);
}

static void print_round(const mdnn_memory_statistics_t *n, FILE *out)
{
    if (n->period_operations == 0)
        return;
    print_line(out, "one iteration");
    fprintf(out, "%" PRIu64 " operations; planned: %s out, %s in\n", n->period_operations,
            size_of(n->period_out_bytes).text, size_of(n->period_in_bytes).text);
    print_line(out, "its bounds");
    fprintf(out, "computation alone %s ms", ms_of(n->compute_ms).text);
    if (n->link_bound_ms > 0)
        fprintf(out, ", with the link's speed %s ms", ms_of(n->link_bound_ms).text);
    if (n->predicted_ms > 0)
        fprintf(out, ", best schedule known %s ms", ms_of(n->predicted_ms).text);
    fputc('\n', out);
    if (!(n->round_ms > 0))
        return;
    print_line(out, "it took");
    fprintf(out, "%s ms", ms_of(n->round_ms).text);
    print_share(out, "link", "faster than the link bound, so its rates are wrong", n->link_bound_ms,
                n->round_ms);
    print_share(out, "schedule", "less than its schedule was expected to take", n->predicted_ms,
                n->round_ms);
    fputc('\n', out);
}

static void print_moves(const mdnn_memory_statistics_t *n, FILE *out)
{
    print_line(out, "copied");
    fprintf(out, "%s to the host, %s back; %s left again before they had come back\n",
            size_of(n->out_bytes).text, size_of(n->in_bytes).text, size_of(n->saved_bytes).text);
    print_line(out, "leaves, returns");
    fprintf(out,
            "ahead of time %" PRIu64 ", %" PRIu64 "; on demand %" PRIu64 ", %" PRIu64
            "; called off %" PRIu64 "\n",
            n->planned_leaves, n->planned_returns, n->demand_leaves, n->demand_returns,
            n->called_off);
    print_line(out, "waits of the host");
    fprintf(out, "%" PRIu64 ", %s ms together\n", n->host_waits, ms_of(n->host_wait_ms).text);
    print_line(out, "pinned on the host");
    fprintf(out, "%s\n", size_of(n->host_bytes).text);
}

typedef struct named_ms {
    const char *words;
    double ms;
} named_ms_t;

/* The parts that count, the largest first. */
static void print_parts(named_ms_t *parts, size_t count, FILE *out)
{
    const char *before = "";
    for (size_t printed = 0; printed < count; printed++) {
        named_ms_t *largest = &parts[0];
        for (size_t i = 1; i < count; i++)
            if (parts[i].ms > largest->ms)
                largest = &parts[i];
        if (largest->ms < 0.005)
            break;
        fprintf(out, "%s%s ms %s", before, ms_of(largest->ms).text, largest->words);
        before = ", ";
        largest->ms = 0;
    }
    fputs(before[0] != '\0' ? "\n" : "nothing that counts\n", out);
}

static void print_host_time(const mdnn_memory_statistics_t *n, FILE *out)
{
#define HOST_TIME(name, words) {words, n->host_##name##_ms},
    named_ms_t all[] = {
#include "config/host_time.def"
    };
#define HOST_TIME(name, words) {words, n->round_##name##_ms},
    named_ms_t of_round[] = {
#include "config/host_time.def"
    };
    print_line(out, "host in the library");
    print_parts(all, sizeof all / sizeof *all, out);
    if (!(n->round_ms > 0))
        return;
    print_line(out, "of one iteration");
    if (strstr(n->device_name, "(simulated)"))
        fputs("(by the host's clock, which is not the simulated one) ", out);
    print_parts(of_round, sizeof of_round / sizeof *of_round, out);
}

static void print_late_returns(const mdnn_memory_statistics_t *n, FILE *out)
{
    const char *before = "";
    if (n->demand_returns == 0)
        return;
    print_line(out, "returns on demand");
#define LATE_RETURN(name, words)                                                                   \
    if (n->returned_##name > 0) {                                                                  \
        fprintf(out, "%s%" PRIu64 " " words, before, n->returned_##name);                          \
        before = ", ";                                                                             \
    }
#include "config/host_time.def"
    fputc('\n', out);
}

static void print_tails(const mdnn_memory_statistics_t *n, FILE *out)
{
    if (n->tail_operations == 0)
        return;
    print_line(out, "above the budget");
    fprintf(out, "%" PRIu64 " operations used %s in host memory; without that %s are needed\n",
            n->tail_operations, size_of(n->tail_bytes).text, size_of(n->whole_budget_bytes).text);
    print_line(out, "the largest");
    mdnn_print_plain(n->tails, out);
    fputc('\n', out);
}

static void print_outcome(const char *words, uint64_t count, uint64_t bytes, FILE *out)
{
    if (count > 0)
        fprintf(out, "    %" PRIu64 " x, %s: %s\n", count, size_of(bytes).text, words);
}

static void print_drops(const mdnn_memory_statistics_t *n, FILE *out)
{
    if (n->remake_dropped + n->remake_refused + n->remake_lost == 0)
        return;
    print_line(out, "dropped");
    fprintf(out,
            "%" PRIu64 " x, %s; made again: %" PRIu64 " when wanted, %" PRIu64
            " early; copied after all, since a hash was another one: %" PRIu64 "\n",
            n->remake_dropped, size_of(n->remake_dropped_bytes).text, n->remake_wanted,
            n->remake_early, n->remake_refused);
    if (n->remake_lost > 0) {
        print_line(out, "lost");
        fprintf(out, "%" PRIu64 " dropped contents were made again with other bytes\n",
                n->remake_lost);
    }
}

static void print_remaking(const mdnn_memory_statistics_t *n, FILE *out)
{
    if (n->remake_keys == 0)
        return;
    print_line(out, "remaking");
    fprintf(out,
            "%" PRIu64 " kinds of launches, %" PRIu64 " of them proven; %" PRIu64
            " proofs, %" PRIu64 " of which made other bytes\n",
            n->remake_keys, n->remake_keys_proven, n->remake_proofs, n->remake_differences);
    if (n->remake_proven_bytes > 0) {
        print_line(out, "could be remade");
        fprintf(out, "%s in %s ms\n", size_of(n->remake_proven_bytes).text,
                ms_of(n->remake_ms).text);
    }
    print_drops(n, out);
#define REMAKE_OUTCOME(name, words)                                                                \
    print_outcome(words, n->remake_##name, n->remake_##name##_bytes, out);
#include "config/remake_outcomes.def"
}

static void print_needs(const mdnn_memory_statistics_t *n, FILE *out)
{
    print_line(out, "needs at least");
    fprintf(out, "%s, as far as is known", size_of(n->smallest_budget_bytes).text);
    if (n->whole_budget_bytes > n->smallest_budget_bytes)
        fprintf(out, ", or %s so that no operation uses host memory",
                size_of(n->whole_budget_bytes).text);
    fprintf(out, " (largest operation %s, cannot leave %s)\n",
            size_of(n->largest_operation_bytes).text, size_of(n->pinned_live_bytes).text);
    if (n->refused == 0)
        return;
    print_line(out, "refused requests");
    fprintf(out, "%" PRIu64, n->refused);
    if (n->refused_optional > 0)
        fprintf(out, ", %" PRIu64 " of which were optional", n->refused_optional);
    if (n->refused_budget_bytes > n->budget_bytes)
        fprintf(out, "; the largest would need a budget of %s",
                size_of(n->refused_budget_bytes).text);
    fputc('\n', out);
}

void mdnn_memory_statistics_print_text(const mdnn_memory_statistics_t *numbers, int device,
                                       FILE *out)
{
    mdnn_memory_statistics_t n = *numbers;
    n.policy[sizeof n.policy - 1] = n.safety[sizeof n.safety - 1] = '\0';
    n.first_unnamed[sizeof n.first_unnamed - 1] = n.tails[sizeof n.tails - 1] = '\0';
    fprintf(out, "virtual memory of device %d: budget %s", device, size_of(n.budget_bytes).text);
    if (n.policy[0] != '\0')
        print_named(", policy ", n.policy, out);
    if (n.safety[0] != '\0')
        print_named(", safety ", n.safety, out);
    fputc('\n', out);
    print_line(out, "device memory");
    fprintf(out, "%s held at most, %s in use on average; the program had %s at once",
            size_of(n.peak_resident_bytes).text, size_of(n.average_resident_bytes).text,
            size_of(n.peak_live_bytes).text);
    if (n.need_bytes > 0)
        fprintf(out, ", %s in an iteration", size_of(n.need_bytes).text);
    fputc('\n', out);
    if (n.peak_other_bytes > 0) {
        print_line(out, "not virtual");
        fprintf(out, "%s of that at most: memory that the program has in other ways\n",
                size_of(n.peak_other_bytes).text);
    }
    print_line(out, "operations");
    fprintf(out, "%" PRIu64 "\n", n.operations);
    print_moves(&n, out);
    print_late_returns(&n, out);
    print_host_time(&n, out);
    print_round(&n, out);
    print_needs(&n, out);
    print_tails(&n, out);
    print_remaking(&n, out);
    if (n.unnamed_accesses > 0) {
        print_line(out, "UNNAMED ACCESSES");
        fprintf(out, "%" PRIu64, n.unnamed_accesses);
        print_named("; the first: ", n.first_unnamed, out);
        fputc('\n', out);
    }
}

static void print_json_count(const char *name, uint64_t value, FILE *out)
{
    fprintf(out, ", \"%s\": %" PRIu64, name, value);
}

/* `ms`: corrected by what was measured, as in the verdict. */
static void print_json_forecasts(const mdnn_memory_statistics_t *n, FILE *out)
{
    const char *before = "";
    mdnn_print_json_ms("without_moves_ms", mdnn_memory_without_moves_ms(n), out);
    fputs(", \"forecast\": [", out);
    for (int i = 0; i < MDNN_MEMORY_FORECASTS; i++) {
        const mdnn_memory_forecast_t *const forecast = &n->forecast[i];
        if (!(forecast->predicted_ms > 0))
            continue;
        fprintf(out, "%s{\"budget_bytes\": %" PRIu64, before, forecast->budget_bytes);
        print_json_count("moved_bytes", forecast->moved_bytes, out);
        mdnn_print_json_ms("predicted_ms", forecast->predicted_ms, out);
        mdnn_print_json_ms("ms", mdnn_memory_forecast_ms(n, i), out);
        fputc('}', out);
        before = ", ";
    }
    fputc(']', out);
}

void mdnn_memory_statistics_print_json(const mdnn_memory_statistics_t *numbers, int device,
                                       FILE *out)
{
    mdnn_memory_statistics_t n = *numbers;
    n.policy[sizeof n.policy - 1] = n.safety[sizeof n.safety - 1] = '\0';
    n.plan_state[sizeof n.plan_state - 1] = n.device_name[sizeof n.device_name - 1] = '\0';
    n.first_unnamed[sizeof n.first_unnamed - 1] = n.tails[sizeof n.tails - 1] = '\0';
    fprintf(out, "{\"device\": %d", device);
#define MEMORY_COUNT(name) print_json_count(#name, n.name, out);
#define MEMORY_BYTES MEMORY_COUNT
#define MEMORY_MS(name) mdnn_print_json_ms(#name, n.name, out);
#include "config/memory_statistics.def"
#undef MEMORY_COUNT
#undef MEMORY_BYTES
#undef MEMORY_MS
    print_json_forecasts(&n, out);
    fputs(", \"policy\": ", out);
    mdnn_print_json_text(n.policy, out);
    fputs(", \"safety\": ", out);
    mdnn_print_json_text(n.safety, out);
    fputs(", \"plan_state\": ", out);
    mdnn_print_json_text(n.plan_state, out);
    fputs(", \"device_name\": ", out);
    mdnn_print_json_text(n.device_name, out);
    fputs(", \"first_unnamed\": ", out);
    mdnn_print_json_text(n.first_unnamed, out);
    fputs(", \"tails\": ", out);
    mdnn_print_json_text(n.tails, out);
    fputc('}', out);
}
