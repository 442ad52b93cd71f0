#include "offload/memory/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config/devices.h"
#include "config/lock.h"
#include "config/log.h"
#include "config/options.h"
#include "config/paths.h"
#include "config/quiet_write.h"
#include "config/safe_path.h"
#include "offload/memory/short_names.h"

enum {
    STREAMS = 64, /* of a device; later ones share a track */
    BUFFER_BYTES = 64 << 10,
    EVENT_BYTES = 640, /* longest text of one event */
    HOST_TRACK = 1,
    FIRST_STREAM_TRACK = 2,
    FIRST_DEVICE_TRACK = 102, /* what ran on the device, by stream */
    OTHER_PROCESS = 10000000, /* above all numbers of processes */
};
static const double flush_us = 1e6; /* between batches at most */

typedef struct device {
    uint64_t streams[STREAMS];
    double ran_until_us[STREAMS + 1]; /* what ran last on the device, by stream */
    bool ran[STREAMS + 1];
    unsigned stream_count;
    long process; /* of the trace; 0: not known yet */
    bool counted; /* resident_bytes has been written */
    uint64_t resident_bytes, planned_bytes;
    uint64_t budget_bytes;
} device_t;

/* Begun and not ended. */
typedef struct move {
    int device;
    bool out;
    uint64_t address, id;
} move_t;

struct mdnn_trace {
    mdnn_lock_t lock;
    char path[MDNN_OPTION_STRING_BYTES];
    pid_t process;      /* whose file it is */
    unsigned processes; /* of the trace: one for each device */
    bool started;       /* the time below is set */
    double start_us, now_us, flushed_us;
    uint64_t start_ns; /* the same moment in nanoseconds since 1970 */
    bool created, has_events, dead;
    dev_t file_device; /* of the file that was created */
    ino_t file_inode;
    uint64_t events, events_max, moves_begun;
    device_t devices[MDNN_DEVICES];
    mdnn_short_names_t names;
    move_t *moves; /* under way, oldest first */
    size_t move_count, move_capacity;
    size_t used;
    char buffer[BUFFER_BYTES];
};

static void give_up(mdnn_trace_t *trace, const char *why)
{
    MDNN_LOG(MDNN_LOG_WARN, "memory", "cannot write the trace %s: %s; it ends here", trace->path,
             why);
    trace->dead = true;
}

/* All or nothing: half an event at the end would spoil the file for readers. false with errno set. */
static bool append(int descriptor, const char *text, size_t bytes)
{
    const off_t before = lseek(descriptor, 0, SEEK_END);
    if (mdnn_quiet_write_all(descriptor, text, bytes) == MDNN_STATUS_OK)
        return true;
    const int error = errno;
    const int cut = before >= 0 ? ftruncate(descriptor, before) : 0;
    (void)cut; /* nothing helps then */
    errno = error;
    return false;
}

/* The file of the first batch, made or emptied; later the same one. -1 with errno set. */
static int open_file(mdnn_trace_t *trace)
{
    struct stat found;
    const int descriptor = mdnn_safe_open(
        trace->path, O_WRONLY | O_APPEND | (trace->created ? 0 : O_CREAT | O_TRUNC), 0666);
    if (descriptor < 0 || fstat(descriptor, &found) != 0)
        return descriptor;
    if (!trace->created) {
        trace->created = true;
        trace->file_device = found.st_dev;
        trace->file_inode = found.st_ino;
    }
    if (found.st_dev == trace->file_device && found.st_ino == trace->file_inode)
        return descriptor;
    close(descriptor);
    errno = ESTALE;
    return -1;
}

/* Writes the buffer to the file, which is open within this function only. May change errno. */
static void flush(mdnn_trace_t *trace)
{
    trace->flushed_us = trace->now_us;
    if (trace->dead || trace->used == 0)
        return;
    if (getpid() != trace->process) {
        trace->dead = true; /* a forked child: the buffer is its parent's */
        return;
    }
    const int descriptor = open_file(trace);
    if (descriptor < 0) {
        give_up(trace, strerrordesc_np(errno));
        return;
    }
    if (!append(descriptor, trace->buffer, trace->used))
        give_up(trace, strerrordesc_np(errno));
    close(descriptor);
    trace->used = 0;
}

/* One event: `format` gives what stands between the braces. */
__attribute__((format(printf, 2, 3))) static void put(mdnn_trace_t *trace, const char *format, ...)
{
    if (sizeof trace->buffer - trace->used < EVENT_BYTES)
        flush(trace);
    char text[EVENT_BYTES - 8];
    va_list arguments;
    va_start(arguments, format);
    const int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (trace->dead || length < 0 || (size_t)length >= sizeof text)
        return;
    trace->used += (size_t)snprintf(trace->buffer + trace->used, sizeof trace->buffer - trace->used,
                                    "%s\n{%s}", trace->has_events ? "," : "[", text);
    trace->has_events = true;
}

/* Microseconds with three decimals; printf would use the decimal point of the host's locale. */
typedef struct time_text {
    char text[32];
} time_text_t;

static time_text_t time_of(double us)
{
    time_text_t time;
    const uint64_t ns = us > 0 ? (uint64_t)(us * 1000) : 0;
    snprintf(time.text, sizeof time.text, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
    return time;
}

/* A moment in microseconds since 1970, as the traces of other programs have it. */
static time_text_t moment_of(const mdnn_trace_t *trace, double us)
{
    time_text_t time;
    const double since_us = us > trace->start_us ? us - trace->start_us : 0;
    const uint64_t ns = trace->start_ns + (uint64_t)(since_us * 1000);
    snprintf(time.text, sizeof time.text, "%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
    return time;
}

static time_text_t now_of(const mdnn_trace_t *trace)
{
    return moment_of(trace, trace->now_us);
}

static void set_now(mdnn_trace_t *trace, double now_us)
{
    if (!trace->started) {
        trace->started = true;
        trace->start_us = trace->now_us = trace->flushed_us = now_us;
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        trace->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
    }
    if (now_us > trace->now_us)
        trace->now_us = now_us;
}

/* What can stand between quotes in JSON as it is. */
typedef struct plain_text {
    char text[128];
} plain_text_t;

static plain_text_t plain_of(const char *text)
{
    plain_text_t plain;
    size_t used = 0;
    for (; *text != '\0' && used + 1 < sizeof plain.text; text++) {
        const bool good = *text >= 0x20 && *text < 0x7f && *text != '"' && *text != '\\';
        plain.text[used++] = good ? *text : '?';
    }
    plain.text[used] = '\0';
    return plain;
}

/* The process itself; its further devices get numbers that no process has. */
static long process_of(mdnn_trace_t *trace, int device)
{
    device_t *const d = &trace->devices[device];
    if (d->process == 0)
        d->process = (long)trace->process + (long)OTHER_PROCESS * trace->processes++;
    return d->process;
}

static void put_name(mdnn_trace_t *trace, const char *kind, int device, unsigned track,
                     const char *name)
{
    put(trace, "\"name\":\"%s\",\"ph\":\"M\",\"pid\":%ld,\"tid\":%u,\"args\":{\"name\":\"%s\"}",
        kind, process_of(trace, device), track, plain_of(name).text);
}

/* Its place among the device's streams; STREAMS: too many came before it. */
static unsigned place_of(mdnn_trace_t *trace, int device, uint64_t stream)
{
    device_t *const d = &trace->devices[device];
    unsigned i = 0;
    while (i < d->stream_count && d->streams[i] != stream)
        i++;
    if (i < d->stream_count || i == STREAMS)
        return i;
    char name[64];
    d->streams[d->stream_count++] = stream;
    snprintf(name, sizeof name, "stream %" PRIu64, stream);
    put_name(trace, "thread_name", device, FIRST_STREAM_TRACK + i, name);
    if (d->stream_count == STREAMS)
        put_name(trace, "thread_name", device, FIRST_STREAM_TRACK + STREAMS, "other streams");
    return i;
}

typedef struct name_text {
    char text[MDNN_SHORT_NAME_BYTES];
} name_text_t;

/* What runs no kernel has no name. */
static name_text_t name_of(mdnn_trace_t *trace, const mdnn_memory_event_t *event)
{
    name_text_t name = {"copy or fill"};
    if (event->name != NULL)
        snprintf(name.text, sizeof name.text, "%s",
                 mdnn_short_names_get(&trace->names, event->name));
    return name;
}

static void put_operation(mdnn_trace_t *trace, int device, const mdnn_memory_event_t *event)
{
    const unsigned track = FIRST_STREAM_TRACK + place_of(trace, device, event->stream);
    put(trace,
        "\"name\":\"%s\",\"ph\":\"i\",\"s\":\"t\",\"ts\":%s,\"pid\":%ld,\"tid\":%u,"
        "\"args\":{\"key\":\"0x%" PRIx64 "\"}",
        name_of(trace, event).text, now_of(trace).text, process_of(trace, device), track,
        event->key);
}

/* It began when it was enqueued, or when the one before it in its stream ended: only its duration was measured. */
static void put_ran(mdnn_trace_t *trace, int device, const mdnn_memory_event_t *event)
{
    device_t *const d = &trace->devices[device];
    const unsigned place = place_of(trace, device, event->stream);
    const double begin_us =
        event->enqueued_us > d->ran_until_us[place] ? event->enqueued_us : d->ran_until_us[place];
    char name[64];
    if (!d->ran[place]) {
        snprintf(name, sizeof name, "on the device, stream %" PRIu64, event->stream);
        put_name(trace, "thread_name", device, FIRST_DEVICE_TRACK + place,
                 place < STREAMS ? name : "on the device, other streams");
    }
    d->ran[place] = true;
    d->ran_until_us[place] = begin_us + event->time_us;
    put(trace,
        "\"name\":\"%s\",\"ph\":\"X\",\"ts\":%s,\"dur\":%s,\"pid\":%ld,\"tid\":%u,"
        "\"args\":{\"key\":\"0x%" PRIx64 "\"}",
        name_of(trace, event).text, moment_of(trace, begin_us).text, time_of(event->time_us).text,
        process_of(trace, device), FIRST_DEVICE_TRACK + place, event->key);
}

/* With what an iteration was found to take, and what it should by the plan. */
static void put_iteration(mdnn_trace_t *trace, int device, const mdnn_memory_event_t *event)
{
    put(trace,
        "\"name\":\"iteration %" PRIu64
        "\",\"ph\":\"i\",\"s\":\"p\",\"ts\":%s,\"pid\":%ld,\"tid\":%d,"
        "\"args\":{\"took_us\":%s,\"planned_us\":%s}",
        event->key, now_of(trace).text, process_of(trace, device), HOST_TRACK,
        time_of(event->time_us).text, time_of(event->planned_us).text);
}

/* ,"kind":"text" or nothing. */
typedef struct argument_text {
    char text[MDNN_SHORT_NAME_BYTES + 16];
} argument_text_t;

static argument_text_t argument_of(mdnn_trace_t *trace, const char *kind, const char *text)
{
    argument_text_t argument = {""};
    if (text != NULL)
        snprintf(argument.text, sizeof argument.text, ",\"%s\":\"%s\"", kind,
                 mdnn_short_names_get(&trace->names, text));
    return argument;
}

/* Whoever waited for the work of a stream knows that all of it is over. */
static void end_of_work(mdnn_trace_t *trace, int device, uint64_t stream)
{
    device_t *const d = &trace->devices[device];
    for (unsigned i = 0; i < d->stream_count; i++)
        if (d->streams[i] == stream && d->ran_until_us[i] > trace->now_us)
            d->ran_until_us[i] = trace->now_us;
}

static void put_stall(mdnn_trace_t *trace, int device, const mdnn_memory_event_t *event)
{
    if (event->name != NULL && strcmp(event->name, "work") == 0)
        end_of_work(trace, device, event->stream);
    const double least_us = trace->now_us - trace->start_us;
    const double waited_us = event->time_us < least_us ? event->time_us : least_us;
    put(trace,
        "\"name\":\"wait\",\"ph\":\"X\",\"ts\":%s,\"dur\":%s,\"pid\":%ld,\"tid\":%d,"
        "\"args\":{\"for\":\"%s\"%s}",
        moment_of(trace, trace->now_us - waited_us).text, time_of(waited_us).text,
        process_of(trace, device), HOST_TRACK, event->name ? event->name : "",
        argument_of(trace, "whose", event->whose).text);
}

static void put_end(mdnn_trace_t *trace, size_t index, bool called_off)
{
    const move_t move = trace->moves[index];
    const char *const name = move.out ? "out" : "in";
    memmove(trace->moves + index, trace->moves + index + 1,
            (trace->move_count - index - 1) * sizeof *trace->moves);
    trace->move_count--;
    put(trace,
        "\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"e\",\"id\":%" PRIu64 ",\"ts\":%s,\"pid\":%ld,"
        "\"tid\":0%s",
        name, name, move.id, now_of(trace).text, process_of(trace, move.device),
        called_off ? ",\"args\":{\"called_off\":1}" : "");
}

/* Index of the move of `address` that is under way, or move_count. */
static size_t find_move(const mdnn_trace_t *trace, int device, uint64_t address)
{
    size_t i = 0;
    while (i < trace->move_count &&
           (trace->moves[i].address != address || trace->moves[i].device != device))
        i++;
    return i;
}

static void end_move(mdnn_trace_t *trace, int device, const mdnn_memory_event_t *event, bool out)
{
    const size_t index = find_move(trace, device, event->address);
    if (index < trace->move_count)
        put_end(trace, index, trace->moves[index].out != out);
}

static bool reserve_move(mdnn_trace_t *trace)
{
    if (trace->move_count < trace->move_capacity)
        return true;
    const size_t capacity = trace->move_capacity > 0 ? 2 * trace->move_capacity : 64;
    move_t *const grown = reallocarray(trace->moves, capacity, sizeof *grown);
    if (grown == NULL)
        return false;
    trace->moves = grown;
    trace->move_capacity = capacity;
    return true;
}

/* A leave that is called off has no event of its own: the next move of the range ends it. */
static void begin_move(mdnn_trace_t *trace, int device, const mdnn_memory_event_t *event, bool out)
{
    const size_t before = find_move(trace, device, event->address);
    if (before < trace->move_count)
        put_end(trace, before, true);
    if (!reserve_move(trace))
        return;
    const char *const name = out ? "out" : "in";
    const uint64_t id = ++trace->moves_begun;
    trace->moves[trace->move_count++] =
        (move_t){.device = device, .out = out, .address = event->address, .id = id};
    put(trace,
        "\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"b\",\"id\":%" PRIu64 ",\"ts\":%s,\"pid\":%ld,"
        "\"tid\":0,\"args\":{\"address\":\"0x%" PRIx64 "\",\"bytes\":%" PRIu64 "%s%s}",
        name, name, id, now_of(trace).text, process_of(trace, device), event->address, event->bytes,
        argument_of(trace, "why", event->why).text, argument_of(trace, "whose", event->whose).text);
}

static void put_counter(mdnn_trace_t *trace, int device, const char *name, uint64_t bytes)
{
    put(trace,
        "\"name\":\"%s\",\"ph\":\"C\",\"ts\":%s,\"pid\":%ld,\"tid\":0,\"args\":{\"bytes\":%" PRIu64
        "}",
        name, now_of(trace).text, process_of(trace, device), bytes);
}

static void put_resident(mdnn_trace_t *trace, int device, uint64_t bytes)
{
    device_t *const d = &trace->devices[device];
    if (d->counted && d->resident_bytes == bytes)
        return;
    if (!d->counted && d->budget_bytes > 0)
        put_counter(trace, device, "budget", d->budget_bytes);
    d->counted = true;
    d->resident_bytes = bytes;
    put_counter(trace, device, "resident", bytes);
}

/* What the plan would have resident; the line ends where it is not followed. */
static void put_planned(mdnn_trace_t *trace, int device, uint64_t bytes)
{
    device_t *const d = &trace->devices[device];
    if (d->planned_bytes != bytes)
        put_counter(trace, device, "planned", bytes);
    d->planned_bytes = bytes;
}

/* False, after a mark in the trace and a line on the log, once there are enough events. */
static bool has_room(mdnn_trace_t *trace, int device)
{
    if (trace->events < trace->events_max) {
        trace->events++;
        return true;
    }
    if (trace->events == trace->events_max) {
        trace->events++;
        put(trace, "\"name\":\"cut\",\"ph\":\"i\",\"s\":\"g\",\"ts\":%s,\"pid\":%ld,\"tid\":%d",
            now_of(trace).text, process_of(trace, device), HOST_TRACK);
        MDNN_LOG(MDNN_LOG_WARN, "memory", "the trace %s is cut after %" PRIu64 " events",
                 trace->path, trace->events_max);
    }
    return false;
}

static void put_event(mdnn_trace_t *trace, int device, const mdnn_memory_event_t *event)
{
    const mdnn_memory_event_kind_t kind = event->kind;
    if (kind == MDNN_MEMORY_LEFT || kind == MDNN_MEMORY_RETURNED)
        end_move(trace, device, event, kind == MDNN_MEMORY_LEFT);
    if (!has_room(trace, device))
        return;
    if (kind == MDNN_MEMORY_OPERATION)
        put_operation(trace, device, event);
    else if (kind == MDNN_MEMORY_LEAVE || kind == MDNN_MEMORY_RETURN)
        begin_move(trace, device, event, kind == MDNN_MEMORY_LEAVE);
    else if (kind == MDNN_MEMORY_STALL)
        put_stall(trace, device, event);
    else if (kind == MDNN_MEMORY_RAN)
        put_ran(trace, device, event);
    else if (kind == MDNN_MEMORY_ITERATION)
        put_iteration(trace, device, event);
    if (kind == MDNN_MEMORY_OPERATION)
        put_planned(trace, device, event->planned_bytes);
    put_resident(trace, device, event->resident_bytes);
}

mdnn_trace_t *mdnn_trace_open(const char *pattern, uint64_t events_max)
{
    mdnn_trace_t *const trace = *pattern != '\0' ? calloc(1, sizeof *trace) : NULL;
    if (trace == NULL)
        return NULL;
    char absolute[MDNN_OPTION_STRING_BYTES];
    mdnn_absolute_pattern(pattern, absolute, sizeof absolute);
    mdnn_expand_pattern(absolute, trace->path, sizeof trace->path);
    mdnn_lock_init(&trace->lock, MDNN_LOCK_TRACE);
    trace->process = getpid();
    trace->events_max = events_max;
    return trace;
}

/* NULL: no launcher has said. */
static const char *rank_of_launcher(void)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    const char *rank = NULL;
    for (size_t i = 0; rank == NULL && i < sizeof names / sizeof *names; i++)
        rank = secure_getenv(names[i]);
    return rank;
}

void mdnn_trace_device(mdnn_trace_t *trace, int device, const char *name, uint64_t budget_bytes)
{
    if (trace == NULL || device < 0 || device >= MDNN_DEVICES)
        return;
    char title[128], process[32], rank[32] = "";
    const char *const number = rank_of_launcher();
    snprintf(process, sizeof process, "process %ld", (long)trace->process);
    if (number != NULL)
        snprintf(rank, sizeof rank, "rank %.16s, ", number);
    snprintf(title, sizeof title, "%s%s, device %d: %s", rank, process, device, name);
    mdnn_lock(&trace->lock);
    trace->devices[device].budget_bytes = budget_bytes;
    put_name(trace, "process_name", device, 0, title);
    put_name(trace, "thread_name", device, HOST_TRACK, "host");
    mdnn_unlock(&trace->lock);
}

void mdnn_trace_event(mdnn_trace_t *trace, int device, double now_us,
                      const mdnn_memory_event_t *event)
{
    if (trace == NULL || device < 0 || device >= MDNN_DEVICES)
        return;
    const int saved = errno;
    mdnn_lock(&trace->lock);
    if (!trace->dead) {
        set_now(trace, now_us);
        put_event(trace, device, event);
        if (trace->now_us - trace->flushed_us >= flush_us)
            flush(trace);
    }
    mdnn_unlock(&trace->lock);
    errno = saved;
}

/* The budget once more, so that its line goes on to the end. */
static void end_devices(mdnn_trace_t *trace)
{
    for (int device = 0; device < MDNN_DEVICES; device++) {
        if (trace->devices[device].counted && trace->devices[device].budget_bytes > 0)
            put_counter(trace, device, "budget", trace->devices[device].budget_bytes);
    }
}

void mdnn_trace_finish(mdnn_trace_t *trace)
{
    if (trace == NULL || !mdnn_trylock(&trace->lock))
        return;
    while (!trace->dead && trace->move_count > 0)
        put_end(trace, 0, false);
    end_devices(trace);
    if (!trace->dead && trace->has_events) {
        if (sizeof trace->buffer - trace->used < EVENT_BYTES)
            flush(trace);
        memcpy(trace->buffer + trace->used, "\n]\n", 3);
        trace->used += 3;
        flush(trace);
    }
    trace->dead = true;
    mdnn_unlock(&trace->lock);
}

void mdnn_trace_close(mdnn_trace_t *trace)
{
    if (trace == NULL)
        return;
    mdnn_lock_destroy(&trace->lock);
    free(trace->moves);
    free(trace);
}
