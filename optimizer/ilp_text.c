/* Reading is strict: what was not written by the functions here, or by hand to the letter, is
 * BAD_FORMAT. */
#include "optimizer/ilp_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char problem_head[] = "microdnn-ilp problem 1";
static const char solution_head[] = "microdnn-ilp solution 1";
static const char *const states[MDNN_ILP_STATE_COUNT] = {"optimal", "feasible", "infeasible",
                                                         "failed"};
enum {
    PARTS_DIGITS = 9, /* of a millisecond that are written */
    MOST_GROUPS = 1 << 16
};
static const uint64_t parts_per_ms = 1000000000;
static const double most_ms = 1e9;

/* ---- writing ---- */

static bool to_parts(double time_ms, uint64_t *parts)
{
    if (!(time_ms >= 0 && time_ms <= most_ms))
        return false;
    *parts = (uint64_t)llround(time_ms * (double)parts_per_ms);
    return true;
}

static mdnn_status_t add_item(mdnn_text_t *text, const mdnn_knapsack_item_t *item)
{
    uint64_t parts;
    if (!to_parts(item->time_ms, &parts))
        return MDNN_STATUS_INVALID_ARGUMENT;
    return mdnn_text_add(text, "%" PRIu64 ".%09" PRIu64 " %" PRIu64 "\n", parts / parts_per_ms,
                         parts % parts_per_ms, item->workspace_bytes);
}

mdnn_status_t mdnn_ilp_write_problem(mdnn_text_t *text, const mdnn_wd_problem_t *problem)
{
    if ((unsigned)problem->model >= MDNN_WD_MODEL_COUNT)
        return MDNN_STATUS_INVALID_ARGUMENT;
    MDNN_TRY(mdnn_text_add(text, "%s\nmodel %s\n", problem_head,
                           mdnn_choices_convolution_wd_model[problem->model]));
    if (problem->group_count > MOST_GROUPS)
        return MDNN_STATUS_INVALID_ARGUMENT;
    MDNN_TRY(mdnn_text_add(text, "total %" PRIu64 "\ngroups %" PRIu32 "\nkernels %zu\n",
                           problem->total_bytes, problem->group_count, problem->kernel_count));
    for (size_t k = 0; k < problem->kernel_count; k++) {
        const mdnn_wd_kernel_t *const kernel = &problem->kernels[k];
        MDNN_TRY(
            mdnn_text_add(text, "kernel %" PRIu32 " %zu\n", kernel->group, kernel->item_count));
        for (size_t i = 0; i < kernel->item_count; i++)
            MDNN_TRY(add_item(text, &kernel->items[i]));
    }
    return mdnn_text_add(text, "end\n");
}

static bool has_choices(mdnn_ilp_state_t state)
{
    return state == MDNN_ILP_OPTIMAL || state == MDNN_ILP_FEASIBLE;
}

mdnn_status_t mdnn_ilp_write_solution(mdnn_text_t *text, const mdnn_ilp_solution_t *solution)
{
    uint64_t parts = 0;
    if ((unsigned)solution->state >= MDNN_ILP_STATE_COUNT)
        return MDNN_STATUS_INVALID_ARGUMENT;
    const bool choice = has_choices(solution->state);
    if (choice && !to_parts(solution->bound_ms, &parts))
        return MDNN_STATUS_INVALID_ARGUMENT;
    MDNN_TRY(mdnn_text_add(text, "%s\nstate %s\n", solution_head, states[solution->state]));
    if (choice)
        MDNN_TRY(mdnn_text_add(text, "bound %" PRIu64 ".%09" PRIu64 "\n", parts / parts_per_ms,
                               parts % parts_per_ms));
    MDNN_TRY(mdnn_text_add(text, "choices %zu\n", choice ? solution->choice_count : 0));
    for (size_t i = 0; choice && i < solution->choice_count; i++)
        MDNN_TRY(mdnn_text_add(text, "%zu\n", solution->choices[i]));
    return mdnn_text_add(text, "end\n");
}

void mdnn_ilp_solution_fini(mdnn_ilp_solution_t *solution)
{
    free(solution->choices);
    solution->choices = NULL;
}

/* ---- reading: each takes what it names, or leaves the cursor and returns false ---- */

static bool take(mdnn_ilp_cursor_t *cursor, const char *word)
{
    const size_t bytes = strlen(word);
    if ((size_t)(cursor->end - cursor->next) < bytes || memcmp(cursor->next, word, bytes) != 0)
        return false;
    cursor->next += bytes;
    return true;
}

static bool take_line_end(mdnn_ilp_cursor_t *cursor)
{
    if (!take(cursor, "\n"))
        return false;
    cursor->line++;
    return true;
}

static bool is_digit(const mdnn_ilp_cursor_t *cursor)
{
    return cursor->next < cursor->end && *cursor->next >= '0' && *cursor->next <= '9';
}

static bool take_number(mdnn_ilp_cursor_t *cursor, uint64_t most, uint64_t *value)
{
    const char *const begin = cursor->next;
    uint64_t number = 0;
    for (; is_digit(cursor); cursor->next++)
        if (__builtin_mul_overflow(number, (uint64_t)10, &number) ||
            __builtin_add_overflow(number, (uint64_t)(*cursor->next - '0'), &number))
            return false;
    *value = number;
    return cursor->next != begin && number <= most;
}

static bool take_field(mdnn_ilp_cursor_t *cursor, const char *name, uint64_t most, uint64_t *value)
{
    return take(cursor, name) && take_number(cursor, most, value) && take_line_end(cursor);
}

static bool take_time(mdnn_ilp_cursor_t *cursor, double *time_ms)
{
    uint64_t parts;
    if (!take_number(cursor, (uint64_t)most_ms, &parts))
        return false;
    uint64_t scale = 1;
    if (take(cursor, ".")) {
        if (!is_digit(cursor))
            return false;
        for (int i = 0; i < PARTS_DIGITS && is_digit(cursor); i++, cursor->next++) {
            parts = 10 * parts + (uint64_t)(*cursor->next - '0');
            scale *= 10;
        }
    }
    *time_ms = (double)parts / (double)scale;
    return !is_digit(cursor);
}

static bool take_one_of(mdnn_ilp_cursor_t *cursor, const char *name, const char *const *words,
                        unsigned count, unsigned *which)
{
    if (!take(cursor, name))
        return false;
    for (unsigned i = 0; i < count; i++) {
        const char *const begin = cursor->next;
        if (take(cursor, words[i]) && take_line_end(cursor)) {
            *which = i;
            return true;
        }
        cursor->next = begin;
    }
    return false;
}

static size_t bytes_left(const mdnn_ilp_cursor_t *cursor)
{
    return (size_t)(cursor->end - cursor->next);
}

/* Whatever a text promises must still be in it: "0 0", "kernel 0 1" with its item, "0", and their
 * newlines. */
enum { SHORTEST_ITEM = 4, SHORTEST_KERNEL = 15, SHORTEST_CHOICE = 2 };

/* The items of all kernels, while they are read. */
typedef struct items {
    mdnn_knapsack_item_t *at;
    size_t count, capacity;
} items_t;

static mdnn_status_t reserve(items_t *items, size_t more)
{
    if (more <= items->capacity - items->count)
        return MDNN_STATUS_OK;
    const size_t capacity = 2 * (items->count + more);
    mdnn_knapsack_item_t *const grown = reallocarray(items->at, capacity, sizeof *grown);
    if (!grown)
        return MDNN_STATUS_OUT_OF_MEMORY;
    items->at = grown;
    items->capacity = capacity;
    return MDNN_STATUS_OK;
}

/* All but the place of its items, which still move. */
static mdnn_status_t read_kernel(mdnn_ilp_cursor_t *cursor, uint32_t group_count,
                                 mdnn_wd_kernel_t *kernel, items_t *items)
{
    uint64_t group, count;
    if (!take(cursor, "kernel ") || !take_number(cursor, UINT32_MAX, &group) ||
        !take_field(cursor, " ", bytes_left(cursor) / SHORTEST_ITEM, &count) || count == 0 ||
        group >= group_count)
        return MDNN_STATUS_BAD_FORMAT;
    MDNN_TRY(reserve(items, (size_t)count));
    for (uint64_t i = 0; i < count; i++) {
        mdnn_knapsack_item_t *const item = &items->at[items->count++];
        if (!take_time(cursor, &item->time_ms) ||
            !take_field(cursor, " ", UINT64_MAX, &item->workspace_bytes))
            return MDNN_STATUS_BAD_FORMAT;
    }
    *kernel = (mdnn_wd_kernel_t){NULL, (size_t)count, (uint32_t)group};
    return MDNN_STATUS_OK;
}

static bool take_problem_head(mdnn_ilp_cursor_t *cursor, mdnn_wd_problem_t *problem)
{
    uint64_t total, groups, kernels;
    unsigned model;
    if (!take(cursor, problem_head) || !take_line_end(cursor) ||
        !take_one_of(cursor, "model ", mdnn_choices_convolution_wd_model, MDNN_WD_MODEL_COUNT,
                     &model) ||
        !take_field(cursor, "total ", UINT64_MAX, &total) ||
        !take_field(cursor, "groups ", MOST_GROUPS, &groups) ||
        !take_field(cursor, "kernels ", bytes_left(cursor) / SHORTEST_KERNEL, &kernels))
        return false;
    *problem = (mdnn_wd_problem_t){.model = (mdnn_wd_model_t)model,
                                   .kernel_count = (size_t)kernels,
                                   .group_count = (uint32_t)groups,
                                   .total_bytes = total};
    return true;
}

static mdnn_status_t read_kernels(mdnn_ilp_cursor_t *cursor, mdnn_ilp_problem_t *read)
{
    const size_t count = read->problem.kernel_count;
    items_t items = {0};
    read->kernels = calloc(count + 1, sizeof *read->kernels);
    mdnn_status_t status = read->kernels ? MDNN_STATUS_OK : MDNN_STATUS_OUT_OF_MEMORY;
    for (size_t k = 0; status == MDNN_STATUS_OK && k < count; k++)
        status = read_kernel(cursor, read->problem.group_count, &read->kernels[k], &items);
    read->items = items.at;
    const mdnn_knapsack_item_t *next = items.at;
    for (size_t k = 0; status == MDNN_STATUS_OK && k < count; k++) {
        read->kernels[k].items = next;
        next += read->kernels[k].item_count;
    }
    read->problem.kernels = read->kernels;
    return status;
}

mdnn_status_t mdnn_ilp_read_problem(mdnn_ilp_cursor_t *cursor, mdnn_ilp_problem_t *problem)
{
    mdnn_ilp_problem_t read = {0};
    if (cursor->next == cursor->end)
        return MDNN_STATUS_NOT_FOUND;
    if (!take_problem_head(cursor, &read.problem))
        return MDNN_STATUS_BAD_FORMAT;
    mdnn_status_t status = read_kernels(cursor, &read);
    if (status == MDNN_STATUS_OK && (!take(cursor, "end") || !take_line_end(cursor)))
        status = MDNN_STATUS_BAD_FORMAT;
    if (status == MDNN_STATUS_OK)
        *problem = read;
    else
        mdnn_ilp_problem_fini(&read);
    return status;
}

void mdnn_ilp_problem_fini(mdnn_ilp_problem_t *problem)
{
    free(problem->kernels);
    free(problem->items);
    *problem = (mdnn_ilp_problem_t){0};
}

static bool take_solution_head(mdnn_ilp_cursor_t *cursor, mdnn_ilp_solution_t *solution)
{
    uint64_t count;
    unsigned state;
    if (!take(cursor, solution_head) || !take_line_end(cursor) ||
        !take_one_of(cursor, "state ", states, MDNN_ILP_STATE_COUNT, &state))
        return false;
    solution->state = (mdnn_ilp_state_t)state;
    if (has_choices(solution->state) &&
        (!take(cursor, "bound ") || !take_time(cursor, &solution->bound_ms) ||
         !take_line_end(cursor)))
        return false;
    if (!take_field(cursor, "choices ", bytes_left(cursor) / SHORTEST_CHOICE, &count) ||
        (count > 0 && !has_choices(solution->state)))
        return false;
    solution->choice_count = (size_t)count;
    return true;
}

mdnn_status_t mdnn_ilp_read_solution(mdnn_ilp_cursor_t *cursor, mdnn_ilp_solution_t *solution)
{
    mdnn_ilp_solution_t read = {0};
    if (cursor->next == cursor->end)
        return MDNN_STATUS_NOT_FOUND;
    if (!take_solution_head(cursor, &read))
        return MDNN_STATUS_BAD_FORMAT;

    if (read.choice_count > 0 && !(read.choices = calloc(read.choice_count, sizeof *read.choices)))
        return MDNN_STATUS_OUT_OF_MEMORY;
    bool good = true;
    for (size_t i = 0; good && i < read.choice_count; i++) {
        uint64_t choice;
        good = take_field(cursor, "", SIZE_MAX, &choice);
        read.choices[i] = good ? (size_t)choice : 0;
    }
    if (!good || !take(cursor, "end") || !take_line_end(cursor)) {
        mdnn_ilp_solution_fini(&read);
        return MDNN_STATUS_BAD_FORMAT;
    }
    *solution = read;
    return MDNN_STATUS_OK;
}
