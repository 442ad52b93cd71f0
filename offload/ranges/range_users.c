/* Who may still work on memory, and who must wait for them. */
#include "config/fault.h"
#include "offload/ranges/ranges_internal.h"

#include <stdlib.h>

static bool is_done(mdnn_ranges_t *ranges, mdnn_stream_point_t point)
{
    return ranges->device.is_done(ranges->context, point);
}

bool mdnn_users_done(mdnn_ranges_t *ranges, const mdnn_users_t *users)
{
    for (size_t i = 0; i < users->count; i++)
        if (!is_done(ranges, users->all[i].point))
            return false;
    return true;
}

static bool was_freed_in(mdnn_user_t user, uint64_t stream)
{
    if (MDNN_FAULT(ALL_ARE_BEHIND_A_FREE))
        return user.freed_in != MDNN_NO_ORDER;
    return user.freed_in == stream && !MDNN_FAULT(PASSES_OVER_WHAT_IT_IS_BEHIND);
}

/* Whether the stream is behind that work, whatever we do. */
static bool is_before(mdnn_user_t user, uint64_t stream)
{
    return user.point.stream == stream || was_freed_in(user, stream);
}

bool mdnn_users_free_for(mdnn_ranges_t *ranges, const mdnn_users_t *users, uint64_t stream)
{
    for (size_t i = 0; i < users->count; i++)
        if (!is_before(users->all[i], stream) && !is_done(ranges, users->all[i].point))
            return MDNN_FAULT(HANDS_ON_WHAT_OTHERS_USE);
    return true;
}

static mdnn_status_t reserve_waits(mdnn_ranges_t *ranges, const mdnn_users_t *users)
{
    if (ranges->wait_count + users->count > ranges->wait_room) {
        const size_t room = (ranges->wait_count + users->count) * 2;
        mdnn_stream_point_t *const waits = reallocarray(ranges->waits, room, sizeof *waits);
        if (!waits)
            return MDNN_STATUS_OUT_OF_MEMORY;
        ranges->waits = waits;
        ranges->wait_room = room;
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_users_note(mdnn_ranges_t *ranges, const mdnn_users_t *users,
                              const uint64_t *own_stream)
{
    MDNN_TRY(reserve_waits(ranges, users));
    for (size_t i = 0; i < users->count; i++) {
        const mdnn_stream_point_t point = users->all[i].point;
        if (!(own_stream && point.stream == *own_stream) && !is_done(ranges, point))
            ranges->waits[ranges->wait_count++] = point;
    }
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_users_note_others(mdnn_ranges_t *ranges, const mdnn_users_t *users,
                                     uint64_t stream)
{
    MDNN_TRY(reserve_waits(ranges, users));
    for (size_t i = 0; i < users->count; i++)
        if (!is_before(users->all[i], stream) && !is_done(ranges, users->all[i].point))
            ranges->waits[ranges->wait_count++] = users->all[i].point;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_users_acquire(mdnn_ranges_t *ranges, mdnn_users_t *users, uint64_t stream)
{
    if (!MDNN_FAULT(WAITS_FOR_OTHER_PLACES))
        ranges->wait_count = 0; /* nobody waits for those of places that were not taken */
    MDNN_TRY(mdnn_users_note(ranges, users, &stream));
    users->stream = stream;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_users_reserve(mdnn_users_t *users, size_t more)
{
    if (users->count + more <= users->room)
        return MDNN_STATUS_OK;
    const size_t room = users->count + more;
    mdnn_user_t *const all = reallocarray(users->all, room, sizeof *all);
    if (!all)
        return MDNN_STATUS_OUT_OF_MEMORY;
    users->all = all;
    users->room = room;
    return MDNN_STATUS_OK;
}

static void drop_done(mdnn_ranges_t *ranges, mdnn_users_t *users)
{
    size_t kept = 0;
    for (size_t i = 0; i < users->count; i++)
        if (!is_done(ranges, users->all[i].point))
            users->all[kept++] = users->all[i];
    users->count = kept;
}

static mdnn_user_t *user_of(mdnn_users_t *users, uint64_t stream)
{
    for (size_t i = 0; i < users->count; i++)
        if (users->all[i].point.stream == stream)
            return &users->all[i];
    return NULL;
}

static void join(mdnn_users_t *users, mdnn_user_t other)
{
    mdnn_user_t *const known = user_of(users, other.point.stream);
    if (!known)
        users->all[users->count++] = other;
    else if (known->point.position < other.point.position &&
             !MDNN_FAULT(EARLIER_MOMENT_STANDS_FOR_BOTH))
        *known = other;
}

static void join_all(mdnn_users_t *users, const mdnn_users_t *others)
{
    for (size_t i = 0; i < others->count; i++)
        join(users, others->all[i]);
}

bool mdnn_users_merge(mdnn_ranges_t *ranges, mdnn_users_t *users, mdnn_users_t *others)
{
    /* Idle memory is not joined with memory that is in use: another stream, which may have the idle
     * memory at once, would otherwise get it only after that work. */
    drop_done(ranges, users);
    drop_done(ranges, others);
    if (users->count != others->count)
        return false;
    for (size_t i = 0; i < others->count; i++)
        if (!user_of(users, others->all[i].point.stream) &&
            !MDNN_FAULT(BLOCKS_UNITE_WITH_OTHER_STREAMS))
            return false;
    join_all(users, others);
    return true;
}

void mdnn_users_join(mdnn_ranges_t *ranges, mdnn_users_t *users, const mdnn_users_t *others)
{
    drop_done(ranges, users);
    join_all(users, others);
}

mdnn_status_t mdnn_users_release(mdnn_ranges_t *ranges, mdnn_users_t *users, uint64_t stream,
                                 const mdnn_stream_point_t *points, size_t count)
{
    bool covered = false; /* by the owner's stream, which waited for those before it */
    for (size_t i = 0; i < count; i++)
        covered =
            covered || points[i].stream == users->stream || MDNN_FAULT(OWNER_NEED_NOT_HAVE_WAITED);
    MDNN_TRY(mdnn_users_reserve(users, count));
    if (covered)
        users->count = 0;
    else
        drop_done(ranges, users);
    for (size_t i = 0; i < count; i++)
        join(users, (mdnn_user_t){points[i], stream});
    return MDNN_STATUS_OK;
}
