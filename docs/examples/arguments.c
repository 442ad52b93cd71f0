#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum {
    OPT_NET = 256,
    OPT_BATCH,
    OPT_ITERATIONS,
    OPT_EPOCHS,
    OPT_WARMUP,
    OPT_API,
    OPT_SEARCH,
    OPT_FIND_REPEATS,
    OPT_DTYPE,
    OPT_LAYOUT,
    OPT_WORKSPACE_LIMIT,
    OPT_WORKSPACE_PER_LAYER,
    OPT_BRANCH_STREAMS,
    OPT_DETERMINISTIC,
    OPT_LEARNING_RATE,
    OPT_MOMENTUM,
    OPT_DROPOUT,
    OPT_SEED,
    OPT_DATA,
    OPT_JSON,
    OPT_ALGORITHMS,
    OPT_QUIET,
    OPT_STEP,
    OPT_HELP
};

static const struct option long_options[] = {
    {"net", required_argument, NULL, OPT_NET},
    {"batch", required_argument, NULL, OPT_BATCH},
    {"iterations", required_argument, NULL, OPT_ITERATIONS},
    {"epochs", required_argument, NULL, OPT_EPOCHS},
    {"warmup", required_argument, NULL, OPT_WARMUP},
    {"api", required_argument, NULL, OPT_API},
    {"search", required_argument, NULL, OPT_SEARCH},
    {"find-repeats", required_argument, NULL, OPT_FIND_REPEATS},
    {"dtype", required_argument, NULL, OPT_DTYPE},
    {"layout", required_argument, NULL, OPT_LAYOUT},
    {"workspace-limit", required_argument, NULL, OPT_WORKSPACE_LIMIT},
    {"workspace-per-layer", no_argument, NULL, OPT_WORKSPACE_PER_LAYER},
    {"branch-streams", no_argument, NULL, OPT_BRANCH_STREAMS},
    {"deterministic", no_argument, NULL, OPT_DETERMINISTIC},
    {"learning-rate", required_argument, NULL, OPT_LEARNING_RATE},
    {"momentum", required_argument, NULL, OPT_MOMENTUM},
    {"dropout", required_argument, NULL, OPT_DROPOUT},
    {"seed", required_argument, NULL, OPT_SEED},
    {"data", required_argument, NULL, OPT_DATA},
    {"json", required_argument, NULL, OPT_JSON},
    {"algorithms", no_argument, NULL, OPT_ALGORITHMS},
    {"quiet", no_argument, NULL, OPT_QUIET},
    {"step", no_argument, NULL, OPT_STEP},
    {"help", no_argument, NULL, OPT_HELP},
    {NULL, 0, NULL, 0},
};

static const char help_text[] =
    "Usage: train_cnn [options]\n"
    "Trains a convolutional network with cuDNN and says how long its convolutions took.\n"
    "\n"
    "  --net NAME              network, see below (lenet)\n"
    "  --batch N               images in an iteration (see below)\n"
    "  --epochs N              passes over the training images; only networks for digits (10)\n"
    "  --iterations N          training iterations, instead of epochs (20 for the other networks)\n"
    "  --warmup N              first iterations that the times leave out (2, or fewer if few run)\n"
    "  --dtype TYPE            fp32: plain multiply-add; tf32: cuDNN's default, TF32 allowed;\n"
    "                          fp16, bf16: 16-bit tensors, fp32 sums and master weights (fp32);\n"
    "                          cuDNN 9.19 has no gradient of a bias in bf16\n"
    "  --layout LAYOUT         nchw or nhwc (nchw)\n"
    "  --api API               legacy: cudnnConvolutionForward and its kin, as Caffe; graph: the\n"
    "                          backend's graphs, as PyTorch (legacy)\n"
    "  --search KIND           exhaustive: times all algorithms that cuDNN offers; heuristic: "
    "takes\n"
    "                          the first that it names (exhaustive)\n"
    "  --workspace-limit SIZE  most workspace for a convolution: 64MiB, 512k, 1g, bytes, or none\n"
    "                          (none: what free memory allows, 8 GiB at most)\n"
    "  --workspace-per-layer   each convolution keeps a workspace; else all share the largest\n"
    "  --branch-streams        run the branches of Inception's blocks on streams of their own,\n"
    "                          each with its cuDNN handle and workspace\n"
    "  --deterministic         take only algorithms that give the same bits each time\n"
    "  --find-repeats N        searches for each algorithm; the last counts (2)\n"
    "  --learning-rate X       (see below) and\n"
    "  --momentum X            of stochastic gradient descent (0.9)\n"
    "  --dropout X             part of what the last fully connected layers read that is left out "
    "in\n"
    "                          training (0.5 in alexnet, overfeat, vgg16 and inception-v3; 0: "
    "none)\n"
    "  --seed N                of the weights, the order of the images and dropout (1)\n"
    "  --data DIR              where digits.txt is (docs/examples/data)\n"
    "  --json FILE             write options, losses and times there; - is standard output\n"
    "  --algorithms            print the algorithm, workspace and time of each convolution\n"
    "  --quiet                 print nothing else than errors\n"
    "  --step                  before each iteration wait for a line on standard input, after it\n"
    "                          print its convolution and whole times in ms; ends at end of input\n"
    "  --help                  print this\n"
    "\n"
    "Networks (those not for digits train on random data):\n";

__attribute__((format(printf, 1, 2), noreturn)) static void usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("train_cnn: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (--help lists the options)\n", stderr);
    va_end(arguments);
    exit(2);
}

static int parse_int(const char *option, const char *text, int min)
{
    char *end;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (end == text || *end || errno || value < min || value > INT_MAX)
        usage_error("--%s: '%s' is not a whole number of at least %d", option, text, min);
    return (int)value;
}

static uint64_t parse_seed(const char *text)
{
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end == text || *end || errno || text[0] == '-')
        usage_error("--seed: '%s' is not a whole number of at least 0", text);
    return value;
}

static double parse_real(const char *option, const char *text, double max)
{
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || !isfinite(value) || value < 0 || value > max)
        usage_error("--%s: '%s' is not a number from 0 to %g", option, text, max);
    return value;
}

static size_t parse_size(const char *option, const char *text)
{
    static const struct {
        const char *suffix;
        int shift;
    } units[] = {{"", 0},   {"b", 0},    {"k", 10}, {"kib", 10},
                 {"m", 20}, {"mib", 20}, {"g", 30}, {"gib", 30}};
    if (strcasecmp(text, "none") == 0)
        return NO_LIMIT;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (end != text && !errno && text[0] != '-')
        for (size_t i = 0; i < sizeof units / sizeof *units; i++)
            if (strcasecmp(end, units[i].suffix) == 0 && value < SIZE_MAX >> units[i].shift)
                return (size_t)value << units[i].shift;
    usage_error("--%s: '%s' is not a size such as 64MiB, 512k, 1g, 4096 or none", option, text);
}

static int parse_choice(const char *option, const char *text, const char *(*name)(int), int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(text, name(i)) == 0)
            return i;
    char accepted[128] = "";
    for (int i = 0; i < count; i++) {
        strcat(accepted, i ? ", " : "");
        strcat(accepted, name(i));
    }
    usage_error("--%s: '%s' is not one of %s", option, text, accepted);
}

static const char *type_choice(int i)
{
    return type_name((data_type_t)i);
}

static const char *layout_choice(int i)
{
    return layout_name((layout_t)i);
}

static const char *api_choice(int i)
{
    return api_name((api_t)i);
}

static const char *search_choice(int i)
{
    return search_name((search_t)i);
}

static const net_info_t *parse_net(const char *text)
{
    const net_info_t *net = net_find(text);
    if (!net)
        usage_error("--net: there is no network '%s'", text);
    return net;
}

static _Noreturn void print_help(void)
{
    fputs(help_text, stdout);
    net_print_list(stdout);
    exit(0);
}

static void parse_one(arguments_t *a, int option, const char *text)
{
    switch (option) {
    case OPT_NET:
        a->net = parse_net(text);
        break;
    case OPT_BATCH:
        a->batch = parse_int("batch", text, 1);
        break;
    case OPT_ITERATIONS:
        a->iterations = parse_int("iterations", text, 1);
        break;
    case OPT_EPOCHS:
        a->epochs = parse_int("epochs", text, 1);
        break;
    case OPT_WARMUP:
        a->warmup = parse_int("warmup", text, 0);
        break;
    case OPT_API:
        a->api = (api_t)parse_choice("api", text, api_choice, 2);
        break;
    case OPT_SEARCH:
        a->search = (search_t)parse_choice("search", text, search_choice, 2);
        break;
    case OPT_FIND_REPEATS:
        a->find_repeats = parse_int("find-repeats", text, 1);
        break;
    case OPT_DTYPE:
        a->type = (data_type_t)parse_choice("dtype", text, type_choice, 4);
        break;
    case OPT_LAYOUT:
        a->layout = (layout_t)parse_choice("layout", text, layout_choice, 2);
        break;
    case OPT_WORKSPACE_LIMIT:
        a->workspace_limit_bytes = parse_size("workspace-limit", text);
        break;
    case OPT_WORKSPACE_PER_LAYER:
        a->workspace_per_layer = true;
        break;
    case OPT_BRANCH_STREAMS:
        a->branch_streams = true;
        break;
    case OPT_DETERMINISTIC:
        a->deterministic = true;
        break;
    case OPT_LEARNING_RATE:
        a->learning_rate = parse_real("learning-rate", text, 1e6);
        break;
    case OPT_MOMENTUM:
        a->momentum = parse_real("momentum", text, 1.0);
        break;
    case OPT_DROPOUT:
        a->dropout = parse_real("dropout", text, 0.99);
        break;
    case OPT_SEED:
        a->seed = parse_seed(text);
        break;
    case OPT_DATA:
        a->data_directory = text;
        break;
    case OPT_JSON:
        a->json_file = text;
        break;
    case OPT_ALGORITHMS:
        a->print_algorithms = true;
        break;
    case OPT_QUIET:
        a->quiet = true;
        break;
    case OPT_STEP:
        a->step = true;
        break;
    case OPT_HELP:
        print_help();
    default: /* getopt_long has said what is wrong */
        fputs("train_cnn: --help lists the options\n", stderr);
        exit(2);
    }
}

/* What depends on more than one option. */
static void complete(arguments_t *a)
{
    if (a->batch == 0)
        a->batch = a->net->batch;
    if (a->learning_rate < 0)
        a->learning_rate = a->net->learning_rate;
    if (a->branch_streams && !a->net->branches)
        usage_error("--branch-streams: %s has no branches", a->net->name);
    if (a->dropout > 0 && a->net->dropout < 0)
        usage_error("--dropout: %s has none", a->net->name);
    if (a->dropout < 0)
        a->dropout = fmax(a->net->dropout, 0);
    if (a->epochs && a->iterations)
        usage_error("--epochs and --iterations exclude each other");
    if (a->epochs && !a->net->digits)
        usage_error("--epochs: %s trains on random data, which has none; use --iterations",
                    a->net->name);
    if (!a->epochs && !a->iterations) {
        a->epochs = a->net->digits ? 10 : 0;
        a->iterations = a->net->digits ? 0 : 20;
    }
    if (a->iterations && a->warmup >= a->iterations)
        usage_error("--warmup: %d of %d iterations leaves none to time", a->warmup, a->iterations);
}

void arguments_parse(arguments_t *arguments, int argc, char **argv)
{
    *arguments = (arguments_t){.net = net_find("lenet"),
                               .warmup = -1,
                               .find_repeats = 2,
                               .workspace_limit_bytes = NO_LIMIT,
                               .learning_rate = -1,
                               .momentum = 0.9,
                               .dropout = -1,
                               .seed = 1,
                               .data_directory = "docs/examples/data"};
    int option;
    while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
        parse_one(arguments, option, optarg);
    if (optind < argc)
        usage_error("'%s' is not an option", argv[optind]);
    complete(arguments);
}

const char *type_name(data_type_t type)
{
    static const char *const names[] = {"fp32", "tf32", "fp16", "bf16"};
    return names[type];
}

const char *layout_name(layout_t layout)
{
    static const char *const names[] = {"nchw", "nhwc"};
    return names[layout];
}

const char *api_name(api_t api)
{
    static const char *const names[] = {"legacy", "graph"};
    return names[api];
}

const char *search_name(search_t search)
{
    static const char *const names[] = {"exhaustive", "heuristic"};
    return names[search];
}
