/* libFuzzer: any bytes as the statistics of a run, for `microdnn plan --from-run`. Build and run
 * with `make fuzz-plan_run`. Bytes that do not begin a JSON object are numbers of executions in
 * good statistics, so that the fuzzer need not find the form. */
#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "scripts/microdnn_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { PROBLEMS = 7, KEY_BYTES = 2048 };
static char keys[PROBLEMS][KEY_BYTES];
static tool_known_t known[PROBLEMS];

/* Those of the tool say more, and do more. */
void tool_complain(const char *format, ...)
{
    (void)format;
}

const char *tool_why_unreadable(const char *path, mdnn_status_t status)
{
    (void)path;
    return mdnn_status_string(status);
}

bool tool_kernels_add(tool_kernels_t *kernels, const tool_kernel_t *kernel)
{
    const size_t length = strlen(kernel->name);
    if (length == 0 || length + 1 >= sizeof kernel->name || kernel->known == NULL)
        abort();
    kernels->count++;
    return true;
}

/* Two layers in three directions, and the first with a fused activation. */
static void make_keys(void)
{
    for (int i = 0; i < PROBLEMS; i++) {
        mdnn_problem_t problem;
        int32_t numbers[sizeof problem / sizeof(int32_t)];
        size_t used = (size_t)snprintf(keys[i], KEY_BYTES, "microdnn 2 device=1:x");
        mdnn_problem_init(&problem);
        problem.direction = i / 2;
        problem.w.dims[0] = i % 2;
        memcpy(numbers, &problem, sizeof numbers);
        for (size_t k = 0; k < sizeof numbers / sizeof *numbers; k++)
            used += (size_t)snprintf(keys[i] + used, KEY_BYTES - used, "%c%" PRId32, k ? ',' : ' ',
                                     numbers[k]);
        known[i].key = keys[i];
    }
}

static void write_executions(const uint8_t *data, size_t bytes, FILE *out)
{
    fputs("{\"microdnn_statistics\": 3, \"version\": \"1\", \"program\": \"p\", \"host\": \"h\", "
          "\"process\": 1, "
          "\"started\": \"\", \"counters\": {}, \"convolutions\": [",
          out);
    for (int i = 0; i < PROBLEMS; i++)
        fprintf(out, "%s{\"problem\": \"x\", \"device\": %d, \"key\": \"%s\"}", i > 0 ? ", " : "",
                i == PROBLEMS - 1 && bytes % 2, keys[i]);
    fputs("], \"executions\": [", out);
    /* Repeated, or nothing would be found. */
    const size_t count = bytes / 2;
    for (size_t i = 0; i < 7 * count && i < 4096; i++) {
        const uint8_t *const at = &data[2 * (i % count)];
        fprintf(out, "%s[%d,%d,%d,%d,%d]", i > 0 ? "," : "", at[0] % PROBLEMS, at[0] / PROBLEMS % 3,
                at[1] % 8 + (at[1] & 64 ? (int)(i / count) * 8 : 0), at[1] / 8 % 4,
                at[0] / 64 + at[1] % 5);
    }
    fputs("]}", out);
}

static void plan_file(int file)
{
    const tool_known_list_t list = {known, PROBLEMS, PROBLEMS};
    tool_kernels_t kernels = {0};
    char path[64], title[128] = "";
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    const bool good = tool_run_kernels(path, &list, &kernels, title, sizeof title);
    if (good && (kernels.count == 0 || kernels.group_count == 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (*keys[0] == '\0')
        make_keys();
    const int file = memfd_create("fuzz", MFD_CLOEXEC);
    FILE *const out = fdopen(file, "w");
    if (out == NULL)
        abort();
    if (bytes > 0 && data[0] == '{')
        fwrite(data, 1, bytes, out);
    else
        write_executions(data, bytes, out);
    fflush(out);
    plan_file(file);
    fclose(out);
    return 0;
}
