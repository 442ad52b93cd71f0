/* Reaches cuDNN by the route that its argument names, runs one convolution, prints the checksum.
 * With GRAPH in the environment the convolution is a graph of the backend API. linked   symbols
 * bound at start (C programs)          default  dlsym(RTLD_DEFAULT, name) handle   dlopen
 * RTLD_LOCAL and dlsym (JAX, TensorFlow)  twice  as handle, every name looked up twice plugin   an
 * RTLD_LOCAL extension that links cuDNN (PyTorch); its path is the second argument deepbind the
 * same, loaded with RTLD_DEEPBIND Built twice: with ROUTE_LINKED the program itself links the
 * libraries. */
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/clients/one_convolution.h"
#include "test/clients/one_graph.h"

static int run(const api_t *api)
{
    double checksum = 0;
    const int line = one_convolution(api, &checksum);
    if (line)
        fprintf(stderr, "one_convolution failed at line %d\n", line);
    else
        printf("%.9g\n", checksum);
    return line ? 1 : 0;
}

static bool wants_graph(void)
{
    return getenv("GRAPH") != NULL;
}

static int run_graph(const graph_api_t *api)
{
    double checksum = 0;
    const int line = one_graph(api, &checksum);
    if (line)
        fprintf(stderr, "one_graph failed at line %d\n", line);
    else
        printf("%.7g\n", checksum);
    return line ? 1 : 0;
}

static void *find(void *handle, const char *name)
{
    void *const found = dlsym(handle, name);
    if (!found) {
        fprintf(stderr, "%s: %s\n", name, dlerror());
        exit(1);
    }
    return found;
}

static int by_lookup(void *cudart, void *cudnn, int times)
{
    api_t api;
    graph_api_t graph_api;
    for (int i = 0; i < times; i++) {
        void *found;
#define LOOK(library, name)                                                                        \
    found = find(library, #name);                                                                  \
    memcpy(&api.name, &found, sizeof found);
#define LOOK_RUNTIME(name) LOOK(cudart, name)
#define LOOK_CUDNN(name) LOOK(cudnn, name)
        ONE_CONVOLUTION_RUNTIME(LOOK_RUNTIME)
        ONE_CONVOLUTION_CUDNN(LOOK_CUDNN)
#undef LOOK
#define LOOK(library, name)                                                                        \
    found = find(library, #name);                                                                  \
    memcpy(&graph_api.name, &found, sizeof found);
        ONE_GRAPH_RUNTIME(LOOK_RUNTIME)
        ONE_GRAPH_CUDNN(LOOK_CUDNN)
    }
    return wants_graph() ? run_graph(&graph_api) : run(&api);
}

#ifndef ROUTE_LINKED
static void *open_library(const char *name, int flags)
{
    void *const handle = dlopen(name, flags);
    if (!handle) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
    return handle;
}

static int by_plugin(const char *path, int flags)
{
    void *const plugin = open_library(path, RTLD_NOW | RTLD_LOCAL | flags);
    void *const symbol = find(plugin, wants_graph() ? "plugin_run_graph" : "plugin_run");
    int (*plugin_run)(double *);
    memcpy(&plugin_run, &symbol, sizeof symbol);
    double checksum = 0;
    const int line = plugin_run(&checksum);
    if (!line)
        printf(wants_graph() ? "%.7g\n" : "%.9g\n", checksum);
    return line ? 1 : 0;
}

#endif

int main(int argc, char **argv)
{
    const char *const route = argc > 1 ? argv[1] : "";
#ifdef ROUTE_LINKED
    if (strcmp(route, "linked") == 0) {
        const api_t api = {
#define LINKED(name) .name = &name,
            ONE_CONVOLUTION_RUNTIME(LINKED) ONE_CONVOLUTION_CUDNN(LINKED)};
        const graph_api_t graph_api = {ONE_GRAPH_RUNTIME(LINKED) ONE_GRAPH_CUDNN(LINKED)};
        return wants_graph() ? run_graph(&graph_api) : run(&api);
    }
    if (strcmp(route, "default") == 0)
        return by_lookup(RTLD_DEFAULT, RTLD_DEFAULT, 1);
#else
    if (strcmp(route, "handle") == 0 || strcmp(route, "twice") == 0)
        return by_lookup(open_library("libcudart.so.13", RTLD_NOW | RTLD_LOCAL),
                         open_library("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL),
                         strcmp(route, "twice") == 0 ? 2 : 1);
    if (strcmp(route, "plugin") == 0 && argc > 2)
        return by_plugin(argv[2], 0);
    if (strcmp(route, "deepbind") == 0 && argc > 2)
        return by_plugin(argv[2], RTLD_DEEPBIND);
#endif
    fprintf(stderr, "unknown route '%s'\n", route);
    return 2;
}
