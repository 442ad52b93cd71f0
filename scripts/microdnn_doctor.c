/* microdnn doctor: what would keep the library from working here. */
#include "scripts/microdnn_doctor.h"

#include <errno.h>
#include <getopt.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FINDINGS_MAX = 128, FINDING_BYTES = 1024 };

static const char usage[] =
    "usage: microdnn doctor [--json] [--library FILE] [--run] [-- program [arguments]]\n"
    "\n"
    "Looks for what would keep the library from working, here and in a program. Of a Python "
    "program\n"
    "it finds PyTorch, JAX and TensorFlow, and which cuDNN they bring.\n"
    "\n"
    "  --json           JSON instead of text\n"
    "  --library FILE   the libmicrodnn.so that would be preloaded (the installed one)\n"
    "  --run            run the program with the library, and say which hooks it used\n"
    "\n"
    "Exit status: 0 fine, 1 warnings, 2 broken.\n";

/* ---- findings ---- */

static struct finding {
    doctor_severity_t severity;
    const char *subject;
    char text[FINDING_BYTES];
} findings[FINDINGS_MAX];
static size_t finding_count;

void doctor_find(doctor_severity_t severity, const char *subject, const char *format, ...)
{
    if (finding_count == FINDINGS_MAX)
        return;
    struct finding *const finding = &findings[finding_count++];
    finding->severity = severity;
    finding->subject = subject;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(finding->text, sizeof finding->text, format, arguments);
    va_end(arguments);
}

static doctor_severity_t worst(void)
{
    doctor_severity_t result = DOCTOR_FINE;
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

/* ---- helpers ---- */

bool doctor_find_program(const char *name, char *path, size_t bytes)
{
    if (strchr(name, '/') != NULL) {
        snprintf(path, bytes, "%s", name);
        return access(path, X_OK) == 0;
    }
    const char *directory = getenv("PATH");
    while (directory != NULL && *directory != '\0') {
        const size_t length = strcspn(directory, ":");
        snprintf(path, bytes, "%.*s/%s", length > 0 ? (int)length : 1, length > 0 ? directory : ".",
                 name);
        if (access(path, X_OK) == 0)
            return true;
        directory += length + (directory[length] == ':');
    }
    errno = ENOENT;
    return false;
}

char **doctor_environment(const char *library, const char *more)
{
    static char preload[PATH_MAX + 16];
    size_t count = 0, used = 0;
    while (environ[count] != NULL)
        count++;
    char **const result = calloc(count + 3, sizeof *result);
    for (size_t i = 0; result != NULL && i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0)
            result[used++] = environ[i];
    if (result != NULL && library != NULL) {
        snprintf(preload, sizeof preload, "LD_PRELOAD=%s", library);
        result[used++] = preload;
    }
    if (result != NULL && more != NULL)
        result[used] = (char *)(uintptr_t)more;
    return result;
}

FILE *doctor_start(char *const *arguments, char **environment, bool errors, int *child)
{
    int ends[2];
    if (environment == NULL || pipe2(ends, O_CLOEXEC) != 0)
        return NULL;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    if (errors)
        posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    else
        posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
    errno = posix_spawn(child, arguments[0], &actions, NULL, arguments, environment);
    const int error = errno;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (error != 0) {
        close(ends[0]);
        errno = error;
        return NULL;
    }
    return fdopen(ends[0], "r");
}

void doctor_wait(FILE *output, int child)
{
    fclose(output);
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* ---- the command ---- */

static void look(doctor_t *doctor)
{
    doctor_look_at_libc();
    doctor_look_at_library(doctor);
    doctor_look_at_preload(doctor);
    doctor_look_at_privileges();
    doctor_look_at_configuration(doctor);
    doctor_look_at_files(doctor);
    doctor_look_at_cache(doctor);
    doctor_look_at_devices(doctor);
    doctor_look_at_driver(doctor);
    doctor_look_at_limits(doctor);
    doctor_look_at_runtimes(doctor);
    doctor_look_at_cudnn();
    doctor_look_at_variables(doctor);
    if (doctor->arguments != NULL) {
        doctor_look_at_program(doctor);
        doctor_look_at_python(doctor);
    }
    doctor_judge_cudnn_copies();
}

int tool_doctor(int argc, char **argv)
{
    static const struct option long_options[] = {{"json", no_argument, NULL, 'j'},
                                                 {"library", required_argument, NULL, 'l'},
                                                 {"run", no_argument, NULL, 'r'},
                                                 {"help", no_argument, NULL, 'h'},
                                                 {NULL, 0, NULL, 0}};
    static doctor_t doctor;
    bool json = false, run = false;
    for (int choice; (choice = tool_next_option(argc, argv, "+h", long_options)) != -1;) {
        if (choice == 'j')
            json = true;
        else if (choice == 'r')
            run = true;
        else if (choice == 'l')
            doctor.given_library = optarg;
        else {
            fputs(choice == 'h' ? usage : "Try `microdnn doctor --help`.\n",
                  choice == 'h' ? stdout : stderr);
            return choice == 'h' ? TOOL_OK : TOOL_USAGE;
        }
    }
    doctor.arguments = optind < argc ? argv + optind : NULL;
    if (run && doctor.arguments == NULL) {
        tool_complain("doctor: --run: which program?");
        return TOOL_USAGE;
    }
    look(&doctor);
    if (run)
        doctor_run(&doctor);
    if (json)
        print_json();
    else
        print_text();
    return tool_finish_output((int)worst());
}
