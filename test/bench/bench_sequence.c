/* What training under a budget costs the host in mappings, with the allocations and operations of a PyTorch program that
 * scripts/record-sequence wrote: the mechanism and the plan follower on a device with a clock (simulated).
 *
 *     bench_sequence FILE [SHARE [ITERATIONS [CHUNK [EFFORT]]]]
 *
 * SHARE is the budget, as a part of the peak (0.6); CHUNK is the size of a chunk in bytes, 0 where the budget is to decide;
 * EFFORT is how many replays a plan may use (mdnn_move_plan_request_t).
 *
 * Prints for each iteration: milliseconds on the device, what the plan predicted, the link bound; chunks mapped, and of
 * these at their first use and returned, and those mapped or unmapped in the background; demands; GiB to the host. The
 * last iteration of the file is run again and again. The host takes 50 us for an operation, as it does in PyTorch under
 * the library, and maps and unmaps a chunk in as long as an H200's driver; operations take as long as the bytes that they name. */
#include <errno.h>

#include "config/sizes.h"
#include "test/unit/clocked_program.h"

enum { MOST_IDS = 1 << 16, MOST_NAMES = 256, PLACES = 32 };
static const double OPERATION_US = 50, MAP_US = 50, UNMAP_US = 45, BYTES_US = 2e6, WAKE_US = 10;

/* ---- the sequence ---- */

/* Objects of the iteration that is repeated have the numbers of their order in it; those of the iteration before have
 * them, too, behind MOST_IDS; all older ones live always. */
typedef struct step {
    char kind; /* of the line */
    uint64_t bytes, key;
    double time_us;
    uint32_t object, name_count, names[MOST_NAMES];
} step_t;

typedef struct tensor {
    uint64_t bytes;
    uint32_t iteration, order;
} tensor_t;

static step_t *steps;
static size_t step_count, step_room;
static tensor_t ids[MOST_IDS];
static uint64_t at[3 * MOST_IDS], live_bytes, peak_bytes;
static uint32_t iteration, order, last_iteration;

static uint32_t object_of(uint32_t id)
{
    MUST(id < MOST_IDS);
    const tensor_t *const found = &ids[id];
    if (found->iteration == last_iteration)
        return found->order;
    return found->iteration + 1 == last_iteration ? MOST_IDS + found->order : 2 * MOST_IDS + id;
}

static step_t *add_step(char kind)
{
    if (step_count == step_room) {
        step_room = 2 * step_room + 1024;
        steps = realloc(steps, step_room * sizeof *steps);
        MUST(steps);
    }
    steps[step_count] = (step_t){.kind = kind};
    return &steps[step_count++];
}

static void add_operation(char *name, char *rest)
{
    step_t *const step = add_step('O');
    uint64_t bytes = 0;
    for (const char *each = name; *each; each++)
        step->key = step->key * 33 + (unsigned char)*each;
    for (char *word = strtok(rest, " \n"); word; word = strtok(NULL, " \n")) {
        const uint32_t id = (uint32_t)strtoul(word, NULL, 10);
        MUST(step->name_count < MOST_NAMES);
        step->names[step->name_count++] = object_of(id);
        bytes += ids[id].bytes;
    }
    const bool computes = strstr(name, "mm") || strstr(name, "attention") || strstr(name, "conv");
    step->key += step->name_count + 1;
    step->time_us = 4 + (double)bytes / BYTES_US * (computes ? 3 : 1);
}

static void read_line(char *line)
{
    char *rest;
    if (line[0] == 'I') {
        iteration++;
        order = 0;
        return;
    }
    if (line[0] == 'O') {
        char *const name = strtok_r(line + 2, " \n", &rest);
        if (iteration == last_iteration)
            add_operation(name, rest);
        return;
    }
    const uint32_t id = (uint32_t)strtoul(line + 2, &rest, 10);
    MUST(id < MOST_IDS);
    if (line[0] == 'A')
        ids[id] = (tensor_t){strtoull(rest, NULL, 10), iteration, order++};
    live_bytes = line[0] == 'A' ? live_bytes + ids[id].bytes : live_bytes - ids[id].bytes;
    peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
    if (iteration == last_iteration) {
        step_t *const step = add_step(line[0]);
        step->object = object_of(id);
        step->bytes = ids[id].bytes;
    }
}

static void give_up(const char *path, const char *why)
{
    fprintf(stderr, "bench_sequence: %s: %s\n", path, why);
    exit(2);
}

static void read_sequence(const char *path)
{
    static char line[1 << 16];
    FILE *const file = fopen(path, "r");
    if (!file)
        give_up(path, strerror(errno));
    while (fgets(line, sizeof line, file))
        last_iteration += line[0] == 'I';
    if (last_iteration < 3)
        give_up(path, "fewer than three iterations");
    last_iteration--;
    rewind(file);
    while (fgets(line, sizeof line, file))
        read_line(line);
    fclose(file);
}

/* ---- a thread that maps ---- */

static struct {
    bool open;
    uint64_t count;
    double begin_us, each_us;
} changes[PLACES];
static double idle_from_us;
static uint64_t changed;

static mdnn_status_t remap_begin(void *context, const mdnn_remap_t *remap, uint64_t *token)
{
    const device_t *const clock = context;
    uint64_t place = 0;
    while (place < PLACES && changes[place].open)
        place++;
    if (place == PLACES)
        return MDNN_STATUS_BUSY;
    const double begin_us =
        clock->now_us + WAKE_US > idle_from_us ? clock->now_us + WAKE_US : idle_from_us;
    changes[place].open = true;
    changes[place].count = remap->count;
    changes[place].begin_us = begin_us;
    changes[place].each_us = remap->map ? clock->map_us : clock->unmap_us;
    idle_from_us = begin_us + (double)remap->count * changes[place].each_us;
    *token = place + 1;
    return MDNN_STATUS_OK;
}

static uint64_t remap_done(void *context, uint64_t token, bool *over)
{
    const device_t *const clock = context;
    const double passed_us = clock->now_us - changes[token - 1].begin_us;
    const uint64_t count = changes[token - 1].count;
    const uint64_t done = passed_us <= 0 ? 0 : (uint64_t)(passed_us / changes[token - 1].each_us);
    *over = done >= count;
    return done < count ? done : count;
}

/* The chunk at which the thread is is waited for; the calling thread does the rest. */
static mdnn_status_t remap_end(void *context, uint64_t token, bool all, uint64_t *done)
{
    device_t *const clock = context;
    bool over;
    *done = remap_done(context, token, &over);
    if (!over && clock->now_us > changes[token - 1].begin_us) {
        ++*done;
        clock->now_us = changes[token - 1].begin_us + (double)*done * changes[token - 1].each_us;
    }
    changed += *done;
    const double rest_us = (double)(changes[token - 1].count - *done) * changes[token - 1].each_us;
    idle_from_us -= rest_us;
    clock->now_us += all ? rest_us : 0;
    *done = all ? changes[token - 1].count : *done;
    changes[token - 1].open = false;
    return MDNN_STATUS_OK;
}

static mdnn_background_t background(void *context)
{
    (void)context;
    return (mdnn_background_t){.chunks = changed};
}

/* ---- the program ---- */

static void start_sequence(double share, uint64_t chunk, uint32_t effort)
{
    mdnn_memory_device_t clocked = functions;
    const uint64_t budget_bytes = (uint64_t)(share * (double)peak_bytes);
    const uint64_t chunk_bytes = mdnn_chunk_bytes(budget_bytes, chunk);
    clocked.remap_begin = remap_begin;
    clocked.remap_done = remap_done;
    clocked.remap_end = remap_end;
    clocked.background = background;
    device.map_us = MAP_US;
    device.unmap_us = UNMAP_US;
    device.link = (mdnn_link_t){55300, 55400, 50800, 50800, 0};
    const mdnn_memory_config_t config = {
        .ranges = {chunk_bytes << 20, chunk_bytes << 14, chunk_bytes, chunk_bytes / 2},
        .budget_bytes = budget_bytes,
        .follower = {.policy = MDNN_POLICY_AUTO,
                     .effort = effort,
                     .budget_bytes = budget_bytes,
                     .chunk_bytes = chunk_bytes,
                     .host_limit_bytes = UINT64_MAX,
                     .link = device.link}};
    for (int i = 0; i < QUEUES; i++)
        device.end_us[i] = calloc(MOMENTS, sizeof *device.end_us[i]);
    MUST(mdnn_memory_create(&config, &clocked, &device, &memory) == MDNN_STATUS_OK);
    printf("peak %.2f GiB, budget %.2f GiB in chunks of %lu MiB (simulated)\n",
           (double)peak_bytes / (1 << 30), (double)budget_bytes / (1 << 30),
           (unsigned long)(chunk_bytes >> 20));
}

static bool is_named(uint32_t object)
{
    for (size_t i = 0; i < step_count; i++) {
        if (steps[i].kind == 'F' && steps[i].object == object)
            return true;
        for (uint32_t n = 0; n < steps[i].name_count; n++)
            if (steps[i].names[n] == object)
                return true;
    }
    return false;
}

/* What the iteration finds there. */
static void allocate_before(void)
{
    for (uint32_t id = 0; id < MOST_IDS; id++) {
        if (ids[id].bytes == 0 || ids[id].iteration == last_iteration || !is_named(object_of(id)))
            continue;
        MUST(mdnn_memory_allocate(memory, ids[id].bytes, 0, &at[object_of(id)]) == MDNN_STATUS_OK);
    }
}

static void operate(const step_t *step)
{
    mdnn_memory_operand_t names[MOST_NAMES];
    for (uint32_t n = 0; n < step->name_count; n++)
        names[n] = (mdnn_memory_operand_t){at[step->names[n]], MDNN_USE_UNKNOWN};
    mdnn_memory_operation_t running = {
        .key = step->key, .operands = names, .operand_count = step->name_count};
    device.now_us += OPERATION_US;
    MUST(mdnn_memory_begin(memory, &running) == MDNN_STATUS_OK);
    enqueue(&device, 0, step->time_us);
    mdnn_memory_end(memory, &running, true);
}

static void run_iteration(void)
{
    for (const step_t *step = steps; step < steps + step_count; step++) {
        if (step->kind == 'A')
            MUST(mdnn_memory_allocate(memory, step->bytes, 0, &at[step->object]) == MDNN_STATUS_OK);
        else if (step->kind == 'F')
            MUST(mdnn_memory_free(memory, at[step->object], 0) == MDNN_STATUS_OK);
        else
            operate(step);
    }
    synchronize();
    memcpy(at + MOST_IDS, at, MOST_IDS * sizeof *at);
}

static void print_iteration(int number, double time_us, const mdnn_memory_report_t *before)
{
    const mdnn_memory_report_t after = mdnn_memory_report(memory);
    const mdnn_follower_report_t plan = mdnn_memory_follower_report(memory);
    printf("%3d: %6.1f ms (plan %.1f, link %.1f); %lu chunks mapped, %lu at first use, %lu "
           "returned, %lu in the background (%lu mapped, %lu unmapped by the program's thread); "
           "demands %lu + %lu; %.2f GiB out\n",
           number, time_us / 1e3, plan.predicted_us / 1e3, plan.link_bound_us / 1e3,
           (unsigned long)(after.mapped - before->mapped),
           (unsigned long)(after.mapped_at_first_use - before->mapped_at_first_use),
           (unsigned long)(after.mapped_returned - before->mapped_returned),
           (unsigned long)(after.background.chunks - before->background.chunks),
           (unsigned long)device.maps, (unsigned long)device.unmaps,
           (unsigned long)(after.demand_leaves - before->demand_leaves),
           (unsigned long)(after.demand_returns - before->demand_returns),
           (double)(after.out_bytes - before->out_bytes) / (1 << 30));
}

int main(int argc, char **argv)
{
    const int iterations = argc > 3 ? atoi(argv[3]) : 12;
    if (argc < 2) {
        fprintf(stderr, "usage: bench_sequence FILE [SHARE [ITERATIONS [CHUNK [EFFORT]]]]\n");
        return 2;
    }
    read_sequence(argv[1]);
    start_sequence(argc > 2 ? atof(argv[2]) : 0.6, argc > 4 ? strtoull(argv[4], NULL, 10) : 0,
                   argc > 5 ? (uint32_t)strtoul(argv[5], NULL, 10) : 0);
    allocate_before();
    for (int i = 0; i < iterations; i++) {
        const mdnn_memory_report_t before = mdnn_memory_report(memory);
        const double begin_us = end_of(&device, 0);
        device.maps = device.unmaps = 0;
        run_iteration();
        print_iteration(i, end_of(&device, 0) - begin_us, &before);
    }
    mdnn_memory_destroy(memory);
    free_device();
    free(steps);
    return 0;
}
