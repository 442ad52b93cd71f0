#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "config/log.h"
#include "offload/memory/trace.h"
#include "test/unit/few.h"
#include "test/unit/random.h"

static char directory[] = "/tmp/mdnn-trace.XXXXXX";
static char path[256], log_path[256];

static int fresh_directory(void **state)
{
    (void)state;
    char command[600];
    snprintf(command, sizeof command, "rm -rf %s/*", directory);
    snprintf(path, sizeof path, "%s/trace.json", directory);
    snprintf(log_path, sizeof log_path, "%s/log", directory);
    mdnn_log_configure(MDNN_LOG_WARN, log_path);
    return system(command);
}

static char *content_of(const char *file)
{
    FILE *const stream = fopen(file, "r");
    if (stream == NULL)
        return strdup("");
    char *text = NULL;
    size_t capacity = 0;
    const ssize_t got = getdelim(&text, &capacity, '\0', stream);
    fclose(stream);
    if (got >= 0)
        return text;
    free(text);
    return strdup("");
}

static unsigned lines_of(const char *file)
{
    char *const text = content_of(file);
    unsigned lines = 0;
    for (const char *c = text; *c != '\0'; c++)
        lines += *c == '\n';
    free(text);
    return lines;
}

static uint64_t random_below(uint64_t *seed, uint64_t limit)
{
    return random_next(seed) % limit;
}

/* The file's events, with `end` behind its text. */
static json_t *events_of(const char *file, const char *end)
{
    char *const text = content_of(file);
    char *const whole = malloc(strlen(text) + strlen(end) + 1);
    strcpy(stpcpy(whole, text), end);
    json_error_t error;
    json_t *const events = json_loads(whole, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_array(events))
        fail_msg("%s at %d:%d of %s", error.text, error.line, error.column, whole);
    free(whole);
    free(text);
    return events;
}

static const char *text_in(const json_t *event, const char *key)
{
    const char *const text = json_string_value(json_object_get(event, key));
    return text != NULL ? text : "";
}

static bool is_phase(const json_t *event, const char *phase)
{
    return strcmp(text_in(event, "ph"), phase) == 0;
}

static bool has_name(const json_t *event, const char *name)
{
    return strcmp(text_in(event, "name"), name) == 0;
}

static unsigned count_of(const json_t *events, const char *phase, const char *name)
{
    unsigned count = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event) count += is_phase(event, phase) && has_name(event, name);
    return count;
}

static const char *argument_in(const json_t *event, const char *key)
{
    return text_in(json_object_get(event, "args"), key);
}

static double number_in(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

/* Each begin has one end behind it, of the same name and device. */
static void check_pairs(const json_t *events)
{
    size_t i, j;
    json_t *event, *other;
    json_array_foreach(events, i, event)
    {
        assert_false(is_phase(event, "B") || is_phase(event, "E"));
        if (!is_phase(event, "b") && !is_phase(event, "e"))
            continue;
        unsigned partners = 0;
        const char *const wanted = is_phase(event, "b") ? "e" : "b";
        json_array_foreach(events, j, other)
        {
            if (!is_phase(other, wanted) || number_in(other, "id") != number_in(event, "id"))
                continue;
            partners++;
            assert_true((i < j) == is_phase(event, "b"));
            assert_string_equal(text_in(event, "cat"), text_in(other, "cat"));
            assert_string_equal(text_in(event, "name"), text_in(other, "name"));
            assert_true(number_in(event, "pid") == number_in(other, "pid"));
        }
        assert_int_equal(partners, 1);
    }
}

/* The tracks of what ran on the device. */
static bool is_on_device(const json_t *event)
{
    return number_in(event, "tid") >= 100;
}

/* In the order of the file each event of the host ends no earlier than the one before; all are of this day. */
static void check_times(const json_t *events)
{
    double last = 0;
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        if (is_phase(event, "M") || is_on_device(event))
            continue;
        assert_true(json_is_number(json_object_get(event, "ts")));
        const double end = number_in(event, "ts") + number_in(event, "dur");
        assert_true(fabs(number_in(event, "ts") / 1e6 - (double)time(NULL)) < 86400);
        assert_true(end >= last - 1); /* a double has no more digits */
        last = end;
    }
}

static void check_resident(const json_t *events, uint64_t budget_bytes)
{
    size_t i;
    json_t *event;
    unsigned seen = 0;
    json_array_foreach(events, i, event)
    {
        if (!is_phase(event, "C"))
            continue;
        const json_int_t bytes =
            json_integer_value(json_object_get(json_object_get(event, "args"), "bytes"));
        if (has_name(event, "budget"))
            assert_int_equal(bytes, budget_bytes);
        else
            assert_true(bytes >= 0 && (uint64_t)bytes <= budget_bytes);
        seen += has_name(event, "resident");
    }
    assert_true(seen > 0);
}

enum { RANGES = 20, BUDGET = 12000 };

/* A program that moves ranges at random, as the mechanism says it. */
typedef struct program {
    uint64_t seed;
    int device;
    double now_us;
    uint64_t resident_bytes;
    enum { HERE, LEAVING, AWAY, RETURNING } states[RANGES];
    bool open[RANGES]; /* a leave that was called off, which the trace does not know yet */
    unsigned called_off;
} program_t;

static void say(mdnn_trace_t *trace, program_t *program, mdnn_memory_event_kind_t kind, uint64_t i)
{
    const mdnn_memory_event_t event = {.kind = kind,
                                       .address = 0x10000 * (i + 1),
                                       .bytes = 500,
                                       .key = i * UINT64_C(0x123456789abcdef),
                                       .stream = i % 3,
                                       .resident_bytes = program->resident_bytes,
                                       .name = kind == MDNN_MEMORY_STALL ? "copies" : NULL,
                                       .why = "memory is needed",
                                       .whose = "_ZN4some6kernelEi",
                                       .time_us = kind == MDNN_MEMORY_STALL ? 30 : 0};
    mdnn_trace_event(trace, program->device, program->now_us, &event);
}

static void step(mdnn_trace_t *trace, program_t *program)
{
    const uint64_t i = random_below(&program->seed, RANGES);
    program->now_us += (double)random_below(&program->seed, 100000) / 1000;
    switch (program->states[i]) {
    case HERE:
        if (program->resident_bytes < 500 || random_below(&program->seed, 3) == 0) {
            say(trace, program, MDNN_MEMORY_OPERATION, i);
            return;
        }
        say(trace, program, MDNN_MEMORY_LEAVE, i);
        program->called_off += program->open[i];
        program->open[i] = false;
        program->states[i] = LEAVING;
        return;
    case LEAVING:
        if (random_below(&program->seed, 4) == 0) { /* called off */
            program->states[i] = HERE;
            program->open[i] = true;
            return;
        }
        program->resident_bytes -= 500;
        say(trace, program, MDNN_MEMORY_LEFT, i);
        program->states[i] = AWAY;
        return;
    case AWAY:
        program->resident_bytes += 500;
        say(trace, program, MDNN_MEMORY_RETURN, i);
        program->states[i] = RETURNING;
        return;
    case RETURNING:
        say(trace, program, MDNN_MEMORY_STALL, i);
        say(trace, program, MDNN_MEMORY_RETURNED, i);
        program->states[i] = HERE;
        return;
    }
}

static program_t fresh_program(uint64_t seed, int device)
{
    return (program_t){
        .seed = seed, .device = device, .now_us = 5e9, .resident_bytes = RANGES * 500};
}

static unsigned called_off_in(const json_t *events)
{
    size_t i;
    unsigned called_off = 0;
    json_t *event;
    json_array_foreach(events, i, event) called_off +=
        json_object_get(json_object_get(event, "args"), "called_off") != NULL;
    return called_off;
}

static void what_begins_ends_and_times_ascend_within_the_budget(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= few(2, 10); seed++) {
        mdnn_trace_t *const trace = mdnn_trace_open(path, MDNN_TRACE_EVENTS);
        mdnn_trace_device(trace, 0, "a \"test\" \\ \n", BUDGET);
        program_t program = fresh_program(seed, 0);
        for (unsigned i = 0; i < 1500; i++)
            step(trace, &program);
        const unsigned called_off = program.called_off;
        mdnn_trace_finish(trace);
        step(trace, &program); /* too late: nothing happens */
        mdnn_trace_close(trace);
        json_t *const events = events_of(path, "");
        check_pairs(events);
        check_times(events);
        check_resident(events, BUDGET);
        assert_int_equal(called_off_in(events), called_off);
        assert_true(called_off > 5);
        assert_true(count_of(events, "b", "out") > 20 && count_of(events, "b", "in") > 20);
        assert_true(count_of(events, "X", "wait") > 20);
        assert_int_equal(count_of(events, "M", "thread_name"), 1 + 3);
        json_decref(events);
    }
    assert_int_equal(lines_of(log_path), 0);
}

static void an_operation_is_a_mark_on_the_track_of_its_stream(void **state)
{
    (void)state;
    mdnn_trace_t *const trace = mdnn_trace_open(path, 100);
    program_t program = fresh_program(1, 2);
    say(trace, &program, MDNN_MEMORY_OPERATION, 1);
    program.now_us += 12.5;
    say(trace, &program, MDNN_MEMORY_OPERATION, 2);
    const mdnn_memory_event_t named = {
        .kind = MDNN_MEMORY_OPERATION, .name = "kernel \"k\"", .stream = 1};
    mdnn_trace_event(trace, 2, program.now_us, &named);
    mdnn_trace_finish(trace);
    mdnn_trace_close(trace);
    json_t *const events = events_of(path, "");
    double tracks[3] = {0}, times[3] = {0};
    size_t i, seen = 0;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        if (!is_phase(event, "i") || seen == 3)
            continue;
        assert_int_equal((int)number_in(event, "pid"), getpid());
        times[seen] = number_in(event, "ts");
        tracks[seen++] = number_in(event, "tid");
    }
    assert_int_equal(seen, 3);
    assert_true(tracks[0] == tracks[2] && tracks[0] != tracks[1]);
    assert_true(fabs(times[1] - times[0] - 12.5) < 1 && times[2] == times[1]);
    assert_int_equal(count_of(events, "i", "kernel ?k?"), 1);
    assert_int_equal(count_of(events, "i", "copy or fill"), 2);
    json_decref(events);
}

static void a_wait_is_shown_from_its_begin(void **state)
{
    (void)state;
    mdnn_trace_t *const trace = mdnn_trace_open(path, 100);
    program_t program = fresh_program(1, 0);
    say(trace, &program, MDNN_MEMORY_OPERATION, 1);
    program.now_us += 100;
    say(trace, &program, MDNN_MEMORY_STALL, 1);
    mdnn_trace_finish(trace);
    mdnn_trace_close(trace);
    json_t *const events = events_of(path, "");
    size_t i;
    double began = 0;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        if (is_phase(event, "X")) {
            assert_true(fabs(number_in(event, "ts") - began - 70) < 1);
            assert_true(number_in(event, "dur") == 30);
            assert_string_equal(argument_in(event, "for"), "copies");
            assert_string_equal(argument_in(event, "whose"), "some::kernel");
        } else if (is_phase(event, "i")) {
            began = number_in(event, "ts");
        }
    }
    assert_int_equal(count_of(events, "X", "wait"), 1);
    json_decref(events);
}

static void a_move_that_is_called_off_is_ended_by_the_next_one(void **state)
{
    (void)state;
    mdnn_trace_t *const trace = mdnn_trace_open(path, 100);
    program_t program = fresh_program(1, 0);
    say(trace, &program, MDNN_MEMORY_LEAVE, 1);
    say(trace, &program, MDNN_MEMORY_LEAVE, 1);
    say(trace, &program, MDNN_MEMORY_LEFT, 1);
    say(trace, &program, MDNN_MEMORY_LEFT, 1);
    mdnn_trace_finish(trace);
    mdnn_trace_close(trace);
    json_t *const events = events_of(path, "");
    check_pairs(events);
    assert_int_equal(count_of(events, "b", "out"), 2);
    assert_int_equal(called_off_in(events), 1);
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        if (!is_phase(event, "b"))
            continue;
        assert_string_equal(argument_in(event, "why"), "memory is needed");
        assert_string_equal(argument_in(event, "whose"), "some::kernel");
    }
    json_decref(events);
}

static void run(mdnn_trace_t *trace, double now_us, double enqueued_us, double time_us)
{
    const mdnn_memory_event_t event = {.kind = MDNN_MEMORY_RAN,
                                       .name = "_Z5saxpyfPfS_",
                                       .stream = 5,
                                       .time_us = time_us,
                                       .enqueued_us = enqueued_us};
    mdnn_trace_event(trace, 0, now_us, &event);
}

/* Each is shown from when it was enqueued, or behind the one before; after a wait for the stream all was over. */
static void what_ran_is_on_a_track_of_the_device_one_after_the_other(void **state)
{
    (void)state;
    mdnn_trace_t *const trace = mdnn_trace_open(path, 100);
    mdnn_trace_event(trace, 0, 1000, &(mdnn_memory_event_t){.kind = MDNN_MEMORY_LEFT});
    run(trace, 5000, 1000, 100);
    run(trace, 5000, 1050, 70);
    run(trace, 5000, 3000, 9000);
    mdnn_trace_event(trace, 0, 6000,
                     &(mdnn_memory_event_t){
                         .kind = MDNN_MEMORY_STALL, .name = "work", .stream = 5, .time_us = 9});
    run(trace, 7000, 6500, 1.25);
    mdnn_trace_finish(trace);
    mdnn_trace_close(trace);
    json_t *const events = events_of(path, "");
    static const double begins[] = {0, 100, 2000, 5500}, durations[] = {100, 70, 9000, 1.25};
    double first = 0;
    size_t i, seen = 0;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        if (!is_phase(event, "X") || !is_on_device(event))
            continue;
        first = seen == 0 ? number_in(event, "ts") : first;
        assert_true(seen < 4 && fabs(number_in(event, "ts") - first - begins[seen]) < 1);
        assert_true(number_in(event, "dur") == durations[seen++]);
        assert_string_equal(text_in(event, "name"), "saxpy");
    }
    assert_int_equal(seen, 4);
    json_decref(events);
}

static void iterations_and_the_plan_are_shown(void **state)
{
    (void)state;
    mdnn_trace_t *const trace = mdnn_trace_open(path, 100);
    mdnn_trace_device(trace, 0, "device", BUDGET);
    mdnn_trace_event(
        trace, 0, 1000,
        &(mdnn_memory_event_t){
            .kind = MDNN_MEMORY_ITERATION, .key = 7, .time_us = 1500, .planned_us = 1400});
    for (int i = 0; i < 3; i++)
        mdnn_trace_event(trace, 0, 1000 + i,
                         &(mdnn_memory_event_t){.kind = MDNN_MEMORY_OPERATION,
                                                .key = 7,
                                                .planned_bytes = i < 2 ? 77 : 0});
    mdnn_trace_finish(trace);
    mdnn_trace_close(trace);
    json_t *const events = events_of(path, "");
    assert_int_equal(count_of(events, "i", "iteration 7"), 1);
    assert_int_equal(count_of(events, "C", "planned"), 2); /* where it begins and where it ends */
    size_t i;
    json_t *event;
    json_array_foreach(events, i, event)
    {
        const json_t *const arguments = json_object_get(event, "args");
        if (has_name(event, "iteration 7"))
            assert_true(number_in(arguments, "took_us") == 1500 &&
                        number_in(arguments, "planned_us") == 1400);
    }
    json_decref(events);
}

/* The first device is the process itself, and says its rank. */
static void devices_have_the_number_of_the_process(void **state)
{
    (void)state;
    assert_int_equal(setenv("RANK", "3", 1), 0);
    mdnn_trace_t *const trace = mdnn_trace_open(path, 100);
    mdnn_trace_device(trace, 5, "GPU", BUDGET);
    mdnn_trace_device(trace, 1, "GPU", BUDGET);
    mdnn_trace_finish(trace);
    mdnn_trace_close(trace);
    unsetenv("RANK");
    json_t *const events = events_of(path, "");
    char expected[2][80];
    size_t i, seen = 0;
    json_t *event;
    for (i = 0; i < 2; i++)
        snprintf(expected[i], sizeof *expected, "rank 3, process %ld, device %d: GPU",
                 (long)getpid(), i == 0 ? 5 : 1);
    json_array_foreach(events, i, event)
    {
        if (!has_name(event, "process_name"))
            continue;
        assert_string_equal(argument_in(event, "name"), expected[seen]);
        assert_true((number_in(event, "pid") == getpid()) == (seen == 0));
        seen++;
    }
    assert_int_equal(seen, 2);
    json_decref(events);
}

static void too_many_events_are_cut_and_it_is_said_once(void **state)
{
    (void)state;
    mdnn_trace_t *const trace = mdnn_trace_open(path, 200);
    program_t program = fresh_program(3, 0);
    for (unsigned i = 0; i < 3000; i++)
        step(trace, &program);
    mdnn_trace_finish(trace);
    mdnn_trace_close(trace);
    json_t *const events = events_of(path, "");
    check_pairs(events);
    assert_int_equal(count_of(events, "i", "cut"), 1);
    assert_true(json_array_size(events) < 2 * 200 + 20);
    json_decref(events);
    assert_int_equal(lines_of(log_path), 1);
}

static void a_killed_process_leaves_a_trace_that_lacks_only_the_bracket(void **state)
{
    (void)state;
    const pid_t child = fork();
    if (child == 0) {
        mdnn_trace_t *const trace = mdnn_trace_open(path, MDNN_TRACE_EVENTS);
        program_t program = fresh_program(4, 0);
        for (unsigned i = 0; i < 2000; i++)
            step(trace, &program);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    json_t *const events = events_of(path, "]");
    assert_true(json_array_size(events) > 200);
    check_times(events);
    json_decref(events);
}

static void after_a_second_the_file_has_what_happened(void **state)
{
    (void)state;
    mdnn_trace_t *const trace = mdnn_trace_open(path, 100);
    program_t program = fresh_program(1, 0);
    say(trace, &program, MDNN_MEMORY_OPERATION, 1);
    assert_int_equal(access(path, F_OK), -1);
    program.now_us += 1.1e6;
    say(trace, &program, MDNN_MEMORY_OPERATION, 1);
    json_t *const events = events_of(path, "]");
    assert_true(json_array_size(events) >= 2);
    json_decref(events);
    mdnn_trace_close(trace);
}

static int lowest_free_descriptor(void)
{
    const int descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC);
    close(descriptor);
    return descriptor;
}

static void no_descriptor_stays_open_and_errno_stays(void **state)
{
    (void)state;
    const int before = lowest_free_descriptor();
    mdnn_trace_t *const trace = mdnn_trace_open(path, MDNN_TRACE_EVENTS);
    program_t program = fresh_program(5, 0);
    for (unsigned i = 0; i < 5000; i++) {
        errno = 77;
        step(trace, &program);
        assert_int_equal(errno, 77);
    }
    assert_int_equal(access(path, R_OK), 0);
    assert_int_equal(lowest_free_descriptor(), before);
    mdnn_trace_finish(trace);
    assert_int_equal(lowest_free_descriptor(), before);
    mdnn_trace_close(trace);
}

static void a_place_that_cannot_be_written_is_said_once(void **state)
{
    (void)state;
    const char *const places[] = {"/nonexistent/trace", "/dev/full"};
    for (unsigned p = 0; p < 2; p++) {
        mdnn_trace_t *const trace = mdnn_trace_open(places[p], MDNN_TRACE_EVENTS);
        program_t program = fresh_program(6, 0);
        for (unsigned i = 0; i < 5000; i++)
            step(trace, &program);
        mdnn_trace_finish(trace);
        mdnn_trace_close(trace);
        assert_int_equal(lines_of(log_path), p + 1);
    }
}

static void a_forked_child_writes_nothing(void **state)
{
    (void)state;
    mdnn_trace_t *const trace = mdnn_trace_open(path, MDNN_TRACE_EVENTS);
    program_t program = fresh_program(7, 0);
    for (unsigned i = 0; i < 10; i++)
        step(trace, &program);
    const pid_t child = fork();
    if (child == 0) {
        for (unsigned i = 0; i < 5000; i++)
            step(trace, &program);
        mdnn_trace_finish(trace);
        _exit(access(path, F_OK) == 0);
    }
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    mdnn_trace_finish(trace);
    mdnn_trace_close(trace);
    json_t *const events = events_of(path, "");
    assert_true(json_array_size(events) < 40);
    json_decref(events);
}

static void *run_device(void *argument)
{
    static program_t programs[2];
    const struct {
        mdnn_trace_t *trace;
        int device;
    } *const job = argument;
    programs[job->device] = fresh_program((uint64_t)job->device + 8, job->device);
    for (unsigned i = 0; i < 1000; i++)
        step(job->trace, &programs[job->device]);
    return NULL;
}

static void two_devices_write_one_trace(void **state)
{
    (void)state;
    struct {
        mdnn_trace_t *trace;
        int device;
    } jobs[2];
    pthread_t threads[2];
    jobs[0].trace = jobs[1].trace = mdnn_trace_open(path, MDNN_TRACE_EVENTS);
    for (int device = 0; device < 2; device++) {
        jobs[device].device = device;
        mdnn_trace_device(jobs[device].trace, device, "device", BUDGET);
        assert_int_equal(pthread_create(&threads[device], NULL, run_device, &jobs[device]), 0);
    }
    for (int device = 0; device < 2; device++)
        pthread_join(threads[device], NULL);
    mdnn_trace_finish(jobs[0].trace);
    mdnn_trace_close(jobs[0].trace);
    json_t *const events = events_of(path, "");
    check_pairs(events);
    check_times(events);
    json_decref(events);
}

static void without_a_name_there_is_no_trace(void **state)
{
    (void)state;
    assert_null(mdnn_trace_open("", 100));
    const mdnn_memory_event_t event = {.kind = MDNN_MEMORY_OPERATION};
    mdnn_trace_device(NULL, 0, "none", 1);
    mdnn_trace_event(NULL, 0, 1, &event);
    mdnn_trace_finish(NULL);
    mdnn_trace_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup(name, fresh_directory)

static void write_text(const char *file, const char *text)
{
    FILE *const stream = fopen(file, "w");
    assert_non_null(stream);
    fputs(text, stream);
    fclose(stream);
}

/* One batch at the end. */
static void trace_something(void)
{
    const mdnn_memory_event_t event = {.kind = MDNN_MEMORY_OPERATION, .name = "a"};
    mdnn_trace_t *const trace = mdnn_trace_open(path, 100);
    assert_non_null(trace);
    mdnn_trace_event(trace, 0, 1, &event);
    mdnn_trace_finish(trace);
    mdnn_trace_close(trace);
}

static void what_is_planted_under_its_name_is_neither_cut_nor_written(void **state)
{
    char victim[300];
    (void)state;
    snprintf(victim, sizeof victim, "%s/victim", directory);
    write_text(victim, "precious");
    assert_int_equal(symlink(victim, path), 0);
    trace_something();
    char *text = content_of(victim);
    assert_string_equal(text, "precious");
    free(text);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(link(victim, path), 0);
    assert_int_equal(chmod(directory, 01777), 0);
    trace_something();
    assert_int_equal(chmod(directory, 0700), 0);
    text = content_of(victim);
    assert_string_equal(text, "precious");
    free(text);
    assert_int_equal(unlink(path), 0);
    trace_something();
    text = content_of(path);
    assert_non_null(strstr(text, "\"a\""));
    free(text);
}

int main(void)
{
    if (mkdtemp(directory) == NULL)
        return 1;
    const struct CMUnitTest tests[] = {
        TEST(what_begins_ends_and_times_ascend_within_the_budget),
        TEST(an_operation_is_a_mark_on_the_track_of_its_stream),
        TEST(a_wait_is_shown_from_its_begin),
        TEST(a_move_that_is_called_off_is_ended_by_the_next_one),
        TEST(what_ran_is_on_a_track_of_the_device_one_after_the_other),
        TEST(iterations_and_the_plan_are_shown),
        TEST(devices_have_the_number_of_the_process),
        TEST(too_many_events_are_cut_and_it_is_said_once),
        TEST(a_killed_process_leaves_a_trace_that_lacks_only_the_bracket),
        TEST(after_a_second_the_file_has_what_happened),
        TEST(no_descriptor_stays_open_and_errno_stays),
        TEST(a_place_that_cannot_be_written_is_said_once),
        TEST(a_forked_child_writes_nothing),
        TEST(two_devices_write_one_trace),
        TEST(without_a_name_there_is_no_trace),
        TEST(what_is_planted_under_its_name_is_neither_cut_nor_written),
    };
    const int failed = cmocka_run_group_tests_name("trace", tests, NULL, NULL);
    char command[300];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    return system(command) == 0 ? failed : 1;
}
