/* microdnn-ilp: solves problems of Workspace Division with GLPK.
 *
 * SPDX-License-Identifier: GPL-3.0-or-later
 * Copyright the libmicrodnn authors
 *
 * This program is free software: you can redistribute it and/or modify it under the terms of the
 * GNU General Public License as published by the Free Software Foundation, either version 3 of the
 * License, or (at your option) any later version. It is distributed in the hope that it will be
 * useful, but WITHOUT ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS
 * FOR A PARTICULAR PURPOSE. See LICENSES/GPL-3.0-or-later.txt.
 *
 * A program of its own because GLPK has these terms, cannot be linked into a preloaded library and
 * ends its process on errors. It knows nothing of the library but the text form (ilp_text.h).
 *
 * The program that GLPK gets. Kernels with the same items (and, if they share regions, in the same
 * group) are one kind k of m_k kernels; told apart, they would make branch and bound prove the same
 * thing over and over. Columns are x_k_c, how many kernels of kind k run its item c, and for shared
 * regions a_g, the size of region g in units of the total:
 *     minimise     sum T_k(c) x_k_c
 *     one_k:       sum_c x_k_c = m_k
 *     total:       sum M_k(c) x_k_c <= 1             model sum
 * or, as all kernels of a kind then do best with one item, x_k_c in {0, 1}:
 *     minimise     sum m_k T_k(c) x_k_c
 *     one_k:       sum_c x_k_c = 1
 *     in_k:        sum_c M_k(c) x_k_c <= a_g         model shared, and
 *     total:       sum a_g <= 1
 * A kind goes by the number of its first kernel. */
#include <errno.h>
#include <getopt.h>
#include <glpk.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "optimizer/ilp_text.h"

enum { EXIT_TROUBLE = 1, EXIT_USAGE = 2, LONGEST_TIME_S = 1000000 };

static const char usage[] =
    "usage: microdnn-ilp [options] [FILE]      problems from FILE or standard input\n"
    "       microdnn-ilp [options] --lp FILE   a CPLEX LP file\n"
    "\n"
    "Writes to standard output a solution for each problem; optimizer/ilp_text.h has the form of\n"
    "both. Of an LP file: the state, the objective and every column that is not zero.\n"
    "\n"
    "  --time-limit SECONDS   for each problem; then the best solution so far counts\n"
    "  --write-lp FILE        the (last) problem as CPLEX LP\n"
    "\n"
    "Exit status: 0 answered, 1 bad input or trouble, 2 wrong usage.\n";

typedef struct request {
    const char *input, *lp_input, *lp_output;
    int time_limit_ms;
} request_t;

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("microdnn-ilp: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

/* ---- GLPK ---- */

static jmp_buf glpk_failed;

/* GLPK would call abort(). Nothing of its own is used after this but glp_free_env. */
static void leave_glpk(void *unused)
{
    (void)unused;
    longjmp(glpk_failed, 1);
}

typedef struct kind {
    size_t first_kernel, kernel_count;
    int first_column;
} kind_t;

typedef struct program {
    glp_prob *glpk;
    const mdnn_wd_problem_t *problem;
    kind_t *kinds;
    size_t kind_count, *by_kind; /* `by_kind`: kernels, those of a kind together */
    int *columns;                /* of one row, from 1 */
    double *coefficients;
    double bytes_to_units;
} program_t;

static int compare_kernels(const void *left, const void *right, void *context)
{
    const mdnn_wd_problem_t *const problem = context;
    const mdnn_wd_kernel_t *const a = &problem->kernels[*(const size_t *)left];
    const mdnn_wd_kernel_t *const b = &problem->kernels[*(const size_t *)right];
    if (a->item_count != b->item_count)
        return a->item_count < b->item_count ? -1 : 1;
    if (problem->model == MDNN_WD_SHARED && a->group != b->group)
        return a->group < b->group ? -1 : 1;
    for (size_t i = 0; i < a->item_count; i++) {
        if (a->items[i].time_ms != b->items[i].time_ms)
            return a->items[i].time_ms < b->items[i].time_ms ? -1 : 1;
        if (a->items[i].workspace_bytes != b->items[i].workspace_bytes)
            return a->items[i].workspace_bytes < b->items[i].workspace_bytes ? -1 : 1;
    }
    return 0;
}

static void find_kinds(program_t *program)
{
    const mdnn_wd_problem_t *const problem = program->problem;
    size_t *const kernels = program->by_kind;
    for (size_t k = 0; k < problem->kernel_count; k++)
        kernels[k] = k;
    qsort_r(kernels, problem->kernel_count, sizeof *kernels, compare_kernels,
            (void *)(uintptr_t)problem);
    for (size_t i = 0; i < problem->kernel_count; i++) {
        if (i == 0 ||
            compare_kernels(&kernels[i - 1], &kernels[i], (void *)(uintptr_t)problem) != 0)
            program->kinds[program->kind_count++] = (kind_t){kernels[i], 0, 0};
        kind_t *const kind = &program->kinds[program->kind_count - 1];
        kind->kernel_count++;
        if (kernels[i] < kind->first_kernel)
            kind->first_kernel = kernels[i];
    }
}

static int count_columns(const mdnn_wd_problem_t *problem)
{
    size_t count = 0;
    for (size_t k = 0; k < problem->kernel_count; k++)
        count += problem->kernels[k].item_count;
    return count < INT32_MAX / 4 ? (int)count : -1;
}

static const mdnn_wd_kernel_t *kernel_of(const program_t *program, size_t kind)
{
    return &program->problem->kernels[program->kinds[kind].first_kernel];
}

/* In a shared region all kernels of a kind move together. */
static int most_of_kind(const program_t *program, size_t kind)
{
    return program->problem->model == MDNN_WD_SUM ? (int)program->kinds[kind].kernel_count : 1;
}

static void add_columns(program_t *program, size_t kind)
{
    const mdnn_wd_kernel_t *const kernel = kernel_of(program, kind);
    const int most = most_of_kind(program, kind);
    const double weight = (double)program->kinds[kind].kernel_count / most;
    char name[64];
    program->kinds[kind].first_column = glp_add_cols(program->glpk, (int)kernel->item_count);
    for (size_t c = 0; c < kernel->item_count; c++) {
        const int column = program->kinds[kind].first_column + (int)c;
        const bool fits = kernel->items[c].workspace_bytes <= program->problem->total_bytes;
        snprintf(name, sizeof name, "x_%zu_%zu", program->kinds[kind].first_kernel, c);
        glp_set_col_name(program->glpk, column, name);
        glp_set_col_kind(program->glpk, column, GLP_IV);
        glp_set_col_bnds(program->glpk, column, fits ? GLP_DB : GLP_FX, 0, most);
        glp_set_obj_coef(program->glpk, column, weight * kernel->items[c].time_ms);
    }
}

static void add_row(program_t *program, const char *name, int type, double bound, int count)
{
    const int row = glp_add_rows(program->glpk, 1);
    glp_set_row_name(program->glpk, row, name);
    glp_set_row_bnds(program->glpk, row, type, bound, bound);
    glp_set_mat_row(program->glpk, row, count, program->columns, program->coefficients);
}

static void add_choice_row(program_t *program, size_t kind)
{
    const int count = (int)kernel_of(program, kind)->item_count;
    char name[64];
    for (int c = 1; c <= count; c++) {
        program->columns[c] = program->kinds[kind].first_column + c - 1;
        program->coefficients[c] = 1;
    }
    snprintf(name, sizeof name, "one_%zu", program->kinds[kind].first_kernel);
    add_row(program, name, GLP_FX, most_of_kind(program, kind), count);
}

/* Items above the total are fixed at 0; their size would only spoil the scaling. */
static int put_workspaces(program_t *program, size_t kind, int count)
{
    const mdnn_wd_kernel_t *const kernel = kernel_of(program, kind);
    for (size_t c = 0; c < kernel->item_count; c++) {
        const uint64_t bytes = kernel->items[c].workspace_bytes;
        if (bytes == 0 || bytes > program->problem->total_bytes)
            continue;
        program->columns[++count] = program->kinds[kind].first_column + (int)c;
        program->coefficients[count] = (double)bytes * program->bytes_to_units;
    }
    return count;
}

static void add_sum_row(program_t *program)
{
    int count = 0;
    for (size_t kind = 0; kind < program->kind_count; kind++)
        count = put_workspaces(program, kind, count);
    add_row(program, "total", GLP_UP, 1, count);
}

static void add_region_rows(program_t *program)
{
    const int groups = (int)program->problem->group_count;
    const int first_region = groups > 0 ? glp_add_cols(program->glpk, groups) : 0;
    char name[64];
    for (int g = 0; g < groups; g++) {
        snprintf(name, sizeof name, "a_%d", g);
        glp_set_col_name(program->glpk, first_region + g, name);
        glp_set_col_bnds(program->glpk, first_region + g, GLP_DB, 0, 1);
    }
    for (size_t kind = 0; kind < program->kind_count; kind++) {
        int count = put_workspaces(program, kind, 0);
        program->columns[++count] = first_region + (int)kernel_of(program, kind)->group;
        program->coefficients[count] = -1;
        snprintf(name, sizeof name, "in_%zu", program->kinds[kind].first_kernel);
        add_row(program, name, GLP_UP, 0, count);
    }
    for (int g = 1; g <= groups; g++) {
        program->columns[g] = first_region + g - 1;
        program->coefficients[g] = 1;
    }
    add_row(program, "total", GLP_UP, 1, groups);
}

static void build(program_t *program)
{
    const uint64_t total = program->problem->total_bytes;
    program->bytes_to_units = 1 / (double)(total > 0 ? total : 1);
    glp_set_obj_dir(program->glpk, GLP_MIN);
    find_kinds(program);
    for (size_t kind = 0; kind < program->kind_count; kind++)
        add_columns(program, kind);
    for (size_t kind = 0; kind < program->kind_count; kind++)
        add_choice_row(program, kind);
    if (program->problem->model == MDNN_WD_SUM)
        add_sum_row(program);
    else
        add_region_rows(program);
}

static int optimize(glp_prob *glpk, int time_limit_ms)
{
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.presolve = GLP_ON;
    parameters.tm_lim = time_limit_ms;
    return glp_intopt(glpk, &parameters);
}

/* Below every solution: the relaxation's value, which branch and bound does not report itself. */
static double relaxation_ms(glp_prob *glpk)
{
    glp_smcp parameters;
    glp_init_smcp(&parameters);
    parameters.msg_lev = GLP_MSG_OFF;
    parameters.presolve = GLP_ON;
    const bool solved = glp_simplex(glpk, &parameters) == 0 && glp_get_status(glpk) == GLP_OPT;
    return solved ? fmax(glp_get_obj_val(glpk) * (1 - 1e-9), 0) : 0;
}

/* ---- one problem ---- */

/* How many kernels of each kind run each item, dealt out to the kernels in their order. */
static void read_choices(const program_t *program, size_t *choices)
{
    size_t dealt = 0;
    for (size_t kind = 0; kind < program->kind_count; kind++) {
        const kind_t *const this = &program->kinds[kind];
        const size_t share = this->kernel_count / (size_t)most_of_kind(program, kind);
        const size_t end = dealt + this->kernel_count;
        for (size_t c = 0; c < kernel_of(program, kind)->item_count; c++) {
            const double value = glp_mip_col_val(program->glpk, this->first_column + (int)c);
            const size_t count = value > 0 ? (size_t)llround(value) * share : 0;
            for (size_t i = 0; i < count && dealt < end; i++)
                choices[program->by_kind[dealt++]] = c;
        }
        dealt = end;
    }
}

static mdnn_ilp_state_t state_of(glp_prob *glpk, int outcome)
{
    const int status = glp_mip_status(glpk);
    if (outcome == GLP_ENOPFS || status == GLP_NOFEAS)
        return MDNN_ILP_INFEASIBLE;
    if (outcome == 0 && status == GLP_OPT)
        return MDNN_ILP_OPTIMAL;
    return status == GLP_OPT || status == GLP_FEAS ? MDNN_ILP_FEASIBLE : MDNN_ILP_FAILED;
}

/* GLPK keeps rows only within a tolerance. If a solution exceeds the total by a few bytes, the
 * right-hand side is reduced; the next solution is then not proven. */
static void solve_exactly(program_t *program, int time_limit_ms, mdnn_ilp_solution_t *solution)
{
    enum { TRIES = 4 };
    const int total_row = glp_get_num_rows(program->glpk);
    double bound = 1;
    for (int i = 0; i < TRIES; i++) {
        double time_ms;
        uint64_t bytes;
        solution->state = state_of(program->glpk, optimize(program->glpk, time_limit_ms));
        if (i > 0 && solution->state != MDNN_ILP_FAILED)
            solution->state =
                solution->state == MDNN_ILP_INFEASIBLE ? MDNN_ILP_FAILED : MDNN_ILP_FEASIBLE;
        if (solution->state != MDNN_ILP_OPTIMAL && solution->state != MDNN_ILP_FEASIBLE)
            return;
        read_choices(program, solution->choices);
        if (mdnn_wd_evaluate(program->problem, solution->choices, &time_ms, &bytes, NULL) ==
            MDNN_STATUS_OK) {
            solution->bound_ms = solution->state == MDNN_ILP_OPTIMAL
                                     ? time_ms
                                     : fmin(relaxation_ms(program->glpk), time_ms);
            return;
        }
        bound -= 1e-7 * (double)(1 << 3 * i);
        glp_set_row_bnds(program->glpk, total_row, GLP_UP, bound, bound);
    }
    solution->state = MDNN_ILP_FAILED;
}

static bool solve_with_glpk(program_t *program, const request_t *request,
                            mdnn_ilp_solution_t *solution)
{
    if (setjmp(glpk_failed) != 0) {
        glp_error_hook(NULL, NULL);
        glp_free_env();
        complain("GLPK failed");
        return false;
    }
    glp_term_out(GLP_OFF);
    glp_error_hook(leave_glpk, NULL);
    program->glpk = glp_create_prob();
    build(program);
    bool good = true;
    if (request->lp_output && glp_write_lp(program->glpk, NULL, request->lp_output) != 0) {
        complain("cannot write %s", request->lp_output);
        good = false;
    }
    solve_exactly(program, request->time_limit_ms, solution);
    glp_delete_prob(program->glpk);
    glp_error_hook(NULL, NULL);
    return good;
}

static bool allocate(program_t *program, mdnn_ilp_solution_t *solution, size_t longest_row)
{
    const size_t kernels = program->problem->kernel_count + 1;
    solution->choices = calloc(kernels, sizeof *solution->choices);
    program->kinds = calloc(kernels, sizeof *program->kinds);
    program->by_kind = calloc(kernels, sizeof *program->by_kind);
    program->columns = calloc(longest_row, sizeof *program->columns);
    program->coefficients = calloc(longest_row, sizeof *program->coefficients);
    return solution->choices && program->kinds && program->by_kind && program->columns &&
           program->coefficients;
}

static bool solve(const mdnn_wd_problem_t *problem, const request_t *request, mdnn_text_t *out)
{
    const int columns = count_columns(problem);
    if (columns < 0 || problem->group_count > INT32_MAX / 4) {
        complain("too many columns");
        return false;
    }
    mdnn_ilp_solution_t solution = {.choice_count = problem->kernel_count};
    program_t program = {.problem = problem};
    bool good = allocate(&program, &solution, (size_t)columns + problem->group_count + 2);
    if (!good)
        complain("out of memory");
    good = good && solve_with_glpk(&program, request, &solution);
    if (good && mdnn_ilp_write_solution(out, &solution) != MDNN_STATUS_OK) {
        complain("out of memory, or a time that is too large for the text form");
        good = false;
    }
    mdnn_ilp_solution_fini(&solution);
    free(program.kinds);
    free(program.by_kind);
    free(program.columns);
    free(program.coefficients);
    return good;
}

/* ---- input and output ---- */

static bool read_all(FILE *file, mdnn_text_t *text)
{
    for (;;) {
        if (text->capacity == text->used) {
            const size_t capacity = text->capacity ? 2 * text->capacity : 1 << 16;
            char *const grown = realloc(text->bytes, capacity);
            if (!grown)
                return false;
            text->bytes = grown;
            text->capacity = capacity;
        }
        const size_t more = fread(text->bytes + text->used, 1, text->capacity - text->used, file);
        text->used += more;
        if (more == 0)
            return !ferror(file);
    }
}

static bool read_input(const char *path, mdnn_text_t *text)
{
    FILE *const file = path ? fopen(path, "re") : stdin;
    const bool good = file && read_all(file, text);
    if (!good)
        complain("cannot read %s", path ? path : "standard input");
    if (file && path)
        fclose(file);
    return good;
}

static bool flush(void)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return true;
    complain("cannot write the solution");
    return false;
}

/* Each solution goes out before the next problem is begun. */
static bool solve_text(const mdnn_text_t *text, const request_t *request)
{
    mdnn_ilp_cursor_t cursor = {text->bytes, text->bytes + text->used, 1};
    if (text->used == 0) {
        complain("there is no problem in the input");
        return false;
    }
    for (;;) {
        mdnn_ilp_problem_t read;
        const mdnn_status_t status = mdnn_ilp_read_problem(&cursor, &read);
        if (status == MDNN_STATUS_NOT_FOUND)
            return true;
        if (status != MDNN_STATUS_OK) {
            complain("line %zu of the input: %s", cursor.line, mdnn_status_string(status));
            return false;
        }
        mdnn_text_t out = {0};
        bool good = solve(&read.problem, request, &out);
        mdnn_ilp_problem_fini(&read);
        if (good) {
            fwrite(out.bytes, 1, out.used, stdout);
            good = flush();
        }
        free(out.bytes);
        if (!good)
            return false;
    }
}

static bool solve_lp(const request_t *request)
{
    static const char *const words[] = {"optimal", "feasible", "infeasible", "failed"};
    if (setjmp(glpk_failed) != 0) {
        complain("GLPK failed");
        return false;
    }
    glp_term_out(GLP_OFF);
    glp_error_hook(leave_glpk, NULL);
    glp_prob *const glpk = glp_create_prob();
    if (glp_read_lp(glpk, NULL, request->lp_input) != 0) {
        complain("%s is not a CPLEX LP file that GLPK reads", request->lp_input);
        return false;
    }
    if (request->lp_output && glp_write_lp(glpk, NULL, request->lp_output) != 0) {
        complain("cannot write %s", request->lp_output);
        return false;
    }
    const mdnn_ilp_state_t state = state_of(glpk, optimize(glpk, request->time_limit_ms));
    printf("state %s\n", words[state]);
    if (state == MDNN_ILP_OPTIMAL || state == MDNN_ILP_FEASIBLE) {
        printf("objective %.9f\n", glp_mip_obj_val(glpk));
        for (int i = 1; i <= glp_get_num_cols(glpk); i++)
            if (fabs(glp_mip_col_val(glpk, i)) > 1e-9)
                printf("%s %.9g\n", glp_get_col_name(glpk, i), glp_mip_col_val(glpk, i));
    }
    glp_delete_prob(glpk);
    return flush();
}

static bool take_time_limit(const char *text, request_t *request)
{
    char *end;
    errno = 0;
    const double seconds = strtod(text, &end);
    if (end == text || *end != '\0' || errno != 0 || !(seconds > 0 && seconds <= LONGEST_TIME_S)) {
        complain("--time-limit: '%s' is not a number of seconds", text);
        return false;
    }
    request->time_limit_ms = seconds < 1e-3 ? 1 : (int)(seconds * 1e3);
    return true;
}

static bool take_option(request_t *request, int choice)
{
    switch (choice) {
    case 't':
        return take_time_limit(optarg, request);
    case 'w':
        request->lp_output = optarg;
        return true;
    case 'l':
        request->lp_input = optarg;
        return true;
    default:
        return false;
    }
}

int main(int argc, char **argv)
{
    static const struct option options[] = {{"time-limit", required_argument, NULL, 't'},
                                            {"write-lp", required_argument, NULL, 'w'},
                                            {"lp", required_argument, NULL, 'l'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    request_t request = {.time_limit_ms = LONGEST_TIME_S * 1000};
    bool good = true;
    for (int choice; good && (choice = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        if (choice == 'h') {
            fputs(usage, stdout);
            return flush() ? EXIT_SUCCESS : EXIT_TROUBLE;
        }
        good = take_option(&request, choice);
    }
    if (!good || argc - optind > (request.lp_input ? 0 : 1)) {
        fputs("Try `microdnn-ilp --help`.\n", stderr);
        return EXIT_USAGE;
    }
    request.input = argv[optind];
    if (request.lp_input)
        return solve_lp(&request) ? EXIT_SUCCESS : EXIT_TROUBLE;
    mdnn_text_t text = {0};
    good = read_input(request.input, &text) && solve_text(&text, &request);
    free(text.bytes);
    return good ? EXIT_SUCCESS : EXIT_TROUBLE;
}
