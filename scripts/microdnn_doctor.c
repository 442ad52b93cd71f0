/* microdnn doctor: what would keep the library from working here. Every look is one function that
 * adds findings; the worst of them is the exit status. */
#include "scripts/microdnn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <link.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "config/numbers.h"

typedef enum severity { FINE, WARNING, BROKEN } severity_t;

enum { FINDINGS_MAX = 64, FINDING_BYTES = 1024, COPIES_MAX = 16 };

typedef struct finding {
    severity_t severity;
    const char *subject;
    char text[FINDING_BYTES];
} finding_t;

static finding_t findings[FINDINGS_MAX];
static size_t finding_count;

/* Different cuDNN main libraries that were met, without links. */
static char cudnn_copies[COPIES_MAX][PATH_MAX];
static size_t cudnn_copy_count;

__attribute__((format(printf, 3, 4))) static void find(severity_t severity, const char *subject,
                                                       const char *format, ...)
{
    if (finding_count == FINDINGS_MAX)
        return;
    finding_t *const finding = &findings[finding_count++];
    finding->severity = severity;
    finding->subject = subject;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

static void look_at_libc(void)
{
    const char *const version = gnu_get_libc_version();
    unsigned major = 0, minor = 0;
    const bool read = sscanf(version, "%u.%u", &major, &minor) == 2;
    const bool old = !read || major < 2 || (major == 2 && minor < 34);
    find(old ? BROKEN : FINE, "glibc", "%s%s", version, old ? ", 2.34 or newer is needed" : "");
}

static void look_at_library(const char *given)
{
    char path[PATH_MAX], why[2 * PATH_MAX + 128], version[64];
    if (!tool_find_library(given, path, sizeof path, why, sizeof why)) {
        find(BROKEN, "library", "%s", why);
        return;
    }
    tool_library_version(path, version, sizeof version);
    if (*version == '\0')
        find(BROKEN, "library", "%s is not libmicrodnn", path);
    else if (strcmp(version, MDNN_VERSION) != 0)
        find(WARNING, "library", "%s is version %s, this tool is %s", path, version, MDNN_VERSION);
    else
        find(FINE, "library", "%s, version %s", path, version);
}

static void look_at_preload(void)
{
    const char *const preload = getenv("LD_PRELOAD");
    if (preload == NULL || *preload == '\0') {
        find(FINE, "LD_PRELOAD", "empty; `microdnn run` sets it for one program");
        return;
    }
    char *const entries = strdup(preload);
    char *state = NULL;
    unsigned ours = 0;
    for (char *entry = entries != NULL ? strtok_r(entries, ": ", &state) : NULL; entry != NULL;
         entry = strtok_r(NULL, ": ", &state)) {
        const char *const slash = strrchr(entry, '/');
        ours += strcmp(slash != NULL ? slash + 1 : entry, "libmicrodnn.so") == 0;
        if (slash != NULL && access(entry, R_OK) != 0)
            find(WARNING, "LD_PRELOAD", "%s: %s", entry, strerror(errno));
        else if (slash != NULL && *entry != '/')
            find(WARNING, "LD_PRELOAD",
                 "%s: a relative path is lost when a program changes its "
                 "directory",
                 entry);
        else
            find(FINE, "LD_PRELOAD", "%s", entry);
    }
    if (ours > 1)
        find(WARNING, "LD_PRELOAD", "holds libmicrodnn.so %u times", ours);
    free(entries);
}

static const char *path_of(void *handle)
{
    struct link_map *map = NULL;
    return dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 && map->l_name[0] != '\0' ? map->l_name
                                                                                : "unknown path";
}

/* dlsym's result as a function; ISO C has no cast for it. */
static void get_function(void *handle, const char *name, void *function)
{
    void *const symbol = dlsym(handle, name);
    memcpy(function, &symbol, sizeof symbol);
}

/* CUDA writes 13.0 as 13000. */
static int cuda_version(void *handle, const char *getter)
{
    int (*get)(int *) = NULL;
    int version = 0;
    get_function(handle, getter, &get);
    return get != NULL && get(&version) == 0 ? version : 0;
}

static void look_at_driver(void)
{
    void *const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        find(WARNING, "driver", "no libcuda.so.1: programs cannot use a GPU here (%s)", dlerror());
        return;
    }
    const int version = cuda_version(handle, "cuDriverGetVersion");
    const bool simulated = dlsym(handle, "sim_api") != NULL;
    find(FINE, "driver", "%s, CUDA %d.%d%s", path_of(handle), version / 1000, version % 1000 / 10,
         simulated ? ", a SIMULATED GPU: its times are computed, not measured" : "");
}

static void look_at_runtimes(void)
{
    static const char *const names[] = {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"};
    unsigned found = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *const handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL)
            continue;
        const int version = cuda_version(handle, "cudaRuntimeGetVersion");
        find(FINE, "CUDA runtime", "%s, CUDA %d.%d", path_of(handle), version / 1000,
             version % 1000 / 10);
        found++;
    }
    if (found == 0)
        find(FINE, "CUDA runtime", "none where the loader looks; Python packages bring their own");
}

static void remember_cudnn(const char *path)
{
    char real[PATH_MAX];
    if (realpath(path, real) == NULL || cudnn_copy_count == COPIES_MAX)
        return;
    for (size_t i = 0; i < cudnn_copy_count; i++) {
        if (strcmp(cudnn_copies[i], real) == 0)
            return;
    }
    memcpy(cudnn_copies[cudnn_copy_count++], real, sizeof real);
}

static const char *const cudnn_names[] = {"libcudnn.so.9", "libcudnn.so.8"};
enum { CUDNN_NAME_COUNT = sizeof cudnn_names / sizeof *cudnn_names };

/* 9.19.0 is 91900, 8.9.7 is 8907. */
static void find_cudnn(void *handle)
{
    size_t (*get)(void) = NULL;
    get_function(handle, "cudnnGetVersion", &get);
    const size_t version = get != NULL ? get() : 0;
    const size_t major_unit = version >= 90000 ? 10000 : 1000;
    find(FINE, "cuDNN", "%s, version %zu.%zu.%zu", path_of(handle), version / major_unit,
         version % major_unit / 100, version % 100);
    remember_cudnn(path_of(handle));
}

/* Copies in the directories of the loader, beyond the first that it takes. */
static void search_cudnn_copies(void)
{
    void *const self = dlopen(NULL, RTLD_LAZY);
    Dl_serinfo size;
    if (self == NULL || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0)
        return;
    Dl_serinfo *const directories = malloc(size.dls_size);
    if (directories == NULL)
        return;
    if (dlinfo(self, RTLD_DI_SERINFOSIZE, directories) == 0 &&
        dlinfo(self, RTLD_DI_SERINFO, directories) == 0) {
        for (unsigned i = 0; i < directories->dls_cnt; i++) {
            for (size_t name = 0; name < CUDNN_NAME_COUNT; name++) {
                char path[PATH_MAX];
                snprintf(path, sizeof path, "%s/%s", directories->dls_serpath[i].dls_name,
                         cudnn_names[name]);
                remember_cudnn(path);
            }
        }
    }
    free(directories);
}

static void look_at_cudnn(void)
{
    unsigned found = 0;
    for (size_t i = 0; i < CUDNN_NAME_COUNT; i++) {
        void *const handle = dlopen(cudnn_names[i], RTLD_NOW | RTLD_LOCAL);
        if (handle == NULL)
            continue;
        find_cudnn(handle);
        found++;
    }
    if (found == 0)
        find(FINE, "cuDNN", "none where the loader looks; Python packages bring their own");
    search_cudnn_copies();
}

static void judge_cudnn_copies(void)
{
    if (cudnn_copy_count < 2)
        return;
    char list[FINDING_BYTES / 2] = "";
    size_t used = 0;
    for (size_t i = 0; i < cudnn_copy_count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "",
                                 cudnn_copies[i]);
    find(WARNING, "cuDNN",
         "%zu different copies: %s; which one a program gets depends on its search "
         "path",
         cudnn_copy_count, list);
}

/* Where execvp would find it. */
static bool find_program(const char *name, char *path, size_t bytes)
{
    if (strchr(name, '/') != NULL) {
        snprintf(path, bytes, "%s", name);
        return access(path, X_OK) == 0;
    }
    const char *directory = getenv("PATH");
    while (directory != NULL && *directory != '\0') {
        const size_t length = strcspn(directory, ":");
        snprintf(path, bytes, "%.*s/%s", (int)length, length > 0 ? directory : ".", name);
        if (access(path, X_OK) == 0)
            return true;
        directory += length + (directory[length] == ':');
    }
    errno = ENOENT;
    return false;
}

/* Environment without LD_PRELOAD: the question is what the program itself brings. Its strings are
 * those of environ; free the array only. */
static char **environment_without_preload(void)
{
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **const result = calloc(count + 1, sizeof *result);
    for (size_t i = 0, used = 0; result != NULL && i < count; i++) {
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            result[used++] = environ[i];
    }
    return result;
}

/* `loader --list program`, the way ldd does it: no code of the program runs. */
static FILE *start_list(const char *loader, const char *program, pid_t *child)
{
    int ends[2];
    char **const environment = environment_without_preload();
    if (environment == NULL || pipe2(ends, O_CLOEXEC) != 0) {
        free(environment);
        return NULL;
    }
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    char *const arguments[] = {(char *)(uintptr_t)loader, (char[]){"--list"},
                               (char *)(uintptr_t)program, NULL};
    const int error = posix_spawn(child, loader, &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    free(environment);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        return NULL;
    }
    return fdopen(ends[0], "r");
}

/* One line of the list: "\tlibcudnn.so.9 => /path (0x...)". */
static void judge_linked(char *line)
{
    line[strcspn(line, "\n")] = '\0';
    const char *const name = line + strspn(line, " \t");
    if (strstr(name, "not found") != NULL) {
        find(WARNING, "program", "links %s", name);
        return;
    }
    if (strncmp(name, "libcud", 6) != 0)
        return;
    const char *const address = strstr(name, " (0x");
    find(FINE, "program", "links %.*s",
         (int)(address != NULL ? (size_t)(address - name) : strlen(name)), name);
    char *const path = strstr(line, "=> ");
    if (strncmp(name, "libcudnn.so", 11) == 0 && path != NULL) {
        path[3 + strcspn(path + 3, " ")] = '\0';
        remember_cudnn(path + 3);
    }
}

static void look_at_links(const char *loader, const char *program)
{
    pid_t child = 0;
    FILE *const list = start_list(loader, program, &child);
    if (list == NULL) {
        find(WARNING, "program", "cannot find out what %s links: %s", loader, strerror(errno));
        return;
    }
    char line[2 * PATH_MAX];
    while (fgets(line, sizeof line, list) != NULL)
        judge_linked(line);
    fclose(list);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
}

static void look_at_program(const char *name)
{
    char path[PATH_MAX];
    struct stat information;
    tool_binary_t binary;
    if (!find_program(name, path, sizeof path) || stat(path, &information) != 0 ||
        !tool_inspect(path, &binary)) {
        find(BROKEN, "program", "%s: %s", name, strerror(errno));
        return;
    }
    if (!binary.elf && binary.interpreter[0] != '\0') {
        find(FINE, "program", "%s is a script for %s", path, binary.interpreter);
        char interpreter[sizeof binary.interpreter];
        memcpy(interpreter, binary.interpreter, sizeof interpreter);
        if (!find_program(interpreter, path, sizeof path) || stat(path, &information) != 0 ||
            !tool_inspect(path, &binary)) {
            find(BROKEN, "program", "%s: %s", interpreter, strerror(errno));
            return;
        }
    }
    if ((information.st_mode & (S_ISUID | S_ISGID)) != 0 ||
        getxattr(path, "security.capability", NULL, 0) > 0)
        find(BROKEN, "program", "%s runs with privileges: the loader ignores LD_PRELOAD", path);
    else if (!binary.elf || !binary.native)
        find(BROKEN, "program", "%s is not a program for this machine", path);
    else if (binary.interpreter[0] == '\0')
        find(BROKEN, "program", "%s is linked statically: nothing can be preloaded", path);
    else {
        find(FINE, "program", "%s", path);
        look_at_links(binary.interpreter, path);
    }
}

static void look_at_privileges(void)
{
    if (getauxval(AT_SECURE) != 0)
        find(WARNING, "privileges", "this tool runs with privileges: it reads no environment");
    else
        find(FINE, "privileges", "none that would make the loader ignore LD_PRELOAD");
}

static void look_at_configuration(void)
{
    static mdnn_options_t options;
    unsigned messages = 0;
    mdnn_options_load(&options, tool_report, &messages);
    if (messages > 0)
        find(WARNING, "configuration",
             "%u mistakes, see above; `microdnn config` shows what counts", messages);
    else if (options.general_disable)
        find(WARNING, "configuration", "the library is switched off (%s)",
             options.origin[MDNN_OPTION_general_disable]);
    else
        find(FINE, "configuration", "no mistakes");
}

/* Which of PyTorch's variables decides how it allocates. */
static void describe_pytorch(char *text, size_t bytes)
{
    static const char *const names[] = {"PYTORCH_NO_CUDA_MEMORY_CACHING", "PYTORCH_ALLOC_CONF",
                                        "PYTORCH_CUDA_ALLOC_CONF"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *const value = getenv(names[i]);
        if (value != NULL && *value != '\0') {
            snprintf(text, bytes, "%s=%s is set and stays", names[i], value);
            return;
        }
    }
    snprintf(text, bytes,
             "nothing is set; with a budget `microdnn run` sets "
             "PYTORCH_ALLOC_CONF=backend:cudaMallocAsync, which does not support CUDA graphs of "
             "torch.compile (\"reduce-overhead\"), memory history and MemPool: for these run with "
             "--allocator native");
}

static void look_at_virtual_memory(void)
{
    static tool_device_list_t devices;
    static const char *const answers[] = {"unknown", "no", "yes"};
    char why[FINDING_BYTES / 2], pytorch[FINDING_BYTES / 2], budget[MDNN_NUMBER_BYTES];
    const mdnn_options_t *const options = tool_exported_options();
    const bool wanted = options->memory_budget != MDNN_SIZE_NONE && !options->general_disable;
    mdnn_format_size(options->memory_budget, budget, sizeof budget);
    if (!tool_devices_ask(&devices, why, sizeof why)) {
        find(wanted ? WARNING : FINE, "memory", "budget %s; not looked at: %s", budget, why);
        return;
    }
    for (size_t i = 0; i < devices.count; i++) {
        const tool_device_t *const device = &devices.devices[i];
        find(wanted && device->virtual_memory == 0 ? WARNING : FINE, "memory",
             "device %zu (%s): virtual memory in the driver: %s, of the host: %s; budget %s (%s)",
             i, device->name, answers[device->virtual_memory + 1], answers[device->host_numa + 1],
             budget, options->origin[MDNN_OPTION_memory_budget]);
    }
    describe_pytorch(pytorch, sizeof pytorch);
    find(FINE, "PyTorch", "%s", pytorch);
}

static severity_t worst(void)
{
    severity_t result = FINE;
    for (size_t i = 0; i < finding_count; i++)
        result = findings[i].severity > result ? findings[i].severity : result;
    return result;
}

static void print_json(void)
{
    static const char *const names[] = {"fine", "warning", "broken"};
    printf("{\"microdnn_doctor\": 1, \"version\": \"%s\", \"verdict\": \"%s\", \"findings\": [",
           MDNN_VERSION, names[worst()]);
    for (size_t i = 0; i < finding_count; i++) {
        printf("%s\n  {\"severity\": \"%s\", \"subject\": ", i > 0 ? "," : "",
               names[findings[i].severity]);
        tool_print_json_text(findings[i].subject);
        fputs(", \"text\": ", stdout);
        tool_print_json_text(findings[i].text);
        putchar('}');
    }
    puts("\n]}");
}

static void print_text(void)
{
    static const char *const marks[] = {"ok  ", "WARN", "FAIL"};
    static const char *const verdicts[] = {"Everything is in order.", "It should work; see WARN.",
                                           "It will not work; see FAIL."};
    for (size_t i = 0; i < finding_count; i++)
        printf("%s  %-13s  %s\n", marks[findings[i].severity], findings[i].subject,
               findings[i].text);
    puts(verdicts[worst()]);
}

static const char usage[] =
    "usage: microdnn doctor [--json] [--library FILE] [-- program]\n"
    "\n"
    "Looks for what would keep the library from working, here and in a program.\n"
    "\n"
    "  --json           JSON instead of text\n"
    "  --library FILE   the libmicrodnn.so that would be preloaded (the installed one)\n"
    "\n"
    "Exit status: 0 fine, 1 warnings, 2 broken.\n";

int tool_doctor(int argc, char **argv)
{
    static const struct option long_options[] = {{"json", no_argument, NULL, 'j'},
                                                 {"library", required_argument, NULL, 'l'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {NULL, 0, NULL, 0}};
    bool json = false;
    const char *library = NULL;
    for (int choice; (choice = tool_next_option(argc, argv, "+h", long_options)) != -1;) {
        if (choice == 'j')
            json = true;
        else if (choice == 'l')
            library = optarg;
        else {
            fputs(usage, choice == 'h' ? stdout : stderr);
            return choice == 'h' ? TOOL_OK : TOOL_USAGE;
        }
    }
    look_at_libc();
    look_at_library(library);
    look_at_preload();
    look_at_privileges();
    look_at_configuration();
    look_at_virtual_memory(); /* before the driver is loaded here: a child asks it */
    look_at_driver();
    look_at_runtimes();
    look_at_cudnn();
    if (optind < argc)
        look_at_program(argv[optind]);
    judge_cudnn_copies();
    if (json)
        print_json();
    else
        print_text();
    return (int)worst();
}
