/* A program that is Python: its PyTorch, JAX and TensorFlow, and the cuDNN that they bring. The interpreter is asked for
 * what is installed; nothing of that is imported. */
#include "scripts/microdnn_doctor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PACKAGES_MAX = 16, NAME_BYTES = 64, VERSION_BYTES = 64 };

typedef struct package {
    char name[NAME_BYTES], version[VERSION_BYTES];
    char cudnn[NAME_BYTES],
        wants[VERSION_BYTES]; /* its requirement, as "nvidia-cudnn-cu12" "==9.1.0.70" */
} package_t;

typedef struct python {
    package_t packages[PACKAGES_MAX];
    size_t count;
    char torch_cuda[VERSION_BYTES], torch_hip[VERSION_BYTES];
    char cudnn[PATH_MAX]; /* of its packages; "": none */
} python_t;

static const char question[] =
    "import importlib.metadata as m, importlib.util as u, os, re, sys\n"
    "for n in ('torch','jax','jaxlib','jax-cuda12-plugin','jax-cuda13-plugin','tensorflow',\n"
    "          'nvidia-cudnn-cu11','nvidia-cudnn-cu12','nvidia-cudnn-cu13'):\n"
    "    try: d = m.distribution(n)\n"
    "    except m.PackageNotFoundError: continue\n"
    "    x = [re.match(r'(nvidia-cudnn-cu\\d+)\\s*\\(?([^;)]*)', r) for r in d.requires or []]\n"
    "    x = [y for y in x if y]\n"
    "    print('package', n, d.version, x[0][1] if x else '-',\n"
    "          x[0][2].replace(' ', '') or '-' if x else '-')\n"
    "s = u.find_spec('torch')\n"
    "if s and s.origin:\n"
    "    t = open(os.path.join(os.path.dirname(s.origin), 'version.py')).read()\n"
    "    for n in ('cuda', 'hip'):\n"
    "        f = re.search(n + r'\\b[^=\\n]*=\\s*[\\'\"]([^\\'\"]+)', t)\n"
    "        print(n, f[1] if f else '-')\n"
    "for p in sys.path:\n"
    "    for c in ('nvidia/cudnn/lib', 'torch/lib'):\n"
    "        for f in ('libcudnn.so.9', 'libcudnn.so.8', 'libcudnn.so.7'):\n"
    "            f = os.path.join(p, c, f)\n"
    "            if os.path.exists(f): print('cudnn', f)\n"
    "print('end')\n";

/* ---- asking ---- */

static void take_line(python_t *python, char *line, bool *complete)
{
    line[strcspn(line, "\n")] = '\0';
    package_t package;
    if (sscanf(line, "package %63s %63s %63s %63s", package.name, package.version, package.cudnn,
               package.wants) == 4 &&
        python->count < PACKAGES_MAX)
        python->packages[python->count++] = package;
    else if (strncmp(line, "cuda ", 5) == 0)
        snprintf(python->torch_cuda, VERSION_BYTES, "%.*s", VERSION_BYTES - 1, line + 5);
    else if (strncmp(line, "hip ", 4) == 0)
        snprintf(python->torch_hip, VERSION_BYTES, "%.*s", VERSION_BYTES - 1, line + 4);
    else if (strncmp(line, "cudnn ", 6) == 0 && python->cudnn[0] == '\0')
        snprintf(python->cudnn, sizeof python->cudnn, "%.*s", PATH_MAX - 1, line + 6);
    else if (strcmp(line, "end") == 0)
        *complete = true;
}

static bool ask(const char *interpreter, python_t *python)
{
    char *const arguments[] = {(char *)(uintptr_t)interpreter, (char[]){"-c"},
                               (char *)(uintptr_t)question, NULL};
    char line[PATH_MAX + 64];
    int child = 0;
    bool complete = false;
    char **const environment = doctor_environment(NULL, NULL);
    FILE *const answer = doctor_start(arguments, environment, false, &child);
    free(environment);
    if (answer == NULL)
        return false;
    while (fgets(line, sizeof line, answer) != NULL)
        take_line(python, line, &complete);
    doctor_wait(answer, child);
    return complete;
}

static const package_t *find_package(const python_t *python, const char *name)
{
    for (size_t i = 0; i < python->count; i++)
        if (strcmp(python->packages[i].name, name) == 0)
            return &python->packages[i];
    return NULL;
}

/* ---- versions ---- */

/* "2.10.1+cu128" is 2010, "12.8" is 12008. */
static int version_number(const char *text)
{
    int major = 0, minor = 0;
    return sscanf(text, "%d.%d", &major, &minor) >= 1 ? major * 1000 + minor : 0;
}

/* "9.10.2.21" as cuDNN itself writes it: 91002. */
static long cudnn_number(const char *text)
{
    int major = 0, minor = 0, patch = 0;
    if (sscanf(text, "%d.%d.%d", &major, &minor, &patch) < 2)
        return 0;
    return major >= 9 ? major * 10000L + minor * 100 + patch : major * 1000L + minor * 100 + patch;
}

/* ---- PyTorch ---- */

static void judge_torch(const doctor_t *doctor, const python_t *python, const package_t *torch)
{
    const int built = version_number(python->torch_cuda);
    if (strcmp(python->torch_hip, "-") != 0 && python->torch_hip[0] != '\0')
        doctor_find(DOCTOR_BROKEN, "PyTorch", "torch %s is built for ROCm %s, not for CUDA",
                    torch->version, python->torch_hip);
    else if (built == 0)
        doctor_find(DOCTOR_BROKEN, "PyTorch",
                    "torch %s is built without CUDA: it uses no GPU; install a CUDA build of it",
                    torch->version);
    else if (doctor->driver_version > 0 && built / 1000 > doctor->driver_version / 1000)
        doctor_find(DOCTOR_BROKEN, "PyTorch",
                    "torch %s is built for CUDA %s, and the driver serves CUDA %d.%d at most: "
                    "update the driver, or install an older build",
                    torch->version, python->torch_cuda, doctor->driver_version / 1000,
                    doctor->driver_version % 1000 / 10);
    else
        doctor_find(DOCTOR_FINE, "PyTorch", "torch %s for CUDA %s", torch->version,
                    python->torch_cuda);
    if (doctor->budget && version_number(torch->version) < 2008 &&
        getenv("PYTORCH_CUDA_ALLOC_CONF") == NULL)
        doctor_find(DOCTOR_WARNING, "PyTorch",
                    "torch %s does not know PYTORCH_ALLOC_CONF, which `microdnn run` sets: set "
                    "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync",
                    torch->version);
}

/* ---- JAX and TensorFlow ---- */

static void judge_jax(const python_t *python, const package_t *jax)
{
    const package_t *const library = find_package(python, "jaxlib");
    const package_t *plugin = find_package(python, "jax-cuda13-plugin");
    if (plugin == NULL)
        plugin = find_package(python, "jax-cuda12-plugin");
    if (library == NULL)
        doctor_find(DOCTOR_BROKEN, "JAX", "jax %s without jaxlib", jax->version);
    else if (plugin == NULL)
        doctor_find(DOCTOR_BROKEN, "JAX",
                    "jax %s has no plugin for CUDA: it uses no GPU; install jax[cuda12] or "
                    "jax[cuda13]",
                    jax->version);
    else if (strcmp(plugin->version, library->version) != 0)
        doctor_find(
            DOCTOR_BROKEN, "JAX",
            "%s %s and jaxlib %s are of different versions: jax ignores the plugin and uses "
            "no GPU",
            plugin->name, plugin->version, library->version);
    else
        doctor_find(DOCTOR_FINE, "JAX", "jax %s with %s", jax->version, plugin->name);
}

static void judge_tensorflow(const doctor_t *doctor, const package_t *tensorflow)
{
    const char *const allocator = getenv("TF_GPU_ALLOCATOR");
    const bool gives_back = allocator != NULL && strcmp(allocator, "cuda_malloc_async") == 0;
    doctor_find(doctor->budget && !gives_back ? DOCTOR_WARNING : DOCTOR_FINE, "TensorFlow",
                "tensorflow %s%s", tensorflow->version,
                doctor->budget && !gives_back
                    ? " takes most of the budget at once and keeps it: set "
                      "TF_GPU_ALLOCATOR=cuda_malloc_async"
                    : "");
}

/* ---- cuDNN ---- */

/* A package that wants another version of a package than is there. */
static void judge_requirement(const python_t *python, const package_t *package)
{
    const package_t *const cudnn = find_package(python, package->cudnn);
    if (strcmp(package->cudnn, "-") == 0)
        return;
    const bool exact = strncmp(package->wants, "==", 2) == 0;
    const bool least = strncmp(package->wants, ">=", 2) == 0;
    if (cudnn == NULL)
        doctor_find(DOCTOR_WARNING, "cuDNN", "%s %s wants %s, which is not installed",
                    package->name, package->version, package->cudnn);
    else if ((exact && strcmp(package->wants + 2, cudnn->version) != 0) ||
             (least && cudnn_number(cudnn->version) < cudnn_number(package->wants + 2)))
        doctor_find(DOCTOR_WARNING, "cuDNN", "%s %s wants %s %s, and %s is installed",
                    package->name, package->version, package->cudnn, package->wants,
                    cudnn->version);
}

static void judge_two_packages(const python_t *python)
{
    const char *first = NULL;
    for (size_t i = 0; i < python->count; i++) {
        const char *const name = python->packages[i].name;
        if (strncmp(name, "nvidia-cudnn-", 13) != 0)
            continue;
        if (first != NULL)
            doctor_find(DOCTOR_WARNING, "cuDNN",
                        "%s and %s are both installed: the files of one replace those of the other",
                        first, name);
        first = name;
    }
}

/* LD_LIBRARY_PATH comes before what a package names for itself. */
static void judge_shadow(long own, const char *own_text)
{
    const char *const loaded = doctor_loaded_cudnn();
    char why[PATH_MAX], text[64];
    if (*loaded == '\0' || !doctor_is_in_library_path(loaded))
        return;
    const long version = doctor_cudnn_version(loaded, why, sizeof why);
    doctor_format_cudnn(version, text, sizeof text);
    if (version != 0 && version != own)
        doctor_find(DOCTOR_WARNING, "cuDNN",
                    "LD_LIBRARY_PATH leads to %s, version %s, before the program's own cuDNN %s",
                    loaded, text, own_text);
}

static void judge_cudnn(const python_t *python)
{
    char why[2 * PATH_MAX], text[64];
    const bool needs = python->torch_cuda[0] != '\0' && strcmp(python->torch_cuda, "-") != 0;
    for (size_t i = 0; i < python->count; i++)
        judge_requirement(python, &python->packages[i]);
    judge_two_packages(python);
    if (python->cudnn[0] == '\0') {
        if (needs && *doctor_loaded_cudnn() == '\0')
            doctor_find(DOCTOR_BROKEN, "cuDNN", "there is no libcudnn.so for torch to load");
        return;
    }
    const long version = doctor_cudnn_version(python->cudnn, why, sizeof why);
    doctor_format_cudnn(version, text, sizeof text);
    if (version == 0)
        doctor_find(DOCTOR_BROKEN, "cuDNN", "%s cannot be loaded: %s", python->cudnn, why);
    else if (version < 8000)
        doctor_find(DOCTOR_BROKEN, "cuDNN", "%s is version %s: the library serves 8 and 9",
                    python->cudnn, text);
    else
        doctor_find(DOCTOR_FINE, "cuDNN", "%s, version %s, of the program's own packages%s",
                    python->cudnn, text,
                    doctor_is_in_library_path(doctor_loaded_cudnn()) ? "" : ": it uses this one");
    judge_shadow(version, text);
}

/* ---- the look ---- */

static bool is_python(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return strncmp(slash != NULL ? slash + 1 : path, "python", 6) == 0;
}

void doctor_look_at_python(const doctor_t *doctor)
{
    static python_t python;
    char path[PATH_MAX];
    const char *interpreter = doctor->program;
    /* By the name under which it was called, since a virtual environment's is a link. */
    if (is_python(doctor->arguments[0]) &&
        doctor_find_program(doctor->arguments[0], path, sizeof path))
        interpreter = path;
    if (!is_python(interpreter))
        return;
    if (!ask(interpreter, &python)) {
        doctor_find(DOCTOR_WARNING, "Python", "%s does not say which packages it has", interpreter);
        return;
    }
    const package_t *const torch = find_package(&python, "torch");
    const package_t *const jax = find_package(&python, "jax");
    const package_t *const tensorflow = find_package(&python, "tensorflow");
    if (torch == NULL && jax == NULL && tensorflow == NULL)
        doctor_find(DOCTOR_FINE, "Python", "%s has no torch, jax or tensorflow", interpreter);
    if (torch != NULL)
        judge_torch(doctor, &python, torch);
    if (jax != NULL)
        judge_jax(&python, jax);
    if (tensorflow != NULL)
        judge_tensorflow(doctor, tensorflow);
    judge_cudnn(&python);
}
