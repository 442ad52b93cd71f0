/* From a period with measured times to a plan that is quick to follow. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "config/own_thread.h"
#include "config/progress.h"
#include "offload/plan/best_plan.h"
#include "offload/follow/follower_internal.h"
#include "offload/plan/certificate.h"

struct follower_job {
    mdnn_follower_config_t config;
    double *times_us;
    bool tells;
    follower_plan_t *made;
    mdnn_status_t status;
    atomic_bool done, unwanted;
    bool threaded, joined;
    pthread_t thread;
    pid_t process; /* a forked child has no such thread */
};

static void free_lists(follower_lists_t *lists)
{
    free(lists->first);
    free(lists->items);
}

void follower_plan_destroy(follower_plan_t *plan)
{
    if (!plan)
        return;
    mdnn_period_fini(&plan->period);
    mdnn_parts_fini(&plan->parts);
    mdnn_move_plan_fini(&plan->plan);
    free_lists(&plan->leaves);
    free_lists(&plan->backs);
    free(plan->joins);
    free(plan->resident_bytes);
    free(plan->workspaces);
    free(plan->unused);
    free(plan->handles);
    free(plan->passed);
    free(plan->leave);
    free(plan->back);
    free(plan);
}

/* ---- times ---- */

typedef struct timed_key {
    uint64_t key;
    double sum_us;
    uint32_t count;
} timed_key_t;

static int compare_keys(const void *left, const void *right)
{
    const timed_key_t *const a = left, *const b = right;
    return a->key < b->key ? -1 : a->key > b->key;
}

/* Sorted by key, with one entry per key. Returns their number. */
static size_t merge_keys(timed_key_t *keys, size_t count)
{
    size_t kept = 0;
    qsort(keys, count, sizeof *keys, compare_keys);
    for (size_t i = 0; i < count; i++) {
        if (kept == 0 || keys[kept - 1].key != keys[i].key) {
            keys[kept++] = keys[i];
            continue;
        }
        keys[kept - 1].sum_us += keys[i].sum_us;
        keys[kept - 1].count += keys[i].count;
    }
    return kept;
}

/* What ran is measured. The others were timed on scratch memory, so the ratio to what ran counts. */
static void set_time(mdnn_period_t *period, uint32_t position, double time_us)
{
    const mdnn_operation_t *const operation = &period->operations[position];
    mdnn_variant_t *const variants = &period->variants[operation->first_variant];
    const double scale = variants[0].time_us > 0 ? time_us / variants[0].time_us : 0;
    for (uint32_t v = 1; v < operation->variant_count; v++)
        variants[v].time_us = scale > 0 ? scale * variants[v].time_us : time_us;
    variants[0].time_us = time_us;
}

/* An operation that was not timed is assumed to take as long as others with its key, or else as
 * long as the average. If nothing was timed, the times in the history stay. */
static mdnn_status_t set_times(mdnn_period_t *period, const double *times_us)
{
    const uint32_t count = period->operation_count;
    timed_key_t *const keys = calloc((size_t)count + 1, sizeof *keys);
    size_t timed = 0;
    double sum_us = 0;
    if (!keys)
        return MDNN_STATUS_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        if (times_us[i] < 0)
            continue;
        keys[timed++] = (timed_key_t){period->operations[i].key, times_us[i], 1};
        sum_us += times_us[i];
    }
    const double mean_us = timed > 0 ? sum_us / (double)timed : 0;
    const size_t known = merge_keys(keys, timed);
    for (uint32_t i = 0; timed > 0 && i < count; i++) {
        const timed_key_t wanted = {.key = period->operations[i].key};
        const timed_key_t *const found = bsearch(&wanted, keys, known, sizeof *keys, compare_keys);
        set_time(period, i,
                 times_us[i] >= 0 ? times_us[i]
                 : found          ? found->sum_us / found->count
                                  : mean_us);
    }
    free(keys);
    return MDNN_STATUS_OK;
}

/* ---- by position ---- */

static bool has_position(int32_t position)
{
    return position != MDNN_NEVER && position != MDNN_GAP_ALWAYS;
}

static uint32_t on_circle(const follower_plan_t *made, int32_t position)
{
    const int32_t count = (int32_t)made->period.operation_count;
    return (uint32_t)((position % count + count) % count);
}

static int32_t position_of(const follower_plan_t *made, size_t move, bool back)
{
    const mdnn_move_t *const moved = &made->plan.schedule.moves[move];
    return back ? moved->return_after : moved->leave_after;
}

/* Moves keep their order within a position. */
static mdnn_status_t fill_lists(const follower_plan_t *made, bool back, follower_lists_t *lists)
{
    const size_t count = made->period.operation_count, moves = made->plan.schedule.move_count;
    lists->first = calloc(count + 2, sizeof *lists->first);
    lists->items = calloc(moves + 1, sizeof *lists->items);
    if (!lists->first || !lists->items)
        return MDNN_STATUS_OUT_OF_MEMORY;
    uint32_t *const next = lists->first + 1; /* counts up from where a position begins */
    for (size_t m = 0; m < moves; m++)
        if (has_position(position_of(made, m, back)))
            next[on_circle(made, position_of(made, m, back)) + 1]++;
    for (size_t p = 1; p < count; p++)
        next[p] += next[p - 1];
    for (size_t m = 0; m < moves; m++)
        if (has_position(position_of(made, m, back)))
            lists->items[next[on_circle(made, position_of(made, m, back))]++] = (uint32_t)m;
    return MDNN_STATUS_OK;
}

static int compare_unused(const void *left, const void *right)
{
    const follower_unused_t *const a = left, *const b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return a->range < b->range ? -1 : a->range > b->range;
}

static void fill_unused(follower_plan_t *made)
{
    const mdnn_schedule_t *const schedule = &made->plan.schedule;
    for (size_t m = 0; m < schedule->move_count; m++)
        if (schedule->moves[m].leave_after == MDNN_GAP_ALWAYS) {
            const uint32_t range = made->parts.whole[schedule->moves[m].range]; /* all of it */
            made->unused[made->unused_count++] =
                (follower_unused_t){made->period.ranges[range].bytes, range, 0};
        }
    qsort(made->unused, made->unused_count, sizeof *made->unused, compare_unused);
}

/* The first variant is what the program asks for; it needs no limit. */
static void fill_workspaces(follower_plan_t *made)
{
    const uint32_t *const choices = made->plan.schedule.choices;
    for (uint32_t i = 0; i < made->period.operation_count; i++) {
        const uint32_t choice = choices ? choices[i] : 0;
        made->workspaces[i] =
            choice > 0 ? made->period.variants[made->period.operations[i].first_variant + choice]
                             .workspace_bytes
                       : UINT64_MAX;
        made->chooses = made->chooses || choice > 0;
    }
}

static mdnn_status_t index_plan(follower_plan_t *made)
{
    const mdnn_schedule_t *const schedule = &made->plan.schedule;
    const size_t moves = schedule->move_count, ranges = made->period.range_count;
    made->unused = calloc(moves + 1, sizeof *made->unused);
    made->joins = calloc((size_t)made->period.operation_count + 1, sizeof *made->joins);
    made->resident_bytes =
        calloc((size_t)made->period.operation_count + 1, sizeof *made->resident_bytes);
    made->workspaces = calloc((size_t)made->period.operation_count + 1, sizeof *made->workspaces);
    made->handles = calloc(ranges + 1, sizeof *made->handles);
    made->passed = calloc(ranges + 1, sizeof *made->passed);
    made->leave = calloc(2 * moves + 1, sizeof *made->leave);
    made->back = calloc(ranges + moves + 1, sizeof *made->back);
    if (!made->unused || !made->joins || !made->resident_bytes || !made->workspaces ||
        !made->handles || !made->passed || !made->leave || !made->back)
        return MDNN_STATUS_OUT_OF_MEMORY;
    MDNN_TRY(fill_lists(made, false, &made->leaves));
    MDNN_TRY(fill_lists(made, true, &made->backs));
    for (size_t i = 0; i < schedule->join_count; i++)
        made->joins[schedule->joins[i]] = true;
    for (size_t r = 0; r < ranges; r++)
        made->handles[r] = MDNN_NO_POSITION;
    if (made->plan.verdict == MDNN_VERDICT_FITS)
        mdnn_schedule_resident_bytes(&made->parts.period, schedule, made->resident_bytes);
    fill_unused(made);
    fill_workspaces(made);
    return MDNN_STATUS_OK;
}

/* ---- jobs ---- */

static double now_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec * 1e3 + (double)time.tv_nsec * 1e-6;
}

static mdnn_plan_ranks_t ranks_of(const mdnn_follower_config_t *config, const mdnn_period_t *period)
{
    return config->ranks ? config->ranks(config->ranks_context, period) : (mdnn_plan_ranks_t){0};
}

/* Where nobody waits for the plan there is time for more replays. */
static mdnn_status_t plan_moves(const follower_job_t *job, follower_plan_t *made)
{
    const mdnn_follower_config_t *const config = &job->config;
    const mdnn_best_plan_request_t request = {.plan = {.period = &made->period,
                                                       .policy = config->policy,
                                                       .variants = config->variants,
                                                       .link = config->link,
                                                       .budget_bytes = config->budget_bytes,
                                                       .host_limit_bytes = config->host_limit_bytes,
                                                       .effort = config->effort,
                                                       .unwanted = &job->unwanted,
                                                       .ranks = ranks_of(config, &made->period)},
                                              .chunk_bytes = config->chunk_bytes,
                                              .patient = config->background};
    return mdnn_best_plan(&request, &made->parts, &made->plan);
}

static mdnn_status_t make_plan(const follower_job_t *job, follower_plan_t *made)
{
    const mdnn_follower_config_t *const config = &job->config;
    const double begin_ms = now_ms();
    if (job->times_us)
        MDNN_TRY(set_times(&made->period, job->times_us));
    made->compute_us = mdnn_period_compute_us(&made->period, NULL);
    if (config->planned)
        config->planned(config->planned_context, &made->period, config->budget_bytes, job->tells);
    if (job->tells)
        return MDNN_STATUS_UNSUPPORTED; /* a plan */
    MDNN_TRY(plan_moves(job, made));
    MDNN_TRY(mdnn_link_bound(&made->period, &config->link, config->budget_bytes,
                             config->chunk_bytes, &made->link_bound_us));
    made->budget_bytes = config->budget_bytes;
    MDNN_TRY(index_plan(made));
    made->planning_ms = now_ms() - begin_ms;
    return MDNN_STATUS_OK;
}

static void run_job(follower_job_t *job)
{
    job->status = make_plan(job, job->made);
    atomic_store_explicit(&job->done, true, memory_order_release);
}

static void *run_thread(void *argument)
{
    /* With Linux this is of the calling thread alone. Whether it worked does not matter. */
    (void)setpriority(PRIO_PROCESS, 0, 10);
    mdnn_progress_show("plans what moves in an iteration of %u operations",
                       ((const follower_job_t *)argument)->made->period.operation_count);
    run_job(argument);
    mdnn_progress_end();
    return NULL;
}

static bool start_thread(follower_job_t *job)
{
    job->process = getpid();
    job->threaded = mdnn_thread_start(&job->thread, "microdnn-plan", run_thread, job);
    return job->threaded;
}

static void free_job(follower_job_t *job)
{
    follower_plan_destroy(job->made);
    free(job->times_us);
    free(job);
}

mdnn_status_t follower_job_start(const mdnn_follower_config_t *config, const mdnn_period_t *period,
                                 const double *times_us, bool tells, follower_job_t **started)
{
    follower_job_t *const job = calloc(1, sizeof *job);
    if (!job)
        return MDNN_STATUS_OUT_OF_MEMORY;
    const size_t count = period->operation_count;
    job->config = *config;
    job->tells = tells;
    job->made = calloc(1, sizeof *job->made);
    job->times_us = times_us ? calloc(count + 1, sizeof *job->times_us) : NULL;
    if (!job->made || (times_us && !job->times_us) ||
        mdnn_period_copy(period, &job->made->period) != MDNN_STATUS_OK) {
        free_job(job);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    if (times_us)
        memcpy(job->times_us, times_us, count * sizeof *times_us);
    if (!config->background) {
        run_job(job);
    } else if (!start_thread(job)) {
        free_job(job);
        return MDNN_STATUS_OUT_OF_MEMORY;
    }
    *started = job;
    return MDNN_STATUS_OK;
}

bool follower_job_is_done(follower_job_t *job)
{
    if (!atomic_load_explicit(&job->done, memory_order_acquire))
        return false;
    /* The thread has little to do still, but with its priority that may take a while. */
    if (job->threaded && !job->joined && job->process == getpid())
        job->joined = pthread_tryjoin_np(job->thread, NULL) == 0;
    return !job->threaded || job->joined;
}

void follower_job_give_up(follower_job_t *job)
{
    atomic_store_explicit(&job->unwanted, true, memory_order_relaxed);
}

mdnn_status_t follower_job_finish(follower_job_t *job, follower_plan_t **plan)
{
    if (job->threaded && job->process != getpid())
        return MDNN_STATUS_UNSUPPORTED; /* what it was working at when the child was made is lost */
    if (job->threaded && !job->joined)
        pthread_join(job->thread, NULL);
    const mdnn_status_t status = job->status;
    if (status == MDNN_STATUS_OK) {
        *plan = job->made;
        job->made = NULL;
    }
    free_job(job);
    return status;
}
