#include "shim/convolution/wd_settings.h"

#include "shim/real/installation.h"
#include "shim/real/process.h"

bool mdnn_wd_is_on(void)
{
    return mdnn_process_options()->convolution_policy == MDNN_CONVOLUTION_WD;
}

uint64_t mdnn_wd_limit(void)
{
    const mdnn_options_t *const options = mdnn_process_options();
    const uint64_t total = options->convolution_total_workspace;
    const uint64_t limit = options->convolution_workspace_limit;
    if (!mdnn_wd_is_on())
        return 0;
    return total < limit ? total : limit;
}

mdnn_wd_settings_t mdnn_wd_settings(void)
{
    const mdnn_options_t *const options = mdnn_process_options();
    return (mdnn_wd_settings_t){
        .model = (mdnn_wd_model_t)options->convolution_wd_model,
        .solver = (mdnn_wd_solver_t)options->convolution_solver,
        .solver_ms = (double)options->convolution_solver_time,
        .find_program = mdnn_installation_find,
    };
}
