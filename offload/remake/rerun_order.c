#include "offload/remake/rerun_order.h"

#include <stdlib.h>
#include <string.h>

#include "config/fault.h"

/* The last of each kind in a stream; 0: none. A rerun counts as both. */
typedef struct last_uses {
    uint64_t read, write, rerun_read, rerun_write;
} last_uses_t;

struct mdnn_rerun_order {
    last_uses_t *uses; /* of place 0 in each stream, of place 1, ... */
    uint32_t streams, places;
};

mdnn_rerun_order_t *mdnn_rerun_order_create(uint32_t streams)
{
    mdnn_rerun_order_t *const order = calloc(1, sizeof *order);
    if (order)
        order->streams = streams;
    return order;
}

void mdnn_rerun_order_destroy(mdnn_rerun_order_t *order)
{
    if (!order)
        return;
    free(order->uses);
    free(order);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t position_before(const last_uses_t *last, bool rerun, bool writes)
{
    if (rerun) {
        const uint64_t wrote = MDNN_FAULT(RERUNS_PASS_WRITERS) ? last->rerun_write : last->write;
        return writes && !MDNN_FAULT(RERUNS_PASS_READERS) ? later(wrote, last->read) : wrote;
    }
    const uint64_t wrote = MDNN_FAULT(READERS_PASS_RERUNS) ? 0 : last->rerun_write;
    return writes && !MDNN_FAULT(WRITERS_PASS_RERUNS) ? later(wrote, last->rerun_read) : wrote;
}

void mdnn_rerun_order_wait(const mdnn_rerun_order_t *order, uint32_t place, mdnn_rerun_user_t user,
                           bool writes, uint64_t *waits)
{
    if (place >= order->places)
        return;
    const last_uses_t *const uses = &order->uses[(size_t)place * order->streams];
    for (uint32_t stream = 0; stream < order->streams; stream++)
        if (stream != user.stream)
            waits[stream] =
                later(waits[stream], position_before(&uses[stream], user.rerun, writes));
}

mdnn_status_t mdnn_rerun_order_note(mdnn_rerun_order_t *order, uint32_t place,
                                    mdnn_rerun_user_t user, bool writes, uint64_t position)
{
    if (place >= order->places) {
        const uint32_t places = place + place / 2 + 16;
        last_uses_t *const grown =
            reallocarray(order->uses, (size_t)places * order->streams, sizeof *grown);
        if (!grown)
            return MDNN_STATUS_OUT_OF_MEMORY;
        memset(&grown[(size_t)order->places * order->streams], 0,
               (size_t)(places - order->places) * order->streams * sizeof *grown);
        order->uses = grown;
        order->places = places;
    }
    last_uses_t *const last = &order->uses[(size_t)place * order->streams + user.stream];
    *(writes ? &last->write : &last->read) = position;
    if (user.rerun)
        *(writes ? &last->rerun_write : &last->rerun_read) = position;
    return MDNN_STATUS_OK;
}
