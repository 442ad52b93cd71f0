#include "config/whole_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/options.h"
#include "config/quiet_write.h"
#include "config/safe_path.h"

bool mdnn_is_replaceable(const char *path)
{
    struct stat information;
    return lstat(path, &information) != 0 || S_ISREG(information.st_mode);
}

mdnn_status_t mdnn_write_whole_file(const char *path, const char *text, size_t bytes)
{
    const bool in_place = !mdnn_is_replaceable(path);
    char temporary[MDNN_OPTION_STRING_BYTES + 32];
    snprintf(temporary, sizeof temporary, "%s.tmp.%ld", path, (long)getpid());
    const char *const written = in_place ? path : temporary;
    if (!in_place)
        (void)unlink(temporary); /* of an earlier process with our number */
    const int descriptor =
        mdnn_safe_open(written, O_WRONLY | (in_place ? 0 : O_CREAT | O_EXCL), 0666);
    if (descriptor < 0)
        return MDNN_STATUS_IO;
    mdnn_status_t status = mdnn_quiet_write_all(descriptor, text, bytes);
    if (close(descriptor) != 0)
        status = MDNN_STATUS_IO;
    if (!in_place && (status != MDNN_STATUS_OK || rename(temporary, path) != 0)) {
        const int error = errno;
        unlink(temporary);
        errno = error;
        status = MDNN_STATUS_IO;
    }
    return status;
}
