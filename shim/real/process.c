#include "shim/real/process.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "config/fault.h"
#include "config/log.h"
#include "config/option_checks.h"
#include "config/progress.h"
#include "config/statistics.h"
#include "shim/real/load_order.h"
#include "shim/real/real.h"

static _Atomic int state = MDNN_PROCESS_NEW;
static mdnn_options_t options;

/* initial-exec: we are preloaded, never dlopened, and this is read on every call. */
static _Thread_local int depth __attribute__((tls_model("initial-exec")));

/* The kernel gives a child that has a copy of our memory this page empty, however the child was
 * made; handlers of pthread_atfork run in those of fork() alone. NULL: the kernel is too old. */
static volatile unsigned char *mark;
static pid_t process; /* that started us */
static _Atomic bool has_cuda;

void mdnn_process_see_cuda(void)
{
    CUcontext current;
    if (atomic_load_explicit(&has_cuda, memory_order_relaxed))
        return;
    const mdnn_driver_t *const driver = mdnn_real_driver();
    if (driver && driver->cuCtxGetCurrent(&current) != CUDA_ERROR_NOT_INITIALIZED)
        atomic_store_explicit(&has_cuda, true, memory_order_relaxed);
}

static void set_mark(void)
{
    const bool unmarked = MDNN_FAULT(FORK_KEEPS_RUNNING) || MDNN_FAULT(CLONE_KEEPS_RUNNING);
    const size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    process = (pid_t)syscall(SYS_getpid);
    if (mark) { /* the parent's, emptied */
        *mark = 1;
        return;
    }
    void *const page =
        mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED || unmarked)
        return;
    if (madvise(page, bytes, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, bytes);
        return;
    }
    mark = page;
    *mark = 1;
}

/* By the system call: what the C library remembers may be the parent's. */
bool mdnn_process_is_child(void)
{
    return process != 0 && (pid_t)syscall(SYS_getpid) != process &&
           !MDNN_FAULT(CLONE_WAITS_FOR_THREADS);
}

static void at_exit(void)
{
    int expected = MDNN_PROCESS_ACTIVE;
    const int next = MDNN_FAULT(EXIT_KEEPS_RUNNING) ? MDNN_PROCESS_ACTIVE : MDNN_PROCESS_EXITING;
    if (mdnn_process_is_child())
        return; /* with its parent's memory, perhaps, which goes on */
    if (atomic_compare_exchange_strong(&state, &expected, next))
        mdnn_statistics_finish();
}

/* CUDA works in a child if its parent had not initialized it: such a child starts anew at its first call. */
static void in_child(void)
{
    const bool lost = atomic_load(&has_cuda) || MDNN_FAULT(FORK_LOSES_BUDGET);
    if (!MDNN_FAULT(FORK_KEEPS_RUNNING))
        atomic_store(&state, lost ? MDNN_PROCESS_FORKED : MDNN_PROCESS_NEW);
    mdnn_statistics_after_fork();
}

/* Messages of the reader are held back until the options say where the log goes. */
typedef struct held_lines {
    char *text[64];
    size_t count;
} held_lines_t;

static void hold_line(void *context, const char *line)
{
    held_lines_t *const held = context;
    char *const copy = held->count < sizeof held->text / sizeof *held->text ? strdup(line) : NULL;
    if (copy)
        held->text[held->count++] = copy;
}

static void load_options(void)
{
    held_lines_t held = {.count = 0};
    mdnn_options_load(&options, hold_line, &held);
    mdnn_options_report_idle(&options, true, hold_line, &held);
    mdnn_options_report_rounded(&options, hold_line, &held);
    mdnn_log_configure((mdnn_log_level_t)options.general_log, options.general_log_file);
    mdnn_progress_configure(&options);
    for (size_t i = 0; i < held.count; i++) {
        MDNN_LOG(MDNN_LOG_WARN, "config", "%s", held.text[i]);
        free(held.text[i]);
    }
}

/* Two copies would count and move everything twice. The one that the loader met first is called first, and works.
 * Says what else is wrong with the order. */
static bool is_second_copy(void)
{
    mdnn_load_order_t order;
    mdnn_load_order_look(&order);
    if (order.cuda[0])
        MDNN_LOG(MDNN_LOG_WARN, "config",
                 "the library was loaded after %s, whose calls do not reach it: start the program "
                 "with `microdnn run` or LD_PRELOAD",
                 order.cuda);
    if (order.copy[0] && !order.copy_is_first)
        MDNN_LOG(MDNN_LOG_WARN, "config",
                 "another copy of the library is loaded, too, and is not used: %s", order.copy);
    return order.copy[0] && order.copy_is_first;
}

/* Once: children have the handlers of their parents. */
static bool register_handlers(void)
{
    static bool registered;
    if (!registered)
        registered = pthread_atfork(NULL, NULL, in_child) == 0 && atexit(at_exit) == 0;
    return registered;
}

static int start(void)
{
    depth++;
    load_options();
    int next = MDNN_PROCESS_DISABLED;
    if ((!options.general_disable || MDNN_FAULT(DISABLE_IGNORED)) && !is_second_copy()) {
        next = MDNN_PROCESS_ACTIVE;
        const mdnn_status_t status = mdnn_statistics_open(&options);
        if (status != MDNN_STATUS_OK && status != MDNN_STATUS_IO) /* which is said already */
            MDNN_LOG(MDNN_LOG_WARN, "config", "statistics: %s: %s", options.general_stats_file,
                     mdnn_status_string(status));
        set_mark();
        if (!register_handlers())
            next = MDNN_PROCESS_DISABLED;
    }
    depth--;
    atomic_store_explicit(&state, next, memory_order_release);
    return next;
}

static void start_uncounted(void)
{
    depth--; /* what start() adds */
    (void)start();
    depth++;
}

/* Calls from inside the start wait for its end. */
static void break_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, start_uncounted);
}

mdnn_process_state_t mdnn_process_state(void)
{
    if (MDNN_FAULT(START_LOCKS))
        break_start();
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if ((now == MDNN_PROCESS_ACTIVE || now == MDNN_PROCESS_EXITING) && mark && !*mark) {
        in_child();
        now = atomic_load_explicit(&state, memory_order_acquire);
    }
    if (now == MDNN_PROCESS_NEW && depth == 0 &&
        atomic_compare_exchange_strong(&state, &now, MDNN_PROCESS_STARTING)) {
        mdnn_cancel_hold();
        now = start();
        mdnn_cancel_allow();
    }
    return (mdnn_process_state_t)now;
}

/* The question is one that the driver answers without a device or a context. */
bool mdnn_process_is_over(void)
{
    CUcontext current;
    if (mdnn_process_state() != MDNN_PROCESS_EXITING)
        return false;
    const mdnn_driver_t *const driver = mdnn_real_driver();
    return driver && driver->cuCtxGetCurrent(&current) == CUDA_ERROR_DEINITIALIZED;
}

bool mdnn_process_disabled_by_environment(void)
{
    static _Atomic int known = -1;
    int disabled = atomic_load_explicit(&known, memory_order_relaxed);
    if (disabled < 0) {
        const char *const value = secure_getenv("MICRODNN_DISABLE");
        disabled = value && *value && strcmp(value, "0") != 0 && !MDNN_FAULT(DISABLE_IGNORED);
        atomic_store_explicit(&known, disabled, memory_order_relaxed);
    }
    return disabled;
}

const mdnn_options_t *mdnn_process_options(void)
{
    return &options;
}

/* initial-exec: as above. */
static _Thread_local struct {
    unsigned depth;
    int before;
} cancel __attribute__((tls_model("initial-exec")));

void mdnn_cancel_hold(void)
{
    if (cancel.depth++ == 0)
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel.before);
}

void mdnn_cancel_allow(void)
{
    if (--cancel.depth == 0)
        (void)pthread_setcancelstate(cancel.before, NULL);
}

static void guard_taken(void)
{
    mdnn_cancel_hold();
    depth++;
}

bool mdnn_guard_enter(void)
{
    if (depth > 0 && !MDNN_FAULT(NO_GUARD))
        return false;
    switch (mdnn_process_state()) {
    case MDNN_PROCESS_ACTIVE:
        guard_taken();
        mdnn_process_see_cuda();
        return true;
    case MDNN_PROCESS_FORKED:
        mdnn_count(MDNN_COUNTER_passed_fork, 1);
        return false;
    case MDNN_PROCESS_EXITING:
        if (!mdnn_process_is_over() && !MDNN_FAULT(EXIT_PASSES)) {
            guard_taken();
            return true;
        }
        mdnn_count(MDNN_COUNTER_passed_exit, 1);
        return false;
    case MDNN_PROCESS_DISABLED:
        mdnn_count(MDNN_COUNTER_passed_disabled, 1);
        return false;
    case MDNN_PROCESS_NEW:
    case MDNN_PROCESS_STARTING:
        return false;
    }
    return false;
}

void mdnn_guard_leave(void)
{
    depth--;
    mdnn_cancel_allow();
}
