/* What a run executed, from its statistics. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define JSMN_STATIC
#define JSMN_STRICT
#define JSMN_PARENT_LINKS
#include <jsmn.h>

#include "config/statistics.h"
#include "scripts/microdnn_plan.h"

/* The tokens are in the order of the text: a container precedes what it holds. */
typedef struct document {
    char *text;
    jsmntok_t *tokens;
    int count;
} document_t;

/* ---- JSON; nothing in it is trusted ---- */

static bool parse_document(document_t *document, size_t bytes)
{
    jsmn_parser parser;
    jsmn_init(&parser);
    const int count = jsmn_parse(&parser, document->text, bytes, NULL, 0);
    if (count < 1)
        return false;
    document->tokens = calloc((size_t)count, sizeof *document->tokens);
    if (document->tokens == NULL)
        return false;
    jsmn_init(&parser);
    document->count = jsmn_parse(&parser, document->text, bytes, document->tokens, (unsigned)count);
    return document->count == count && document->tokens[0].type == JSMN_OBJECT;
}

/* The next child of `container` from `token` on; -1 if there is none. */
static int child_from(const document_t *document, int container, int token)
{
    for (;
         token < document->count && document->tokens[token].start < document->tokens[container].end;
         token++)
        if (document->tokens[token].parent == container)
            return token;
    return -1;
}

/* The value of that field, of this type; -1 without one. */
static int member(const document_t *document, int object, const char *name, jsmntype_t type)
{
    const size_t length = strlen(name);
    if (object < 0 || document->tokens[object].type != JSMN_OBJECT)
        return -1;
    for (int key = child_from(document, object, object + 1); key >= 0;
         key = child_from(document, object, key + 1)) {
        const jsmntok_t *const token = &document->tokens[key];
        if (token->type != JSMN_STRING || token->size != 1 ||
            (size_t)(token->end - token->start) != length ||
            memcmp(document->text + token->start, name, length) != 0)
            continue;
        return key + 1 < document->count && document->tokens[key + 1].type == type ? key + 1 : -1;
    }
    return -1;
}

/* A number from 0 to 2^31 - 1. */
static bool number_at(const document_t *document, int token, uint32_t *number)
{
    if (token < 0 || document->tokens[token].type != JSMN_PRIMITIVE)
        return false;
    uint32_t value = 0;
    for (int i = document->tokens[token].start; i < document->tokens[token].end; i++) {
        const char c = document->text[i];
        if (c < '0' || c > '9' || value > (INT32_MAX - 9) / 10)
            return false;
        value = 10 * value + (uint32_t)(c - '0');
    }
    *number = value;
    return true;
}

static int hexadecimal(const char *digits)
{
    char text[5] = {0}, *end;
    memcpy(text, digits, 4);
    const long value = strtol(text, &end, 16);
    return *end == '\0' ? (int)value : -1;
}

/* The string, its escapes resolved in place: of \u only what statistics write, control characters.
 * NULL if there is none. */
static const char *text_at(const document_t *document, int token)
{
    if (token < 0)
        return NULL;
    const char *from = document->text + document->tokens[token].start;
    const char *const end = document->text + document->tokens[token].end;
    char *const text = document->text + document->tokens[token].start, *to = text;
    while (from < end) {
        if (*from != '\\' || from + 1 == end) {
            *to++ = *from++;
        } else if (from[1] == 'u' && end - from >= 6) {
            const int value = hexadecimal(from + 2);
            *to++ = value > 0 && value < 0x80 ? (char)value : '?';
            from += 6;
        } else {
            *to++ = from[1];
            from += 2;
        }
    }
    *to = '\0'; /* at the closing quote, or before it */
    return text;
}

/* ---- what statistics hold ---- */

/* The numbers at the end of a key are the problem's, all of it. */
bool tool_parse_problem(const char *key, mdnn_problem_t *problem)
{
    int32_t numbers[sizeof *problem / sizeof(int32_t)];
    const size_t count = sizeof numbers / sizeof *numbers;
    const char *at = strrchr(key, ' ');
    for (size_t i = 0; i < count; i++) {
        char *end;
        if (at == NULL || *at == '\0')
            return false;
        errno = 0;
        const long number = strtol(at + 1, &end, 10);
        if (end == at + 1 || errno != 0 || number < INT32_MIN || number > INT32_MAX ||
            *end != (i + 1 < count ? ',' : '\0'))
            return false;
        numbers[i] = (int32_t)number;
        at = end;
    }
    memcpy(problem, numbers, sizeof *problem);
    return true;
}

static bool read_problems(const document_t *document, tool_trace_t *trace)
{
    const int list = member(document, 0, "convolutions", JSMN_ARRAY);
    if (list < 0)
        return false;
    trace->problems = calloc((size_t)document->tokens[list].size + 1, sizeof *trace->problems);
    for (int item = child_from(document, list, list + 1); trace->problems != NULL && item >= 0;
         item = child_from(document, list, item + 1)) {
        tool_trace_problem_t *const problem = &trace->problems[trace->problem_count++];
        uint32_t device = 0;
        problem->title = text_at(document, member(document, item, "problem", JSMN_STRING));
        problem->key = text_at(document, member(document, item, "key", JSMN_STRING));
        if (problem->title == NULL || problem->key == NULL ||
            !number_at(document, member(document, item, "device", JSMN_PRIMITIVE), &device))
            return false;
        problem->device = (int)device;
    }
    return trace->problems != NULL;
}

/* [convolution, stream, x, w, y] */
static bool read_execution(const document_t *document, int item, const tool_trace_t *trace,
                           tool_trace_execution_t *execution)
{
    uint32_t numbers[5];
    if (document->tokens[item].type != JSMN_ARRAY || document->tokens[item].size != 5 ||
        item + 5 >= document->count)
        return false;
    for (int i = 0; i < 5; i++)
        if (document->tokens[item + 1 + i].parent != item ||
            !number_at(document, item + 1 + i, &numbers[i]))
            return false;
    *execution =
        (tool_trace_execution_t){numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]};
    return execution->problem < trace->problem_count;
}

static bool read_executions(const document_t *document, int list, tool_trace_t *trace)
{
    trace->executions = calloc((size_t)document->tokens[list].size + 1, sizeof *trace->executions);
    for (int item = child_from(document, list, list + 1); trace->executions != NULL && item >= 0;
         item = child_from(document, list, item + 1))
        if (!read_execution(document, item, trace, &trace->executions[trace->execution_count++]))
            return false;
    return trace->executions != NULL;
}

static bool read_document(const char *path, document_t *document, size_t bytes, tool_trace_t *trace)
{
    uint32_t version;
    if (!parse_document(document, bytes) ||
        !number_at(document, member(document, 0, "microdnn_statistics", JSMN_PRIMITIVE),
                   &version)) {
        tool_complain("%s: these are damaged statistics", path);
        return false;
    }
    const int executions = member(document, 0, "executions", JSMN_ARRAY);
    if (executions < 0) {
        tool_complain("%s: the library that wrote it recorded no sequence of convolutions; run "
                      "the program again with this one",
                      path);
        return false;
    }
    trace->program = text_at(document, member(document, 0, "program", JSMN_STRING));
    if (trace->program == NULL || !read_problems(document, trace) ||
        !read_executions(document, executions, trace)) {
        tool_complain("%s: these are damaged statistics", path);
        return false;
    }
    if (trace->execution_count == 0)
        tool_complain("%s: no convolution ran in this process with a plan of the library", path);
    return trace->execution_count > 0;
}

static bool read_text(const char *path, char **text, size_t *bytes)
{
    FILE *const out = open_memstream(text, bytes);
    if (out == NULL) {
        tool_complain("out of memory");
        return false;
    }
    const mdnn_status_t status = mdnn_statistics_print_file(path, MDNN_STATISTICS_JSON, out);
    const bool written = fclose(out) == 0;
    if (status == MDNN_STATUS_NOT_FOUND)
        tool_complain("%s: there is no such file; did the program run with general.stats = json?",
                      path);
    else if (status == MDNN_STATUS_BAD_FORMAT)
        tool_complain("%s: these are not statistics of this version as JSON (general.stats = json)",
                      path);
    else if (status != MDNN_STATUS_OK || !written)
        tool_complain("cannot read %s: %s", path, mdnn_status_string(status));
    return status == MDNN_STATUS_OK && written;
}

bool tool_trace_read(const char *path, tool_trace_t *trace)
{
    document_t document = {0};
    size_t bytes = 0;
    memset(trace, 0, sizeof *trace);
    const bool good =
        read_text(path, &document.text, &bytes) && read_document(path, &document, bytes, trace);
    free(document.tokens);
    trace->text = document.text;
    if (!good)
        tool_trace_fini(trace);
    return good;
}

void tool_trace_fini(tool_trace_t *trace)
{
    free(trace->text);
    free(trace->problems);
    free(trace->executions);
    memset(trace, 0, sizeof *trace);
}
