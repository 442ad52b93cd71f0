#include "shim/real/start_line.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "config/log.h"
#include "config/numbers.h"
#include "shim/real/process.h"
#include "shim/real/real.h"

typedef struct part {
    char text[128];
} part_t;

static part_t memory_part(const mdnn_options_t *options)
{
    part_t part = {"no memory budget"};
    char size[MDNN_NUMBER_BYTES];
    if (options->memory_budget == MDNN_SIZE_NONE)
        return part;
    mdnn_format_size(options->memory_budget, size, sizeof size);
    snprintf(part.text, sizeof part.text, "memory budget %s, policy %s", size,
             mdnn_choices_memory_policy[options->memory_policy]);
    return part;
}

static part_t convolution_part(const mdnn_options_t *options)
{
    part_t part = {"convolutions as they are"};
    char size[MDNN_NUMBER_BYTES];
    const bool shares = options->convolution_policy == MDNN_CONVOLUTION_WD;
    const uint64_t bytes =
        shares ? options->convolution_total_workspace : options->convolution_workspace_limit;
    if (options->convolution_policy == MDNN_CONVOLUTION_OFF)
        return part;
    mdnn_format_size(bytes, size, sizeof size);
    if (bytes == MDNN_SIZE_NONE)
        snprintf(part.text, sizeof part.text, "micro-batches where they are faster");
    else
        snprintf(part.text, sizeof part.text, "micro-batches within %s of workspace%s", size,
                 shares ? " for all convolutions" : "");
    return part;
}

void mdnn_start_line(int device)
{
    static atomic_flag said = ATOMIC_FLAG_INIT;
    const mdnn_options_t *const options = mdnn_process_options();
    const bool for_people = options->general_stats == MDNN_STATISTICS_TEXT ||
                            options->general_stats == MDNN_STATISTICS_BRIEF;
    char name[128] = "";
    if (!for_people || atomic_flag_test_and_set(&said))
        return;
    if (mdnn_real_driver()->cuDeviceGetName(name, (int)sizeof name - 1, device) != CUDA_SUCCESS)
        snprintf(name, sizeof name, "device %d", device);
    mdnn_log_say("start", "libmicrodnn %s on %s: %s; %s", MDNN_VERSION, name,
                 memory_part(options).text, convolution_part(options).text);
}
