#include "config/safe_path.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

enum { LINKS_MOST = 40, FIRST_PRIVATE_GROUP = 1000 };

int mdnn_above_standard(int descriptor)
{
    if (descriptor < 0 || descriptor > STDERR_FILENO)
        return descriptor;
    const int moved = fcntl(descriptor, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno;
    close(descriptor);
    errno = error;
    return moved;
}

static void close_quietly(int descriptor)
{
    const int error = errno;
    if (descriptor >= 0)
        close(descriptor);
    errno = error;
}

static bool is_root_or_user(uid_t owner)
{
    return owner == 0 || owner == geteuid();
}

static bool others_may_write(const struct stat *folder)
{
    return !is_root_or_user(folder->st_uid) || (folder->st_mode & (S_IWGRP | S_IWOTH)) != 0;
}

/* ---- the walk ---- */

typedef struct walk {
    mdnn_safe_path_t *place;
    bool follow;
    int links;
    char rest[PATH_MAX]; /* what is left of the path */
} walk_t;

static void enter(walk_t *walk, int folder)
{
    close_quietly(walk->place->folder);
    walk->place->folder = folder;
}

static bool enter_start(walk_t *walk)
{
    const char *const start = walk->rest[0] == '/' ? "/" : ".";
    enter(walk, mdnn_above_standard(open(start, O_PATH | O_DIRECTORY | O_CLOEXEC)));
    return walk->place->folder >= 0;
}

/* Cuts the next component off into place->name. False at the end of the path. */
static bool next_component(walk_t *walk, bool *last)
{
    char *const name = walk->place->name;
    const char *const begin = walk->rest + strspn(walk->rest, "/");
    const size_t bytes = strcspn(begin, "/");
    const char *const rest = begin + bytes;
    if (bytes == 0 || bytes > NAME_MAX) {
        errno = bytes == 0 ? EISDIR : ENAMETOOLONG;
        return false;
    }
    memcpy(name, begin, bytes);
    name[bytes] = '\0';
    *last = *rest == '\0';
    memmove(walk->rest, rest, strlen(rest) + 1);
    return true;
}

/* The link's text comes before what is left. In place: this runs on small stacks, too. */
static bool take_link(walk_t *walk, int link)
{
    const size_t tail = strlen(walk->rest) + 1, room = sizeof walk->rest - tail;
    memmove(walk->rest + room, walk->rest, tail);
    const ssize_t bytes = room > 0 ? readlinkat(link, "", walk->rest, room) : 0;
    if (bytes <= 0 || (size_t)bytes == room || ++walk->links > LINKS_MOST) {
        errno = bytes < 0 ? errno : ELOOP;
        return false;
    }
    memmove(walk->rest + bytes, walk->rest + room, tail);
    return walk->rest[0] != '/' || enter_start(walk);
}

/* What the name is, as it lies there. */
static bool look_at_name(const walk_t *walk, int *found, struct stat *information)
{
    *found = mdnn_above_standard(
        openat(walk->place->folder, walk->place->name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
    if (*found >= 0 && fstat(*found, information) == 0)
        return true;
    close_quietly(*found);
    return false;
}

static bool is_sticky_and_kept(const struct stat *folder, const struct stat *child)
{
    return (folder->st_mode & S_ISVTX) != 0 && is_root_or_user(folder->st_uid) &&
           is_root_or_user(child->st_uid);
}

/* One component that is not the last, or a link that is. */
static bool go_on(walk_t *walk, int found, const struct stat *folder, const struct stat *child)
{
    if (S_ISLNK(child->st_mode)) {
        errno = ELOOP;
        const bool taken = !others_may_write(folder) && take_link(walk, found);
        close_quietly(found);
        return taken;
    }
    if (!S_ISDIR(child->st_mode)) {
        close_quietly(found);
        errno = ENOTDIR;
        return false;
    }
    if (others_may_write(folder) && !is_sticky_and_kept(folder, child))
        walk->place->shared = true;
    enter(walk, found);
    return true;
}

/* True once place->name is the last component. */
static bool walk_to_end(walk_t *walk)
{
    bool last;
    while (next_component(walk, &last)) {
        struct stat folder, child;
        int found = -1;
        if (fstat(walk->place->folder, &folder) != 0)
            return false;
        if (last) {
            walk->place->shared |= others_may_write(&folder);
            if (!walk->follow || !look_at_name(walk, &found, &child))
                return !walk->follow || errno == ENOENT;
            if (!S_ISLNK(child.st_mode)) {
                close_quietly(found);
                return true;
            }
        } else if (!look_at_name(walk, &found, &child)) {
            return false;
        }
        if (!go_on(walk, found, &folder, &child))
            return false;
    }
    return false;
}

bool mdnn_safe_path_open(const char *path, bool follow, mdnn_safe_path_t *place)
{
    walk_t walk = {.place = place, .follow = follow};
    *place = (mdnn_safe_path_t){.folder = -1};
    if (*path == '\0' || strlen(path) >= sizeof walk.rest) {
        errno = *path == '\0' ? ENOENT : ENAMETOOLONG;
        return false;
    }
    strcpy(walk.rest, path);
    if (enter_start(&walk) && walk_to_end(&walk))
        return true;
    mdnn_safe_path_close(place);
    return false;
}

void mdnn_safe_path_close(mdnn_safe_path_t *place)
{
    close_quietly(place->folder);
    place->folder = -1;
}

/* ---- files ---- */

bool mdnn_safe_is_own(const mdnn_safe_path_t *place, const struct stat *information)
{
    return S_ISREG(information->st_mode) && information->st_uid == geteuid() &&
           (!place->shared || information->st_nlink <= 1);
}

bool mdnn_safe_is_trusted(const struct stat *information)
{
    const bool own_group =
        information->st_gid == information->st_uid && information->st_gid >= FIRST_PRIVATE_GROUP;
    return is_root_or_user(information->st_uid) && (information->st_mode & S_IWOTH) == 0 &&
           ((information->st_mode & S_IWGRP) == 0 || own_group);
}

int mdnn_safe_file_open(const mdnn_safe_path_t *place, int flags, mode_t mode)
{
    struct stat information;
    const int descriptor = mdnn_above_standard(openat(
        place->folder, place->name, flags | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, mode));
    if (descriptor < 0 || !place->shared)
        return descriptor;
    if (fstat(descriptor, &information) == 0 && mdnn_safe_is_own(place, &information))
        return descriptor;
    close(descriptor);
    errno = EPERM;
    return -1;
}

int mdnn_safe_open(const char *path, int flags, mode_t mode)
{
    mdnn_safe_path_t place;
    if (!mdnn_safe_path_open(path, false, &place))
        return -1;
    int descriptor = mdnn_safe_file_open(&place, flags & ~O_TRUNC, mode);
    mdnn_safe_path_close(&place);
    /* A device has no length to cut. */
    if (descriptor >= 0 && (flags & O_TRUNC) != 0 && ftruncate(descriptor, 0) != 0 &&
        errno != EINVAL) {
        close_quietly(descriptor);
        descriptor = -1;
    }
    return descriptor;
}
