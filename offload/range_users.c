/* Who may still work on memory, and who must wait for them. */
#include "offload/ranges_internal.h"

#include <stdlib.h>

static bool is_done(mdnn_ranges_t *ranges, mdnn_ticket_t ticket)
{
    return ranges->device.is_done(ranges->context, ticket);
}

bool mdnn_users_done(mdnn_ranges_t *ranges, const mdnn_users_t *users)
{
    for (size_t i = 0; i < users->count; i++)
        if (!is_done(ranges, users->tickets[i]))
            return false;
    return true;
}

bool mdnn_users_free_for(mdnn_ranges_t *ranges, const mdnn_users_t *users, uint64_t stream)
{
    for (size_t i = 0; i < users->count; i++)
        if (users->tickets[i].stream != stream && !is_done(ranges, users->tickets[i]))
            return false;
    return true;
}

mdnn_status_t mdnn_users_note(mdnn_ranges_t *ranges, const mdnn_users_t *users,
                              const uint64_t *own_stream)
{
    if (ranges->wait_count + users->count > ranges->wait_room) {
        const size_t room = (ranges->wait_count + users->count) * 2;
        mdnn_ticket_t *const waits = reallocarray(ranges->waits, room, sizeof *waits);
        if (!waits)
            return MDNN_STATUS_OUT_OF_MEMORY;
        ranges->waits = waits;
        ranges->wait_room = room;
    }
    for (size_t i = 0; i < users->count; i++)
        if (!(own_stream && users->tickets[i].stream == *own_stream) &&
            !is_done(ranges, users->tickets[i]))
            ranges->waits[ranges->wait_count++] = users->tickets[i];
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_users_acquire(mdnn_ranges_t *ranges, mdnn_users_t *users, uint64_t stream)
{
    MDNN_TRY(mdnn_users_note(ranges, users, &stream));
    users->stream = stream;
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_users_reserve(mdnn_users_t *users, size_t more)
{
    if (users->count + more <= users->room)
        return MDNN_STATUS_OK;
    const size_t room = users->count + more;
    mdnn_ticket_t *const tickets = reallocarray(users->tickets, room, sizeof *tickets);
    if (!tickets)
        return MDNN_STATUS_OUT_OF_MEMORY;
    users->tickets = tickets;
    users->room = room;
    return MDNN_STATUS_OK;
}

static void drop_done(mdnn_ranges_t *ranges, mdnn_users_t *users)
{
    size_t kept = 0;
    for (size_t i = 0; i < users->count; i++)
        if (!is_done(ranges, users->tickets[i]))
            users->tickets[kept++] = users->tickets[i];
    users->count = kept;
}

static void join(mdnn_users_t *users, const mdnn_ticket_t *others, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < users->count && users->tickets[at].stream != others[i].stream)
            at++;
        if (at == users->count)
            users->tickets[users->count++] = others[i];
        else if (users->tickets[at].moment < others[i].moment)
            users->tickets[at] = others[i];
    }
}

static mdnn_ticket_t *ticket_of(mdnn_users_t *users, uint64_t stream)
{
    for (size_t i = 0; i < users->count; i++)
        if (users->tickets[i].stream == stream)
            return &users->tickets[i];
    return NULL;
}

bool mdnn_users_merge(mdnn_ranges_t *ranges, mdnn_users_t *users, mdnn_users_t *others)
{
    drop_done(ranges, users);
    drop_done(ranges, others);
    if (users->count != others->count)
        return false;
    for (size_t i = 0; i < others->count; i++)
        if (!ticket_of(users, others->tickets[i].stream))
            return false;
    join(users, others->tickets, others->count);
    return true;
}

void mdnn_users_join(mdnn_ranges_t *ranges, mdnn_users_t *users, const mdnn_users_t *others)
{
    drop_done(ranges, users);
    join(users, others->tickets, others->count);
}

mdnn_status_t mdnn_users_release(mdnn_ranges_t *ranges, mdnn_users_t *users,
                                 const mdnn_ticket_t *tickets, size_t count)
{
    bool covered = false; /* by the owner's stream, which waited for those before it */
    for (size_t i = 0; i < count; i++)
        covered = covered || tickets[i].stream == users->stream;
    MDNN_TRY(mdnn_users_reserve(users, count));
    if (covered)
        users->count = 0;
    else
        drop_done(ranges, users);
    join(users, tickets, count);
    return MDNN_STATUS_OK;
}
