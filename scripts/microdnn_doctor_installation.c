/* The library, and whether the loader takes it. */
#include "scripts/microdnn_doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/statvfs.h>
#include <unistd.h>

void doctor_look_at_library(doctor_t *doctor)
{
    char why[2 * PATH_MAX + 128], version[64];
    struct statvfs system;
    if (!tool_find_library(doctor->given_library, doctor->library, sizeof doctor->library, why,
                           sizeof why)) {
        doctor_find(DOCTOR_BROKEN, "library", "%s", why);
        doctor->library[0] = '\0';
        return;
    }
    const char *const path = doctor->library;
    tool_library_version(path, version, sizeof version);
    if (*version == '\0')
        doctor_find(DOCTOR_BROKEN, "library", "%s is not libmicrodnn", path);
    else if (strcmp(version, MDNN_VERSION) != 0)
        doctor_find(DOCTOR_WARNING, "library", "%s is version %s, this tool is %s", path, version,
                    MDNN_VERSION);
    else
        doctor_find(DOCTOR_FINE, "library", "%s, version %s", path, version);
    if (statvfs(path, &system) == 0 && (system.f_flag & ST_NOEXEC) != 0)
        doctor_find(DOCTOR_BROKEN, "library",
                    "%s is on a file system that is mounted noexec: the loader cannot map it",
                    path);
}

/* Whether the file exports what the library exports as well. */
static void judge_foreign(const char *path)
{
    static const char *const names[] = {"cudaMalloc", "cuMemAlloc_v2", "cuGetProcAddress_v2",
                                        "dlsym", "cudnnConvolutionForward"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!tool_exports(path, names[i]))
            continue;
        doctor_find(DOCTOR_WARNING, "LD_PRELOAD",
                    "%s replaces %s, too: only the one that comes first is called, unless it calls "
                    "the next one",
                    path, names[i]);
        return;
    }
}

/* Whether the entry is libmicrodnn. */
static bool judge_entry(const char *entry)
{
    const char *const slash = strrchr(entry, '/');
    const bool ours = strcmp(slash != NULL ? slash + 1 : entry, "libmicrodnn.so") == 0;
    if (slash != NULL && access(entry, R_OK) != 0)
        doctor_find(DOCTOR_WARNING, "LD_PRELOAD", "%s: %s", entry, strerror(errno));
    else if (slash != NULL && *entry != '/')
        doctor_find(DOCTOR_WARNING, "LD_PRELOAD",
                    "%s: a relative path is lost when a program changes its directory", entry);
    else
        doctor_find(DOCTOR_FINE, "LD_PRELOAD", "%s", entry);
    if (slash != NULL && !ours)
        judge_foreign(entry);
    return ours;
}

/* Two copies of the library hook each other. */
static void judge_copies(const doctor_t *doctor, const char *const *ours, size_t count)
{
    char first[PATH_MAX], other[PATH_MAX];
    if (count > 1)
        doctor_find(DOCTOR_WARNING, "LD_PRELOAD", "holds libmicrodnn.so %zu times", count);
    for (size_t i = 1; i < count; i++)
        if (realpath(ours[0], first) != NULL && realpath(ours[i], other) != NULL &&
            strcmp(first, other) != 0)
            doctor_find(DOCTOR_BROKEN, "LD_PRELOAD",
                        "two different copies of the library, %s and %s, would hook each other",
                        first, other);
    if (count > 0 && doctor->library[0] != '\0' && realpath(ours[0], first) != NULL &&
        strcmp(first, doctor->library) != 0)
        doctor_find(DOCTOR_WARNING, "LD_PRELOAD",
                    "%s is another copy than %s, which `microdnn run` takes", first,
                    doctor->library);
}

void doctor_look_at_preload(const doctor_t *doctor)
{
    enum { OURS_MAX = 8 };
    const char *const preload = getenv("LD_PRELOAD");
    const char *ours[OURS_MAX];
    size_t count = 0;
    if (preload == NULL || *preload == '\0') {
        doctor_find(DOCTOR_FINE, "LD_PRELOAD", "empty; `microdnn run` sets it for one program");
        return;
    }
    char *const entries = strdup(preload);
    char *state = NULL;
    for (char *entry = entries != NULL ? strtok_r(entries, ": ", &state) : NULL; entry != NULL;
         entry = strtok_r(NULL, ": ", &state))
        if (judge_entry(entry) && count < OURS_MAX)
            ours[count++] = entry;
    judge_copies(doctor, ours, count);
    free(entries);
}

void doctor_look_at_privileges(void)
{
    if (getauxval(AT_SECURE) != 0)
        doctor_find(DOCTOR_WARNING, "privileges",
                    "this tool runs with privileges: it reads no environment");
    else
        doctor_find(DOCTOR_FINE, "privileges", "none that would make the loader ignore LD_PRELOAD");
}
