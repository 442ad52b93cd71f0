/* Which copies of cuDNN there are, and which one a program gets. */
#include "scripts/microdnn_doctor.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { COPIES_MAX = 16 };

/* Different main libraries that were met, without links. */
static char copies[COPIES_MAX][PATH_MAX];
static size_t copy_count;

static char loaded[PATH_MAX];

static const char *const names[] = {"libcudnn.so.9", "libcudnn.so.8"};
enum { NAME_COUNT = sizeof names / sizeof *names };

void doctor_remember_cudnn(const char *path)
{
    char real[PATH_MAX];
    if (realpath(path, real) == NULL || copy_count == COPIES_MAX)
        return;
    for (size_t i = 0; i < copy_count; i++) {
        if (strcmp(copies[i], real) == 0)
            return;
    }
    memcpy(copies[copy_count++], real, sizeof real);
}

void doctor_format_cudnn(long version, char *text, size_t bytes)
{
    const long unit = version >= 90000 ? 10000 : 1000;
    snprintf(text, bytes, "%ld.%ld.%ld", version / unit, version % unit / 100, version % 100);
}

/* In the child: "VERSION PATH", or "0 REASON". */
static void tell_version(const char *name, FILE *out)
{
    long unsigned (*get)(void) = NULL;
    void *const handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    struct link_map *map = NULL;
    if (handle == NULL) {
        fprintf(out, "0 %s\n", dlerror());
        return;
    }
    void *const symbol = dlsym(handle, "cudnnGetVersion");
    memcpy(&get, &symbol, sizeof symbol);
    if (get == NULL)
        fprintf(out, "0 %s has no cudnnGetVersion\n", name);
    else
        fprintf(out, "%lu %s\n", get(),
                dlinfo(handle, RTLD_DI_LINKMAP, &map) == 0 ? map->l_name : name);
}

/* `rest`: the path where the version is not 0, else a reason. */
static long ask(const char *name, char *rest, size_t bytes)
{
    int ends[2];
    char line[2 * PATH_MAX] = "";
    fflush(stdout);
    if (pipe(ends) != 0)
        return 0;
    const pid_t child = fork();
    if (child == 0) {
        FILE *const out = fdopen(ends[1], "w");
        tell_version(name, out);
        fflush(out);
        _exit(0);
    }
    close(ends[1]);
    FILE *const in = fdopen(ends[0], "r");
    if (in != NULL && fgets(line, sizeof line, in) == NULL)
        snprintf(line, sizeof line, "0 the process that loaded it ended");
    if (in != NULL)
        fclose(in);
    while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
    line[strcspn(line, "\n")] = '\0';
    char *end = line;
    const long version = strtol(line, &end, 10);
    snprintf(rest, bytes, "%s", *end == ' ' ? end + 1 : end);
    return version;
}

long doctor_cudnn_version(const char *path, char *why, size_t bytes)
{
    return ask(path, why, bytes);
}

/* Copies in the directories of the loader, beyond the first that it takes. */
static void search_copies(void)
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
            for (size_t name = 0; name < NAME_COUNT; name++) {
                char path[PATH_MAX];
                snprintf(path, sizeof path, "%s/%s", directories->dls_serpath[i].dls_name,
                         names[name]);
                doctor_remember_cudnn(path);
            }
        }
    }
    free(directories);
}

void doctor_look_at_cudnn(void)
{
    unsigned found = 0;
    for (size_t i = 0; i < NAME_COUNT; i++) {
        char path[2 * PATH_MAX], text[64];
        const long version = ask(names[i], path, sizeof path);
        if (version == 0)
            continue;
        doctor_format_cudnn(version, text, sizeof text);
        doctor_find(DOCTOR_FINE, "cuDNN", "%s, version %s, for programs that bring none", path,
                    text);
        doctor_remember_cudnn(path);
        if (found++ == 0)
            snprintf(loaded, sizeof loaded, "%.*s", PATH_MAX - 1, path);
    }
    if (found == 0)
        doctor_find(DOCTOR_FINE, "cuDNN",
                    "none where the loader looks; Python packages bring their own");
    search_copies();
}

const char *doctor_loaded_cudnn(void)
{
    return loaded;
}

bool doctor_is_in_library_path(const char *path)
{
    const char *const slash = strrchr(path, '/');
    const char *folder = getenv("LD_LIBRARY_PATH");
    while (slash != NULL && folder != NULL && *folder != '\0') {
        const size_t length = strcspn(folder, ":;");
        if (length == (size_t)(slash - path) && memcmp(folder, path, length) == 0)
            return true;
        folder += length + (folder[length] != '\0');
    }
    return false;
}

void doctor_judge_cudnn_copies(void)
{
    if (copy_count < 2)
        return;
    char list[512] = "";
    size_t used = 0;
    for (size_t i = 0; i < copy_count && used < sizeof list; i++)
        used +=
            (size_t)snprintf(list + used, sizeof list - used, "%s%s", i > 0 ? ", " : "", copies[i]);
    doctor_find(DOCTOR_WARNING, "cuDNN",
                "%zu different copies: %s; which one a program gets depends on its search path",
                copy_count, list);
}
