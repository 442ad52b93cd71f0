/* Parts of the tool `microdnn`. */
#ifndef MICRODNN_H
#define MICRODNN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "config/options.h"

enum {
    TOOL_OK = 0,
    TOOL_TROUBLE = 1,
    TOOL_USAGE = 2,
    /* Of `run`, as env(1) and nohup(1) have them: 125 is ours, the others the program's. */
    TOOL_RUN_FAILED = 125,
    TOOL_RUN_CANNOT_EXECUTE = 126,
    TOOL_RUN_NOT_FOUND = 127,
};

/* Each takes its own name as argv[0] and returns the exit status. */
int tool_run(int argc, char **argv);
int tool_doctor(int argc, char **argv);

/* "microdnn: ..." on stderr. */
void tool_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For mdnn_options_load: complains about each line and counts it in *(unsigned *)context. */
void tool_report(void *context, const char *line);

/* What a file is to the dynamic loader. */
typedef struct tool_binary {
    bool elf;
    bool native; /* of this machine and word size */
    bool shared; /* can be preloaded */
    /* Of an ELF program its loader; of a script its program, maybe to be found in PATH; "": none.
     */
    char interpreter[256];
} tool_binary_t;

/* false with errno set if the file cannot be read. */
bool tool_inspect(const char *path, tool_binary_t *binary);

/* The library: `given`, or if NULL the one beside the tool. `path` becomes absolute, without links.
 * false after a complaint in `why`. */
bool tool_find_library(const char *given, char *path, size_t path_bytes, char *why,
                       size_t why_bytes);

/* Version in the library's file, found without loading it; "" if there is none. */
void tool_library_version(const char *path, char *version, size_t bytes);

/* The LD_PRELOAD that has `library` first and once, then `existing` (may be NULL) without it. An
 * entry that is another copy of the library goes too, and its name comes back in `replaced` (else
 * ""). malloc'd; NULL if there is no memory. */
char *tool_preload_with(const char *library, const char *existing, char *replaced,
                        size_t replaced_bytes);

#endif
