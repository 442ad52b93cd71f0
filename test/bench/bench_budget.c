/* Training under a budget on a device with a clock (test/unit/clocked_program.h), where the link is
 * the H200's and changing a mapping costs the host what it costs there
 * (docs/benchmarks/h200-virtual-memory.md). Prints how long a round took and was planned to take,
 * and what moved in it: ResNet-50 and VGG-16, with so many chunks in a budget at most, budgets as
 * parts of the bytes that are live at the peak. Compute times are near those of stock PyTorch.
 * Simulated: for comparing chunk sizes and rules of reuse, not for saying how fast anything is. */
#include "test/unit/clocked_program.h"
#include "test/unit/resnet50_period.h"

enum { ROUNDS = 4 };
static const double GIB = 1 << 30;

static void fill(const char *name, uint64_t images)
{
    if (strcmp(name, "resnet50") == 0)
        resnet50_fill(&network, images, images == 64 ? 44000 : 116000);
    else
        vgg16_fill(&network, (double)images, 55000, 122000);
}

static uint64_t peak_bytes(void)
{
    uint64_t live[RANDOM_PERIOD_OPERATIONS], peak = 0;
    mdnn_period_live_bytes(&network.period, live);
    for (uint32_t i = 0; i < network.period.operation_count; i++)
        peak = live[i] > peak ? live[i] : peak;
    return peak;
}

/* A part of the budget is left to slabs, of which the plan follower knows nothing. */
static void run(const char *name, uint64_t images, uint64_t parts, double share)
{
    uint64_t floor_bytes;
    fill(name, images);
    const uint64_t budget = (uint64_t)(share * (double)peak_bytes());
    MUST(mdnn_period_floor(&network.period, &floor_bytes) == MDNN_STATUS_OK);
    if (budget < floor_bytes + floor_bytes / 8) /* chunks and slabs are larger than tensors */
        return;
    start(budget, budget - budget / 64, parts, MDNN_POLICY_AUTO);
    run_to_plan(true);
    for (int i = 0; i < 2 * ROUNDS; i++) /* until plans are no longer mended */
        run_round(true);
    const mdnn_memory_report_t before = mdnn_memory_report(memory);
    const double begin_us = end_of(&device, 0);
    for (int i = 0; i < ROUNDS; i++)
        run_round(true);
    const mdnn_memory_report_t after = mdnn_memory_report(memory);
    const mdnn_follower_report_t plan = mdnn_memory_follower_report(memory);
    printf("budget\t%s\t%llu images\t%llu chunks\t%.0f %% of %.2f GiB\t%.1f ms\tplanned %.1f ms\t"
           "compute %.1f ms\tmapped %llu\tunmapped %llu\tout %.2f GiB\tdemands %llu\n",
           name, (unsigned long long)images, (unsigned long long)parts, share * 100,
           (double)peak_bytes() / GIB, (end_of(&device, 0) - begin_us) / ROUNDS / 1e3,
           plan.predicted_us / 1e3, plan.compute_us / 1e3,
           (unsigned long long)(after.mapped - before.mapped) / ROUNDS,
           (unsigned long long)(after.unmapped - before.unmapped) / ROUNDS,
           (double)(after.out_bytes - before.out_bytes) / ROUNDS / GIB,
           (unsigned long long)(after.demand_returns - before.demand_returns) / ROUNDS);
    mdnn_memory_destroy(memory);
}

int main(void)
{
    static const struct {
        const char *name;
        uint64_t images;
    } programs[] = {{"resnet50", 64}, {"resnet50", 256}, {"vgg16", 256}};
    static const uint64_t parts[] = {4096, 2048, 1024, 512};
    static const double shares[] = {1.25, 1, 0.9, 0.8, 0.7, 0.6};
    device.map_us = 46;
    device.unmap_us = 25;
    for (size_t p = 0; p < sizeof programs / sizeof programs[0]; p++)
        for (size_t c = 0; c < sizeof parts / sizeof parts[0]; c++)
            for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++)
                run(programs[p].name, programs[p].images, parts[c], shares[s]);
    free_device();
    return EXIT_SUCCESS;
}
