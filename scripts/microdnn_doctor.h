/* Parts of `microdnn doctor`. Each look is one function that adds findings; the worst finding is the exit status. */
#ifndef MICRODNN_DOCTOR_H
#define MICRODNN_DOCTOR_H

#include <limits.h>

#include "scripts/microdnn.h"

typedef enum doctor_severity { DOCTOR_FINE, DOCTOR_WARNING, DOCTOR_BROKEN } doctor_severity_t;

void doctor_find(doctor_severity_t severity, const char *subject, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* What is looked at, and what a look found that later ones need. */
typedef struct doctor {
    const char *given_library; /* --library, or NULL */
    char **arguments;          /* the program and its arguments; NULL: no program was named */
    const mdnn_options_t *options;
    bool budget;            /* a budget for memory is asked for */
    int driver_version;     /* CUDA's number: 13.0 is 13000; 0: there is no driver */
    uint64_t least_memory;  /* of the devices, bytes; 0: not known */
    char library[PATH_MAX]; /* "": there is none */
    char program[PATH_MAX]; /* the file that the loader would start; "": none */
    char interpreter[256];  /* its loader; "": no preload is possible */
} doctor_t;

/* ---- the machine ---- */
void doctor_look_at_libc(void);
void doctor_look_at_driver(doctor_t *doctor);
/* Must come before doctor_look_at_driver, which loads the driver here: a child asks it. */
void doctor_look_at_devices(doctor_t *doctor);
void doctor_look_at_runtimes(const doctor_t *doctor);
void doctor_look_at_limits(const doctor_t *doctor);

/* ---- the library, and how it gets into programs ---- */
void doctor_look_at_library(doctor_t *doctor);
void doctor_look_at_preload(const doctor_t *doctor);
void doctor_look_at_privileges(void);

/* ---- options and variables ---- */
void doctor_look_at_configuration(doctor_t *doctor); /* fills options and budget */
void doctor_look_at_files(const doctor_t *doctor);
void doctor_look_at_cache(const doctor_t *doctor);
void doctor_look_at_variables(const doctor_t *doctor);

/* ---- a program ---- */
void doctor_look_at_program(doctor_t *doctor);
void doctor_look_at_python(const doctor_t *doctor);

/* Runs the program with the library. */
void doctor_run(const doctor_t *doctor);

/* ---- copies of cuDNN ---- */
void doctor_look_at_cudnn(void);
/* Adds the file, with its links resolved, to the copies. */
void doctor_remember_cudnn(const char *path);
/* Its cudnnGetVersion, asked in a child: 91002. 0: it cannot be loaded, and `why` says why. */
long doctor_cudnn_version(const char *path, char *why, size_t bytes);
/* 91002 is "9.10.2", 8907 is "8.9.7". */
void doctor_format_cudnn(long version, char *text, size_t bytes);
/* The file that the loader takes in this environment; "": none. */
const char *doctor_loaded_cudnn(void);
/* Whether the file is in a folder of LD_LIBRARY_PATH. */
bool doctor_is_in_library_path(const char *path);
void doctor_judge_cudnn_copies(void);

/* ---- small helpers ---- */
/* Where execvp would find the program. false with errno set. */
bool doctor_find_program(const char *name, char *path, size_t bytes);
/* Environment whose LD_PRELOAD is `library`, or without one if that is NULL; `more` ("NAME=VALUE" or NULL) is added.
 * Free the array only. */
char **doctor_environment(const char *library, const char *more);
/* Starts a program and reads what it prints (standard error as well, if `errors`). NULL with errno set. */
FILE *doctor_start(char *const *arguments, char **environment, bool errors, int *child);
void doctor_wait(FILE *output, int child);

#endif
