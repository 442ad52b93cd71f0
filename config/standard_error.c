#include "config/standard_error.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/quiet_write.h"

/* The time of birth distinguishes a file from a later one with the same number. */
typedef struct identity {
    uint32_t major, minor;
    uint64_t inode;
    int64_t born_seconds;
    uint32_t born_nanoseconds;
    uint32_t type;
} identity_t;

/* Written once. */
enum { UNKNOWN, BUSY, CLOSED, OPEN };
static _Atomic int state = UNKNOWN;
static identity_t at_start;

static bool look(int descriptor, identity_t *identity)
{
    struct statx found;
    if (statx(descriptor, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO | STATX_BTIME, &found) != 0)
        return false;
    memset(identity, 0, sizeof *identity);
    identity->major = found.stx_dev_major;
    identity->minor = found.stx_dev_minor;
    identity->inode = found.stx_ino;
    identity->type = found.stx_mode & S_IFMT;
    if ((found.stx_mask & STATX_BTIME) != 0) {
        identity->born_seconds = found.stx_btime.tv_sec;
        identity->born_nanoseconds = found.stx_btime.tv_nsec;
    }
    return true;
}

void mdnn_standard_error_remember(void)
{
    int expected = UNKNOWN;
    if (!atomic_compare_exchange_strong(&state, &expected, BUSY))
        return;
    const int saved = errno;
    atomic_store(&state, look(STDERR_FILENO, &at_start) ? OPEN : CLOSED);
    errno = saved;
}

static bool is_unchanged(int descriptor)
{
    identity_t now;
    return atomic_load(&state) == OPEN && look(descriptor, &now) &&
           memcmp(&now, &at_start, sizeof now) == 0;
}

bool mdnn_standard_error_is_meant(const char *file)
{
    return *file == '\0' || strcmp(file, "stderr") == 0 || strcmp(file, "/dev/stderr") == 0;
}

static mdnn_status_t write_to(int descriptor, const void *data, size_t bytes, bool once)
{
    return once ? mdnn_quiet_write_once(descriptor, data, bytes)
                : mdnn_quiet_write_all(descriptor, data, bytes);
}

/* A copy of the descriptor stays what it is while it is looked at. A regular file has none: to close
 * it would end the program's record locks of that file. */
mdnn_status_t mdnn_standard_error_write(const void *data, size_t bytes, bool once)
{
    const int saved = errno;
    mdnn_status_t status = MDNN_STATUS_NOT_FOUND;
    mdnn_standard_error_remember();
    if (is_unchanged(STDERR_FILENO)) {
        const bool regular = at_start.type == S_IFREG;
        const int copy =
            regular ? STDERR_FILENO : fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (copy < 0)
            status = MDNN_STATUS_IO;
        else if (regular || is_unchanged(copy))
            status = write_to(copy, data, bytes, once);
        if (copy > STDERR_FILENO)
            close(copy);
    }
    errno = saved;
    return status;
}
