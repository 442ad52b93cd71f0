#include "offload/plan/certificate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "config/fault.h"

enum { PLACES = 32, CUTS = 64, CLASSES = 96 };
static const double CLASSES_OF_A_BYTE = 48;

/* Bytes by what they cost to be away: for each byte of class k the link carries k / 48 of a byte or a little more, in the
 * last class perhaps much more. */
typedef struct amounts {
    double of_class[CLASSES];
} amounts_t;

typedef struct certificate {
    const mdnn_period_t *period;
    uint64_t budget_bytes, chunk_bytes;
    double out_rate, in_rate;
    double latency_bytes; /* the link could carry so many while a copy starts */
    mdnn_gap_t *gaps;
    size_t gap_count;
    uint64_t *live_bytes;
    double *start_us; /* of each operation, by the fastest variants; operation_count + 1 */
    /* At the place that is looked at. begins[k], ends[k]: cuts; bytes[x][y]: of gaps that begin behind begins[x], not
     * behind the next, and end before ends[y], not before the one before it; row and column 0: any time. */
    int32_t begins[CUTS], ends[CUTS];
    uint32_t begin_count, end_count;
    amounts_t bytes[CUTS + 1][CUTS + 1];
    amounts_t below[CUTS + 1]; /* scratch: sums of rows, by column; too large for a stack */
    amounts_t all_bytes;       /* of all gaps around the place */
    double always_bytes;       /* of gaps without a use, which may be away without a copy */
    int32_t *positions;        /* scratch: of gap_count */
    struct window {
        uint32_t first, last; /* the waits before these operations, and those between, */
        double wait_us;       /* are at least so long together */
    } * windows;              /* two for each cut of each place */
    size_t window_count;
} certificate_t;

static const mdnn_variant_t *variants_of(const mdnn_period_t *period, uint32_t position)
{
    return &period->variants[period->operations[position].first_variant];
}

static double fastest_us(const mdnn_period_t *period, uint32_t position)
{
    return variants_of(period, position)[mdnn_operation_fastest(period, position, UINT64_MAX)]
        .time_us;
}

/* Bytes that must be away while the operation runs in that variant. */
static double missing_bytes(const certificate_t *certificate, uint32_t position, uint32_t variant)
{
    const uint64_t held = certificate->live_bytes[position] +
                          variants_of(certificate->period, position)[variant].workspace_bytes;
    return held > certificate->budget_bytes ? (double)(held - certificate->budget_bytes) : 0;
}

/* ---- the gaps around a place ---- */

/* Where the gap begins and ends as seen from `place`: in this iteration, or -1 and the number of operations if its copy
 * may cross the link in another one. False: the gap is not around the place. */
static bool is_around(const certificate_t *certificate, const mdnn_gap_t *gap, int32_t place,
                      int32_t *begin, int32_t *end)
{
    const int32_t count = (int32_t)certificate->period->operation_count;
    const bool later = gap->from >= place;
    const int32_t at = later ? place + count : place;
    if (gap->from == MDNN_GAP_ALWAYS || gap->from >= at || gap->to <= at)
        return false;
    *begin = later ? -1 : gap->from;
    *end = gap->one_way ? count : gap->to - (later ? count : 0);
    *end = *end < count ? *end : count;
    return true;
}

static int compare_positions(const void *left, const void *right)
{
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return a < b ? -1 : a > b;
}

/* Sorts `positions` and keeps at most CUTS different ones, evenly spread. Returns how many. */
static uint32_t spread(int32_t *positions, size_t count, int32_t *cuts)
{
    size_t different = 0;
    uint32_t kept = 0;
    qsort(positions, count, sizeof *positions, compare_positions);
    for (size_t i = 0; i < count; i++)
        if (different == 0 || positions[different - 1] != positions[i])
            positions[different++] = positions[i];
    const size_t most = different < CUTS ? different : CUTS;
    for (size_t k = 0; k < most; k++)
        cuts[kept++] = positions[k * different / most];
    return kept;
}

/* How many of the cuts are at or before `position`. */
static uint32_t cuts_until(const int32_t *cuts, uint32_t count, int32_t position)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (cuts[middle] <= position)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void choose_cuts(certificate_t *certificate, int32_t place)
{
    const int32_t count = (int32_t)certificate->period->operation_count;
    int32_t begin, end;
    size_t begins = 0, ends = 0;
    for (size_t g = 0; g < certificate->gap_count; g++)
        if (is_around(certificate, &certificate->gaps[g], place, &begin, &end) && begin >= 0)
            certificate->positions[begins++] = begin;
    certificate->begin_count = spread(certificate->positions, begins, certificate->begins);
    for (size_t g = 0; g < certificate->gap_count; g++)
        if (is_around(certificate, &certificate->gaps[g], place, &begin, &end) && end < count)
            certificate->positions[ends++] = end;
    certificate->end_count = spread(certificate->positions, ends, certificate->ends);
}

static void add(amounts_t *to, const amounts_t *amounts)
{
    for (unsigned k = 0; k < CLASSES; k++)
        to->of_class[k] += amounts->of_class[k];
}

/* `bytes` at the end of the range, or before that. If a share of a range is away, its copies cost at least the same share
 * of one latency. */
static void add_bytes(const certificate_t *certificate, const mdnn_period_range_t *range,
                      uint64_t bytes, uint64_t copied_bytes, amounts_t *to)
{
    if (bytes == 0)
        return;
    const double cost =
        (double)copied_bytes / (double)bytes + certificate->latency_bytes / (double)range->bytes;
    to->of_class[(unsigned)fmin(cost * CLASSES_OF_A_BYTE, CLASSES - 1)] += (double)bytes;
}

/* Padding is the end of a range. Its whole chunks are away without a copy, and the rest of it with the content of its
 * chunk. Without a size of chunks, ranges are away as a whole. */
static amounts_t amounts_of(const certificate_t *certificate, const mdnn_period_range_t *range)
{
    const uint64_t chunk = certificate->chunk_bytes > 0 ? certificate->chunk_bytes : range->bytes;
    const uint64_t empty = chunk > 0 ? range->padding_bytes / chunk * chunk : 0;
    const uint64_t rest = range->padding_bytes - empty, before = range->bytes - empty;
    const uint64_t mixed = rest == 0 ? 0 : chunk < before ? chunk : before;
    amounts_t amounts = {{0}};
    add_bytes(certificate, range, empty, 0, &amounts);
    add_bytes(certificate, range, mixed, mixed - rest, &amounts);
    add_bytes(certificate, range, before - mixed, before - mixed, &amounts);
    return amounts;
}

/* bytes[x][y]: x cuts are at or before the gap's beginning; y cuts are before its end. */
static void sort_gaps(certificate_t *certificate, int32_t place)
{
    int32_t begin, end;
    for (uint32_t x = 0; x <= certificate->begin_count; x++)
        memset(certificate->bytes[x], 0,
               (certificate->end_count + 1) * sizeof *certificate->bytes[x]);
    certificate->all_bytes = (amounts_t){{0}};
    certificate->always_bytes = 0;
    for (size_t g = 0; g < certificate->gap_count; g++) {
        const mdnn_gap_t *const gap = &certificate->gaps[g];
        const mdnn_period_range_t *const range = &certificate->period->ranges[gap->range];
        if (gap->from == MDNN_GAP_ALWAYS)
            certificate->always_bytes += (double)range->bytes;
        if (!is_around(certificate, gap, place, &begin, &end))
            continue;
        const amounts_t amounts = amounts_of(certificate, range);
        const uint32_t x = cuts_until(certificate->begins, certificate->begin_count, begin);
        const uint32_t y = cuts_until(certificate->ends, certificate->end_count, end - 1);
        add(&certificate->bytes[x][y], &amounts);
        add(&certificate->all_bytes, &amounts);
    }
}

/* Bytes that the link must carry, or could carry in the time, so that `missing` bytes are away, if `rest` may be away
 * without a copy that counts. */
static double carried_bytes(const certificate_t *certificate, double missing, const amounts_t *rest)
{
    double carried = 0, lacking = missing - certificate->always_bytes;
    for (unsigned k = 0; k < CLASSES; k++)
        lacking -= rest->of_class[k];
    for (unsigned k = 0; k < CLASSES && lacking > 0; k++) {
        const double there = certificate->all_bytes.of_class[k] - rest->of_class[k];
        const double taken = fmin(lacking, fmax(there, 0));
        carried += taken * k / CLASSES_OF_A_BYTE;
        lacking -= taken;
    }
    return carried + fmax(lacking, 0);
}

/* ---- cuts ---- */

/* What the link can carry out from behind cut x (from 1) until `place`, without waits. */
static double out_bytes(const certificate_t *certificate, uint32_t x, uint32_t place)
{
    const double begin_us = certificate->start_us[certificate->begins[x - 1] + 1];
    return certificate->out_rate * (certificate->start_us[place] - begin_us);
}

/* And back from behind `place` until cut y (from 1). */
static double in_bytes(const certificate_t *certificate, uint32_t y, uint32_t place)
{
    const double end_us = certificate->start_us[certificate->ends[y - 1]];
    return certificate->in_rate * (end_us - certificate->start_us[place + 1]);
}

/* The least Wb + Wa with which `missing` bytes can be away at the place, which takes `own_us`. A cut counts the link out
 * behind x (the last x: not), the link in before y (0: not), and the gaps that neither counts: those that begin before x
 * and end behind y. */
static double least_wait(certificate_t *certificate, uint32_t place, double missing, double own_us)
{
    /* What is away when the operation begins may come back while it runs, and others leave meanwhile. */
    const double meanwhile = own_us * fmin(certificate->out_rate, certificate->in_rate);
    const uint32_t xs = certificate->begin_count, ys = certificate->end_count;
    amounts_t *const below = certificate->below; /* of rows before x */
    double out_alone = 0, in_alone = 0, both = 0;
    memset(below, 0, (ys + 1) * sizeof *below);
    for (uint32_t x = 1; x <= xs + 1; x++) {
        for (uint32_t y = 0; y <= ys; y++)
            add(&below[y], &certificate->bytes[x - 1][y]);
        const bool last = x > xs; /* no cut out: every row counts */
        const double out = last ? 0 : out_bytes(certificate, x, place);
        amounts_t rest = {{0}}; /* of columns from y on */
        for (uint32_t y = ys + 1; y-- > 0;) {
            add(&rest, &below[y]);
            /* Columns y to ys end at cut y or behind it; before cut y + 1 lies what ends earlier. */
            const double in = y == 0 ? 0 : in_bytes(certificate, y, place);
            const double lacking = carried_bytes(certificate, missing, &rest) - out - in;
            if (last && y > 0)
                in_alone = fmax(in_alone, lacking / certificate->in_rate);
            else if (!last && y == 0)
                out_alone = fmax(out_alone, lacking / certificate->out_rate);
            else if (!last)
                both = fmax(both, (lacking - meanwhile) /
                                      fmax(certificate->out_rate, certificate->in_rate));
        }
    }
    return fmax(out_alone + in_alone, both);
}

/* ---- windows ---- */

static void add_window(certificate_t *certificate, uint32_t first, uint32_t last, double wait_us)
{
    if (wait_us > 0)
        certificate->windows[certificate->window_count++] = (struct window){first, last, wait_us};
}

/* The waits on either side of the place, whatever the other side does, for each cut. */
static void add_windows(certificate_t *certificate, uint32_t place, double missing)
{
    const uint32_t xs = certificate->begin_count, ys = certificate->end_count;
    amounts_t rest = {{0}};
    for (uint32_t x = 1; x <= xs; x++) { /* rows before x begin earlier */
        for (uint32_t y = 0; y <= ys; y++)
            add(&rest, &certificate->bytes[x - 1][y]);
        const double lacking =
            carried_bytes(certificate, missing, &rest) - out_bytes(certificate, x, place);
        add_window(certificate, (uint32_t)certificate->begins[x - 1] + 1, place,
                   lacking / certificate->out_rate);
    }
    rest = (amounts_t){{0}};
    for (uint32_t y = ys; y > 0; y--) { /* columns from y on end later */
        for (uint32_t x = 0; x <= xs; x++)
            add(&rest, &certificate->bytes[x][y]);
        const double lacking =
            carried_bytes(certificate, missing, &rest) - in_bytes(certificate, y, place);
        add_window(certificate, place + 1, (uint32_t)certificate->ends[y - 1],
                   lacking / certificate->in_rate);
    }
}

static int compare_windows(const void *left, const void *right)
{
    const struct window *const a = left, *const b = right;
    return a->last != b->last     ? (a->last < b->last ? -1 : 1)
           : a->first != b->first ? (a->first < b->first ? -1 : 1)
                                  : 0;
}

/* The longest waits of windows that have none in common. most_us[i]: of those that end before i; operation_count + 2,
 * zeros. */
static double sum_of_windows(certificate_t *certificate, double *most_us)
{
    const uint32_t count = certificate->period->operation_count;
    size_t next = 0;
    if (certificate->window_count > 0)
        qsort(certificate->windows, certificate->window_count, sizeof *certificate->windows,
              compare_windows);
    for (uint32_t i = 0; i <= count; i++) {
        most_us[i + 1] = most_us[i];
        for (; next < certificate->window_count && certificate->windows[next].last == i; next++) {
            const struct window *const window = &certificate->windows[next];
            most_us[i + 1] = fmax(most_us[i + 1], most_us[window->first] + window->wait_us);
        }
    }
    return most_us[count + 1];
}

/* ---- places ---- */

static double place_us(certificate_t *certificate, uint32_t place)
{
    const uint32_t variants = certificate->period->operations[place].variant_count;
    double least_us = INFINITY;
    choose_cuts(certificate, (int32_t)place);
    sort_gaps(certificate, (int32_t)place);
    add_windows(
        certificate, place,
        missing_bytes(certificate, place, mdnn_operation_smallest(certificate->period, place)));
    for (uint32_t v = 0; v < variants; v++) {
        const double own_us = variants_of(certificate->period, place)[v].time_us;
        const double missing = missing_bytes(certificate, place, v);
        const double wait_us = missing > 0 ? least_wait(certificate, place, missing, own_us) : 0;
        least_us = fmin(least_us, own_us - fastest_us(certificate->period, place) + wait_us);
    }
    return least_us;
}

/* Of each 32nd of the period the operation at which most is missing. */
static double best_place_us(certificate_t *certificate)
{
    const uint32_t count = certificate->period->operation_count;
    double most_us = 0;
    for (uint32_t part = 0; part < PLACES; part++) {
        const uint32_t begin = (uint32_t)((uint64_t)part * count / PLACES);
        const uint32_t end = (uint32_t)((uint64_t)(part + 1) * count / PLACES);
        uint32_t place = begin;
        double most = 0;
        for (uint32_t i = begin; i < end; i++) {
            const double missing =
                missing_bytes(certificate, i, mdnn_operation_smallest(certificate->period, i));
            if (missing > most) {
                most = missing;
                place = i;
            }
        }
        if (end > begin)
            most_us = fmax(most_us, place_us(certificate, place));
    }
    return most_us;
}

static mdnn_status_t prepare(certificate_t *certificate)
{
    const uint32_t count = certificate->period->operation_count;
    MDNN_TRY(mdnn_period_gaps(certificate->period, &certificate->gaps, &certificate->gap_count));
    certificate->live_bytes = calloc((size_t)count + 1, sizeof *certificate->live_bytes);
    certificate->start_us = calloc((size_t)count + 1, sizeof *certificate->start_us);
    certificate->positions = calloc(certificate->gap_count + 1, sizeof *certificate->positions);
    certificate->windows = calloc((size_t)2 * PLACES * CUTS, sizeof *certificate->windows);
    if (!certificate->live_bytes || !certificate->start_us || !certificate->positions ||
        !certificate->windows)
        return MDNN_STATUS_OUT_OF_MEMORY;
    mdnn_period_live_bytes(certificate->period, certificate->live_bytes);
    for (uint32_t i = 0; i < count; i++)
        certificate->start_us[i + 1] =
            certificate->start_us[i] + fastest_us(certificate->period, i);
    return MDNN_STATUS_OK;
}

mdnn_status_t mdnn_certificate(const mdnn_period_t *period, const mdnn_link_t *link,
                               uint64_t budget_bytes, uint64_t chunk_bytes, double *least_us)
{
    if (!(link->out_bytes_per_us > 0 && link->in_bytes_per_us > 0))
        return MDNN_STATUS_INVALID_ARGUMENT;
    certificate_t *const certificate = calloc(1, sizeof *certificate);
    if (!certificate)
        return MDNN_STATUS_OUT_OF_MEMORY;
    certificate->period = period;
    certificate->budget_bytes = budget_bytes;
    certificate->chunk_bytes = chunk_bytes;
    certificate->out_rate = fmax(link->out_bytes_per_us, link->out_duplex_bytes_per_us);
    certificate->in_rate = fmax(link->in_bytes_per_us, link->in_duplex_bytes_per_us);
    certificate->latency_bytes =
        link->latency_us * fmin(link->out_bytes_per_us, link->in_bytes_per_us);
    double *const most_us = calloc((size_t)period->operation_count + 2, sizeof *most_us);
    const mdnn_status_t status = most_us ? prepare(certificate) : MDNN_STATUS_OUT_OF_MEMORY;
    if (status == MDNN_STATUS_OK) {
        const double place_us = best_place_us(certificate);
        *least_us = certificate->start_us[period->operation_count] +
                    fmax(place_us, sum_of_windows(certificate, most_us));
    }
    free(most_us);
    free(certificate->windows);
    free(certificate->gaps);
    free(certificate->live_bytes);
    free(certificate->start_us);
    free(certificate->positions);
    free(certificate);
    return status;
}

/* ---- several streams ---- */

typedef struct streams {
    uint32_t count, numbers[64];
    double us[64];
} streams_t;

static void add_time(streams_t *streams, uint32_t number, double time_us)
{
    uint32_t i = 0;
    while (i < streams->count && streams->numbers[i] != number)
        i++;
    if (i == sizeof streams->us / sizeof *streams->us)
        return;
    if (i == streams->count)
        streams->numbers[streams->count++] = number;
    streams->us[i] += time_us;
}

static streams_t streams_of(const mdnn_period_t *period)
{
    streams_t streams = {0};
    for (uint32_t i = 0; i < period->operation_count; i++) {
        const double time_us = fastest_us(period, i);
        if (time_us > 0)
            add_time(&streams, period->operations[i].stream, time_us);
    }
    return streams;
}

mdnn_status_t mdnn_link_bound(const mdnn_period_t *period, const mdnn_link_t *link,
                              uint64_t budget_bytes, uint64_t chunk_bytes, double *least_us)
{
    const streams_t streams = streams_of(period);
    mdnn_link_t certain = *link;
    certain.latency_us = 0;
    if (streams.count <= 1 || MDNN_FAULT(STREAMS_TAKE_TURNS))
        return mdnn_certificate(period, &certain, budget_bytes, chunk_bytes, least_us);
    *least_us = 0;
    for (uint32_t i = 0; i < streams.count; i++)
        *least_us = fmax(*least_us, streams.us[i]);
    return MDNN_STATUS_OK;
}
