/* hostile SEED [--with F] [--without F] [--threads N] [--operations N] [--first N] [--last N]
 *         [--phases N] [--limited] [--plan]
 *
 * Runs one random program and prints what its results are: the same with and without the library.
 * --limited: the simulated GPU ends the process when it holds more than the budget. Exit status 0
 * if the program found nothing wrong itself, and got back all it gave. */
#include "test/hostile/hostile.h"

#include <string.h>
#include <sys/mman.h>
#include <fcntl.h>
#include <unistd.h>

#include <cuda_runtime_api.h>

static bool limited, only_plan;

static int feature_named(const char *name)
{
    static const char *const names[] = {
#define FEATURE(name, percent, what) #name,
#include "test/hostile/features.def"
#undef FEATURE
    };
    for (int i = 0; i < FEATURES; i++)
        if (strcmp(name, names[i]) == 0)
            return i;
    printf("no feature %s\n", name);
    exit(2);
}

static void read_switches(int argc, char **argv, int *switches)
{
    for (int i = 2; i < argc; i++) {
        const bool on = strcmp(argv[i], "--with") == 0;
        if ((on || strcmp(argv[i], "--without") == 0) && i + 1 < argc)
            switches[feature_named(argv[++i])] = on ? 1 : -1;
    }
}

static void read_numbers(int argc, char **argv)
{
    const struct {
        const char *name;
        unsigned *number;
        unsigned most;
    } options[] = {{"--threads", &plan.threads, plan.threads},
                   {"--operations", &plan.operations, plan.operations},
                   {"--phases", &plan.phases, plan.phases},
                   {"--first", &plan.first, UINT32_MAX},
                   {"--last", &plan.last, UINT32_MAX}};
    for (int i = 2; i < argc; i++) {
        limited = limited || strcmp(argv[i], "--limited") == 0;
        only_plan = only_plan || strcmp(argv[i], "--plan") == 0;
        for (size_t j = 0; j < sizeof options / sizeof *options; j++)
            if (strcmp(argv[i], options[j].name) == 0 && i + 1 < argc) {
                const unsigned number = (unsigned)strtoul(argv[++i], NULL, 10);
                *options[j].number = number < options[j].most ? number : options[j].most;
            }
    }
}

/* A file of eight bytes that whoever watches maps, too. */
static void open_progress(void)
{
    const char *const path = getenv("HOSTILE_PROGRESS");
    const int file = path ? open(path, O_RDWR) : -1;
    if (file < 0)
        return;
    void *const memory = mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
    if (memory != MAP_FAILED)
        progress = memory;
}

static void begin_thread(thread_t *t, unsigned number, unsigned phase)
{
    *t = (thread_t){.number = number, .phase = phase, .device = (int)(number % plan.devices)};
    sem_init(&t->gate_signal, 0, 0);
    sem_init(&t->gift_is_there, 0, 0);
    pthread_mutex_init(&t->gate_lock, NULL);
}

static void run_phase(unsigned phase)
{
    static thread_t threads[MOST_THREADS];
    pthread_t handles[MOST_THREADS];
    for (unsigned i = 0; i < plan.threads; i++)
        begin_thread(&threads[i], i, phase);
    for (unsigned i = 0; i < plan.threads; i++) {
        threads[i].giver = &threads[(i + 1) % plan.threads];
        if (i > 0 && pthread_create(&handles[i], NULL, thread_run, &threads[i]) != 0)
            exit(1);
    }
    thread_run(&threads[0]);
    for (unsigned i = 1; i < plan.threads; i++)
        pthread_join(handles[i], NULL);
    for (unsigned i = 0; i < plan.threads; i++) {
        if (!plan.tight)
            printf("phase %u, thread %u: %016llx\n", phase, i,
                   (unsigned long long)threads[i].digest);
        pthread_mutex_destroy(&threads[i].gate_lock);
    }
}

static void must(bool holds, const char *what, unsigned long long number)
{
    if (holds)
        return;
    printf("FAILED: seed %llu: %s (%llu)\n", (unsigned long long)plan.seed, what, number);
    fflush(stdout);
    _Exit(1);
}

/* Afterwards nothing is left, of the program's or of anybody's. */
static void reset_all(void)
{
    for (unsigned i = 0; i < plan.devices; i++) {
        must(cudaSetDevice((int)i) == cudaSuccess && cudaDeviceReset() == cudaSuccess,
             "no reset of device", i);
        must(simulator->used_bytes((int)i) == 0, "memory of the device is left after a reset",
             simulator->used_bytes((int)i));
    }
    must(simulator->pinned_bytes() == 0, "pinned memory is left after resets",
         simulator->pinned_bytes());
}

/* The process holds what the program freed only within the budget. */
static void check_end(void)
{
    for (unsigned i = 0; i < plan.devices; i++)
        must(!limited || plan.budget == 0 || simulator->used_bytes((int)i) <= plan.budget,
             "more than the budget is held at the end", simulator->used_bytes((int)i));
    if (plan.has[FEATURE_resets])
        reset_all();
}

static void set_limit(void)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)plan.budget);
    if (limited && plan.budget)
        setenv("MICRODNN_SIM_LIMIT", text, 1);
}

int main(int argc, char **argv)
{
    int switches[FEATURES] = {0};
    if (argc < 2)
        return 2;
    read_switches(argc, argv, switches);
    plan_draw(strtoull(argv[1], NULL, 10), switches);
    read_numbers(argc, argv);
    plan_set_environment();
    set_limit();
    if (only_plan) {
        plan_print();
        return 0;
    }
    open_progress();
    kernels_register();
    must(cuInit(0) == CUDA_SUCCESS, "no CUDA", 0);
    for (unsigned i = 0; i < plan.devices; i++)
        (void)process_context((int)i);
    api_find(plan.way);
    for (unsigned i = 0; i < plan.phases; i++) {
        run_phase(i);
        if (plan.has[FEATURE_resets] && i + 1 < plan.phases)
            reset_all();
    }
    check_end();
    printf("done\n");
    return 0;
}
