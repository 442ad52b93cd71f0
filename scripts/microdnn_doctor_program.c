/* A program: whether it can be preloaded, what it links, and what does not go together with the library. */
#include "scripts/microdnn_doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* ---- programs that start others ---- */

typedef struct starter {
    const char *name;
    doctor_severity_t severity;
    const char *what;
} starter_t;

static const char elsewhere[] = "starts its program in another place, where this environment does "
                                "not hold: install and preload "
                                "the library there";
static const char profiler[] =
    "runs kernels again, with contents of memory that it saves by itself: it does not go together "
    "with a budget for memory";

static const starter_t starters[] = {
    {"docker", DOCTOR_WARNING, elsewhere},
    {"podman", DOCTOR_WARNING, elsewhere},
    {"nerdctl", DOCTOR_WARNING, elsewhere},
    {"apptainer", DOCTOR_WARNING, elsewhere},
    {"singularity", DOCTOR_WARNING, elsewhere},
    {"kubectl", DOCTOR_WARNING, elsewhere},
    {"ssh", DOCTOR_WARNING, elsewhere},
    {"sudo", DOCTOR_BROKEN, "removes LD_PRELOAD: use `sudo microdnn run ...` instead"},
    {"mpirun", DOCTOR_WARNING,
     "passes the environment to this host only: add -x LD_PRELOAD and the MICRODNN_ variables"},
    {"ncu", DOCTOR_WARNING, profiler},
    {"compute-sanitizer", DOCTOR_WARNING,
     "does not know memory that leaves and returns, and reports accesses to it as errors: use "
     "`microdnn verify`"},
    {"cuda-gdb", DOCTOR_WARNING, "stops the GPU, for which transfers of the library wait"},
};

static void judge_starter(const char *path)
{
    const char *const slash = strrchr(path, '/');
    const char *const name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof starters / sizeof *starters; i++)
        if (strcmp(name, starters[i].name) == 0)
            doctor_find(starters[i].severity, "program", "%s %s", name, starters[i].what);
}

/* ---- what it links ---- */

typedef struct links {
    bool cudart, cudnn, ours;
} links_t;

/* One line of the list: "\tlibcudnn.so.9 => /path (0x...)". */
static void judge_linked(const doctor_t *doctor, char *line, links_t *links)
{
    line[strcspn(line, "\n")] = '\0';
    const char *const name = line + strspn(line, " \t");
    if (strstr(name, "cannot be preloaded") != NULL) {
        doctor_find(DOCTOR_BROKEN, "program", "the loader refuses the library: %s", name);
        links->ours = true;
        return;
    }
    if (strstr(name, "not found") != NULL) {
        doctor_find(DOCTOR_BROKEN, "program", "links %s", name);
        return;
    }
    links->ours =
        links->ours || (doctor->library[0] != '\0' && strstr(name, doctor->library) != NULL);
    if (strncmp(name, "libcud", 6) != 0)
        return;
    links->cudart = links->cudart || strncmp(name, "libcudart", 9) == 0;
    const char *const address = strstr(name, " (0x");
    doctor_find(DOCTOR_FINE, "program", "links %.*s",
                (int)(address != NULL ? (size_t)(address - name) : strlen(name)), name);
    char *const path = strstr(line, "=> ");
    if (strncmp(name, "libcudnn", 8) == 0)
        links->cudnn = true;
    if (strncmp(name, "libcudnn.so", 11) == 0 && path != NULL) {
        path[3 + strcspn(path + 3, " ")] = '\0';
        doctor_remember_cudnn(path + 3);
    }
}

/* What is linked statically: its calls inside the program reach nobody. */
static void judge_static(const doctor_t *doctor, const links_t *links)
{
    if (!links->cudnn && tool_defines(doctor->program, "cudnnConvolutionForward"))
        doctor_find(DOCTOR_BROKEN, "program",
                    "%s has cuDNN built in: its convolutions do not reach the library; link "
                    "libcudnn.so",
                    doctor->program);
    if (!links->cudart && tool_defines(doctor->program, "cudaMalloc"))
        doctor_find(DOCTOR_WARNING, "program",
                    "%s has the CUDA runtime built in: its calls reach the library through the "
                    "driver only, so statistics of cudaMalloc stay empty",
                    doctor->program);
}

/* As ldd does it: the loader lists what it would load, and no code of the program runs. */
static void look_at_links(const doctor_t *doctor)
{
    char *const arguments[] = {(char *)(uintptr_t)doctor->interpreter,
                               (char *)(uintptr_t)doctor->program, NULL};
    int child = 0;
    links_t links = {.ours = doctor->library[0] == '\0'};
    char **const environment = doctor_environment(
        doctor->library[0] != '\0' ? doctor->library : NULL, "LD_TRACE_LOADED_OBJECTS=1");
    FILE *const list = doctor_start(arguments, environment, true, &child);
    free(environment);
    if (list == NULL) {
        doctor_find(DOCTOR_WARNING, "program", "cannot find out what %s links: %s", doctor->program,
                    strerror(errno));
        return;
    }
    char line[2 * PATH_MAX];
    while (fgets(line, sizeof line, list) != NULL)
        judge_linked(doctor, line, &links);
    doctor_wait(list, child);
    if (!links.ours)
        doctor_find(DOCTOR_BROKEN, "program", "the loader of %s does not take %s", doctor->program,
                    doctor->library);
    judge_static(doctor, &links);
}

/* ---- scripts ---- */

/* What a shell script does to the environment that the library needs. */
static void judge_script(const char *path)
{
    static const struct {
        const char *word, *what;
    } habits[] = {
        {"LD_PRELOAD=", "sets LD_PRELOAD itself"},
        {"unset LD_PRELOAD", "unsets LD_PRELOAD"},
        {"env -i", "starts programs with an empty environment (env -i)"},
        {"sudo ", "uses sudo, which removes LD_PRELOAD"},
    };
    enum { SCRIPT_BYTES = 1 << 16 };
    static char text[SCRIPT_BYTES];
    FILE *const file = fopen(path, "re");
    if (file == NULL)
        return;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        const char *const found = strstr(text, habits[i].word);
        const bool kept = i == 0 && strstr(text, "$LD_PRELOAD") != NULL;
        if (found != NULL && !kept)
            doctor_find(
                DOCTOR_WARNING, "program",
                "%s %s: what it starts may run without the library; put `microdnn run` into "
                "the script",
                path, habits[i].what);
    }
}

/* ---- the file ---- */

static bool inspect(const char *name, char *path, size_t bytes, struct stat *information,
                    tool_binary_t *binary)
{
    if (doctor_find_program(name, path, bytes) && stat(path, information) == 0 &&
        tool_inspect(path, binary))
        return true;
    doctor_find(DOCTOR_BROKEN, "program", "%s: %s", name, strerror(errno));
    return false;
}

static void judge_file(doctor_t *doctor, const char *path, const struct stat *information,
                       const tool_binary_t *binary)
{
    if ((information->st_mode & (S_ISUID | S_ISGID)) != 0 ||
        getxattr(path, "security.capability", NULL, 0) > 0)
        doctor_find(DOCTOR_BROKEN, "program",
                    "%s runs with privileges: the loader ignores LD_PRELOAD", path);
    else if (!binary->elf || !binary->native)
        doctor_find(DOCTOR_BROKEN, "program", "%s is not a program for this machine%s%s%s", path,
                    *binary->machine != '\0' ? " (it is for " : "", binary->machine,
                    *binary->machine != '\0' ? ")" : "");
    else if (binary->interpreter[0] == '\0')
        doctor_find(DOCTOR_BROKEN, "program", "%s is linked statically: nothing can be preloaded",
                    path);
    else if (strstr(binary->interpreter, "musl") != NULL)
        doctor_find(
            DOCTOR_BROKEN, "program",
            "%s is for the C library musl, as in Alpine Linux: the library needs glibc, which "
            "CUDA needs, too",
            path);
    else if (access(binary->interpreter, X_OK) != 0)
        doctor_find(DOCTOR_BROKEN, "program", "%s needs the loader %s: %s", path,
                    binary->interpreter, strerror(errno));
    else {
        doctor_find(DOCTOR_FINE, "program", "%s", path);
        snprintf(doctor->program, sizeof doctor->program, "%s", path);
        memcpy(doctor->interpreter, binary->interpreter, sizeof doctor->interpreter);
        look_at_links(doctor);
    }
}

void doctor_look_at_program(doctor_t *doctor)
{
    char path[PATH_MAX];
    struct stat information;
    tool_binary_t binary;
    judge_starter(doctor->arguments[0]);
    if (!inspect(doctor->arguments[0], path, sizeof path, &information, &binary))
        return;
    if (!binary.elf && binary.interpreter[0] != '\0') {
        char interpreter[sizeof binary.interpreter];
        doctor_find(DOCTOR_FINE, "program", "%s is a script for %s", path, binary.interpreter);
        judge_script(path);
        memcpy(interpreter, binary.interpreter, sizeof interpreter);
        if (!inspect(interpreter, path, sizeof path, &information, &binary))
            return;
    }
    judge_file(doctor, path, &information, &binary);
}
