/* What a program is like, from its seed: features, sizes, its floor and its budget. */
#include "test/hostile/hostile.h"

#include <string.h>

plan_t plan;

static const struct {
    const char *name;
    uint32_t percent;
} features[FEATURES] = {
#define FEATURE(name, percent, what) {#name, percent},
#include "test/hostile/features.def"
#undef FEATURE
};

static bool any_gate(void)
{
    return plan.has[FEATURE_value_gates] || plan.has[FEATURE_write_gates] ||
           plan.has[FEATURE_call_gates] || plan.has[FEATURE_lock_gates];
}

static bool any_capture(void)
{
    return plan.has[FEATURE_local_captures] || plan.has[FEATURE_global_captures] ||
           plan.has[FEATURE_relaxed_captures];
}

/* Each feature has a draw of its own, so that one switch changes no other. */
static void draw_features(const int switches[FEATURES])
{
    for (unsigned i = 0; i < FEATURES; i++) {
        draw_t d = draw_of(plan.seed, 1, i, 0);
        plan.has[i] = chance(&d, features[i].percent);
        if (switches[i] != 0)
            plan.has[i] = switches[i] > 0;
    }
}

/* A budget that is too small is for programs of one thread that can stop at any operation. */
static void draw_tight(void)
{
    static const feature_t without[] = {FEATURE_threads,
                                        FEATURE_devices,
                                        FEATURE_gifts,
                                        FEATURE_value_gates,
                                        FEATURE_write_gates,
                                        FEATURE_call_gates,
                                        FEATURE_lock_gates,
                                        FEATURE_local_captures,
                                        FEATURE_global_captures,
                                        FEATURE_pools,
                                        FEATURE_relaxed_captures,
                                        FEATURE_graph_memory,
                                        FEATURE_handles,
                                        FEATURE_convolutions,
                                        FEATURE_resets,
                                        FEATURE_mappings,
                                        FEATURE_streams_end,
                                        FEATURE_host_short,
                                        FEATURE_phases,
                                        FEATURE_tables};
    plan.tight = plan.has[FEATURE_below];
    for (size_t i = 0; plan.tight && i < sizeof without / sizeof *without; i++)
        plan.has[without[i]] = false;
}

/* What never leaves would need room beside operations that have none; and what has a tail waits for its uses, which a
 * gate would hold up. */
static void draw_tails(void)
{
    static const feature_t without[] = {
        FEATURE_below,           FEATURE_value_gates,      FEATURE_write_gates,
        FEATURE_call_gates,      FEATURE_lock_gates,       FEATURE_local_captures,
        FEATURE_global_captures, FEATURE_relaxed_captures, FEATURE_pools,
        FEATURE_graph_memory,    FEATURE_handles,          FEATURE_convolutions,
        FEATURE_sharp,           FEATURE_host_short};
    for (size_t i = 0; plan.has[FEATURE_tails] && i < sizeof without / sizeof *without; i++)
        plan.has[without[i]] = false;
}

static void draw_sizes(void)
{
    draw_t d = draw_of(plan.seed, 2, 0, 0);
    plan.way = (way_t)draw(&d, WAYS);
    plan.threads = plan.has[FEATURE_threads] ? 2 + draw(&d, draw(&d, 3) == 0 ? 7 : 3) : 1;
    plan.devices = plan.has[FEATURE_devices] ? 2 : 1;
    plan.phases = plan.has[FEATURE_phases] ? 2 + draw(&d, 2) : 1;
    const unsigned all = 20 + draw(&d, 90);
    plan.operations = all / plan.phases / (plan.threads < 4 ? plan.threads : 4) + 4;
    plan.largest = (draw(&d, 10) < 7 ? 1 : 2 + draw(&d, 2)) * CHUNK;
    if (plan.has[FEATURE_tails])
        plan.largest += draw(&d, 5) * CHUNK;
}

static void draw_caps(void)
{
    draw_t d = draw_of(plan.seed, 3, 0, 0);
    const uint64_t largest = most_bytes();
    plan.caps.operation = (2 + draw(&d, 3)) * largest;
    plan.caps.gated = any_gate() ? (1 + draw(&d, 2)) * largest : 0;
    plan.caps.graphs = any_capture() || plan.has[FEATURE_graph_memory] ? 2 * largest : 0;
    plan.caps.pool = plan.has[FEATURE_pools] ? largest : 0;
    plan.caps.handles = plan.has[FEATURE_handles] ? largest : 0;
    if (plan.has[FEATURE_mappings])
        plan.caps.handles = 8 * CHUNK;
    plan.caps.small = plan.has[FEATURE_small] ? 2 * CHUNK : 0;
}

static uint64_t sum_of_caps(void)
{
    const caps_t *const c = &plan.caps;
    return c->operation + c->gated + c->graphs + c->pool + c->handles + c->small;
}

static void draw_budget(void)
{
    draw_t d = draw_of(plan.seed, 4, 0, 0);
    const unsigned of_device = (plan.threads + plan.devices - 1) / plan.devices;
    plan.floor = of_device * sum_of_caps() + CHUNK;
    if (plan.has[FEATURE_sharp]) /* who needs memory waits for the end of another's call */
        plan.floor -= (of_device - 1) * plan.caps.operation;
    if (plan.has[FEATURE_small])
        plan.floor += 4 * CHUNK;
    if (plan.has[FEATURE_convolutions])
        plan.floor += 8 * CHUNK;
    const uint32_t more = draw(&d, 3) == 0 ? 0 : draw(&d, 100);
    plan.budget = (plan.floor + plan.floor * more / 100 + CHUNK - 1) / CHUNK * CHUNK;
    if (plan.tight)
        plan.budget = CHUNK + plan.caps.operation * draw(&d, 100) / 100;
    else if (draw(&d, 20) == 0)
        plan.budget = 0;
    const uint64_t most = plan.budget ? plan.budget : plan.floor;
    if (plan.has[FEATURE_tails]) /* less than many operations name */
        plan.budget = (2 + draw(&d, 5)) * CHUNK + of_device * plan.caps.handles;
    plan.live = most / of_device * (80 + draw(&d, 180)) / 100;
    if (plan.live < plan.caps.operation + plan.largest)
        plan.live = plan.caps.operation + plan.largest;
}

void plan_draw(uint64_t seed, const int switches[FEATURES])
{
    plan = (plan_t){.seed = seed, .last = UINT32_MAX};
    draw_features(switches);
    draw_tails();
    draw_tight();
    draw_sizes();
    draw_caps();
    draw_budget();
}

static void set(const char *name, uint64_t value)
{
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)value);
    setenv(name, text, 1);
}

static const char *policy_of(draw_t *d)
{
    static const char *const policies[] = {"none", "auto",  "auto",   "conv",
                                           "all",  "modnn", "dynamic"};
    return policies[draw(d, 7)];
}

/* Whether no allocation is above the budget, beside small ones. */
static bool each_fits(void)
{
    return plan.largest + 2 * CHUNK <= plan.budget;
}

/* `host` and `verify` wait for all work, which a gate would hold up; `verify` has no tails. */
static const char *safety_of(draw_t *d)
{
    const uint32_t which = draw(d, 10);
    if (any_gate() || plan.threads > 1 || which > 1)
        return "fast";
    if (plan.has[FEATURE_tails])
        return each_fits() ? "host" : "fast";
    return which == 0 ? "host" : "verify";
}

/* What leaves must find room there. With `verify` a tensor takes a chunk of its own, however small. */
static uint64_t host_limit_of(const char *safety)
{
    const uint64_t small = strcmp(safety, "verify") == 0 ? (uint64_t)MOST_TENSORS * CHUNK : 0;
    return plan.threads * (plan.live + plan.largest + small);
}

void plan_set_environment(void)
{
    draw_t d = draw_of(plan.seed, 5, 0, 0);
    set("MICRODNN_SIM_SEED", 1 + draw(&d, 1000));
    set("MICRODNN_SIM_DEVICES", plan.devices);
    set("MICRODNN_SIM_PEERS", draw(&d, 2));
    if (draw(&d, 8) != 0)
        set("MICRODNN_SIM_POISON", 0);
    if (plan.has[FEATURE_tables]) /* kernels find addresses in memory */
        set("MICRODNN_SIM_UNNAMED", 1);
    if (plan.has[FEATURE_library_threads])
        set("MICRODNN_SIM_THREADS", 1);
    setenv("MICRODNN_MEMORY_POLICY", policy_of(&d), 1);
    const char *const safety = safety_of(&d);
    setenv("MICRODNN_MEMORY_SAFETY", safety, 1);
    if (plan.budget)
        set("MICRODNN_MEMORY_BUDGET", plan.budget);
    setenv("MICRODNN_MEMORY_TAIL", plan.has[FEATURE_tails] || draw(&d, 2) ? "yes" : "no", 1);
    if (plan.budget && plan.has[FEATURE_host_short])
        set("MICRODNN_MEMORY_HOST_LIMIT", host_limit_of(safety));
}

void plan_print(void)
{
    static const char *const ways[WAYS] = {"linked", "dlsym", "cuGetProcAddress", "own streams"};
    printf("seed %llu: %s, %u threads, %u devices, %u phases of %u, largest %llu, floor %llu, "
           "budget %llu, live %llu, safety %s, policy %s\n",
           (unsigned long long)plan.seed, ways[plan.way], plan.threads, plan.devices, plan.phases,
           plan.operations, (unsigned long long)(plan.largest / MEBIBYTE),
           (unsigned long long)(plan.floor / MEBIBYTE),
           (unsigned long long)(plan.budget / MEBIBYTE), (unsigned long long)(plan.live / MEBIBYTE),
           getenv("MICRODNN_MEMORY_SAFETY"), getenv("MICRODNN_MEMORY_POLICY"));
    for (unsigned i = 0; i < FEATURES; i++)
        if (plan.has[i])
            printf(" %s", features[i].name);
    printf("\n");
}
