/* The variables that make PyTorch and JAX give back what they free, for `microdnn run` and `verify`. */
#include "scripts/microdnn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SCRIPT_BYTES = 1 << 20 };

/* ---- what a script of Python uses ---- */

/* What PyTorch's cudaMallocAsync backend "does not yet support", in the words of a program. */
typedef struct feature {
    const char *word, *but; /* `but`: these words do not count where this follows */
    const char *name;
} feature_t;

static const feature_t features[] = {
    {"reduce-overhead", NULL, "torch.compile(mode=\"reduce-overhead\")"},
    {"max-autotune", "-no-cudagraphs", "torch.compile(mode=\"max-autotune\")"},
    {"triton.cudagraphs", NULL, "triton.cudagraphs"},
    {"MemPool(", NULL, "torch.cuda.MemPool"},
    {"use_mem_pool", NULL, "torch.cuda.use_mem_pool"},
    {"_record_memory_history", NULL, "_record_memory_history"},
    {"memory_snapshot(", NULL, "torch.cuda.memory_snapshot"},
    {"_dump_snapshot", NULL, "_dump_snapshot"},
};

static bool has_feature(const char *text, const feature_t *feature)
{
    const size_t length = strlen(feature->word);
    const char *at = text;
    while ((at = strstr(at, feature->word)) != NULL) {
        at += length;
        if (feature->but == NULL || strncmp(at, feature->but, strlen(feature->but)) != 0)
            return true;
    }
    return false;
}

static const char *feature_in(const char *text)
{
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        if (has_feature(text, &features[i]))
            return features[i].name;
    return NULL;
}

static const char *feature_in_file(const char *path)
{
    FILE *const file = fopen(path, "re");
    char *const text = file != NULL ? malloc(MOST_SCRIPT_BYTES + 1) : NULL;
    const char *found = NULL;
    if (text != NULL) {
        text[fread(text, 1, MOST_SCRIPT_BYTES, file)] = '\0';
        found = feature_in(text);
    }
    free(text);
    if (file != NULL)
        (void)fclose(file);
    return found;
}

static bool is_script(const char *argument)
{
    const size_t length = strlen(argument);
    return length > 3 && strcmp(argument + length - 3, ".py") == 0;
}

/* In the program's first script, which a launcher's arguments may name, or in the text behind -c. */
const char *tool_unsupported_feature(char **arguments)
{
    for (size_t i = 0; arguments[i] != NULL; i++) {
        if (is_script(arguments[i]))
            return feature_in_file(arguments[i]);
        if (i > 0 && strcmp(arguments[i], "-c") == 0 && arguments[i + 1] != NULL)
            return feature_in(arguments[i + 1]);
    }
    return NULL;
}

/* ---- PyTorch's allocators ---- */

typedef struct allocator {
    const char *name, *variable, *value;
} allocator_t;

static const allocator_t allocators[] = {
    {"async", "PYTORCH_ALLOC_CONF", "backend:cudaMallocAsync"},
    {"native", "PYTORCH_ALLOC_CONF", "backend:native"},
    {"uncached", "PYTORCH_NO_CUDA_MEMORY_CACHING", "1"},
    {"expandable", "PYTORCH_ALLOC_CONF", "expandable_segments:True"},
};
enum { ASYNC, NATIVE };
static const allocator_t *chosen;

bool tool_choose_allocator(const char *shown, const char *name)
{
    for (size_t i = 0; i < sizeof allocators / sizeof *allocators; i++)
        if (strcmp(allocators[i].name, name) == 0) {
            chosen = &allocators[i];
            return true;
        }
    tool_complain("%s: '%s' is not an allocator of PyTorch; accepted: async, native, uncached, "
                  "expandable",
                  shown, name);
    return false;
}

static const allocator_t *allocator_for(char **arguments)
{
    const char *const feature = chosen != NULL ? NULL : tool_unsupported_feature(arguments);
    if (feature != NULL)
        tool_complain(
            "the program uses %s, which PyTorch's cudaMallocAsync does not support: running "
            "it with --allocator native, which keeps more memory",
            feature);
    return chosen != NULL ? chosen : &allocators[feature != NULL ? NATIVE : ASYNC];
}

/* ---- variables ---- */

static bool export_variable(const char *name, const char *value)
{
    if (setenv(name, value, 1) == 0)
        return true;
    tool_complain("cannot set %s: %s", name, strerror(errno));
    return false;
}

/* The one of these variables that the user has set; NULL: none is. */
static const char *first_set(const char *const *names)
{
    while (*names != NULL && getenv(*names) == NULL)
        names++;
    return *names;
}

static void say_kept(const char *name, const char *whose, const char *better, const char *value)
{
    tool_complain("%s=%s is set already: %s keeps it (better with a budget: %s=%s)", name,
                  getenv(name), whose, better, value);
}

static bool export_pytorch(char **arguments)
{
    static const char *const names[] = {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
                                        "PYTORCH_NO_CUDA_MEMORY_CACHING", NULL};
    const char *const set = first_set(names);
    if (set == NULL) {
        const allocator_t *const allocator = allocator_for(arguments);
        return export_variable(allocator->variable, allocator->value);
    }
    const allocator_t *const wanted = chosen != NULL ? chosen : &allocators[ASYNC];
    if (strcmp(getenv(set), wanted->value) != 0)
        say_kept(set, "PyTorch", wanted->variable, wanted->value);
    return true;
}

/* JAX's own allocator takes regions and gives none back; this one allocates each array like cudaMallocAsync. It would
 * first take, and free, most of the budget. */
static bool export_jax(void)
{
    static const char *const names[] = {
        "XLA_PYTHON_CLIENT_ALLOCATOR", "XLA_PYTHON_CLIENT_PREALLOCATE",
        "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_CLIENT_MEM_FRACTION", NULL};
    static const char *const better = "cuda_async";
    const char *const set = first_set(names);
    if (set == NULL)
        return export_variable(names[0], better) && export_variable(names[1], "false");
    if (strcmp(getenv(set), better) != 0)
        say_kept(set, "JAX", names[0], better);
    return true;
}

bool tool_export_framework_variables(char **arguments)
{
    const mdnn_options_t *const options = tool_exported_options();
    if (options->memory_budget == MDNN_SIZE_NONE || options->general_disable)
        return true;
    return export_pytorch(arguments) && export_jax();
}
