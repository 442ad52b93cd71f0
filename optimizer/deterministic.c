#include "optimizer/deterministic.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static bool is_yes(const char *word)
{
    return word && (strcmp(word, "1") == 0 || strcasecmp(word, "true") == 0 ||
                    strcasecmp(word, "yes") == 0 || strcasecmp(word, "on") == 0);
}

/* What cuBLAS and PyTorch say makes results repeat: buffers of one size. */
static bool is_cublas_deterministic(void)
{
    const char *const config = getenv("CUBLAS_WORKSPACE_CONFIG");
    return config && (strcmp(config, ":4096:8") == 0 || strcmp(config, ":16:8") == 0);
}

/* --flag, or --flag=true: among others, which blanks separate. */
static bool has_flag(const char *flags, const char *name)
{
    const size_t length = strlen(name);
    bool has = false;
    for (const char *at = flags ? strstr(flags, name) : NULL; at; at = strstr(at + length, name)) {
        const char after = at[length];
        if (after == '=')
            has = strncasecmp(at + length + 1, "true", 4) == 0 || at[length + 1] == '1';
        else
            has = has || after == '\0' || after == ' ';
    }
    return has;
}

bool mdnn_environment_is_deterministic(void)
{
    static const char *const switches[] = {"TF_DETERMINISTIC_OPS", "TF_CUDNN_DETERMINISTIC",
                                           "FLAGS_cudnn_deterministic",
                                           "MXNET_ENFORCE_DETERMINISM"};
    static const char *const flags[] = {"--xla_gpu_deterministic_ops",
                                        "--xla_gpu_exclude_nondeterministic_ops"};
    bool asks = is_cublas_deterministic();
    for (size_t i = 0; i < sizeof switches / sizeof *switches; i++)
        asks = asks || is_yes(getenv(switches[i]));
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        asks = asks || has_flag(getenv("XLA_FLAGS"), flags[i]);
    return asks;
}
