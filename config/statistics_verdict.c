#include "config/statistics_verdict.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "config/numbers.h"

typedef struct number_text {
    char text[MDNN_NUMBER_BYTES];
} number_text_t;

/* 6 GiB, 9.8 GiB, 7.25 GiB: as the option would be written. */
static number_text_t size_of(uint64_t bytes)
{
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    number_text_t size;
    double amount = (double)bytes;
    unsigned unit = 0;
    for (; unit < 4 && amount >= 1023.5; unit++)
        amount /= 1024;
    mdnn_format_decimal(amount,
                        amount < 9.995   ? 2
                        : amount < 99.95 ? 1
                                         : 0,
                        true, size.text, sizeof size.text);
    const size_t length = strlen(size.text);
    snprintf(size.text + length, sizeof size.text - length, " %s", units[unit]);
    return size;
}

static number_text_t ms_of(double ms)
{
    number_text_t text;
    mdnn_format_decimal(ms, ms < 0.995 ? 3 : ms < 9.95 ? 1 : 0, true, text.text, sizeof text.text);
    return text;
}

/* "+67 %" of `base_ms`. */
static number_text_t more_of(double ms, double base_ms)
{
    number_text_t more;
    more.text[0] = ms < base_ms ? '-' : '+';
    mdnn_format_decimal(100 * (ms < base_ms ? base_ms - ms : ms - base_ms) / base_ms, 0, false,
                        more.text + 1, sizeof more.text - 3);
    strcat(more.text, " %");
    return more;
}

/* A line of its own, or what follows on the one before. */
__attribute__((format(printf, 3, 4))) static void put(mdnn_verdict_lines_t *verdict, bool new_line,
                                                      const char *format, ...)
{
    if (new_line)
        verdict->count++;
    if (verdict->count > MDNN_VERDICT_LINES)
        return;
    char *const line = verdict->lines[verdict->count - 1];
    const size_t length = new_line ? 0 : strlen(line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + length, MDNN_VERDICT_BYTES - length, format, arguments);
    va_end(arguments);
}

/* ---- memory ---- */

/* Without a plan that fits, what moves does so on demand. */
static bool moves_in_iterations(const mdnn_memory_statistics_t *numbers)
{
    return numbers->period_out_bytes + numbers->period_in_bytes > 0 ||
           (!(numbers->predicted_ms > 0) && numbers->out_bytes > 0);
}

/* The library's thread and the program's take turns at the driver: about half of what the one takes, the other loses. */
static double lost_to_background_ms(const mdnn_memory_statistics_t *numbers)
{
    return numbers->round_background_ms / 2;
}

static double waits_ms(const mdnn_memory_statistics_t *numbers)
{
    return numbers->round_copies_ms + numbers->round_work_ms + numbers->round_pinning_ms;
}

/* The host's time is not simulated, so it says nothing of simulated iterations. */
static bool is_simulated(const mdnn_memory_statistics_t *numbers)
{
    return strstr(numbers->device_name, "(simulated)") != NULL;
}

/* What the program's own thread needs to enqueue an iteration, without the library. 0: not known. */
static double host_alone_ms(const mdnn_memory_statistics_t *numbers)
{
    double inside_ms = 0;
    if (is_simulated(numbers))
        return 0;
#define HOST_TIME(name, words) inside_ms += numbers->round_##name##_ms;
#include "config/host_time.def"
    return numbers->round_ms - inside_ms - lost_to_background_ms(numbers);
}

/* Operations that are timed one by one may seem to take longer than when they follow one another. */
double mdnn_memory_without_moves_ms(const mdnn_memory_statistics_t *numbers)
{
    if ((!moves_in_iterations(numbers) || numbers->compute_ms > numbers->round_ms) &&
        numbers->round_ms > 0)
        return numbers->round_ms;
    const double host_ms = numbers->compute_ms > 0 ? host_alone_ms(numbers) : 0;
    return host_ms > numbers->compute_ms ? host_ms : numbers->compute_ms;
}

static double moved_share(const mdnn_memory_statistics_t *numbers, uint64_t moved_bytes)
{
    const double moved = (double)(numbers->period_out_bytes + numbers->period_in_bytes);
    return moved > 0 ? (double)moved_bytes / moved : 1;
}

/* What the program's thread needs to enqueue an iteration in which so much moves, if it waits for nothing. Changes of
 * mappings take time in proportion, and so does about half of the library's own work; all else does not depend on it. */
static double host_ms(const mdnn_memory_statistics_t *numbers, uint64_t moved_bytes)
{
    if (is_simulated(numbers))
        return 0;
    const double moves_ms =
        numbers->round_mapping_ms + numbers->round_library_ms / 2 + lost_to_background_ms(numbers);
    return numbers->round_ms - waits_ms(numbers) - moves_ms +
           moves_ms * moved_share(numbers, moved_bytes);
}

/* An iteration takes longer than its plan says, for many small reasons. A quarter of that is the same for all budgets; a
 * half grows with the bytes that move, at most to twice as much. The fractions here and above were chosen in quarters by
 * the runs of docs/benchmarks/forecasts.md. */
static double beyond_ms(const mdnn_memory_statistics_t *numbers, uint64_t moved_bytes)
{
    const double share = moved_share(numbers, moved_bytes), most = 2;
    return (numbers->round_ms - numbers->predicted_ms) * (1 + 2 * (share < most ? share : most)) /
           4;
}

/* Its plan, or its host if that is slower. No budget makes an iteration faster than a larger one does. */
double mdnn_memory_forecast_ms(const mdnn_memory_statistics_t *numbers, int index)
{
    const mdnn_memory_forecast_t *const forecast = &numbers->forecast[index];
    if (!(forecast->predicted_ms > 0))
        return 0;
    if (!(numbers->round_ms > 0) || !(numbers->predicted_ms > 0))
        return forecast->predicted_ms;
    double ms = forecast->predicted_ms + beyond_ms(numbers, forecast->moved_bytes);
    const double enqueued_ms = host_ms(numbers, forecast->moved_bytes);
    if (ms < enqueued_ms)
        ms = enqueued_ms;
    if (forecast->budget_bytes > numbers->budget_bytes ? ms > numbers->round_ms
                                                       : ms < numbers->round_ms)
        ms = numbers->round_ms;
    const double without_ms = mdnn_memory_without_moves_ms(numbers);
    return ms > without_ms ? ms : without_ms;
}

/* What repeats may be a short loop, such as that of a search, which says nothing of the program. */
static bool is_iteration(const mdnn_memory_statistics_t *numbers)
{
    enum { MUCH = 4, SHORT = 32 /* operations */ };
    return numbers->round_ms > 0 &&
           (numbers->need_bytes == 0 || numbers->period_operations >= SHORT ||
            numbers->need_bytes >= numbers->peak_live_bytes / MUCH);
}

/* What it would hold if it were allowed to: in an iteration, or before, if only then it was more than the budget. */
static uint64_t asked_bytes(const mdnn_memory_statistics_t *numbers)
{
    const bool moved = numbers->out_bytes + numbers->in_bytes > 0;
    if (!is_iteration(numbers))
        return numbers->peak_live_bytes;
    const bool had_room = moved && numbers->need_bytes <= numbers->budget_bytes;
    return numbers->need_bytes > 0 && !had_room ? numbers->need_bytes : numbers->peak_live_bytes;
}

static void put_cost(mdnn_verdict_lines_t *verdict, const mdnn_memory_statistics_t *numbers)
{
    const double without_ms = mdnn_memory_without_moves_ms(numbers);
    if (numbers->out_bytes + numbers->in_bytes == 0) {
        put(verdict, false, "budget %s was enough for the %s that it asked for: nothing moved",
            size_of(numbers->budget_bytes).text, size_of(asked_bytes(numbers)).text);
        return;
    }
    put(verdict, false,
        "budget %s of the %s that it asked for: ", size_of(numbers->budget_bytes).text,
        size_of(asked_bytes(numbers)).text);
    const bool is_timed = is_iteration(numbers);
    if (is_timed && without_ms > 0 && moves_in_iterations(numbers))
        put(verdict, false, "%s ms per iteration, %s without moves (%s)",
            ms_of(numbers->round_ms).text, ms_of(without_ms).text,
            more_of(numbers->round_ms, without_ms).text);
    else if (is_timed)
        put(verdict, false, "%s ms per iteration, in which nothing moves",
            ms_of(numbers->round_ms).text);
    else
        put(verdict, false, "%s went to the host and %s came back; %s",
            size_of(numbers->out_bytes).text, size_of(numbers->in_bytes).text,
            numbers->period_operations > 0 && !(numbers->round_ms > 0)
                ? "too few iterations ran to time one; some more would show what they cost"
                : "no iteration was found that repeats");
}

static void put_forecasts(mdnn_verdict_lines_t *verdict, const mdnn_memory_statistics_t *numbers)
{
    const double without_ms = mdnn_memory_without_moves_ms(numbers);
    bool first = true;
    for (int i = 0; i < MDNN_MEMORY_FORECASTS && without_ms > 0 && is_iteration(numbers); i++) {
        const double ms = mdnn_memory_forecast_ms(numbers, i);
        if (!(ms > 0))
            continue;
        put(verdict, first, first ? "%s would cost about %s" : ", %s %s",
            size_of(numbers->forecast[i].budget_bytes).text, more_of(ms, without_ms).text);
        first = false;
    }
    if (!first)
        put(verdict, false, "; from %s on nothing has to move", size_of(numbers->need_bytes).text);
}

static void put_refused(mdnn_verdict_lines_t *verdict, const mdnn_memory_statistics_t *numbers)
{
    const uint64_t count = numbers->refused - numbers->refused_optional;
    const uint64_t budget_bytes = numbers->refused_budget_bytes > numbers->smallest_budget_bytes
                                      ? numbers->refused_budget_bytes
                                      : numbers->smallest_budget_bytes;
    put(verdict, true,
        count == 1 ? "%" PRIu64 " request was refused" : "%" PRIu64 " requests were refused",
        count);
    if (numbers->host_needed_bytes > 0)
        put(verdict, false,
            "; at least %s of pinned host memory would be needed ([memory] host_limit)",
            size_of(numbers->host_needed_bytes).text);
    else
        put(verdict, false, "; at least a budget of %s would be needed",
            size_of(budget_bytes).text);
}

/* The times above are then of what the program did instead: of slower convolutions, say. */
static void put_done_without(mdnn_verdict_lines_t *verdict, const mdnn_memory_statistics_t *numbers)
{
    put(verdict, true,
        "%" PRIu64 " request%s, such as for workspace, found no room, and the program did without, "
        "which may be slower",
        numbers->refused_optional, numbers->refused_optional == 1 ? "" : "s");
    if (numbers->refused_budget_bytes > numbers->budget_bytes)
        put(verdict, false, "; %s would have room", size_of(numbers->refused_budget_bytes).text);
}

/* What should be known, the worst first. */
static void put_trouble(mdnn_verdict_lines_t *verdict, const mdnn_memory_statistics_t *numbers)
{
    if (numbers->unnamed_accesses > 0)
        put(verdict, true, "an operation reached memory that it does not name: %s",
            numbers->first_unnamed);
    else if (numbers->refused > numbers->refused_optional)
        put_refused(verdict, numbers);
    else if (numbers->tail_operations > 0)
        put(verdict, true,
            "%" PRIu64
            " operation%s needed more than the budget and used host memory, which is slow; "
            "%s would hold each of them",
            numbers->tail_operations, numbers->tail_operations == 1 ? "" : "s",
            size_of(numbers->whole_budget_bytes).text);
    else if (numbers->refused_optional > 0)
        put_done_without(verdict, numbers);
}

void mdnn_verdict_add_device(mdnn_verdict_lines_t *verdict, int device,
                             const mdnn_memory_statistics_t *given)
{
    mdnn_memory_statistics_t numbers = *given;
    numbers.first_unnamed[sizeof numbers.first_unnamed - 1] = '\0';
    put(verdict, true, "%s", "");
    if (device > 0 || verdict->devices > 0)
        put(verdict, false, "device %d: ", device);
    put_cost(verdict, &numbers);
    if (verdict->devices++ == 0)
        put_forecasts(verdict, &numbers);
    put_trouble(verdict, &numbers);
}

/* ---- convolutions ---- */

void mdnn_verdict_add_convolution(mdnn_verdict_lines_t *verdict, const mdnn_statistics_row_t *row)
{
    verdict->problems++;
    if (!(row->configuration_ms >= 0)) {
        verdict->unfit++;
        return;
    }
    verdict->faster += !(row->undivided_ms >= 0) || row->configuration_ms < row->undivided_ms;
    if (row->undivided_ms >= 0) {
        verdict->chosen_ms += row->configuration_ms;
        verdict->undivided_ms += row->undivided_ms;
    }
}

static void put_convolutions(mdnn_verdict_lines_t *verdict)
{
    if (verdict->faster == 0) {
        put(verdict, true, "convolutions: none of %" PRIu32 " gains anything from micro-batches",
            verdict->problems);
    } else {
        put(verdict, true, "convolutions: %" PRIu32 " of %" PRIu32 " gain from micro-batches",
            verdict->faster, verdict->problems);
        if (verdict->chosen_ms > 0 && verdict->undivided_ms > verdict->chosen_ms)
            put(verdict, false, "; all of them once take %s ms, undivided %s",
                ms_of(verdict->chosen_ms).text, ms_of(verdict->undivided_ms).text);
    }
    if (verdict->unfit > 0)
        put(verdict, false, "; no configuration fits %" PRIu32 " of them", verdict->unfit);
}

void mdnn_verdict_end(mdnn_verdict_lines_t *verdict)
{
    if (verdict->problems > 0)
        put_convolutions(verdict);
    if (verdict->count == 0)
        put(verdict, true,
            "nothing was to be done: no convolution ran, and no memory was under a budget");
    if (verdict->count > MDNN_VERDICT_LINES)
        verdict->count = MDNN_VERDICT_LINES;
}
