/* Parts of the tool `microdnn`. */
#ifndef MICRODNN_H
#define MICRODNN_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "config/options.h"
#include "config/status.h"

enum {
    TOOL_OK = 0,
    TOOL_TROUBLE = 1,
    TOOL_USAGE = 2,
    /* Of `microdnn run`, as in env(1) and nohup(1): 125 if the tool itself failed; the others are about the program. */
    TOOL_RUN_FAILED = 125,
    TOOL_RUN_CANNOT_EXECUTE = 126,
    TOOL_RUN_NOT_FOUND = 127,
};

/* The commands. Each takes its own name as argv[0] and returns the exit status. */
int tool_run(int argc, char **argv);
int tool_verify(int argc, char **argv);
int tool_stats(int argc, char **argv);
int tool_doctor(int argc, char **argv);
int tool_cache(int argc, char **argv);
int tool_tune(int argc, char **argv);
int tool_plan(int argc, char **argv);
int tool_top(int argc, char **argv);
int tool_advise(int argc, char **argv);
int tool_make_report(int argc, char **argv);

/* Does what getopt_long does. If `--list-options` is the only argument, prints the list of options for the completion
 * of shells, and exits. */
int tool_next_option(int argc, char **argv, const char *letters, const struct option *options);
bool tool_wants_list(int argc, char **argv);
/* One line of that list; `choices`, if not NULL, are the values, with NULL at the end. */
void tool_list_option(const char *name, bool takes_value, const char *const *choices);

/* A stream to the script that draws the JSON of `microdnn advise` into `file`; NULL after a complaint (tool_complain).
 * tool_end_drawing closes the stream and waits for the script; false: nothing was drawn, and the script has complained.
 */
FILE *tool_draw_advice(const char *file, pid_t *process);
bool tool_end_drawing(FILE *to_script, pid_t process);

/* "microdnn: ..." on stderr. */
void tool_complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* For mdnn_options_load: complains about each line and counts it in *(unsigned *)context. */
void tool_report(void *context, const char *line);

/* docs/configuration.md, made from the list of options. */
void tool_print_options_page(FILE *out);

/* The text as a JSON string on stdout. */
void tool_print_json_text(const char *text);

/* Flushes stdout. Returns `status`, or TOOL_TROUBLE after a complaint if something was not written. */
int tool_finish_output(int status);

/* Set the environment for a program that will run with the library. Each function checks its argument as the library
 * will; false after a complaint, which begins with `shown`, if the function has it. */
bool tool_export_option(mdnn_option_id_t id, const char *shown, const char *value);
bool tool_export_setting(const char *setting); /* SECTION.KEY=VALUE */
bool tool_export_config(const char *file);
bool tool_export_preload(const char *given_library); /* or NULL */

/* Puts the options of `microdnn run`, up to the program's name, into the environment. TOOL_OK: argv[optind] is the
 * program. Otherwise returns the exit status, after a complaint; *help: no complaint, the user wants the usage text. */
int tool_take_run_options(int argc, char **argv, bool *help);
/* The options as the program will see them, without a word about their mistakes. */
const mdnn_options_t *tool_exported_options(void);
/* PyTorch's allocator under a budget: async, native, uncached or expandable. false after a complaint, which begins with
 * `shown`. */
bool tool_choose_allocator(const char *shown, const char *name);
/* What the script among the arguments uses that PyTorch's asynchronous allocator does not support, or NULL. */
const char *tool_unsupported_feature(char **arguments);
/* If a memory budget is on, sets the variables by which PyTorch and JAX give back what they free, unless the user has
 * set one of their kind; a line then says so. If no allocator was chosen, PyTorch gets its asynchronous allocator, or
 * the native one if the script among the program's arguments uses what the asynchronous one does not support. */
bool tool_export_framework_variables(char **arguments);
/* Becomes the program. Returns the exit status, after a complaint, if that failed. */
int tool_become(char **arguments);

enum { TOOL_DEVICES_MAX = 64, TOOL_DEVICE_NAME_BYTES = 128 };
typedef struct tool_device {
    char name[TOOL_DEVICE_NAME_BYTES];
    uint64_t total_bytes; /* 0: the driver does not say */
    int virtual_memory;   /* whether it has the virtual memory API; -1: the driver does not say */
    int host_numa;        /* the same for host memory */
} tool_device_t;
typedef struct tool_device_list {
    size_t count;
    tool_device_t devices[TOOL_DEVICES_MAX];
} tool_device_list_t;

/* The GPUs that programs see here. The driver is asked in a child: CUDA in this process would not
 * survive a fork. false with a reason in `why`: no driver, no GPU. */
bool tool_devices_ask(tool_device_list_t *list, char *why, size_t why_bytes);

/* What a failed visit of the database means to people. */
const char *tool_database_trouble(mdnn_status_t status);

/* Sets *path to the database that the option cache.file names, for this process; `path` has room for
 * MDNN_DATABASE_PATH_BYTES. `make`: makes the folder of the automatic database. false after a complaint, which names
 * the `option` by which the command takes another database. */
bool tool_default_database(const char *option, char *path, bool make);

/* What a database holds. */
typedef struct tool_database_size {
    int64_t problems, sizes, configurations;
} tool_database_size_t;
mdnn_status_t tool_measure_database(const char *path, unsigned wait_ms, tool_database_size_t *size);

/* What a file is to the dynamic loader. */
typedef struct tool_binary {
    bool elf;
    bool native;         /* of this machine and word size */
    bool shared;         /* can be preloaded */
    const char *machine; /* the machine of an ELF file that is not `native`; "": not known */
    /* The loader of an ELF program, or the program of a script, perhaps to be found in PATH; "": none. */
    char interpreter[256];
} tool_binary_t;

/* Says in words why a file that an option names (by a pattern, see mdnn_expand_pattern) cannot be written; NULL: it
 * can, or the option names none. Sets *path to the file's name. */
const char *tool_file_trouble(const char *pattern, char *path, size_t bytes);

/* Why a file cannot be read, in words: that it is a directory, for example, or else what `status` means. */
const char *tool_why_unreadable(const char *path, mdnn_status_t status);

/* false with errno set if the file cannot be read. */
bool tool_inspect(const char *path, tool_binary_t *binary);

/* Whether an ELF file exports the symbol (as a dynamic symbol); whether it defines the symbol at all. */
bool tool_exports(const char *path, const char *name);
bool tool_defines(const char *path, const char *name);

/* Finds the library: `given`, or, if that is NULL, the one beside the tool. *path: its absolute path, without links.
 * false: *why says why not. */
bool tool_find_library(const char *given, char *path, size_t path_bytes, char *why,
                       size_t why_bytes);

/* A program of ours that is installed with the library and not meant for PATH. `path` has room for
 * PATH_MAX. */
bool tool_find_helper(const char *name, char *path);

/* Version in the library's file, found without loading it; "" if there is none. */
void tool_library_version(const char *path, char *version, size_t bytes);

/* Makes the value of LD_PRELOAD that has `library` first and only once, and then the rest of `existing` (may be NULL).
 * An entry that is another copy of the library is left out, and `replaced` gets its name (otherwise ""). The caller
 * frees the result; NULL if there is no memory. */
char *tool_preload_with(const char *library, const char *existing, char *replaced,
                        size_t replaced_bytes);

#endif
