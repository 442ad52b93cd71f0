/* What two pictures of docs/design show, for scripts/design-pictures:
 *
 *   design_data plan     a plan of the policy auto, as the replay sees an iteration of it
 *   design_data ranges   which chunk lies where after each of some requests
 *
 * Runs the library's own planner and its own address space, without a device. The same each time. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "offload/plan/planner.h"
#include "offload/ranges/ranges.h"
#include "test/unit/vgg16_period.h"

/* ---- a plan ---- */

/* VGG-16 with 256 images in 12 GiB, with the H200's link, in TF32: as test_offload_planner has it. */
static random_period_t instance;
static const double budget_gib = 12, gib = 1 << 30, begins_never = -1;

typedef struct picture {
    uint32_t iteration; /* the one that is shown */
    double started_us[RANDOM_PERIOD_RANGES];
    double operation_us, begin_us; /* of the operation that runs; of the iteration */
} picture_t;

static void print_event(const picture_t *picture, const char *what, uint32_t which, double from_us,
                        double to_us)
{
    printf("%s %" PRIu32 " %.3f %.3f\n", what, which, (from_us - picture->begin_us) / 1e3,
           (to_us - picture->begin_us) / 1e3);
}

static void note(void *context, const mdnn_replay_event_t *event)
{
    picture_t *const picture = context;
    const bool is_shown = event->iteration == picture->iteration;
    if (is_shown && picture->begin_us == begins_never)
        picture->begin_us = event->time_us;
    if (event->kind == MDNN_REPLAY_START)
        picture->operation_us = event->time_us;
    if (event->kind == MDNN_REPLAY_OUT_START || event->kind == MDNN_REPLAY_IN_START)
        picture->started_us[event->range] = event->time_us;
    if (!is_shown)
        return;
    if (event->kind == MDNN_REPLAY_FINISH)
        print_event(picture, "operation", event->operation, picture->operation_us, event->time_us);
    if (event->kind == MDNN_REPLAY_OUT_END)
        print_event(picture, "out", event->range, picture->started_us[event->range],
                    event->time_us);
    if (event->kind == MDNN_REPLAY_IN_END)
        print_event(picture, "in", event->range, picture->started_us[event->range], event->time_us);
    printf("held %.3f %.3f\n", (event->time_us - picture->begin_us) / 1e3,
           (double)event->held_bytes / gib);
}

static int print_plan(void)
{
    vgg16_fill(&instance, 256, 55000, 122000);
    const mdnn_move_plan_request_t request = {.period = &instance.period,
                                              .policy = MDNN_POLICY_AUTO,
                                              .variants = MDNN_VARIANTS_FASTEST,
                                              .link = {55300, 55400, 50800, 50800, 10},
                                              .budget_bytes = (uint64_t)(budget_gib * gib),
                                              .host_limit_bytes = UINT64_MAX};
    static picture_t picture = {.iteration = 2, .begin_us = begins_never};
    mdnn_move_plan_t plan;
    mdnn_replay_result_t result;
    if (mdnn_move_plan(&request, &plan) != MDNN_STATUS_OK || plan.verdict != MDNN_VERDICT_FITS)
        return EXIT_FAILURE;
    const mdnn_replay_request_t replay = {.period = request.period,
                                          .schedule = &plan.schedule,
                                          .link = request.link,
                                          .budget_bytes = request.budget_bytes,
                                          .iterations = picture.iteration + 1,
                                          .observe = note,
                                          .context = &picture};
    const mdnn_status_t status = mdnn_replay(&replay, &result);
    printf("budget %.3f\ntime %.3f\n", budget_gib, result.time_us / 1e3);
    mdnn_move_plan_fini(&plan);
    return status == MDNN_STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* ---- ranges ---- */

enum { STEPS = 16, NAMES = 26 };
static const uint64_t chunk_bytes = 1 << 21, base = (uint64_t)1 << 40;

typedef struct map {
    uint64_t chunk_at[STEPS], chunks;
    uint64_t address[NAMES]; /* of each live allocation, by its name; 0: none */
    uint64_t bytes[NAMES];
    mdnn_ranges_t *ranges;
} map_t;

static mdnn_status_t create_chunk(void *context, uint64_t *chunk)
{
    map_t *const map = context;
    *chunk = ++map->chunks;
    return MDNN_STATUS_OK;
}

static mdnn_status_t map_chunk(void *context, uint64_t address, uint64_t chunk)
{
    map_t *const map = context;
    map->chunk_at[(address - base) / chunk_bytes] = chunk;
    return MDNN_STATUS_OK;
}

static mdnn_status_t unmap_chunk(void *context, uint64_t address, uint64_t chunk)
{
    map_t *const map = context;
    (void)chunk;
    map->chunk_at[(address - base) / chunk_bytes] = 0;
    return MDNN_STATUS_OK;
}

static bool is_done(void *context, mdnn_stream_point_t point)
{
    (void)context;
    (void)point;
    return true;
}

static char name_at(const map_t *map, uint64_t address)
{
    for (int i = 0; i < NAMES; i++)
        if (map->address[i] != 0 && map->address[i] < address + chunk_bytes &&
            map->address[i] + map->bytes[i] > address)
            return (char)('A' + i);
    return '-';
}

/* A row, if `what` is not NULL: what happened, and for each step the chunk and whose it is. */
static void print_row(const map_t *map, const char *what)
{
    if (!what)
        return;
    printf("%s:", what);
    for (int step = 0; step < STEPS; step++)
        printf(" %" PRIu64 "%c", map->chunk_at[step],
               name_at(map, base + (uint64_t)step * chunk_bytes));
    printf("\n");
}

static bool allocate(map_t *map, char name, uint64_t bytes, const char *what)
{
    mdnn_acquired_t acquired;
    if (mdnn_ranges_acquire(map->ranges, bytes, 0, &acquired) != MDNN_STATUS_OK)
        return false;
    map->address[name - 'A'] = acquired.address;
    map->bytes[name - 'A'] = bytes;
    print_row(map, what);
    return true;
}

static bool release(map_t *map, char name, const char *what)
{
    const mdnn_stream_point_t point = {0, 1};
    const uint64_t address = map->address[name - 'A'];
    map->address[name - 'A'] = 0;
    const bool is_released =
        mdnn_ranges_release(map->ranges, address, 0, &point, 1) == MDNN_STATUS_OK;
    print_row(map, what);
    return is_released;
}

static bool send_away(map_t *map, char name, const char *what)
{
    mdnn_range_t *const range = mdnn_ranges_at(map->ranges, map->address[name - 'A']);
    if (!range || mdnn_range_hide(map->ranges, range, 0) != MDNN_STATUS_OK)
        return false;
    mdnn_range_give(map->ranges, range, 0);
    print_row(map, what);
    return true;
}

static int print_ranges(void)
{
    static const mdnn_ranges_device_t device = {create_chunk, map_chunk, unmap_chunk,
                                                is_done,      NULL,      NULL};
    const mdnn_ranges_config_t config = {base, STEPS * chunk_bytes, chunk_bytes, chunk_bytes / 2,
                                         0};
    static map_t map;
    if (mdnn_ranges_create(&config, &device, &map, &map.ranges) != MDNN_STATUS_OK)
        return EXIT_FAILURE;
    const bool is_done_so_far =
        allocate(&map, 'A', 4 * chunk_bytes, NULL) && allocate(&map, 'B', 3 * chunk_bytes, NULL) &&
        allocate(&map, 'C', 2 * chunk_bytes, "A, B, C: 4, 3, 2 chunks") &&
        allocate(&map, 'S', chunk_bytes / 4, "S: a small block") &&
        release(&map, 'B', "B is freed") && allocate(&map, 'D', 2 * chunk_bytes, "D: 2 chunks") &&
        release(&map, 'C', "C is freed") && allocate(&map, 'E', 3 * chunk_bytes, "E: 3 chunks") &&
        send_away(&map, 'A', "A leaves") && allocate(&map, 'F', 3 * chunk_bytes, "F: 3 chunks");
    mdnn_ranges_destroy(map.ranges);
    return is_done_so_far ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "plan") == 0)
        return print_plan();
    if (argc == 2 && strcmp(argv[1], "ranges") == 0)
        return print_ranges();
    fprintf(stderr, "usage: design_data plan|ranges\n");
    return 2;
}
