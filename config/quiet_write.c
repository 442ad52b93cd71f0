#include "config/quiet_write.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>
#include <unistd.h>

typedef struct signal_guard {
    sigset_t ours, before, pending_before;
} signal_guard_t;

static void guard_begin(signal_guard_t *guard)
{
    sigemptyset(&guard->ours);
    sigaddset(&guard->ours, SIGPIPE);
    sigaddset(&guard->ours, SIGXFSZ);
    sigpending(&guard->pending_before);
    pthread_sigmask(SIG_BLOCK, &guard->ours, &guard->before);
}

/* Swallows what our write raised for this thread, but nothing that was pending before. */
static void guard_end(signal_guard_t *guard, int write_error)
{
    const int raised = write_error == EPIPE ? SIGPIPE : write_error == EFBIG ? SIGXFSZ : 0;
    if (raised != 0 && !sigismember(&guard->pending_before, raised)) {
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, raised);
        while (sigtimedwait(&one, NULL, &(struct timespec){0}) < 0 && errno == EINTR)
            continue;
    }
    pthread_sigmask(SIG_SETMASK, &guard->before, NULL);
    if (write_error != 0)
        errno = write_error;
}

static ssize_t write_guarded(int descriptor, const void *data, size_t bytes)
{
    signal_guard_t guard;
    guard_begin(&guard);
    ssize_t written;
    do
        written = write(descriptor, data, bytes);
    while (written < 0 && errno == EINTR);
    guard_end(&guard, written < 0 ? errno : 0);
    return written;
}

mdnn_status_t mdnn_quiet_write_once(int descriptor, const void *data, size_t bytes)
{
    const int saved = errno;
    const ssize_t written = write_guarded(descriptor, data, bytes);
    errno = saved;
    return written == (ssize_t)bytes ? MDNN_STATUS_OK : MDNN_STATUS_IO;
}

mdnn_status_t mdnn_quiet_write_all(int descriptor, const void *data, size_t bytes)
{
    const int saved = errno;
    mdnn_status_t status = MDNN_STATUS_OK;
    for (const char *next = data; bytes > 0 && status == MDNN_STATUS_OK;) {
        const ssize_t written = write_guarded(descriptor, next, bytes);
        if (written <= 0) {
            status = MDNN_STATUS_IO;
            break;
        }
        next += written;
        bytes -= (size_t)written;
    }
    if (status == MDNN_STATUS_OK)
        errno = saved;
    return status;
}

int mdnn_quiet_allocate(int descriptor, off_t bytes)
{
    const int saved = errno;
    signal_guard_t guard;
    guard_begin(&guard);
    const int error = posix_fallocate(descriptor, 0, bytes);
    guard_end(&guard, error);
    errno = saved;
    return error;
}
