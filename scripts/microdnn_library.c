/* Files that the dynamic loader is to take: the library, LD_PRELOAD, programs. */
#include "scripts/microdnn.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/log.h"

static const char library_name[] = "libmicrodnn.so";

/* From the folder of the installed tool to that of the installed library (scripts/install.mk). */
#ifndef MDNN_LIBRARY_FOLDER
#define MDNN_LIBRARY_FOLDER "../lib"
#endif

#if defined __x86_64__
enum { NATIVE_MACHINE = EM_X86_64 };
#elif defined __aarch64__
enum { NATIVE_MACHINE = EM_AARCH64 };
#else
#error "the tool knows x86-64 and aarch64"
#endif

/* The loader's path out of the program header, if there is one. */
static void read_interpreter(int descriptor, const ElfW(Ehdr) * header, tool_binary_t *binary)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        ElfW(Phdr) segment;
        const off_t at = (off_t)(header->e_phoff + (ElfW(Off))i * sizeof segment);
        if (pread(descriptor, &segment, sizeof segment, at) != (ssize_t)sizeof segment)
            return;
        if (segment.p_type != PT_INTERP || segment.p_filesz >= sizeof binary->interpreter)
            continue;
        if (pread(descriptor, binary->interpreter, segment.p_filesz, (off_t)segment.p_offset) !=
            (ssize_t)segment.p_filesz)
            binary->interpreter[0] = '\0';
        return;
    }
}

/* What follows "#!". For "/usr/bin/env program" it is the program that counts. */
static void read_script_line(const char *line, tool_binary_t *binary)
{
    const char *word = line + strspn(line, " \t");
    size_t length = strcspn(word, " \t\n");
    if (length >= 4 && memcmp(word + length - 4, "/env", 4) == 0) {
        const char *const next = word + length + strspn(word + length, " \t");
        const size_t next_length = strcspn(next, " \t\n");
        if (next_length > 0 && *next != '-' && memchr(next, '=', next_length) == NULL) {
            word = next;
            length = next_length;
        }
    }
    snprintf(binary->interpreter, sizeof binary->interpreter, "%.*s", (int)length, word);
}

static const char *machine_name(unsigned machine)
{
    switch (machine) {
    case EM_X86_64:
        return "x86-64";
    case EM_AARCH64:
        return "aarch64";
    case EM_386:
        return "i386";
    case EM_PPC64:
        return "ppc64";
    case EM_RISCV:
        return "riscv64";
    default:
        return "another machine";
    }
}

bool tool_inspect(const char *path, tool_binary_t *binary)
{
    *binary = (tool_binary_t){.machine = ""};
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (descriptor < 0)
        return false;
    union {
        ElfW(Ehdr) header;
        char text[256];
    } start = {.text = ""};
    const ssize_t got = pread(descriptor, start.text, sizeof start.text - 1, 0);
    const int error = errno;
    if (got >= (ssize_t)sizeof start.header && memcmp(start.header.e_ident, ELFMAG, SELFMAG) == 0) {
        binary->elf = true;
        binary->shared = start.header.e_type == ET_DYN;
        binary->native = start.header.e_machine == NATIVE_MACHINE &&
                         start.header.e_ident[EI_CLASS] == ELFCLASS64;
        if (!binary->native)
            binary->machine = machine_name(start.header.e_machine);
        else
            read_interpreter(descriptor, &start.header, binary);
    } else if (got > 2 && memcmp(start.text, "#!", 2) == 0) {
        read_script_line(start.text + 2, binary);
    }
    close(descriptor);
    errno = error;
    return got >= 0;
}

static bool check_library(const char *path, char *why, size_t why_bytes)
{
    tool_binary_t binary;
    if (!tool_inspect(path, &binary))
        snprintf(why, why_bytes, "cannot read %s: %s", path, strerror(errno));
    else if (!binary.elf || !binary.native || !binary.shared)
        snprintf(why, why_bytes, "%s is not a shared library for this machine%s%s%s", path,
                 *binary.machine != '\0' ? " (it is for " : "", binary.machine,
                 *binary.machine != '\0' ? ")" : "");
    else if (strpbrk(path, ": ") != NULL)
        snprintf(why, why_bytes, "LD_PRELOAD cannot hold the path %s: it has a colon or a space",
                 path);
    else
        return true;
    return false;
}

bool tool_find_library(const char *given, char *path, size_t path_bytes, char *why,
                       size_t why_bytes)
{
    /* The build tree, what `make install` made, and where people move it to. */
    static const char *const places[] = {"", MDNN_LIBRARY_FOLDER "/", "../lib/", "../lib64/"};
    char found[PATH_MAX], self[PATH_MAX];
    if (given != NULL) {
        if (realpath(given, found) == NULL) {
            snprintf(why, why_bytes, "cannot find the library %s: %s", given, strerror(errno));
            return false;
        }
        snprintf(path, path_bytes, "%s", found);
        return check_library(path, why, why_bytes);
    }
    if (realpath("/proc/self/exe", self) == NULL) {
        snprintf(why, why_bytes, "cannot tell where this program is: %s", strerror(errno));
        return false;
    }
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char candidate[PATH_MAX + 64];
        snprintf(candidate, sizeof candidate, "%s/%s%s", self, places[i], library_name);
        if (realpath(candidate, found) == NULL)
            continue;
        snprintf(path, path_bytes, "%s", found);
        return check_library(path, why, why_bytes);
    }
    snprintf(why, why_bytes,
             "there is no %s in %s or %s/" MDNN_LIBRARY_FOLDER "; name it with --library",
             library_name, self, self);
    return false;
}

bool tool_find_helper(const char *name, char *path)
{
    static const char *const folders[] = {"", "microdnn/"}; /* as mdnn_installation_find looks */
    char library[PATH_MAX], why[2 * PATH_MAX + 128];
    if (!tool_find_library(NULL, library, sizeof library, why, sizeof why))
        return false;
    *strrchr(library, '/') = '\0';
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        const int length = snprintf(path, PATH_MAX, "%s/%s%s", library, folders[i], name);
        if (length < PATH_MAX && access(path, X_OK) == 0)
            return true;
    }
    return false;
}

void tool_library_version(const char *path, char *version, size_t bytes)
{
    static const char marker[] = "@(#)libmicrodnn "; /* of config/log.c */
    *version = '\0';
    FILE *const file = fopen(path, "re");
    if (file == NULL)
        return;
    size_t matched = 0, used = 0;
    for (int c = getc(file); c != EOF; c = getc(file)) {
        if (marker[matched] == '\0') {
            if (c < 0x20 || used + 1 >= bytes)
                break;
            version[used++] = (char)c;
            continue;
        }
        matched = c == marker[matched] ? matched + 1 : c == marker[0];
    }
    version[used] = '\0';
    fclose(file);
}

typedef enum entry_kind { ENTRY_FOREIGN, ENTRY_SAME, ENTRY_OTHER_COPY } entry_kind_t;

static entry_kind_t judge_entry(const char *library, const char *entry)
{
    const char *const slash = strrchr(entry, '/');
    /* A bare name is searched for by the loader; two of ours must not be loaded either way. */
    if (slash == NULL)
        return strcmp(entry, library_name) == 0 ? ENTRY_SAME : ENTRY_FOREIGN;
    char real[PATH_MAX];
    if (realpath(entry, real) != NULL && strcmp(real, library) == 0)
        return ENTRY_SAME;
    return strcmp(slash + 1, library_name) == 0 ? ENTRY_OTHER_COPY : ENTRY_FOREIGN;
}

char *tool_preload_with(const char *library, const char *existing, char *replaced,
                        size_t replaced_bytes)
{
    *replaced = '\0';
    const char *const rest = existing != NULL ? existing : "";
    char *const result = malloc(strlen(library) + strlen(rest) + 2);
    char *const entries = strdup(rest);
    if (result == NULL || entries == NULL) {
        free(result);
        free(entries);
        return NULL;
    }
    char *end = stpcpy(result, library);
    char *state = NULL;
    for (char *entry = strtok_r(entries, ": ", &state); entry != NULL;
         entry = strtok_r(NULL, ": ", &state)) {
        const entry_kind_t kind = judge_entry(library, entry);
        if (kind == ENTRY_OTHER_COPY)
            snprintf(replaced, replaced_bytes, "%s", entry);
        if (kind != ENTRY_FOREIGN)
            continue;
        *end++ = ':';
        end = stpcpy(end, entry);
    }
    free(entries);
    return result;
}

const char *tool_why_unreadable(const char *path, mdnn_status_t status)
{
    struct stat information;
    if (stat(path, &information) != 0)
        return strerrordesc_np(errno);
    if (S_ISDIR(information.st_mode))
        return "it is a directory";
    if (!S_ISREG(information.st_mode))
        return "it is not a regular file";
    return access(path, R_OK) != 0 ? strerrordesc_np(errno) : mdnn_status_string(status);
}

const char *tool_file_trouble(const char *pattern, char *path, size_t bytes)
{
    char folder[PATH_MAX];
    struct stat found;
    *path = '\0';
    if (*pattern == '\0' || strcmp(pattern, "stderr") == 0)
        return NULL;
    mdnn_expand_pattern(pattern, path, bytes);
    if (stat(path, &found) == 0)
        return S_ISDIR(found.st_mode)    ? "it is a folder"
               : access(path, W_OK) == 0 ? NULL
                                         : strerror(errno);
    snprintf(folder, sizeof folder, "%s", path);
    const char *const name = dirname(folder);
    if (stat(name, &found) != 0)
        return strerror(errno);
    if (!S_ISDIR(found.st_mode))
        return strerror(ENOTDIR);
    return access(name, W_OK | X_OK) == 0 ? NULL : strerror(errno);
}
